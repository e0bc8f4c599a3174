"""The container's contract: what a script finds, what becomes of what it leaves, and what is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.local.processes.attempt_run import AttemptRun
from fairshare.local.processes.container import JobDirectory
from fairshare.local.processes.launcher import ProcessLauncher
from fairshare.model import FairshareError, JobStatus

SAVE = """
import pathlib
ml = pathlib.Path.cwd().parents[2]
(ml / "model" / "weights").mkdir()
(ml / "model" / "weights" / "w.txt").write_text("0.5")
(ml / "output" / "data" / "curve.csv").write_text("1,2")
print("saved")
"""


def test_a_job_is_reported_from_download_to_success_and_leaves_its_artefacts_in_s3(bench: Any) -> None:
    attempt = bench.start(bench.request(SAVE))
    report = bench.end(attempt)

    reports = bench.of(attempt)
    assert [(r.status, r.secondary_status, r.reason) for r in reports] == [
        (JobStatus.STARTING, "Downloading", None),
        (JobStatus.RUNNING, None, None),
        (JobStatus.RUNNING, "Uploading", None),
        (JobStatus.SUCCEEDED, None, None),
    ]
    assert [r.at for r in reports] == sorted(r.at for r in reports)
    assert {r.attempt for r in reports} == {1}
    output = f"s3://training-data/output/{attempt.training_job_name}/output"
    assert report.model_artifact == f"{output}/model.tar.gz"
    assert bench.unpack(report.model_artifact) == {"weights/w.txt": "0.5"}
    assert bench.unpack(f"{output}/output.tar.gz") == {"curve.csv": "1,2"}
    assert bench.log(attempt) == ["saved"]


def test_only_the_log_stays_on_the_machine(bench: Any) -> None:
    attempt = bench.start(bench.request(SAVE))
    bench.end(attempt)
    home = bench.jobs_dir / attempt.training_job_name
    assert [path.name for path in home.iterdir()] == ["log"]
    assert (home / "log").read_text() == "saved\n"
    assert home.stat().st_mode & 0o077 == 0


def test_nothing_is_uploaded_when_the_script_leaves_nothing(bench: Any) -> None:
    report = bench.run(bench.request("print('no files')"))
    assert (report.status, report.model_artifact) == (JobStatus.SUCCEEDED, None)
    assert bench.stored("output/") == []


def test_a_model_can_stay_uncompressed(bench: Any) -> None:
    request = bench.request(
        SAVE, OutputDataConfig={"S3OutputPath": "s3://training-data/output/", "CompressionType": "NONE"}
    )
    report = bench.run(request)
    assert report.model_artifact.endswith("/output/model/")
    assert bench.get(report.model_artifact + "weights/w.txt") == b"0.5"


def test_the_script_finds_channels_and_configuration(bench: Any, channel: Callable[..., dict[str, Any]]) -> None:
    bench.put("digits/a.csv", "A")
    bench.put("digits/deep/b.csv", "B")
    request = bench.request(
        """
