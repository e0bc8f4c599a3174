"""The event bus, and the events of service jobs."""

from __future__ import annotations

import json
import threading

import pytest

from fairshare.local import job_queues, service_jobs
from fairshare.local.events import BatchEvent, EventBus, page_of_events

START = 1_790_000_000_000
QUEUE_ARN = "arn:aws:batch:us-west-2:123456789012:job-queue/gpu"


def event(name: str) -> BatchEvent:
    return BatchEvent(name, "kind", "123456789012", "us-west-2", START + 1_999, ("arn:x",), {"a": 1})


def names(page) -> list[str]:
    return [event.id for event in page.events]


# -- the bus ----------------------------------------------------------------------------------------------------------


def test_a_reader_gets_what_came_after_the_last_it_saw():
    bus = EventBus()
    for name in "abc":
        bus.publish(event(name))
    page = bus.after(0)
    assert (names(page), page.last, page.missed) == (["a", "b", "c"], 3, 0)
    assert names(bus.after(2)) == ["c"]
    assert names(bus.after(3)) == []


def test_a_full_bus_forgets_the_oldest_and_says_how_many():
    bus = EventBus(kept=2)
    for name in "abcde":
        bus.publish(event(name))
    page = bus.after(1)
    assert (names(page), page.last, page.missed) == (["d", "e"], 5, 2)
    assert bus.after(4).missed == 0


def test_a_reader_of_an_earlier_server_goes_on_from_the_present():
    bus = EventBus()
    bus.publish(event("a"))
    page = bus.after(99)
    assert (names(page), page.last, page.missed) == ([], 1, 0)


def test_a_reader_that_waits_is_woken_by_an_event():
    bus, pages = EventBus(), []
    reader = threading.Thread(target=lambda: pages.append(bus.after(0, wait_seconds=30)))
    reader.start()
    bus.publish(event("a"))
    reader.join(10)
    assert [names(page) for page in pages] == [["a"]]


def test_a_reader_that_waits_is_let_go_when_the_bus_closes():
    bus, pages = EventBus(), []
    reader = threading.Thread(target=lambda: pages.append(bus.after(0, wait_seconds=30)))
    reader.start()
    bus.close()
    reader.join(10)
    assert [names(page) for page in pages] == [[]]


def test_subscribers_get_everything_until_they_leave():
    bus, got = EventBus(), []
    leave = bus.subscribe(lambda event: got.append(event.id))
    bus.publish(event("a"))
    leave()
    bus.publish(event("b"))
    assert got == ["a"]


def test_an_event_has_eventbridge_s_shape():
    assert event("a").to_json() == {
        "version": "0",
        "id": "a",
        "detail-type": "kind",
        "source": "aws.batch",
        "account": "123456789012",
        "time": "2026-09-21T14:13:21Z",
        "region": "us-west-2",
        "resources": ["arn:x"],
        "detail": {"a": 1},
    }


@pytest.mark.parametrize(
    ("query", "expected"), [("", ["a", "b"]), ("after=1", ["b"]), ("after=1&wait=0.1", ["b"]), ("after=x", ["a", "b"])]
)
def test_a_page_is_json(query, expected):
    bus = EventBus()
    bus.publish(event("a"))
    bus.publish(event("b"))
    page = json.loads(page_of_events(bus, query))
    assert ([entry["id"] for entry in page["events"]], page["last"], page["missed"]) == (expected, 2, 0)


# -- service jobs -----------------------------------------------------------------------------------------------------


def published(cloud) -> list[dict]:
    return [event.to_json() for event in cloud.runtime.events.after(0).events]


def test_each_transition_but_the_submission_is_an_event_with_the_job_as_it_was_then(cloud):
    cloud.fair_queue()
    job = cloud.submit("digits", "HIGHPRI", seconds=90, schedulingPriority=5, tags={"a": "b"})
    cloud.clock.advance(90_000)
    described = cloud.describe(job)
    events = published(cloud)
    assert [event["detail"]["status"] for event in events] == [
        "RUNNABLE",
        "SCHEDULED",
        "STARTING",
        "RUNNING",
        "SUCCEEDED",
    ]
    assert {event["detail-type"] for event in events} == {"Batch Service Job State Change"}
    assert {tuple(event["resources"]) for event in events} == {(described["jobArn"],)}
    assert events[0]["detail"] == {
        "attempts": [],
        "capacityUsage": [{"capacityUnit": "ml.g5.xlarge", "quantity": 1.0}],
        "createdAt": START,
        "isTerminated": False,
        "jobArn": described["jobArn"],
        "jobId": job,
        "jobName": "digits",
        "jobQueue": QUEUE_ARN,
        "retryStrategy": {"attempts": 1},
        "schedulingPriority": 5,
        "serviceJobType": "SAGEMAKER_TRAINING",
        "shareIdentifier": "HIGHPRI",
        "status": "RUNNABLE",
    }
    resource = described["latestAttempt"]["serviceResourceId"]
    assert events[1]["detail"]["attempts"] == [{"serviceResourceId": resource}]
    assert "startedAt" not in events[2]["detail"]
    assert events[3]["detail"]["startedAt"] == START
    del described["tags"], described["serviceRequestPayload"]
    assert events[4]["detail"] == described


def test_ids_are_unique_and_the_same_in_every_run(make_cloud):
    from fairshare.local.simulated import SimulatedLauncher

    runs = []
    for _ in range(2):
        cloud = make_cloud(SimulatedLauncher())
        cloud.fifo_queue()
        cloud.submit("a")
        cloud.submit("b")
        runs.append([event["id"] for event in published(cloud)])
    assert len(set(runs[0])) == len(runs[0]) == 5
    assert runs[0] == runs[1]


def test_a_job_that_is_terminated_says_so(cloud):
    cloud.fifo_queue()
    cloud.submit("runs")
    waiting = cloud.submit("waits")
    cloud.call(service_jobs.terminate_service_job, jobId=waiting, reason="enough")
    last = published(cloud)[-1]["detail"]
    assert (last["jobId"], last["status"], last["statusReason"], last["isTerminated"]) == (
        waiting,
        "FAILED",
        "enough",
        True,
    )


def test_a_queue_that_is_deleted_tells_the_end_of_its_jobs(cloud):
    cloud.fifo_queue()
    cloud.submit("waits-or-runs")
    cloud.call(job_queues.update_job_queue, jobQueue="gpu", state="DISABLED")
    cloud.call(job_queues.delete_job_queue, jobQueue="gpu")
    assert published(cloud)[-1]["detail"]["status"] == "FAILED"
