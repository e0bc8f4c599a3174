from fairshare.insight.jobs import DESCRIBE_LIMIT, PAST_CALLS, latest_by_id, list_jobs, past_of
from fairshare.model import ACTIVE_STATUSES, FrontOfQueueJob, JobStatus, QueueSnapshot

EMPTY = QueueSnapshot()


def front(*job_ids):
    return QueueSnapshot(tuple(FrontOfQueueJob(f"arn:aws:batch:r:1:service-job/{job_id}") for job_id in job_ids))


def test_c31_every_status_is_shown_and_in_use_is_scheduled_starting_and_running(batch, job):
    statuses = ["RUNNABLE"] * 2 + ["SCHEDULED", "STARTING", "RUNNING"] + ["SUCCEEDED"] * 3 + ["FAILED", "MELTING"]
    backend = batch(job(f"j{number}", status=status) for number, status in enumerate(statuses))

    listed = list_jobs(backend, "q", all=True, priorities={}, snapshot=EMPTY)

    assert len(listed.rows) == 10
    assert "MELTING" in {row.job.status for row in listed.rows}
    assert listed.jobs_in_use == 3
    assert listed.jobs_waiting == 2
    assert ("list", None) in backend.calls


def test_without_all_only_statuses_still_going_are_asked_for(batch, job):
    backend = batch([job("a"), job("b", status="SUCCEEDED")])

    listed = list_jobs(backend, "q", all=False, priorities={"a": 1}, snapshot=EMPTY)

    assert [row.job.job_id for row in listed.rows] == ["a"]
    assert backend.calls == [("list", ACTIVE_STATUSES)]
    assert JobStatus.SUCCEEDED not in ACTIVE_STATUSES


def test_rows_read_running_then_dispatch_order_then_the_rest(batch, job):
    backend = batch(
        [
            job("old-end", status="SUCCEEDED", stopped_at=5),
            job("new-end", status="FAILED", stopped_at=9),
            job("odd", status="MELTING"),
            job("sent", status="SUBMITTED"),
            job("outside", created_at=1),
            job("second", created_at=2),
            job("first", created_at=3),
            job("scheduled", status="SCHEDULED", scheduled_at=1),
            job("young", status="RUNNING", started_at=8),
            job("old", status="RUNNING", started_at=0),
        ]
    )

    rows = list_jobs(backend, "q", all=True, priorities={}, snapshot=front("gone", "first", "second")).rows

    assert [row.job.job_id for row in rows] == [
        *("old", "young", "scheduled", "first", "second", "outside", "sent", "odd", "new-end", "old-end"),
    ]
    assert {row.job.job_id: row.position for row in rows if row.position} == {"first": 1, "second": 2}


def test_a_priority_comes_from_the_journal_else_from_describe_else_it_is_none(batch, job):
    backend = batch([job("journal"), job("described"), job("unset")], priorities={"described": 0, "journal": 99})

    rows = list_jobs(backend, "q", all=False, priorities={"journal": 0}, snapshot=EMPTY).rows

    assert {row.job.job_id: row.job.scheduling_priority for row in rows} == {
        "journal": 0,
        "described": 0,
        "unset": None,
    }
    assert ("describe", ("described", "unset")) in backend.calls


def test_describe_is_bounded_and_takes_the_front_of_the_line(batch, job):
    backend = batch(job(f"j{number:03}", created_at=-number) for number in range(DESCRIBE_LIMIT + 50))

    list_jobs(backend, "q", all=False, priorities={}, snapshot=front("j000"))

    ((_, asked),) = [call for call in backend.calls if call[0] == "describe"]
    assert len(asked) == DESCRIBE_LIMIT
    assert asked[:2] == ("j000", "j149")


def test_a_fifo_job_has_no_priority_to_ask_for(batch, job):
    backend = batch([job("a", share_identifier=None)])

    list_jobs(backend, "q", all=False, priorities={}, snapshot=EMPTY)

    assert [name for name, _ in backend.calls] == ["list"]


def test_a_job_that_moved_on_while_listing_counts_once(job):
    jobs = [job("a"), job("a", status="SCHEDULED"), job("a")]

    assert [found.status for found in latest_by_id(jobs)] == ["SCHEDULED"]


def test_instances_are_summed_and_an_untold_number_counts_as_one(batch, job):
    backend = batch([job("a", status="RUNNING", instances=4), job("b", status="STARTING", instances=None), job("c")])

    listed = list_jobs(backend, "q", all=False, priorities={"a": 1, "b": 1, "c": 1}, snapshot=EMPTY)

    assert (listed.instances_in_use, listed.instances_waiting) == (5, 1)


def test_one_share_keeps_the_places_and_counts_of_the_whole_queue(batch, job):
    backend = batch([job("a"), job("b", share_identifier="LOWPRI")])
    listed = list_jobs(backend, "q", all=False, priorities={"a": 1, "b": 1}, snapshot=front("a", "b"))

    low = listed.only_share("LOWPRI")

    assert [(row.job.job_id, row.position) for row in low.rows] == [("b", 2)]
    assert low.jobs_waiting == 2


def test_the_past_of_a_short_queue_is_all_of_it(batch, job):
    backend = batch([job("old", created_at=1), job("new", created_at=2)])

    past = past_of(backend, "q")

    assert ([one.job_id for one in past.jobs], past.since) == (["new", "old"], None)
    assert backend.calls == [("walk", None)]


def test_c49_the_past_of_a_long_queue_is_its_newest_jobs_and_those_that_run(batch, job):
    jobs = [job(f"j{number}", status="SUCCEEDED", created_at=number) for number in range(1, 10_000)]
    backend = batch([job("marathon", status="RUNNING", created_at=0), *jobs])

    past = past_of(backend, "q", created_before=5_000)

    assert len(past.jobs) == 100 * PAST_CALLS + 1
    assert (past.jobs[0].job_id, past.jobs[-1].job_id) == ("j4999", "marathon")
    assert past.since == 5_000 - 100 * PAST_CALLS
    assert len(backend.calls) == PAST_CALLS + 1
