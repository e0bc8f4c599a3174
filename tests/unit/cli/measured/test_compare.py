import json

import pytest

from fairshare.submit.outcomes import Training


def differences(measured):
    return {one["name"]: one for one in json.loads(measured.out)["differences"]}


@pytest.fixture
def tuned(measured):
    """A run of 3 h 5 min and one of 40 min 21 s, each against one of 36 min 4 s."""
    measured.add_job(1, "before", minutes=185, gpu=[95.0] * 185)
    measured.add_job(2, "slower", minutes=40, seconds=21, gpu=[91.4] * 40)
    measured.add_job(3, "after", minutes=36, seconds=4, gpu=[96.3] * 36)
    return measured


def test_the_published_times_and_uses_give_the_right_differences(tuned):
    tuned("compare", "before", "after", "-o", "json")
    found = differences(tuned)
    assert found["duration"]["difference_percent"] == pytest.approx(-80.5, abs=0.05)
    assert found["gpu_use"]["difference"] == pytest.approx(1.3)

    tuned("compare", "slower", "after", "-o", "json")
    found = differences(tuned)
    assert found["duration"]["difference_percent"] == pytest.approx(-10.6, abs=0.05)
    assert found["gpu_use"]["difference"] == pytest.approx(4.9)


def test_the_screen_shows_both_sides_and_the_difference(tuned):
    tuned("compare", "before", "after")

    lines = tuned.out.splitlines()
    assert lines[:2] == ["baseline  job before", "candidate job after"]
    table = {line[:17].strip(): " ".join(line[17:].split()) for line in lines[2:]}
    assert table["duration"] == "3 h 5 min 36 min 4 s -80.5 % one run each"
    assert table["gpu use"] == "95.0 % 96.3 % +1.4 % (+1.3 points) one run each"
    assert tuned.err == "Next: fairshare efficiency after\n"


def test_shares_are_compared_with_a_verdict(measured):
    for number in range(1, 6):
        measured.add_job(number, f"low-{number}", minutes=50 + number, gpu=[50.0 + number] * 50)
        high = measured.add_job(number + 10, f"high-{number}", minutes=20 + number, gpu=[51.0 + number] * 20)
        measured.cli.batch.jobs[high.job_id] = measured.make(
            number + 10, **{**vars(high), "share_identifier": "HIGHPRI"}
        )

    assert measured("compare", "share:LOWPRI", "share:HIGHPRI", "-o", "json") == 0

    found = differences(measured)
    assert (found["duration"]["verdict"], found["duration"]["baseline_runs"]) == ("real", 5)
    assert found["gpu_use"]["verdict"] == "within noise"
    assert found["duration"]["probability"] == pytest.approx(2 / 252)


def test_a_share_without_jobs_is_not_found(measured):
    measured.add_job(1, "low")

    assert measured("compare", "share:LOWPRI", "share:NONE") == 4
    assert "no job of share NONE ran in this time" in measured.err


def test_a_job_that_does_not_exist_is_not_found(measured):
    assert measured("compare", "job:before", "after") == 4
    assert "no job goes by 'before'" in measured.err


def test_a_run_that_does_not_exist_is_not_found(measured):
    assert measured("compare", "run:lunar-otter", "after") == 4


def test_an_empty_name_is_a_usage_error(measured):
    assert measured("compare", "share:", "after") == 2
    assert "'share:' names no share" in measured.err


def test_runs_are_compared_job_by_job_and_need_no_prefix(measured, journal):
    journal("lunar-otter", [measured.add_job(n, f"before-{n}", minutes=60 + n, gpu=[60.0] * 60) for n in range(1, 5)])
    journal("solar-lynx", [measured.add_job(n, f"after-{n}", minutes=30 + n, gpu=[95.0] * 30) for n in range(5, 9)])

    assert measured("compare", "lunar", "run:solar-lynx", "-o", "json") == 0

    assert json.loads(measured.out)["baseline"]["name"] == "lunar-otter"
    assert len(json.loads(measured.out)["candidate"]["job_ids"]) == 4
    duration = differences(measured)["duration"]
    assert (duration["verdict"], duration["baseline_runs"]) == ("real", 4)


def test_c29_jobs_of_a_run_that_batch_forgot_are_left_out_and_counted(measured, journal):
    kept, forgotten = (measured.add_job(n, f"job-{n}", gpu=[60.0] * 60) for n in (1, 2))
    journal("lunar-otter", [kept, forgotten])
    del measured.cli.batch.jobs[forgotten.job_id]

    assert measured("compare", "lunar-otter", "job-1") == 0
    assert "warning: 1 job no longer kept by Batch, so left out" in measured.err
    measured.cli.batch.jobs.clear()
    assert measured("compare", "run:lunar-otter", "run:lunar-otter") == 4
    assert "Batch knows none of these jobs" in measured.err


def test_cost_is_compared_when_the_project_has_prices(measured):
    class FakeSageMaker:
        def describe(self, names):
            return {name: Training(billable_seconds=3600 if "before" in name else 1800) for name in names}

    measured.cli.more["training_jobs"] = FakeSageMaker()
    measured.add_job(1, "before", gpu=[95.0] * 60)
    measured.add_job(2, "after", gpu=[95.0] * 60)
    with (measured.cli.cwd / "fairshare.yaml").open("a") as file:
        file.write("prices: {ml.g6.12xlarge: 5.75}\n")

    measured("compare", "before", "after", "-o", "json")

    cost = differences(measured)["cost"]
    assert (cost["baseline"], cost["candidate"], cost["difference_percent"]) == (5.75, 2.875, -50)


def test_hours_of_short_jobs_are_not_rounded_away(measured):
    measured.add_job(1, "before", minutes=1, gpu=[95.0])
    measured.add_job(2, "after", minutes=2, gpu=[95.0, 95.0])

    measured("compare", "before", "after")

    row = next(line for line in measured.out.splitlines() if line.startswith("instance hours"))
    assert row.split()[2:6] == ["0.017", "h", "0.033", "h"]
