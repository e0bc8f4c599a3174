import csv
import io
import json

import pytest


def document(measured):
    return json.loads(measured.out)


def test_the_contract_of_metrics_as_json(measured):
    measured.add_job(1, "bert", gpu=[38.0] * 60)

    assert measured("metrics", "bert", "-o", "json") == 0

    found = document(measured)
    assert (found["api_version"], found["kind"]) == ("fairshare/v1", "Metrics")
    gpu = found["series"][0]
    assert {key: gpu[key] for key in ("name", "host", "unit", "normalised")} == {
        "name": "GPUUtilization",
        "host": "algo-1",
        "unit": "Percent",
        "normalised": True,
    }
    assert gpu["points"][0] == ["2026-11-30T17:00:00.000Z", 38.0]
    assert len(gpu["points"]) == 60


def test_c38_gaps_and_series_without_data_are_null_and_never_zero(measured):
    measured.add_job(1, "bert", gpu=[38.0, None, 40.0, *[40.0] * 57])

    measured("metrics", "bert", "-o", "json")

    gpu, gpu_memory, *_ = document(measured)["series"]
    assert [value for _, value in gpu["points"][:3]] == [38.0, None, 40.0]
    assert (gpu_memory["points"], gpu_memory["latest"], gpu_memory["mean"]) == ([], None, None)


def test_the_table_shows_all_hosts_together_and_each_of_them(measured):
    measured.add_job(1, "bert", hosts=2, gpu=[[90.0] * 60, [30.0] * 60])

    measured("metrics", "bert")

    lines = measured.out.splitlines()
    assert lines[0] == "bert  SUCCEEDED  2 x ml.g6.12xlarge (8 GPUs)"
    assert [line.split()[:4] for line in lines[3:6]] == [
        ["GPUUtilization", "all", "60.0", "%"],
        ["GPUUtilization", "algo-1", "90.0", "%"],
        ["GPUUtilization", "algo-2", "30.0", "%"],
    ]
    assert "no data" in measured.out
    assert measured.err == "Next: fairshare efficiency bert\n"


def test_one_call_asks_for_every_host_of_a_job(measured):
    measured.add_job(1, "bert", hosts=16, gpu=[[50.0] * 60] * 16)

    measured("metrics", "bert")

    assert [len(asked) for asked in measured.metrics.asked] == [80]


def test_c35_an_unknown_instance_type_is_raw_and_marked(measured):
    measured.add_job(1, "bert", instance_type="ml.x9.large", gpu=[340.0] * 60)

    measured("metrics", "bert")

    assert "340.0 raw" in measured.out
    assert "ml.x9.large: the number of devices is not known" in measured.out
    measured("metrics", "bert", "-o", "json")
    assert [series["normalised"] for series in document(measured)["series"]] == [False, False, False, True, True]


def test_csv_has_a_row_for_each_point_with_empty_gaps(measured):
    measured.add_job(1, "bert", minutes=3, gpu=[38.0, None, 40.0])

    measured("metrics", "bert", "-o", "csv")

    rows = list(csv.DictReader(io.StringIO(measured.out)))
    assert [(row["name"], row["host"], row["value"]) for row in rows] == [
        ("GPUUtilization", "algo-1", "38.0"),
        ("GPUUtilization", "algo-1", ""),
        ("GPUUtilization", "algo-1", "40.0"),
    ]


def test_a_share_is_one_line_for_all_and_one_for_each_job(measured):
    measured.add_job(1, "small", instance_type="ml.g6.xlarge", gpu=[40.0] * 60)
    measured.add_job(2, "large", instance_type="ml.g6.48xlarge", gpu=[80.0] * 60)

    measured("metrics", "--share", "LOWPRI", "-o", "json")

    gpu = [series for series in document(measured)["series"] if series["name"] == "GPUUtilization"]
    assert gpu[0]["mean"] == pytest.approx(75.56, abs=0.005)
    assert [series["job_id"] is None for series in gpu] == [True, False, False]


def test_a_share_without_jobs_says_so(measured):
    measured("metrics", "--share", "MIDPRI")

    assert "No job of MIDPRI ran in this time." in measured.out


