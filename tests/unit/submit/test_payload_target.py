"""Raw CreateTrainingJob requests: how they are read, and what is sent of them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fairshare.config.jobs import JobFile, JobSpec, Origin
from fairshare.config.project import Project
from fairshare.config.sweeps import read_sweep
from fairshare.model import InfeasibleError, InvalidFileError
from fairshare.submit.payload_target import build_from_payload, read_jobs, read_payloads
from fairshare.submit.prepare import prepare
from fairshare.submit.raw_fields import payload_findings
from fairshare.submit.requests import RunIdentity
from fairshare.submit.sweep import expand

REQUEST: dict[str, Any] = {
    "TrainingJobName": "digits",
    "RoleArn": "arn:aws:iam::111122223333:role/MLTraining",
    "AlgorithmSpecification": {"TrainingImage": "image", "TrainingInputMode": "File"},
    "OutputDataConfig": {"S3OutputPath": "s3://bucket/out"},
    "ResourceConfig": {"InstanceType": "ml.m5.large", "InstanceCount": 1, "VolumeSizeInGB": 30},
    "StoppingCondition": {"MaxRuntimeInSeconds": 600},
}


def read(text: str, name: str = "request.json") -> JobFile:
    return read_payloads(text, Path(name))


def one(**changes: Any) -> JobSpec:
    (spec,) = read(json.dumps(REQUEST | changes)).jobs
    return spec


def test_a_request_is_a_job_called_as_it_says() -> None:
    spec = one()

    assert (spec.name, spec.payload, spec.is_finished) == ("digits", REQUEST, True)


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ('{"TrainingJobName": "a"}\n', [("a", 1, 1)]),
        ('[{"TrainingJobName": "a"},\n {"TrainingJobName": "b"}]', [("a", 1, 2), ("b", 2, 2)]),
        ('{"TrainingJobName": "a"}\n\n{"TrainingJobName": "b"}\r\n', [("a", 1, 1), ("b", 3, 1)]),
        ('{\n  "TrainingJobName": "a"\n} {}', [("a", 1, 1), ("request", 3, 3)]),
        ("[ ]", []),
    ],
)
def test_objects_lists_and_lines(text: str, places: list[tuple[str, int, int]]) -> None:
    assert [(spec.name, spec.origin.line, spec.origin.column) for spec in read(text).jobs] == places


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "request.json:1:1: error: holds no training request"),
        ('{"a": }', "request.json:1:7: error: is not JSON: Expecting value"),
        ('{"a": 1}\n[2]', "request.json:2:1: error: must be a training request, as a JSON object"),
        ("[{}, 3]", "request.json:1:6: error: must be a training request, as a JSON object"),
        ("[{} {}]", "request.json:1:5: error: expected a comma or the end of the list"),
        ("[{}, {}", "request.json:1:8: error: expected a comma or the end of the list"),
        ("[{}] {}", "request.json:1:4: error: something follows the list"),
        ('{"a": 1, "a": 2}', 'request.json:1:1: error: duplicate key "a"'),
        ('{"a": NaN}', "request.json:1:1: error: NaN is not JSON"),
        (
            '{"serviceRequestPayload": "{}"}',
            "request.json:1:1: error: is a request of SubmitServiceJob, not of CreateTrainingJob",
        ),
    ],
)
def test_what_is_not_a_request_is_told_with_its_place(text: str, expected: str) -> None:
    with pytest.raises(InvalidFileError) as caught:
        read(text)
    assert str(caught.value).startswith(expected)
    assert caught.value.problems[0].hint


def test_name_and_tags_are_taken_out_and_the_rest_is_sent_as_it_is() -> None:
    built = build_from_payload(one(Tags=[{"Key": "team", "Value": "search"}], Environment={"A": "1"}))

    assert built.payload == {**{k: v for k, v in REQUEST.items() if k != "TrainingJobName"}, "Environment": {"A": "1"}}
    assert built.tags == {"team": "search"}
    assert (built.uploads, built.warnings) == ((), ())


def test_sweeps_arrays_and_flags_vary_the_request() -> None:
    spec = one(HyperParameters={"epochs": "3", "lr": "9"}, CheckpointConfig={"S3Uri": "s3://b/c/", "LocalPath": "/c"})
    spec = replace(spec, sweep=read_sweep({"lr": [0.1, 1e-05]}), array=2)

    built = [build_from_payload(job).payload for job in expand(spec)]

    assert [payload["HyperParameters"] for payload in built[1:3]] == [
        {"epochs": "3", "lr": "0.1"},
        {"epochs": "3", "lr": "1e-05"},
    ]
    assert built[3]["Environment"] == {"FAIRSHARE_ARRAY_INDEX": "1", "FAIRSHARE_ARRAY_SIZE": "2"}
    assert built[3]["CheckpointConfig"] == {"S3Uri": "s3://b/c/digits-lr1e-05-1/", "LocalPath": "/c"}


def test_c20_a_request_without_a_limit_is_told() -> None:
    (warning,) = build_from_payload(one(StoppingCondition={})).warnings

    assert warning.startswith("no StoppingCondition.MaxRuntimeInSeconds given: the job may run for 24h (86400 s)")


def test_a_request_is_checked_for_its_shape_and_what_it_lacks() -> None:
    wrong = {**REQUEST, "RoleArn": None, "ResourceConfig": [], "Rolearn": "x", "Tags": [{"key": "a"}]}

    found = {(finding.severity, finding.at, finding.message) for finding in payload_findings(wrong)}

    assert found == {
        ("error", ("RoleArn",), "RoleArn is missing in the training request"),
        ("error", ("ResourceConfig",), "ResourceConfig must be a map"),
        ("warning", ("Rolearn",), "Rolearn is no field of CreateTrainingJob that we know"),
        ("error", ("Tags",), "Tags must be a list of {Key: ..., Value: ...}"),
    }
    assert list(payload_findings(REQUEST)) == []


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("jobs: [{name: a}, {name: b}]", ["a", "b"]),
        ('{"jobs": [{"name": "a"}]}', ["a"]),
        ("{jobs: [{name: a}]}", ["a"]),
        ('\n {"TrainingJobName": "raw"}', ["raw"]),
        ('[{"TrainingJobName": "raw"}]', ["raw"]),
    ],
)
def test_job_files_and_requests_are_told_apart_by_content(text: str, names: list[str]) -> None:
    assert [spec.name for spec in read_jobs(text, Path("<stdin>")).jobs] == names


def test_json_with_a_mistake_is_told_as_json() -> None:
    with pytest.raises(InvalidFileError, match=r"^<stdin>:1:17: error: is not JSON: Expecting ',' delimiter"):
        read_jobs('{"RoleArn": "x" ]', Path("<stdin>"))


def test_paths_of_a_job_file_from_elsewhere_are_relative_to_a_given_directory(tmp_path: Path) -> None:
    (spec,) = read_jobs("jobs: [{name: a, source: src/train.py}]", Path("<stdin>"), folder=tmp_path).jobs

    assert spec.source_dir == tmp_path / "src"
    assert spec.origin == Origin("<stdin>", 1, 8)


def test_everything_wrong_with_a_request_is_told_at_once_and_the_sdk_is_not_asked(
    payloads: Any, project: Project, identity: RunIdentity
) -> None:
    wrong = {**REQUEST, "RoleArn": None, "Environment": {"A": 3, "B-C": "x"}, "HyperParameters": {"n": [1]}}
    spec = replace(read(json.dumps(wrong)).jobs[0], queue="gpu", share="NOPE")

    with pytest.raises(InvalidFileError) as caught:
        prepare([spec], identity=identity, payloads=payloads, project=project)

    assert {problem.key for problem in caught.value.problems} == {
        "RoleArn",
        "environment.A",
        "environment.B-C",
        "hyperparameters.n",
        "share",
    }
    assert payloads.built == []


def test_c16_the_demand_of_a_request_is_checked(payloads: Any, project: Project, identity: RunIdentity) -> None:
    spec = replace(
        one(ResourceConfig={"InstanceType": "ml.g6.12xlarge", "InstanceCount": 17}), queue="gpu", share="LOWPRI"
    )

    with pytest.raises(InfeasibleError, match="it needs 17 instances at once and queue gpu has 16"):
        prepare([spec], identity=identity, payloads=payloads, project=project)


def test_tags_of_the_request_win_over_those_of_the_project(
    payloads: Any, project: Project, identity: RunIdentity
) -> None:
    spec = replace(one(Tags=[{"Key": "team", "Value": "mine"}]), queue="batch")
    project = project.model_copy(update={"tags": {"team": "search", "cost": "1"}})
    machine = {"InstanceType": "ml.c5.2xlarge", "InstanceCount": 1}
    spec = replace(spec, payload={**(spec.payload or {}), "ResourceConfig": machine})

    (job,) = prepare([spec], identity=identity, payloads=payloads, project=project).jobs

    assert (job.request.tags["team"], job.request.tags["cost"]) == ("mine", "1")
    assert json.loads(job.request.payload)["ResourceConfig"] == machine
