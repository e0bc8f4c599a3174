"""Job files: what a good one becomes, and what a wrong one says."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.job_file import load_job_file, parse_job_file
from fairshare.config.jobs import (
    AutoWaves,
    Dependency,
    JobFile,
    JobSpec,
    LaunchPeak,
    Limits,
    Origin,
    Resources,
    RetrySpec,
    SecretRef,
    WavesSpec,
)
from fairshare.config.sweeps import read_sweep
from fairshare.config.times import parse_start, parse_window
from fairshare.model import InvalidFileError

Read = Callable[[str], JobFile]
Problems = Callable[[str], list[str]]

GIB = 2**30

WHOLE = """\
jobs:
  - name: digits
    source: {dir: src, entry: train.py, requirements: requirements.txt}
    compute: {instance_type: ml.g6.12xlarge, instance_count: 2, volume_size_gb: 50}
    launcher: {torchrun: {process_count_per_node: 4}}
    queue: gpu
    share: HIGHPRI
    priority: 80
    role: MLTraining
    image: my-image
    max_runtime: 6h
    inputs: {train: "s3://bucket/digits/", local: data/x}
    output: s3://bucket/out/
    checkpoint: "s3://bucket/checkpoints/"
    network: {subnets: [subnet-1], security_groups: [sg-1], kms_key: alias/ml}
    hyperparameters: {epochs: 5}
    environment: {HF_TOKEN: {from_env: HF_TOKEN}, KEY: {from_file: secrets/key}}
    tags: {team: search}
    sweep: {lr: [0.1, 0.01], seed: {range: [0, 8]}}
    training_job: {StoppingCondition: {MaxRuntimeInSeconds: 60}}