def test_a_queue_shows_what_moved_and_how_long_it_took(measured, now):
    measured.metrics.add("JobsSubmitted", "search-gpu", now - 3_600_000, [3.0, None, 2.0])
    measured.metrics.add("JobAttemptDuration", "search-gpu", now - 3_600_000, [90_000.0])

    measured("metrics", "--queue", "gpu", "--since", "2h")

    lines = measured.out.splitlines()
    assert lines[0] == "queue search-gpu"
    assert next(line for line in lines if "JobsSubmitted" in line).split()[:4] == ["JobsSubmitted", "queue", "2", "5"]
    assert "1 min 30 s" in next(line for line in lines if "JobAttemptDuration" in line)


def test_what_a_queue_has_no_data_about_takes_one_line(measured, now):
    measured.metrics.add("JobsSubmitted", "search-gpu", now - 3_600_000, [3.0])

    measured("metrics", "--queue", "gpu", "--since", "2h")

    assert "No data: JobsMovedToRunnable, " in measured.out
    assert [line.split()[0] for line in measured.out.splitlines()[2:5]] == ["METRIC", "JobsSubmitted", "No"]
    measured("metrics", "--queue", "gpu", "--since", "2h", "-o", "json")
    assert len(document(measured)["series"]) == 16


def test_a_run_is_one_line_for_all_and_one_for_each_job(measured, journal):
    journal("lunar-otter", [measured.add_job(1, "a", gpu=[40.0] * 60), measured.add_job(2, "b", gpu=[80.0] * 60)])

    measured("metrics", "lunar-otter")

    lines = measured.out.splitlines()
    assert lines[0] == "run lunar-otter  2 jobs"
    assert [line.split()[1:4] for line in lines[3:6]] == [
        ["all", "jobs", "60.0"],
        ["a", "40.0", "%"],
        ["b", "80.0", "%"],
    ]
    assert measured.err == "Next: fairshare efficiency lunar-otter\n"
    measured("metrics", "lunar-otter", "-o", "json")
    assert document(measured)["run_id"] == "lunar-otter"


def test_without_arguments_the_default_queue_is_shown(measured):
    measured("metrics", "-o", "json")

    assert document(measured)["queue"] == "search-gpu"


def test_c39_a_notice_tells_of_a_longer_period(measured):
    assert measured("metrics", "--since", "20d", "--period", "60") == 0

    assert "note: a period of 1 min is no longer kept for 20 d ago: 5 min is used" in measured.err


def test_c39_an_impossible_period_is_a_local_error(measured):
    assert measured("metrics", "--period", "90") == 2

    assert "CloudWatch has no period of 90 s" in measured.err
    assert measured.metrics.asked == []


@pytest.mark.parametrize("text", ["0", "yesterday"])
def test_a_time_that_is_none_is_a_usage_error(measured, text):
    assert measured("metrics", "--since", text) == 2

    assert "--since" in measured.err


def test_a_job_and_a_share_exclude_each_other(measured):
    assert measured("metrics", "bert", "--share", "LOWPRI") == 2

    assert "not both" in measured.err


def test_a_job_that_has_not_started_has_no_series_yet(measured, job):
    measured.cli.batch.jobs = {job(1).job_id: job(1)}

    assert measured("metrics", "train-1") == 0
    assert "it has not started, or its first minute is not over" in measured.out


def test_c47_names_of_others_are_shown_as_text(measured):
    measured.add_job(1, "bert", instance_type="ml.x\x1b[2J", gpu=[50.0] * 60)

    measured("metrics", "bert")

    assert "\x1b" not in measured.out
    assert "ml.x\\x1b[2J" in measured.out


def test_a_picture_is_drawn_and_a_wrong_name_refused_before_anything_is_asked(measured, project):
    measured.add_job(1, "bert", gpu=[50.0] * 60)

    assert measured("metrics", "bert", "--plot", "use.pdf") == 2
    assert measured.metrics.asked == []
    assert measured("metrics", "bert", "--plot", str(project / "use.svg")) == 0
    assert "GPUUtilization" in (project / "use.svg").read_text()
    assert f"Drawn to {project / 'use.svg'}" in measured.err