import json, pathlib
ml = pathlib.Path.cwd().parents[2]
config = {p.stem: json.loads(p.read_text()) for p in (ml / "input" / "config").iterdir()}
config["ml"] = str(ml)
data = ml / "input" / "data" / "train"
config["data"] = {str(p.relative_to(data)): p.read_text() for p in data.rglob("*") if p.is_file()}
print(json.dumps(config))
"""
    )
    request["HyperParameters"] = {"lr": "0.1", "model_dir": "/opt/ml/model", "uri": "s3://b/opt/ml/x"}
    request["InputDataConfig"].append(channel("train", "s3://training-data/digits") | {"ContentType": "text/csv"})
    attempt = bench.start(request)
    assert bench.end(attempt).status is JobStatus.SUCCEEDED

    seen = json.loads(bench.log(attempt)[0])
    assert seen["data"] == {"a.csv": "A", "deep/b.csv": "B"}
    assert seen["hyperparameters"] == {"lr": "0.1", "model_dir": f"{seen['ml']}/model", "uri": "s3://b/opt/ml/x"}
    assert seen["inputdataconfig"]["train"] == {
        "ContentType": "text/csv",
        "TrainingInputMode": "File",
        "S3DistributionType": "FullyReplicated",
        "RecordWrapperType": "None",
    }
    assert seen["resourceconfig"] == {
        "current_host": "algo-1",
        "current_instance_type": "ml.m5.large",
        "current_group_name": "homogeneousCluster",
        "hosts": ["algo-1"],
        "instance_groups": [
            {"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.large", "hosts": ["algo-1"]}
        ],
        "network_interface_name": "lo",
    }


def environment_of(bench: Any, **fields: Any) -> dict[str, str]:
    attempt = bench.start(bench.request("import json, os; print(json.dumps(dict(os.environ)))", **fields))
    assert bench.end(attempt).status is JobStatus.SUCCEEDED
    environment: dict[str, str] = json.loads(bench.log(attempt)[0])
    return environment


def test_no_secret_of_the_parent_reaches_the_job(bench: Any) -> None:
    planted = {
        "PATH": "/usr/bin:/bin",
        "HOME": "/home/me",
        "LC_ALL": "C.UTF-8",
        "CUDA_VISIBLE_DEVICES": "2,5",
        "HF_TOKEN": "planted",
        "AWS_SESSION_TOKEN": "planted",
        "AWS_SECRET_ACCESS_KEY": "planted",
        "AWS_PROFILE": "planted",
        "HTTPS_PROXY": "http://user:planted@proxy",
        "PYTHONPATH": "/planted",
    }
    bench.configure(environ=planted)
    seen = environment_of(bench)
    assert "planted" not in json.dumps(seen)
    assert {"HOME": "/home/me", "LC_ALL": "C.UTF-8", "CUDA_VISIBLE_DEVICES": "2,5"}.items() <= seen.items()


def test_every_aws_client_of_the_job_is_sent_to_the_local_aws(bench: Any) -> None:
    seen = environment_of(
        bench,
        Environment={"AWS_ENDPOINT_URL_S3": "http://elsewhere", "AWS_ACCESS_KEY_ID": "AKIAREAL", "AWS_PROFILE": "real"},
    )
    assert {name: value for name, value in seen.items() if name.startswith("AWS_")} == {
        "AWS_ENDPOINT_URL": bench.endpoint.url,
        "AWS_ACCESS_KEY_ID": "AKIALOCAL",
        "AWS_SECRET_ACCESS_KEY": "local-secret",
        "AWS_REGION": "us-west-2",
        "AWS_DEFAULT_REGION": "us-west-2",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def test_the_jobs_environment_overrides_defaults_and_names_its_own_directory(bench: Any) -> None:
    seen = environment_of(
        bench,
        Environment={
            "OMP_NUM_THREADS": "7",
            "CACHE": "/opt/ml/cache",
            "PATH": "/extra",
            "PYTHONPATH": "/mine",
            "TRAINING_JOB_NAME": "other",
        },
    )
    name = seen["TRAINING_JOB_NAME"]
    assert name != "other"
    assert seen["TRAINING_JOB_ARN"] == f"arn:aws:sagemaker:us-west-2:123456789012:training-job/{name}"
    home = str(bench.jobs_dir / name)
    assert (seen["OMP_NUM_THREADS"], seen["CACHE"]) == ("7", f"{home}/ml/cache")
    assert seen["PATH"].startswith(f"{home}/venv/bin:")
    assert seen["PATH"].endswith(":/extra")
    assert seen["PYTHONPATH"].startswith("/mine:")
    assert len(seen["TMPDIR"]) < 60


def test_threads_default_to_a_quarter_of_the_cores_and_output_is_unbuffered(bench: Any) -> None:
    seen = environment_of(bench)
    assert int(seen["OMP_NUM_THREADS"]) >= 1
    assert seen["PYTHONUNBUFFERED"] == "1"


def test_the_scratch_directory_is_removed(bench: Any) -> None:
    scratch = Path(environment_of(bench)["TMPDIR"])
    assert not scratch.exists()
    assert not scratch.parent.exists()


def test_a_failing_script_is_reported_with_its_failure_file_exit_code_and_last_lines(bench: Any) -> None:
    report = bench.run(
        bench.request(
            SAVE + 'print("loss is nan", flush=True)\n(ml / "output" / "failure").write_text("nan!" + "x" * 2000)\n'
            "raise SystemExit(3)"
        )
    )
    assert report.status is JobStatus.FAILED
    failure = "nan!" + "x" * 1020
    assert report.reason == f"AlgorithmError: {failure}, exit code: 3\nLast log lines:\n  saved\n  loss is nan"
    assert len(bench.stored("output/")) == 2, "artefacts of a failed job are uploaded as well"


def test_a_script_that_says_nothing_is_reported_all_the_same(bench: Any) -> None:
    report = bench.run(bench.request("raise SystemExit(4)"))
    assert report.reason == "AlgorithmError: the job wrote no failure file, exit code: 4"


def test_a_killed_script_hints_at_memory(bench: Any) -> None:
    report = bench.run(bench.request("import os; os.kill(os.getpid(), 9)"))
    assert report.reason == (
        "AlgorithmError: the job wrote no failure file (it was killed, as happens when memory runs out), exit code: 137"
    )


def test_a_command_that_does_not_exist_says_so(bench: Any) -> None:
    request = bench.request("")
    request["AlgorithmSpecification"]["ContainerEntrypoint"] = ["/no/such/program"]
    report = bench.run(request)
    assert report.reason.endswith(
        "exit code: 127\nLast log lines:\n  fairshare: cannot run '/no/such/program': No such file or directory"
    )


def test_checkpoints_are_restored_and_only_changed_ones_are_saved(bench: Any) -> None:
    bench.put("checkpoints/epoch-1", "one")
    bench.put("checkpoints/state/latest", "1")
    request = bench.request(
        """
