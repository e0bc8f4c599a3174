import csv
import io
import json

import pytest

from fairshare.metrics.ports import Phase

MINUTE = 60_000
STARVED = [5.0, 70.0, 60.0, 10.0] * 15


def jobs(measured):
    return json.loads(measured.out)["jobs"]


def test_the_contract_of_efficiency_as_json(measured):
    measured.add_job(1, "bert", gpu=[95.0] * 40 + [0.0] * 20)

    assert measured("efficiency", "bert", "-o", "json") == 0

    found = json.loads(measured.out)
    assert (found["api_version"], found["kind"]) == ("fairshare/v1", "Efficiency")
    job = found["jobs"][0]
    assert job["job_id"] == "00000001-0000-4000-8000-000000000000"
    assert (job["gpu_mean_percent"], job["gpu_p10_percent"], job["gpu_p95_percent"]) == (63.33, 0.0, 95.0)
    assert job["idle_tail_seconds"] == 1200
    assert [(one["id"], bool(one["evidence"]), bool(one["advice"])) for one in job["diagnoses"]] == [
        ("idle-after-training", True, True)
    ]


@pytest.mark.parametrize("mean", [96.3, 95.0, 91.4])
def test_published_figures_are_printed(measured, mean):
    measured.add_job(1, "tuned", gpu=[mean - 1, mean + 1] * 30)

    measured("efficiency", "tuned")
    assert f"{mean:.1f} %" in measured.out
    assert "No diagnosis: nothing stands out." in measured.out
    measured("efficiency", "tuned", "-o", "json")
    assert jobs(measured)[0]["gpu_mean_percent"] == pytest.approx(mean, abs=0.01)


def test_a_job_without_gpus_has_no_gpu_numbers_and_is_judged_on_its_processors(measured):
    measured.add_job(1, "prepare", instance_type="ml.c5.2xlarge", cpu=[1.0] * 60)

    measured("efficiency", "prepare", "-o", "json")

    job = jobs(measured)[0]
    assert (job["gpu_mean_percent"], job["gpu_p10_percent"], job["gpu_p95_percent"]) == (None, None, None)
    assert (job["device"], job["cpu_mean_percent"], job["idle_tail_seconds"]) == ("vCPU", 1.0, 3600)
    assert [one["id"] for one in job["diagnoses"]] == ["idle"]


def test_the_screen_of_a_starved_job(measured):
    measured.add_job(1, "bert", gpu=STARVED, cpu=[97.0] * 60)
    training = next(iter(measured.cli.batch.jobs.values())).training_job_name
    start = measured.now - 60 * MINUTE
    measured.phases.known[training] = (
        Phase("Downloading", start, start + 6 * MINUTE),
        Phase("Training", start + 6 * MINUTE, measured.now),
    )

    measured("efficiency", "bert")

    lines = measured.out.splitlines()
    assert lines[0] == "bert  SUCCEEDED  1 x ml.g6.12xlarge (4 GPUs)"
    assert lines[1] == "  waited 5 min, downloading 6 min, training 54 min"
    assert lines[2] == "  GPU use      36.2 %  #######-------------  p10 5  p50 10  p95 70  (60 points)"
    assert "  Diagnosis input-starves-gpu: the input pipeline starves the GPUs" in measured.out
    assert "Set compute.instance_type to ml.g6.24xlarge" in measured.out
    assert "2.6 of 4.0 GPU-hours did nothing." in measured.out
    assert measured.err == "Next: fairshare metrics bert\n"


def test_waste_names_the_job_that_waited(measured, job, now):
    measured.add_job(1, "idler", hosts=16, gpu=[[95.0] * 30 + [0.0] * 30] * 16)
    waiter = job(2, job_name="waiter", instances=4, created_at=now - 50 * MINUTE, share_identifier="HIGHPRI")
    measured.cli.batch.jobs[waiter.job_id] = waiter

    measured("efficiency", "idler")

    assert "Without them: waiter by 31 min 30 s earlier (model 1.0)." in measured.out
    measured("efficiency", "idler", "-o", "json")
    assert jobs(measured)[0]["victims"] == [
        {
            "job_id": waiter.job_id,
            "job_name": "waiter",
            "share_identifier": "HIGHPRI",
            "delay_seconds": 1890,
        }
    ]


def test_spill_in_the_log_is_a_diagnosis(measured):
    job = measured.add_job(1, "ray", gpu=[95.0] * 60)
    measured.cli.logs.add(
        job.training_job_name, "epoch 1", "(raylet) Spilled 2280 MiB, 12 objects, write throughput 332 MiB/s."
    )

    measured("efficiency", "ray", "-o", "json")

    assert jobs(measured)[0]["spilled_mib"] == 2280
    assert jobs(measured)[0]["diagnoses"][0]["evidence"] == "The log says that 2,280 MiB were spilled."


def test_c38_no_data_is_not_idle(measured):
    measured.add_job(1, "silent")

    measured("efficiency", "silent")

    assert "no data: CloudWatch has nothing to judge this job by" in measured.out
    assert "Diagnosis" not in measured.out
    measured("efficiency", "silent", "-o", "json")
    assert jobs(measured)[0]["gpu_mean_percent"] is None
    assert jobs(measured)[0]["diagnoses"] == []


def test_c35_a_job_of_an_unknown_type_says_why_it_is_not_judged(measured):
    measured.add_job(1, "odd", instance_type="ml.x9.large", gpu=[340.0] * 60)

    measured("efficiency", "odd")

    assert "the devices of its instance type are not known" in measured.out


