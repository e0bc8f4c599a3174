from fairshare.metrics.phases import phase_times
from fairshare.metrics.ports import Phase
from fairshare.model import JobAttempt

MINUTE = 60_000


def test_phases_of_the_training_job_are_added_up(job, start):
    phases = [
        Phase("Pending", start - 60_000, start),
        Phase("Downloading", start, start + 2 * MINUTE),
        Phase("Training", start + 2 * MINUTE, start + 50 * MINUTE),
        Phase("Uploading", start + 50 * MINUTE, start + 60 * MINUTE),
        Phase("Completed", start + 60 * MINUTE, start + 60 * MINUTE),
    ]

    found = phase_times(job(), phases, now=start + 90 * MINUTE)

    assert (found.waiting, found.launching, found.downloading) == (5 * MINUTE, MINUTE, 2 * MINUTE)
    assert (found.training, found.uploading, found.held) == (48 * MINUTE, 10 * MINUTE, 61 * MINUTE)
    assert found.before_training == 3 * MINUTE


def test_without_phases_batch_tells_launching_from_running(job, start):
    found = phase_times(job(), (), now=start + 90 * MINUTE)

    assert (found.waiting, found.launching, found.training) == (5 * MINUTE, MINUTE, 60 * MINUTE)


def test_what_has_not_ended_lasts_until_now(job, start):
    running = job(status="RUNNING", stopped_at=None)

    assert phase_times(running, (), now=start + 7 * MINUTE).training == 7 * MINUTE
    assert phase_times(running, [Phase("Training", start, None)], now=start + 9 * MINUTE).training == 9 * MINUTE


def test_a_job_that_waits_has_only_waited(job, start):
    waiting = job(status="RUNNABLE", scheduled_at=None, started_at=None, stopped_at=None, attempts=())

    found = phase_times(waiting, (), now=start)

    assert (found.waiting, found.held) == (6 * MINUTE, 0)


def test_earlier_attempts_count_as_held(job, start):
    first = JobAttempt("AWSBatchbert0", start - 30 * MINUTE, start - 20 * MINUTE)
    retried = job(created_at=start - 40 * MINUTE, attempts=(first, JobAttempt("AWSBatchbert1", start)))

    found = phase_times(retried, (), now=start + 90 * MINUTE)

    assert (found.waiting, found.held) == (10 * MINUTE, 71 * MINUTE)
