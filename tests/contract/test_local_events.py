"""Events of the local AWS over its port: the reader behind ``fairshare local events`` against a server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.session import get_session

from fairshare.local import event_reader
from fairshare.local.daemon import RunningServer
from fairshare.local.event_reader import EventReader, EventsRead
from fairshare.local.server import LocalServer
from fairshare.model import NotFoundError
from fairshare.scheduler.clock import VirtualClock


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    with LocalServer(state_dir=tmp_path / "local", clock=VirtualClock(1_790_000_000_000)) as server:
        address = server.address
        found = RunningServer(address.endpoint_url, 1, "simulated", server.ready_file)  # it runs in this process
        monkeypatch.setattr(event_reader, "find_server", lambda ready_file: found)
        yield server


@pytest.fixture
def batch(server: LocalServer) -> Any:
    address = server.address
    return boto3.client(
        "batch",
        region_name="us-east-1",
        endpoint_url=address.endpoint_url,
        aws_access_key_id=address.access_key_id,
        aws_secret_access_key=address.secret_access_key,
    )


def set_up(batch: Any) -> None:
    limits = [{"maxCapacity": 1, "capacityUnit": "NUM_INSTANCES"}]
    batch.create_service_environment(
        serviceEnvironmentName="gpu", serviceEnvironmentType="SAGEMAKER_TRAINING", capacityLimits=limits
    )
    order = [{"order": 1, "serviceEnvironment": "gpu"}]
    batch.create_job_queue(
        jobQueueName="gpu", jobQueueType="SAGEMAKER_TRAINING", priority=1, serviceEnvironmentOrder=order
    )


def submit(batch: Any) -> str:
    payload = {"ResourceConfig": {"InstanceType": "ml.g5.xlarge", "InstanceCount": 1}}
    answer = batch.submit_service_job(
        jobName="a", jobQueue="gpu", serviceJobType="SAGEMAKER_TRAINING", serviceRequestPayload=json.dumps(payload)
    )
    return str(answer["jobId"])


def statuses(read: EventsRead) -> list[str]:
    return [event["detail"]["status"] for event in read.events]


def test_a_reader_gets_each_event_once(server, batch):
    set_up(batch)
    reader = EventReader(server.ready_file)
    assert reader.read() == EventsRead((), 0)
    submit(batch)
    assert statuses(reader.read()) == ["RUNNABLE", "SCHEDULED", "STARTING", "RUNNING"]
    submit(batch)
    assert statuses(reader.read()) == ["RUNNABLE"]
    assert statuses(EventReader(server.ready_file).read()) == [
        *["RUNNABLE", "SCHEDULED", "STARTING", "RUNNING"],
        "RUNNABLE",
    ]


def test_a_reader_that_waits_holds_nobody_up_and_gets_the_next_event(server, batch):
    set_up(batch)
    read: list[EventsRead] = []
    reader = EventReader(server.ready_file)
    thread = threading.Thread(target=lambda: read.append(reader.read(wait_seconds=20)))
    thread.start()
    submit(batch)
    thread.join(15)
    assert statuses(read[0])[0] == "RUNNABLE"


def test_a_server_that_stops_lets_waiting_readers_go(server, batch):
    reader = EventReader(server.ready_file)
    reader.read()

    def wait() -> None:
        with suppress(NotFoundError):  # when the server is gone before the request arrives
            reader.read(wait_seconds=20)

    thread = threading.Thread(target=wait)
    thread.start()
    server.stop()
    thread.join(15)
    assert not thread.is_alive()
    with pytest.raises(NotFoundError, match="has ended"):
        reader.read()


def test_the_detail_is_a_description_of_the_job(server, batch):
    """Field names are those of DescribeServiceJob; tags and payload are left out."""
    set_up(batch)
    submit(batch)
    members = get_session().get_service_model("batch").operation_model("DescribeServiceJob").output_shape.members
    for event in EventReader(server.ready_file).read().events:
        assert set(event["detail"]) <= set(members) - {"tags", "serviceRequestPayload"}
        assert event["source"] == "aws.batch"
