"""Job files: what a good one becomes, and what a wrong one says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.job_file import load_job_file, parse_job_file
from fairshare.config.jobs import JobFile, JobSpec, Origin, SecretRef, WavesSpec
from fairshare.model import InvalidFileError

Read = Callable[[str], JobFile]
Problems = Callable[[str], list[str]]

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
            sweep={"lr": [0.1, 0.01], "seed": {"range": [0, 8]}},
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
    assert job(read_jobs, "sweep: {v: [3.9, 3.10], on: [yes, true]}").sweep == {
        "v": [3.9, "3.10"],
        "on": ["yes", True],
    }


@pytest.mark.parametrize("bounds", [[0, 8], [0, 8, 2], [8, 0, -1], [-3, 0]])
def test_ranges_are_kept_as_written(read_jobs: Read, bounds: list[int]) -> None:
    assert job(read_jobs, f"sweep: {{seed: {{range: {bounds}}}}}").sweep == {"seed": {"range": bounds}}


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
            "13 jobs[0].sweep.s: range must be 2 or 3 whole numbers | write [start, stop] or [start, stop, step]",
        ),
        (
            "sweep: {s: {range: [0, true]}}",
            "13 jobs[0].sweep.s: range must be 2 or 3 whole numbers | write [start, stop] or [start, stop, step]",
        ),
        (
            "sweep: {s: {range: 8}}",
            "13 jobs[0].sweep.s: range must be 2 or 3 whole numbers | write [start, stop] or [start, stop, step]",
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
    ],
)
def test_wrong_values_of_a_job(job_problems: Problems, line: str, expected: str) -> None:
    (problem,) = job_problems(f"jobs:\n  - name: digits\n    {line}\n")
    assert problem.startswith(f"3:{expected}")


@pytest.mark.parametrize("key", ["after", "resources", "retry"])
def test_keys_of_later_versions_are_refused_with_that_word(job_problems: Problems, key: str) -> None:
    assert job_problems(f"jobs:\n  - name: digits\n    {key}: [x]\n") == [
        f"3:5 not supported yet: {key} | remove it; a later version will know it"
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("waves: auto", "2:8 waves: not supported yet: auto | write {size: 8, interval: 90s}"),
        ("waves: 8", "2:8 waves: must be a mapping, not 8 | write {size: 8, interval: 90s}"),
        ("waves: {size: 0, interval: 90s}", "2:15 waves.size: must be at least 1, not 0"),
        ("waves: {size: 8}", "2:1 interval is missing in waves | write {size: 8, interval: 90s}"),
        (
            "waves: {size: 8, interval: 1:30}",
            '2:28 waves.interval: "1:30" is not a duration: 1:30 could be minutes or hours; write 1m30s or 1h30m',
        ),
    ],
)
def test_waves(job_problems: Problems, line: str, expected: str) -> None:
    assert job_problems(f"jobs: [{{name: a}}]\n{line}\n") == [expected]


@pytest.mark.parametrize(
    ("sweep", "key"), [("[{lr: 0.1}, {lr: 0.2}]", "a sweep written as a list"), ("{zip: {lr: [1], x: [2]}}", "zip")]
)
def test_other_forms_of_sweep_are_not_supported_yet(job_problems: Problems, sweep: str, key: str) -> None:
    assert job_problems(f"jobs:\n- name: a\n  sweep: {sweep}\n") == [
        f"3:3 jobs[0].sweep: not supported yet: {key} | write {{lr: [0.1, 0.01]}}: every combination"
    ]


def test_a_hyperparameter_may_be_called_zip(read_jobs: Read) -> None:
    assert job(read_jobs, "sweep: {zip: [1, 2]}").sweep == {"zip": [1, 2]}


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
            '1:1 unknown key "job" | did you mean jobs? (keys here: jobs, waves)',
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
