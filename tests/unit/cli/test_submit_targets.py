"""What the command line of ``submit`` means: scripts, files, stdin, and flags over what a job says."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest

from fairshare.cli.context import AppContext, Options
from fairshare.cli.submit_flags import JobFlags, TargetFlags
from fairshare.cli.submit_targets import read_target
from fairshare.config.jobs import JobFile, JobSpec, WavesSpec
from fairshare.model import FairshareError, NotFoundError, UsageError

Read = Callable[..., JobFile]

FILE = """\
jobs:
  - name: digits
    source: train.py
    hyperparameters: {epochs: 3}
    sweep: {lr: [1, 2], zip: {a: [1, 2], b: [3, 4]}}
waves: {size: 8, interval: 90s}
limits: {concurrent_launches: 4}
max_in_flight: 9
"""


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Read a target as from a directory that has ``train.py`` and ``jobs.yaml``."""
    (tmp_path / ".git").mkdir()  # no project file above is looked for
    (tmp_path / "train.py").write_text("")
    (tmp_path / "jobs.yaml").write_text(FILE)

    def call(target: str | None, flags: TargetFlags | None = None, jobs: JobFlags | None = None) -> JobFile:
        context = AppContext(Options(), {}, tmp_path)
        return read_target(context, target, flags or TargetFlags(), jobs or JobFlags())

    return call


def one(file: JobFile) -> JobSpec:
    (spec,) = file.jobs
    return spec


def points(spec: JobSpec) -> list[dict[str, object]]:
    assert spec.sweep is not None
    return list(spec.sweep.points())


def test_a_script_is_one_job(read: Read, tmp_path: Path) -> None:
    spec = one(read("train.py", TargetFlags(requirements="r.txt"), JobFlags(hp=["lr=0.1"], env=["A=b=c"])))

    assert (spec.name, spec.source_dir, spec.entry, spec.requirements) == ("train", tmp_path, "train.py", "r.txt")
    assert (spec.hyperparameters, spec.environment) == ({"lr": "0.1"}, {"A": "b=c"})


def test_a_job_file_keeps_its_waves_and_limits(read: Read) -> None:
    file = read("jobs.yaml")

    assert (file.waves, file.limits.concurrent_launches, file.max_in_flight) == (WavesSpec(8, 90), 4, 9)
    assert one(file).hyperparameters == {"epochs": 3}


def test_a_script_can_be_swept_on_the_command_line(read: Read) -> None:
    flags = TargetFlags(sweep=["lr=0.1,1e-4", "seed=0:4:2", "mode=fast", "x=1:0:-0.5", "uri=s3://b/c"], array=3)

    spec = one(read("train.py", flags))

    assert points(spec)[0] == {"lr": 0.1, "seed": 0, "mode": "fast", "x": 1.0, "uri": "s3://b/c"}
    assert points(spec)[-1] == {"lr": 1e-4, "seed": 2, "mode": "fast", "x": 0.5, "uri": "s3://b/c"}
    assert spec.array == 3


def test_a_sweep_on_the_command_line_is_over_that_of_the_file_key_by_key(read: Read) -> None:
    spec = one(read("jobs.yaml", TargetFlags(sweep=["lr=9", "seed=5"])))

    assert points(spec) == [{"lr": 9, "a": 1, "b": 3, "seed": 5}, {"lr": 9, "a": 2, "b": 4, "seed": 5}]


def test_values_on_the_command_line_are_typed_as_in_a_file(read: Read) -> None:
    spec = one(read("train.py", TargetFlags(sweep=["x=1,1.0,3.10,true,no,007"])))

    assert [point["x"] for point in points(spec)] == [1, 1.0, "3.10", True, "no", "007"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("jobs: [{name: a, source: train.py}]", ["a"]),
        ('{"TrainingJobName": "raw"} {"TrainingJobName": "b"}', ["raw", "b"]),
    ],
)
def test_stdin_is_told_by_its_content(
    read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, names: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(text))

    file = read("-")

    assert [spec.name for spec in file.jobs] == names
    assert all(spec.origin.file == "<stdin>" for spec in file.jobs)
    assert file.jobs[0].source_dir in (tmp_path, None)


def test_payloads_are_read_from_a_file_or_stdin(read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one.json").write_text('{"TrainingJobName": "raw"}')
    monkeypatch.setattr("sys.stdin", io.StringIO('{"TrainingJobName": "in"}'))

    assert one(read(None, TargetFlags(payload="one.json"))).payload == {"TrainingJobName": "raw"}
    assert one(read("one.json")).name == "raw"
    assert one(read(None, TargetFlags(payload="-"))).name == "in"


@pytest.mark.parametrize(
    ("target", "flags", "error", "message", "hint"),
    [
        (
            "tain.py",
            TargetFlags(),
            NotFoundError,
            "there is no script",
            "the path is relative to the working directory",
        ),
        ("job.yaml", TargetFlags(), NotFoundError, "there is no file", "name a script (.py), a job file (.yaml)"),
        ("digits", TargetFlags(), UsageError, "digits: what is it?", "name a script (.py), a job file (.yaml)"),
        (None, TargetFlags(), UsageError, "nothing to submit", "name a script (.py)"),
        ("jobs.yaml", TargetFlags(name="x"), UsageError, "--name is for a script, not for jobs.yaml", "write it in"),
        ("jobs.yaml", TargetFlags(payload="x"), UsageError, "--payload and jobs.yaml are two targets", "one after"),
        (None, TargetFlags(payload="x.json"), NotFoundError, "there is no file", "name a script"),
        ("jobs.yaml", TargetFlags(sweep=["a=9"]), UsageError, "--sweep a=9: a changes together with b", "in the job"),
        ("train.py", TargetFlags(sweep=["lr"]), UsageError, "--sweep 'lr' is not KEY=VALUE", "--sweep lr=0.1,0.01"),
        ("train.py", TargetFlags(sweep=["lr=1,,2"]), UsageError, "--sweep lr=1,,2: a value is empty", "single commas"),
        ("train.py", TargetFlags(sweep=["s=3:3"]), UsageError, "--sweep s=3:3: range [3, 3] is empty", "the stop is"),
        ("train.py", TargetFlags(sweep=["s=.inf"]), UsageError, "--sweep s=.inf: .inf is not a number", "quotes"),
        ("train.py", TargetFlags(array=0), UsageError, "--array 0 is not between 1 and 100,000", "N jobs"),
    ],
)
def test_what_cannot_be_submitted_says_what_to_write(
    read: Read, target: str | None, flags: TargetFlags, error: type[FairshareError], message: str, hint: str
) -> None:
    with pytest.raises(error) as caught:
        read(target, flags)
    assert caught.value.message.startswith(message)
    assert hint in (caught.value.hint or "")


def test_a_raw_request_takes_values_but_no_channels(read: Read, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('{"TrainingJobName": "raw"}')

    assert one(read("one.json", TargetFlags(sweep=["lr=1"]), JobFlags(hp=["a=b"]))).hyperparameters == {"a": "b"}
    with pytest.raises(UsageError, match=r'^--input cannot be applied to job "raw": its own training request says it'):
        read("one.json", None, JobFlags(input=["train=s3://b/x"]))


@pytest.mark.parametrize("flags", [JobFlags(env=["A=b", "hf_pl4nted"]), JobFlags(hp=["lr=1", "api_key: pl4nted"])])
def test_c46_what_a_flag_should_have_been_is_told_without_its_value(read: Read, flags: JobFlags) -> None:
    with pytest.raises(UsageError, match=r"^--(env|hp) number 2 is not KEY=VALUE$"):
        read("train.py", jobs=flags)
