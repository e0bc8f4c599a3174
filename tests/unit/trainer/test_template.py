"""`fairshare.trainer.template`, and what `TrainerPayloads` makes of it: the SDK is asked once for each kind of job."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec, Origin, SecretRef
from fairshare.model import InfeasibleError, UsageError
from fairshare.trainer.payload import TrainerPayloads
from fairshare.trainer.template import KEPT, Point, Template, Templates

MakePayloads = Callable[..., TrainerPayloads]
MakeSpec = Callable[..., JobSpec]
OwnTrainer = Callable[..., Any]

ONE = Point({"lr": "0.1"}, {"A": "1"}, "s3://b/one/", {"owner": "me"})
TWO = Point({"lr": "0.2", "seed": "1"}, {"B": ""}, "s3://b/two/", {"owner": "you"})


def request_at(point: Point, **more: Any) -> dict[str, Any]:
    """What an SDK that only copies makes of a point."""
    return {
        "HyperParameters": dict(point.hyperparameters),
        "Environment": dict(point.environment),
        "CheckpointConfig": {"S3Uri": point.checkpoint, "LocalPath": "/opt/ml/checkpoints"},
        "Tags": [{"Key": key, "Value": value} for key, value in (point.tags or {}).items()],
        "RoleArn": "role",
        **more,
    }


def test_a_template_is_varied_in_its_point_and_left_as_it_was() -> None:
    template = Template(request_at(ONE), ONE)
    assert template.at(TWO) == request_at(TWO)
    assert template.at(ONE) == request_at(ONE)


def test_what_a_point_does_not_give_stays_as_the_sdk_made_it() -> None:
    bare = Point({}, {})
    request = {"HyperParameters": {}, "Environment": {"FROM": "defaults"}, "Tags": [{"Key": "team", "Value": "x"}]}
    assert Template(request, bare).at(Point({}, {})) == request
    assert "CheckpointConfig" not in Template(request, bare).at(bare)


def test_a_kind_is_built_once_for_points_that_give_the_same() -> None:
    templates, builds = Templates(), []

    def template_at(kind: object, point: Point) -> Template:
        return templates.get(kind, point, lambda: builds.append(point) or Template(request_at(point), point))

    assert template_at("kind", ONE).at(TWO) == template_at("kind", TWO).at(TWO)
    assert builds == [ONE]
    without = replace(ONE, environment={})
    template_at("kind", without)
    template_at("other kind", ONE)
    assert builds == [ONE, without, ONE], "without an environment, the user's defaults may fill one in"


def test_what_the_sdk_did_not_only_copy_is_built_for_each_point() -> None:
    templates, builds = Templates(), []

    def build(point: Point) -> Template:
        builds.append(point)
        return Template(request_at(point) | {"HyperParameters": {**point.hyperparameters, "mp": "added"}}, point)

    for point in (ONE, TWO):
        template = templates.get("kind", point, lambda point=point: build(point))
        assert template.at(point)["HyperParameters"] == {**point.hyperparameters, "mp": "added"}
    assert builds == [ONE, TWO]


def test_what_is_wrong_with_a_kind_is_found_once_and_told_of_each_point() -> None:
    templates, builds = Templates(), []

    def build() -> Template:
        builds.append(1)
        raise InfeasibleError("no such launcher", hint="use another")

    for point in (ONE, TWO):
        with pytest.raises(InfeasibleError, match=r"^no such launcher$") as caught:
            templates.get("kind", point, build)
        assert caught.value.hint == "use another"
    assert builds == [1]


def test_an_object_that_changes_after_its_template_was_made_is_another_kind() -> None:
    templates, builds = Templates(), []
    kind = {"instances": [1]}
    for _ in range(2):
        templates.get(kind, ONE, lambda: builds.append(1) or Template(request_at(ONE), ONE))
        kind["instances"].append(2)
    assert builds == [1, 1]


def test_only_the_latest_templates_are_kept() -> None:
    templates, builds = Templates(), []
    for kind in (*range(KEPT + 1), KEPT, 0):
        templates.get(kind, ONE, lambda kind=kind: builds.append(kind) or Template(request_at(ONE), ONE))
    assert builds == [*range(KEPT + 1), 0]


# ---------------------------------------------------------------------------------------------------------------------
# With the SDK


@pytest.fixture
def builds(sdk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Fill with the name of each trainer that the SDK is asked for a request of."""
    asked: list[str] = []
    ask = sdk.ModelTrainer._create_training_job_args

    def counted(trainer: Any, **options: Any) -> Any:
        asked.append(trainer.base_job_name)
        return ask(trainer, **options)

    monkeypatch.setattr(sdk.ModelTrainer, "_create_training_job_args", counted)
    return asked