waves: {size: 8, interval: 90s}
"""


def job(read_jobs: Read, lines: str) -> JobSpec:
    """The one job of a file whose other keys are given as YAML lines."""
    body = "".join(f"    {line}\n" for line in lines.splitlines())
    (spec,) = read_jobs(f"jobs:\n  - name: digits\n{body}").jobs
    return spec


def test_a_whole_job_file(read_jobs: Read, tmp_path: Path) -> None:
    file = read_jobs(WHOLE)
    assert file.waves == WavesSpec(size=8, interval=90)
    assert file.jobs == (
        JobSpec(
            name="digits",
            origin=Origin(str(tmp_path / "jobs.yaml"), 2, 5),
            source_dir=tmp_path / "src",
            entry="train.py",
            requirements="requirements.txt",
            instance_type="ml.g6.12xlarge",
            instance_count=2,
            volume_size_gb=50,
            launcher={"torchrun": {"process_count_per_node": 4}},
            queue="gpu",
            share="HIGHPRI",
            priority=80,
            role="MLTraining",
            image="my-image",
            max_runtime=21_600,
            inputs={"train": "s3://bucket/digits/", "local": str(tmp_path / "data/x")},
            output="s3://bucket/out/",
            checkpoint="s3://bucket/checkpoints/",
            network={"subnets": ["subnet-1"], "security_groups": ["sg-1"], "kms_key": "alias/ml"},
            hyperparameters={"epochs": 5},
            environment={
                "HF_TOKEN": SecretRef(from_env="HF_TOKEN"),
                "KEY": SecretRef(from_file=str(tmp_path / "secrets/key")),
            },
            tags={"team": "search"},
            sweep=read_sweep({"lr": [0.1, 0.01], "seed": {"range": [0, 8]}}),
            training_job={"StoppingCondition": {"MaxRuntimeInSeconds": 60}},
        ),
    )


def test_the_smallest_job(read_jobs: Read, tmp_path: Path) -> None:
    file = read_jobs("jobs: [{name: digits}]\n")
    assert file == JobFile((JobSpec("digits", Origin(str(tmp_path / "jobs.yaml"), 1, 8)),), None)


def test_origin_knows_where_each_value_is(read_jobs: Read) -> None:
    origin = read_jobs(WHOLE).jobs[0].origin
    assert (origin.line, origin.column, origin.source_line) == (2, 5, "  - name: digits")
    share = origin.at("share")
    assert (share.line, share.column, share.source_line) == (7, 12, "    share: HIGHPRI")
    count = origin.at("compute", "instance_count")
    assert (count.line, count.column) == (4, 62)
    assert origin.at("compute").line == 4
    assert origin.at("trainer") is origin


@pytest.mark.parametrize(
    ("source", "folder", "entry"),
    [
        ("{entry: train.py}", ".", "train.py"),
        ("train.py", ".", "train.py"),
        ("src/train.py", "src", "train.py"),
        ("{dir: ../shared, entry: run.sh}", "../shared", "run.sh"),
        ("{dir: /opt/code, entry: a/b.py}", "/opt/code", "a/b.py"),
    ],
)
def test_source_is_relative_to_the_file(read_jobs: Read, tmp_path: Path, source: str, folder: str, entry: str) -> None:
    spec = job(read_jobs, f"source: {source}")
    assert spec.source_dir == (tmp_path / folder).resolve()
    assert spec.entry == entry


def test_source_in_the_home_directory(read_jobs: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    spec = job(read_jobs, "source: {dir: ~/code, entry: t.py}")
    assert spec.source_dir == tmp_path / "home/code"


def test_paths_do_not_depend_on_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "jobs.yaml").write_text("jobs: [{name: a, source: train.py}]\n")
    monkeypatch.chdir(tmp_path)
    assert load_job_file(Path("sub/jobs.yaml")).jobs[0].source_dir == tmp_path / "sub"


@pytest.mark.parametrize("launcher", ["torchrun", "{torchrun: {}}", "{torchrun: }"])
def test_launcher_without_options(read_jobs: Read, launcher: str) -> None:
    assert job(read_jobs, f"launcher: {launcher}").launcher == {"torchrun": {}}


def test_c08_priority_zero_is_kept(read_jobs: Read) -> None:
    assert job(read_jobs, "priority: 0").priority == 0


@pytest.mark.parametrize(
    ("priority", "message"),
    [
        ("-1", "must be at least 0, not -1"),
        ("100", "must be at most 99, not 100"),
        ("2.5", "must be a whole number, not 2.5"),
        ("true", "must be a whole number, not true"),
        ('"high"', 'must be a whole number, not "high"'),
        ("[1]", "must be a whole number, not a list"),
    ],
)
def test_c08_bad_priorities(job_problems: Problems, priority: str, message: str) -> None:
    text = f"jobs:\n- name: a\n- name: b\n  priority: {priority}\n"
    column = 3 if priority == "[1]" else 13
    assert job_problems(text) == [f"4:{column} jobs[1].priority: {message}"]


def test_c09_hyperparameters_keep_their_types(read_jobs: Read) -> None:
    spec = job(
        read_jobs,
        "hyperparameters: {lr: 0.0001, amp: true, resume: null, layers: [64, 64], "
        'opt: {name: adamw, betas: [0.9, 0.999]}, tag: "007", note: \'say "hi"\', empty: ""}',
    )
    expected: dict[str, Any] = {
        "lr": 0.0001,
        "amp": True,
        "resume": None,
        "layers": [64, 64],
        "opt": {"name": "adamw", "betas": [0.9, 0.999]},
        "tag": "007",
        "note": 'say "hi"',
        "empty": "",
    }
    assert spec.hyperparameters == expected
    assert {key: type(value) for key, value in spec.hyperparameters.items()} == {
        key: type(value) for key, value in expected.items()
    }


def test_c11_environment_is_the_text_that_was_written(read_jobs: Read) -> None:
    spec = job(
        read_jobs,
        'environment: {COUNTRY: NO, DEBUG: on, SEED: 010, EPOCHS: 5, V: 3.10, AMP: true, LR: 1e-4, NONE: "", Q: "NO"}',
    )
    assert spec.environment == {
        "COUNTRY": "NO",
        "DEBUG": "on",
        "SEED": "010",
        "EPOCHS": "5",
        "V": "3.10",
        "AMP": "true",
        "LR": "1e-4",
        "NONE": "",
        "Q": "NO",
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-4", 1e-4),
        ("3.10", "3.10"),
        ("-0.50", "-0.50"),
        ("1.00", "1.00"),
        (".50", ".50"),
        ("1.0", 1.0),
        ("3.1", 3.1),
        ("0.05", 0.05),
        ("100", 100),
        ("1e10", 1e10),
        ("010", "010"),
        ("NO", "NO"),
        ("[0.10, 3.10]", [0.1, 3.1]),
    ],
)
def test_c11_hyperparameters_lose_no_zeros(read_jobs: Read, written: str, value: object) -> None:
    found = job(read_jobs, f"hyperparameters: {{x: {written}}}").hyperparameters["x"]
    assert found == value
    assert type(found) is type(value)


def test_c11_sweep_values_lose_no_zeros(read_jobs: Read) -> None:
    sweep = job(read_jobs, "sweep: {v: [3.9, 3.10], on: [yes, true]}").sweep
    assert sweep is not None
    assert (sweep.values_of("v"), sweep.values_of("on")) == ([3.9, "3.10"], ["yes", True])


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "source: src",
            '13 jobs[0].source: must be a script (.py or .sh), not "src" | or write {dir: src, entry: train.py}',
        ),
        ("source: {dir: src}", "5 entry is missing in jobs[0].source | write {dir: src, entry: train.py}"),
        ("source: [a]", "5 jobs[0].source: must be a mapping, not a list | write {dir: src, entry: train.py}"),
        ("compute: {instance_count: 0}", "31 jobs[0].compute.instance_count: must be at least 1, not 0"),
        (
            "compute: {instance_count: 2147483648}",
            "31 jobs[0].compute.instance_count: must be at most 2147483647, not 2147483648",
        ),
        ("compute: {volume_size_gb: 0}", "31 jobs[0].compute.volume_size_gb: must be at least 1, not 0"),
        (
            "compute: {instance_typ: ml.g6.xlarge}",
            '15 unknown key "instance_typ" in jobs[0].compute | '
            "did you mean instance_type? (keys here: instance_type, instance_count, volume_size_gb)",
        ),
        (
            "launcher: {torchrun: {}, mpi: {}}",
            "5 jobs[0].launcher: must be one of torchrun, mpi or ray, not torchrun and mpi | write {torchrun: {}}",
        ),
        (
            "launcher: {}",
            "5 jobs[0].launcher: must be one of torchrun, mpi or ray, not an empty mapping | write {torchrun: {}}",
        ),
        (
            "launcher: torchrum",
            '15 jobs[0].launcher: unknown launcher "torchrum" | did you mean torchrun? (launchers: torchrun, mpi, ray)',
        ),
        ("launcher: {mpi: 4}", "5 jobs[0].launcher: the options of mpi must be a mapping, not 4"),
        ("max_runtime: 0", "18 jobs[0].max_runtime: must be at least 1, not 0"),
        ("max_runtime: 5M", '18 jobs[0].max_runtime: "5M" is not a duration: units are small letters; write 5m'),
        ("environment: {A: }", "19 jobs[0].environment.A: has no value | write text, or remove the key"),
        ("environment: {A: [1]}", "19 jobs[0].environment.A: must be text, not a list"),
        (
            "environment: {A: {from_env: X, from_file: Y}}",
            "19 jobs[0].environment.A: must have either from_env or from_file, not from_env, from_file | "
            "write {from_env: HF_TOKEN}",
        ),
        (
            "environment: {A: {env: X}}",
            "19 jobs[0].environment.A: must have either from_env or from_file, not env | write {from_env: HF_TOKEN}",
        ),
        ('environment: {A: {from_env: ""}}', "19 jobs[0].environment.A: from_env must not be empty"),
        (
            "hyperparameters: {x: .nan}",
            "26 jobs[0].hyperparameters.x: .nan is not a number that JSON can carry | "
            "put quotes around it to send text",
        ),
        (
            "hyperparameters: {x: [1e999]}",
            "23 jobs[0].hyperparameters.x: 1e999 is not a number that JSON can carry | "
            "put quotes around it to send text",
        ),
        (
            "hyperparameters: [x]",
            "5 jobs[0].hyperparameters: must be a mapping, not a list | write key: value lines under it, indented",
        ),
        ("sweep: {}", "5 jobs[0].sweep: must not be empty"),
        ("sweep: {lr: []}", "13 jobs[0].sweep.lr: must not be empty"),
        (
            "sweep: {lr: 0.1}",
            "17 jobs[0].sweep.lr: must be a list of values, not 0.1 | write [0.1, 0.01] or {range: [0, 8]}",
        ),
        (
            "sweep: {lr: {values: [1]}}",
            "13 jobs[0].sweep.lr: must be a list of values, not a mapping with values | "
            "write [0.1, 0.01] or {range: [0, 8]}",
        ),
        (
            "sweep: {s: {range: [0]}}",
            "13 jobs[0].sweep.s: range must be 2 or 3 numbers | write [start, stop] or [start, stop, step]",
        ),
        (
            "sweep: {s: {range: [0, true]}}",
            "13 jobs[0].sweep.s: range must be 2 or 3 numbers | write [start, stop] or [start, stop, step]",
        ),
        (
            "sweep: {s: {range: 8}}",
            "13 jobs[0].sweep.s: range must be 2 or 3 numbers | write [start, stop] or [start, stop, step]",
        ),
        (
            "sweep: {s: {range: [8, 8]}}",
            "13 jobs[0].sweep.s: range [8, 8] is empty | the stop is not part of a range: [0, 8] is 0 to 7",
        ),
        ("sweep: {s: {range: [0, 8, 0]}}", "13 jobs[0].sweep.s: the step of a range must not be 0"),
        ("inputs: {train: }", "14 jobs[0].inputs.train: has no value | write text, or remove the key"),
        (
            "network: {subnet: [a]}",
            '15 unknown key "subnet" in jobs[0].network | '
            "did you mean subnets? (keys here: subnets, security_groups, kms_key)",
        ),
        (
            "tags: {aws:x: y}",
            '12 jobs[0].tags.aws:x: "aws:x" cannot be a tag of yours: '
            "AWS and fairshare keep this prefix for themselves",
        ),
        ('name2: ""', '5 unknown key "name2" in jobs[0]'),
        ("array: 0", "12 jobs[0].array: must be at least 1, not 0"),
        ("after: [{job: a, when: done}]", '28 jobs[0].after[0].when: must be ok, any or failed, not "done" | choices:'),
        ("after: [{when: ok}]", "13 job is missing in jobs[0].after[0] | write {job: prepare, when: ok}"),
        ("after: [[a]]", "13 jobs[0].after[0]: must be a mapping, not a list | write {job: prepare, when: ok}"),
        ("queues: []", "5 jobs[0].queues: must not be empty"),
        ("queues: [a, a]", "17 jobs[0].queues[1]: a is in the list already | remove one of the two"),
        (
            "fallback_after: 30m",
            "21 jobs[0].fallback_after: has no effect without a second queue | write queues: [first, second], or",
        ),
        ("retry: {attempts: 0}", "23 jobs[0].retry.attempts: must be at least 1, not 0"),
        ("retry: {attempts: 11}", "23 jobs[0].retry.attempts: must be at most 10, not 11"),
        ("retry: {attempts: 1, on: [x]}", "26 jobs[0].retry.on: has no effect with one attempt | raise attempts"),
        ("retry: 3", "12 jobs[0].retry: must be a mapping, not 3 | write {attempts: 3}"),
        ("resources: {cpu: 0}", "22 jobs[0].resources.cpu: must be a number of processors, not 0 | as in 2 or 0.5"),
        (
            "resources: {memory: lots}",
            '25 jobs[0].resources.memory: "lots" is not a size: write bytes (4096) or a unit (500MB, 4GiB)',
        ),
        (
            "resources: {launch_peak: {seconds: 9}}",
            '31 unknown key "seconds" in jobs[0].resources.launch_peak | keys here: memory, read, for',
        ),
        ("resources: {launch_peak: {for: 0}}", "36 jobs[0].resources.launch_peak.for: must be at least 1, not 0"),
    ],
)
def test_wrong_values_of_a_job(job_problems: Problems, line: str, expected: str) -> None:
    (problem,) = job_problems(f"jobs:\n  - name: digits\n    {line}\n")
    assert problem.startswith(f"3:{expected}")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("waves: automatic", '2:8 waves: must be auto or a mapping, not "automatic" | write {size: 8, interval: 90s}'),
        ("waves: 8", "2:8 waves: must be auto or a mapping, not 8 | write {size: 8, interval: 90s}"),
        ("waves: {}", "2:1 waves: size and interval are missing | write {size: 8, interval: 90s}, or auto"),
        ("waves: {auto: true, size: 8}", "2:27 waves.size: has no effect in auto: true | remove it"),
        (
            "waves: {size: 8, interval: 0, first: 2}",
            "2:38 waves.first: has no effect in waves of a fixed size | write auto: true beside it",
        ),
        (
            "waves: {auto: true, start_at: noon}",
            '2:31 waves.start_at: "noon" is not a start: write 2026-12-01 08:00 Europe/Berlin, '
            "2026-12-01T08:00+01:00, or 08:00 for the next such",
        ),
        (
            "waves: {auto: true, window: {start: 20:00, end: 06:00, days: [funday], zone: UTC}}",
            '2:21 waves.window: "funday" is not a day: write mon, tue, wed, thu, fri, sat, sun',
        ),
        ("waves: {auto: true, window: {start: 20:00, end: 06:00}}", "2:21 zone is missing in waves.window"),
        ("waves: {size: 0, interval: 90s}", "2:15 waves.size: must be at least 1, not 0"),
        ("waves: {size: 8}", "2:1 waves: interval is missing | write {size: 8, interval: 90s}, or auto"),
        (
            "waves: {size: 8, interval: 1:30}",
            '2:28 waves.interval: "1:30" is not a duration: 1:30 could be minutes or hours; write 1m30s or 1h30m',
        ),
    ],
)
def test_waves(job_problems: Problems, line: str, expected: str) -> None:
    (problem,) = job_problems(f"jobs: [{{name: a}}]\n{line}\n")
    assert problem.startswith(expected)


@pytest.mark.parametrize(
    ("waves", "expected"),
    [
        ("auto", AutoWaves()),
        ("{auto: true}", AutoWaves()),
        ("{auto: true, hold_runnable: true, first: 4}", AutoWaves(first=4, hold_runnable=True)),
        ("{auto: false, size: 8, interval: 0}", WavesSpec(8, 0)),
        (
            "{size: 8, interval: 90s, start_at: 2026-12-01 08:00 Europe/Berlin}",
            WavesSpec(8, 90, parse_start("2026-12-01 08:00 Europe/Berlin")),
        ),
        (
            "{size: 8, interval: 90s, window: {start: 20:00, end: 06:00, days: [tue, mon], zone: Europe/Berlin}}",
            WavesSpec(8, 90, None, parse_window("mon,tue 20:00-06:00 Europe/Berlin")),
        ),
        ("{auto: true, window: 20:00-06:00 UTC}", AutoWaves(window=parse_window("20:00-06:00 UTC"))),
    ],
)
def test_waves_in_all_their_forms(read_jobs: Read, waves: str, expected: WavesSpec | AutoWaves) -> None:
    assert read_jobs(f"jobs: [{{name: a}}]\nwaves: {waves}\n").waves == expected


def test_limits_of_launches_and_of_jobs_in_flight(read_jobs: Read) -> None:
    file = read_jobs(
        "jobs: [{name: a}]\nmax_in_flight: 40\n"
        "limits: {concurrent_launches: 8, image_pulls: 16, read_bandwidth: 2GiB, memory: 24 GiB}\n"
    )
    assert file.limits == Limits(8, 16, 2 * GIB, 24 * GIB)
    assert file.max_in_flight == 40


def test_own_limits_win_key_by_key() -> None:
    assert Limits(concurrent_launches=2).over(Limits(8, 16)) == Limits(2, 16)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("max_in_flight: 0", "2:16 max_in_flight: must be at least 1, not 0"),
        ("limits: {image_pulls: 0}", "2:23 limits.image_pulls: must be at least 1, not 0"),
        (
            "limits: {memory: 24G}",
            '2:18 limits.memory: "24G" is not a size: write 24GiB (in 1024s) or 24GB (in 1000s)',
        ),
        (
            "limits: {concurrent_launch: 8}",
            '2:10 unknown key "concurrent_launch" in limits | did you mean concurrent_launches? (keys here: '
            "concurrent_launches, image_pulls, read_bandwidth, memory)",
        ),
    ],
)
def test_wrong_limits(job_problems: Problems, line: str, expected: str) -> None:
    assert job_problems(f"jobs: [{{name: a}}]\n{line}\n") == [expected]


def test_what_a_job_takes_of_a_machine(read_jobs: Read) -> None:
    spec = job(
        read_jobs, "resources: {cpu: 0.5, memory: 4GiB, launch_peak: {memory: 6GiB, read: 200MiB/s, for: 1m30s}}"
    )
    peak = LaunchPeak(memory=6 * GIB, read=200 * 2**20, seconds=90)
    assert spec.resources == Resources(Fraction(1, 2), 4 * GIB, peak)
    assert job(read_jobs, "share: A").resources == Resources()


def test_dependencies_in_short_and_in_full(read_jobs: Read) -> None:
    spec = job(read_jobs, "after: [prepare, {job: eval, when: any}]")
    assert spec.after == (Dependency("prepare", "ok"), Dependency("eval", "any"))
    assert (spec.origin.at("after", "1").line, spec.origin.at("after", "1").column) == (3, 22)
    assert job(read_jobs, "after: prepare").after == (Dependency("prepare"),)
    assert job(read_jobs, "after: {job: prepare, when: failed}").after == (Dependency("prepare", "failed"),)


def test_queues_in_order(read_jobs: Read) -> None:
    spec = job(read_jobs, "queues: [p5, p4]\nfallback_after: 30m")
    assert (spec.queue, spec.queues, spec.fallback_after) == ("p5", ("p5", "p4"), 1800)
    single = job(read_jobs, "queues: [p5]")
    assert (single.queue, single.queues) == ("p5", ()), "as queue: p5"


def test_arrays_and_retries(read_jobs: Read) -> None:
    spec = job(read_jobs, 'array: 8\nretry: {attempts: 3, on: ["CapacityError", "Received status*"]}')
    assert spec.array == 8
    assert spec.retry == RetrySpec(3, ("CapacityError", "Received status*"))
    assert job(read_jobs, "retry: {on: AlgorithmError}").retry == RetrySpec(2, ("AlgorithmError",))
    assert job(read_jobs, "retry: {attempts: 1}").retry == RetrySpec(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jobs: []\n", "1:1 jobs: must not be empty"),
        ("jobs: {name: a}\n", "1:1 jobs: must be a list, not a mapping | begin each item with a dash, or write [a, b]"),
        ("jobs:\n", "1:1 jobs: must be a list, not nothing | begin each item with a dash, or write [a, b]"),
        ("jobs: [digits]\n", '1:8 jobs[0]: must be a mapping, not "digits" | write {name: digits, source: train.py}'),
        ("jobs: [{}]\n", "1:8 name is missing in jobs[0] | write {name: digits, source: train.py}"),
        ("jobs: [{name: ''}]\n", "1:15 jobs[0].name: must not be empty"),
        ("waves: {size: 1, interval: 0}\n", "1:1 jobs is missing | write jobs: [{name: digits, source: train.py}]"),
        (
            "job: [{name: a}]\njobs: [{name: a}]\n",
            '1:1 unknown key "job" | did you mean jobs? (keys here: jobs, waves, limits, max_in_flight)',
        ),
    ],
)
def test_the_list_of_jobs(job_problems: Problems, text: str, expected: str) -> None:
    assert job_problems(text) == [expected]


def test_all_problems_of_all_jobs_come_at_once(job_problems: Problems) -> None:
    text = (
        "jobs:\n- name: a\n  priority: 100\n  priority: 3\n- nam: b\n- name: c\n  sweep: {lr: [], s: {range: [1, 1]}}\n"
        "  environment: {X: }\nwaves: {size: -1, interval: -5m}\n"
    )
    assert [problem.split(" ")[0] for problem in job_problems(text)] == [
        "3:13", "4:3", "5:3", "5:3", "7:11", "7:19", "8:17", "9:15", "9:29",
    ]  # fmt: skip


def test_anchors_share_settings_between_jobs(read_jobs: Read) -> None:
    file = read_jobs(
        "jobs:\n- &first\n  name: a\n  share: HIGHPRI\n  hyperparameters: &hp {lr: 0.1, epochs: 5}\n"
        "- <<: *first\n  name: b\n  hyperparameters: {<<: *hp, lr: 0.2}\n"
    )
    assert [(spec.name, spec.share, spec.hyperparameters) for spec in file.jobs] == [
        ("a", "HIGHPRI", {"lr": 0.1, "epochs": 5}),
        ("b", "HIGHPRI", {"lr": 0.2, "epochs": 5}),
    ]


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"jobs.yaml: error: cannot be read: no such file or directory"):
        load_job_file(tmp_path / "jobs.yaml")


def test_messages_name_the_file_as_it_was_given() -> None:
    with pytest.raises(InvalidFileError, match=r"^sweep.yaml:1:8: error: name is missing in jobs\[0\]"):
        parse_job_file("jobs: [{}]\n", Path("sweep.yaml"))