import pathlib
folder = pathlib.Path.cwd().parents[2] / "checkpoints"
assert (folder / "epoch-1").read_text() == "one"
(folder / "state" / "latest").write_text("second")
(folder / "epoch-2").write_text("two")
""",
        CheckpointConfig={"S3Uri": "s3://training-data/checkpoints/"},
    )
    before = bench.s3.head_object(Bucket="training-data", Key="checkpoints/epoch-1")["LastModified"]
    assert bench.run(request).status is JobStatus.SUCCEEDED
    assert bench.stored("checkpoints/") == ["checkpoints/epoch-1", "checkpoints/epoch-2", "checkpoints/state/latest"]
    assert bench.get("s3://training-data/checkpoints/state/latest") == b"second"
    assert bench.s3.head_object(Bucket="training-data", Key="checkpoints/epoch-1")["LastModified"] == before


def test_a_channel_without_objects_fails_before_the_script_starts(
    bench: Any, channel: Callable[..., dict[str, Any]]
) -> None:
    request = bench.request("print('never')")
    request["InputDataConfig"].append(channel("train", "s3://training-data/nothing/"))
    attempt = bench.start(request)
    report = bench.end(attempt)
    assert report.reason == (
        "ClientError: Data download failed: channel 'train' from s3://training-data/nothing/: no object has that "
        "prefix. Check the URI, and that the data is in the local S3."
    )
    assert JobStatus.RUNNING not in {r.status for r in bench.of(attempt)}
    assert bench.log(attempt) == [f"fairshare: {report.reason}"]


def test_a_request_that_cannot_run_here_is_refused_at_once(bench: Any) -> None:
    request = bench.request("", ResourceConfig={"InstanceType": "ml.m5.large", "InstanceCount": 2})
    attempt = bench.start(request)
    assert bench.end(attempt).reason.startswith("ClientError: this machine runs one host per training job")
    assert [r.status for r in bench.of(attempt)] == [JobStatus.STARTING, JobStatus.FAILED]


def test_a_job_past_its_run_time_limit_is_stopped(bench: Any) -> None:
    request = bench.request("import signal; signal.pause()", StoppingCondition={"MaxRuntimeInSeconds": 1})
    report = bench.run(request)
    assert (report.status, report.secondary_status) == (JobStatus.FAILED, "MaxRuntimeExceeded")
    assert report.reason == (
        "MaxRuntimeExceeded: the training job ran longer than its MaxRuntimeInSeconds of 1 and was stopped"
    )


def test_files_are_kept_when_the_artefacts_cannot_be_uploaded(bench: Any) -> None:
    request = bench.request(SAVE, OutputDataConfig={"S3OutputPath": "s3://no-such-bucket/x"})
    attempt = bench.start(request)
    report = bench.end(attempt)
    root = bench.jobs_dir / attempt.training_job_name / "ml"
    assert report.status is JobStatus.FAILED
    assert re.match(r"ClientError: Artifact upload failed: s3://no-such-bucket/x/.*NoSuchBucket", report.reason)
    assert report.reason.endswith(f"The job's files are kept in {root}.")
    assert (root / "model" / "weights" / "w.txt").read_text() == "0.5"


def test_a_path_that_breaks_sagemakers_scripts_is_avoided_and_said(bench: Any, tmp_path: Path) -> None:
    bench.jobs_dir = tmp_path / "my jobs"
    attempt = bench.start(bench.request(SAVE))
    report = bench.end(attempt)
    assert bench.unpack(report.model_artifact) == {"weights/w.txt": "0.5"}
    assert bench.log(attempt)[0].startswith(
        f"fairshare: {bench.jobs_dir / attempt.training_job_name} has characters that break SageMaker's scripts; "
    )


def test_code_that_names_the_containers_path_is_warned_about(bench: Any, caplog: pytest.LogCaptureFixture) -> None:
    attempt = bench.start(bench.request("import os\nprint(os.path.exists('/opt/ml/model'))"))
    bench.end(attempt)
    warning = (
        "the code names /opt/ml in train.py:2; on this machine the job's files are elsewhere. Read SM_MODEL_DIR, "
        "SM_OUTPUT_DATA_DIR and SM_CHANNEL_<NAME> instead: they are right here and in the cloud"
    )
    assert bench.log(attempt) == [f"fairshare: warning: {warning}", "False"]
    assert f"{attempt.training_job_name}: {warning}" in caplog.messages


def test_jobs_run_side_by_side(bench: Any, rendezvous: Any) -> None:
    script = f"""