def test_a_thousand_points_cost_one_build(make_payloads: MakePayloads, make_spec: MakeSpec, builds: list[str]) -> None:
    payloads, spec = make_payloads(), make_spec(checkpoint="s3://b/c/")
    built = [
        payloads.build(replace(spec, name=f"digits-{n}", hyperparameters={"seed": n}, checkpoint=f"s3://b/c/{n}/"))
        for n in range(1_000)
    ]
    assert builds == ["digits-0"]
    assert [each.payload["HyperParameters"]["seed"] for each in built] == [str(n) for n in range(1_000)]
    assert built[7].payload["CheckpointConfig"] == {"S3Uri": "s3://b/c/7/", "LocalPath": "/opt/ml/checkpoints"}
    assert {id(upload.body) for each in built for upload in each.uploads} == {id(u.body) for u in built[0].uploads}


def test_points_share_nothing_that_can_be_changed(make_payloads: MakePayloads, make_spec: MakeSpec) -> None:
    payloads, spec = make_payloads(), make_spec()
    first: Any = payloads.build(spec).payload
    before = json.dumps(first)
    first["ResourceConfig"]["InstanceCount"] = 99
    first["InputDataConfig"].clear()
    assert json.dumps(payloads.build(spec).payload) == before


@pytest.mark.parametrize(
    "change",
    [
        {"instance_type": "ml.m5.xlarge"},
        {"instance_count": 2},
        {"image": "111122223333.dkr.ecr.us-west-2.amazonaws.com/train:2"},
        {"role": "Other"},
        {"max_runtime": 700},
        {"inputs": {"train": "s3://data/train/"}},
        {"output": "s3://elsewhere/"},
        {"launcher": {"torchrun": {}}},
        {"entry": "lib.py"},
        {"volume_size_gb": 70},
        {"network": {"subnets": ["subnet-1"], "security_groups": ["sg-1"]}},
        {"environment": {"A": "1"}},
        {"hyperparameters": {"lr": 1}},
        {"checkpoint": "s3://b/c/"},
        {"tags": {"a": "b"}},
        {"metrics": {"loss": "loss=([0-9.]+)"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_a_request_is_built_from_makes_another_kind(
    make_payloads: MakePayloads, make_spec: MakeSpec, builds: list[str], change: dict[str, Any]
) -> None:
    payloads = make_payloads()
    payloads.build(make_spec())
    changed = payloads.build(make_spec(**change))
    assert len(builds) == 2
    assert changed == make_payloads().build(make_spec(**change))


def test_what_batch_alone_needs_to_know_makes_no_other_kind(
    make_payloads: MakePayloads, make_spec: MakeSpec, builds: list[str]
) -> None:
    payloads = make_payloads()
    base = payloads.build(make_spec())
    other = payloads.build(
        make_spec(name="other", queue="cpu", share="LOWPRI", priority=0, origin=Origin("b.yaml", 9), sweep=None)
    )
    assert builds == ["digits"]
    assert other == base


def test_raw_fields_are_merged_into_each_point(
    make_payloads: MakePayloads, make_spec: MakeSpec, builds: list[str]
) -> None:
    payloads = make_payloads()
    plain = payloads.build(make_spec())
    raw = payloads.build(make_spec(training_job={"EnableNetworkIsolation": True, "Tags": [{"Key": "k", "Value": "v"}]}))
    assert (raw.payload["EnableNetworkIsolation"], raw.tags) == (True, {"k": "v"})
    assert "EnableNetworkIsolation" not in plain.payload
    assert builds == ["digits"]


def test_a_bad_point_is_told_and_the_others_are_built(
    make_payloads: MakePayloads, make_spec: MakeSpec, builds: list[str]
) -> None:
    payloads = make_payloads()
    payloads.build(make_spec(hyperparameters={"lr": 1}))
    with pytest.raises(InfeasibleError, match="hyperparameter lr: its value holds a '"):
        payloads.build(make_spec(hyperparameters={"lr": "it's"}))
    with pytest.raises(UsageError, match="hyperparameter lr is nan: JSON has no NaN"):
        payloads.build(make_spec(hyperparameters={"lr": float("nan")}))
    assert payloads.build(make_spec(hyperparameters={"lr": 2})).payload["HyperParameters"] == {"lr": "2"}
    assert builds == ["digits"]


def test_what_the_sdk_refuses_is_asked_once(
    make_payloads: MakePayloads, make_spec: MakeSpec, sdk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def refuse(trainer: Any, **_: Any) -> None:
        asked.append(trainer.base_job_name)
        raise ValueError("not like this")

    monkeypatch.setattr(sdk.ModelTrainer, "_create_training_job_args", refuse)
    payloads = make_payloads()
    for seed in range(3):
        with pytest.raises(UsageError, match=r"^the SageMaker SDK refuses the job: not like this$"):
            payloads.build(make_spec(hyperparameters={"seed": seed}))
    assert asked == ["digits"]


def test_c48_a_secret_is_read_once_for_all_jobs(
    make_payloads: MakePayloads, make_spec: MakeSpec, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("first\n")
    payloads = make_payloads()
    environment = {"HF_TOKEN": SecretRef(from_file=str(secret))}
    payloads.build(make_spec(environment=environment))
    secret.write_text("second\n")
    element = payloads.build(make_spec(environment={**environment, "FAIRSHARE_ARRAY_INDEX": "1"}))
    assert element.payload["Environment"] == {"HF_TOKEN": "first", "FAIRSHARE_ARRAY_INDEX": "1"}
    assert element.secret_environment == ("HF_TOKEN",)


def test_a_generator_of_own_trainers_costs_one_build(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, builds: list[str]
) -> None:
    payloads = make_payloads()
    trainers = [own_trainer(hyperparameters={"lr": lr}, environment={"N": str(lr)}) for lr in (0.1, 0.2, 0.3)]
    built = [payloads.build(JobSpec(name="own", origin=Origin("t.py"), trainer=trainer)) for trainer in trainers]
    assert builds == ["own"]
    assert [each.payload["HyperParameters"] for each in built] == [{"lr": "0.1"}, {"lr": "0.2"}, {"lr": "0.3"}]
    assert [each.payload["Environment"] for each in built] == [{"N": "0.1"}, {"N": "0.2"}, {"N": "0.3"}]


def test_an_own_trainer_that_was_changed_in_between_is_built_again(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, builds: list[str]
) -> None:
    payloads, trainer = make_payloads(), own_trainer()
    spec = JobSpec(name="own", origin=Origin("t.py"), trainer=trainer)
    payloads.build(spec)
    trainer.compute.instance_count = 4
    assert payloads.build(spec).payload["ResourceConfig"]["InstanceCount"] == 4
    trainer.with_metric_definitions([])
    payloads.build(spec)
    assert len(builds) == 3


def test_own_trainers_without_a_checkpoint_uri_never_share_one(
    make_payloads: MakePayloads, own_trainer: OwnTrainer, sdk: SimpleNamespace, builds: list[str]
) -> None:
    """At one instant, too: jobs that share a prefix resume from each other's checkpoints."""
    payloads = make_payloads()
    trainers = [own_trainer(checkpoint_config=sdk.configs.CheckpointConfig()) for _ in range(2)]
    uris = [
        payloads.build(JobSpec(name="own", origin=Origin("t.py"), trainer=trainer)).payload["CheckpointConfig"]["S3Uri"]
        for trainer in trainers
    ]
    assert uris == [f"s3://team-bucket/fairshare/checkpoints/own-170000000000{n}" for n in (0, 1)]
    assert builds == ["own"]
    assert not trainers[0].checkpoint_config.s3_uri