def test_a_share_is_a_table_of_jobs_and_a_sum(measured):
    measured.add_job(1, "busy", gpu=[95.0] * 60)
    measured.add_job(2, "lazy", gpu=[35.0] * 60)

    measured("efficiency", "--share", "LOWPRI")

    lines = measured.out.splitlines()
    assert [line.split()[0] for line in lines if line][:3] == ["JOB", "lazy", "busy"]
    assert lines[-1].split() == ["LOWPRI", "2", "65.0", "%", "8.0", "GPU", "5.2", "2.8", "0.0"]
    measured("efficiency", "--share", "LOWPRI", "-o", "json")
    share = json.loads(measured.out)["shares"][0]
    assert (share["share_identifier"], share["jobs"], share["mean_percent"]) == ("LOWPRI", 2, 65.0)


def test_jobs_that_ended_before_the_time_are_left_out(measured):
    measured.add_job(1, "recent", gpu=[95.0] * 60)
    measured.add_job(2, "older", ended=600, gpu=[95.0] * 60)

    measured("efficiency", "--since", "2h", "-o", "name")

    assert measured.out == "00000001-0000-4000-8000-000000000000\n"


def test_a_time_without_jobs_says_so(measured):
    assert measured("efficiency", "--since", "1h") == 0

    assert measured.out == "No job ran in this time.\n"


def test_c49_many_jobs_cost_few_calls(measured):
    for number in range(1, 41):
        measured.add_job(number, f"job-{number:02}", gpu=[45.0] * 60)

    measured("efficiency", "--since", "24h", "-o", "name")

    assert len(measured.metrics.asked) == len(measured.cli.batch.listed) == 1
    assert len(measured.out.splitlines()) == 40


def test_csv_has_a_flat_row_for_each_job(measured):
    measured.add_job(1, "idler", gpu=[95.0] * 30 + [0.0] * 30)
    measured.add_job(2, "odd", instance_type="ml.x9.large", gpu=[340.0] * 60)

    measured("efficiency", "--since", "2h", "-o", "csv")

    idler, odd = csv.DictReader(io.StringIO(measured.out))
    assert (idler["training_seconds"], idler["device_hours_idle"]) == ("3600", "2.1")
    assert (idler["diagnoses"], odd["diagnoses"]) == ("idle-after-training", "")
    assert odd["device_hours_idle"] == ""
    assert "{" not in measured.out


def test_short_jobs_are_told_in_seconds_of_their_devices(measured):
    measured.add_job(1, "short", minutes=1, gpu=[25.0])

    measured("efficiency", "short")

    assert "180 of 240 GPU-seconds did nothing." in measured.out


def test_a_run_is_a_table_of_its_jobs(measured, journal):
    journal("lunar-otter", [measured.add_job(1, "busy", gpu=[95.0] * 60), measured.add_job(2, "lazy", gpu=[35.0] * 60)])
    measured.add_job(3, "of-nobody", gpu=[95.0] * 60)

    assert measured("efficiency", "lunar") == 0

    assert [line.split()[0] for line in measured.out.splitlines()[:3]] == ["JOB", "lazy", "busy"]
    assert "of-nobody" not in measured.out
    assert measured.err == "Next: fairshare efficiency lazy\n"


def test_a_run_of_one_job_is_a_table_too(measured, journal):
    journal("lunar-otter", [measured.add_job(1, "busy", gpu=[95.0] * 60)])

    measured("efficiency", "run:lunar-otter", "-o", "json")

    assert [job["job_name"] for job in jobs(measured)] == ["busy"]


def test_what_is_written_before_a_colon_decides(measured, journal):
    journal("busy", [measured.add_job(1, "other", gpu=[95.0] * 60)])
    measured.add_job(2, "busy", gpu=[95.0] * 60)

    measured("efficiency", "busy", "-o", "name")
    assert measured.out.startswith("00000001-")
    measured("efficiency", "job:busy", "-o", "name")
    assert measured.out.startswith("00000002-")


@pytest.mark.parametrize(
    ("words", "code", "message", "hint"),
    [
        (("share:LOWPRI",), 2, "'share:LOWPRI' is neither a job nor a run", "write --share LOWPRI"),
        (("run:",), 2, "'run:' names no run", "write run:NAME"),
        (("run:lunar",), 4, 'no run goes by "lunar"', "`fairshare submit` prints the id of a run"),
        (("nobody",), 4, "nobody", ""),
        (("bert", "--since", "2h"), 2, "name a job or a run, or a share and a time, not both", "from its start on"),
    ],
)
def test_what_means_no_job_is_explained(measured, words, code, message, hint):
    assert measured("efficiency", *words) == code
    assert message in measured.err
    assert hint in measured.err


def test_c49_a_long_queue_is_read_as_far_as_a_few_calls_go(measured, monkeypatch):
    newest = [measured.add_job(number, f"job-{number:02}", ended=number, gpu=[45.0] * 60) for number in range(1, 4)]
    pages = [[job] * 1 for job in newest for _ in range(4)]
    monkeypatch.setattr(measured.cli.batch, "walk", lambda queue, created_before=None: iter(pages))

    measured("efficiency", "--since", "24h", "-o", "name")

    assert len(measured.out.splitlines()) == 3
    assert "warning: only the newest 3 jobs of the queue are looked at: give a shorter --since" in measured.err