import socket
with socket.create_connection(("127.0.0.1", {rendezvous.port})) as s:
    s.sendall(b"here")
    s.recv(1)
"""
    attempts = [bench.start(bench.request(script)) for _ in range(3)]
    assert [rendezvous.wait() for _ in attempts] == ["here"] * 3
    assert {bench.end(attempt).status for attempt in attempts} == {JobStatus.SUCCEEDED}


def test_the_users_own_aws_settings_do_not_matter(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "gone")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", "true")
    bench.endpoint.close()
    assert bench.run(bench.request("print('ran')")).status is JobStatus.SUCCEEDED


def test_an_error_of_ours_is_a_report_and_not_a_lost_thread(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("disk on fire")

    request = bench.request("")
    monkeypatch.setattr(JobDirectory, "create", broken)
    report = bench.run(request)
    assert (report.status, report.reason) == (JobStatus.FAILED, "InternalServerError: RuntimeError: disk on fire")


def test_an_error_while_the_script_runs_leaves_no_process(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("lost track")

    monkeypatch.setattr(AttemptRun, "_supervise", broken)
    assert bench.run(bench.request("import signal; signal.pause()")).reason.endswith("lost track")
    assert bench.processes() == []


def test_a_python_that_does_not_work_is_said_at_the_start(bench: Any, tmp_path: Path) -> None:
    with pytest.raises(FairshareError, match=r"the Python for training jobs, .*/no-python, does not work") as caught:
        ProcessLauncher(
            endpoint_url=bench.endpoint.url,
            access_key_id="",
            secret_access_key="",
            jobs_dir=tmp_path,
            python=tmp_path / "no-python",
            notify=lambda: None,
            clock=None,  # type: ignore[arg-type]
            environ={},
        )
    assert caught.value.hint == "Give the path of a Python 3 that has the packages your jobs import."
