"""Python targets: finding the user's ModelTrainers, offline, and leaving the process as it was."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fairshare.config.jobs import JobSpec
from fairshare.model import FairshareError, InfeasibleError, NotFoundError, UsageError
from fairshare.trainer.payload import TrainerPayloads
from fairshare.trainer.targets import load_target

PRELUDE = """
from sagemaker.train import ModelTrainer
from sagemaker.train.configs import Compute, SourceCode

def make(name, **fields):
    return ModelTrainer(
        training_image="111122223333.dkr.ecr.us-west-2.amazonaws.com/train:1",
        base_job_name=name,
        compute=Compute(instance_type="ml.m5.large", instance_count=1),
        **fields,
    )
"""


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[JobSpec]]:
    """Write ``train_all.py`` in the working directory and load a target of it."""
    monkeypatch.chdir(tmp_path)

    def loader(code: str, target: str = "train_all.py:trainers", **arguments: Any) -> list[JobSpec]:
        (tmp_path / "train_all.py").write_text(PRELUDE + code)
        complete: dict[str, Any] = {"region": "us-west-2", "account_id": "111122223333", "bucket": "team-bucket"}
        return load_target(target, **(complete | arguments))

    return loader


Load = Callable[..., list[JobSpec]]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ('trainers = make("one", role="R")', ["one"]),
        ('trainers = [make("b", role="R"), make("a", role="R")]', ["b", "a"]),
        ('trainers = (make(f"t{i}", role="R") for i in range(3))', ["t0", "t1", "t2"]),
        ('def trainers():\n    return make("one", role="R")', ["one"]),
        ('def trainers():\n    for i in range(2):\n        yield make(f"g{i}", role="R")', ["g0", "g1"]),
    ],
)
def test_an_object_a_list_a_generator_or_a_function(load: Load, code: str, names: list[str]) -> None:
    specs = load(code)
    assert [spec.name for spec in specs] == names
    assert {spec.origin.file for spec in specs} == {"train_all.py"}
    assert all(spec.trainer.base_job_name == spec.name for spec in specs)


def test_a_module_is_found_from_the_working_directory_with_its_neighbours(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs_pkg").mkdir()
    (tmp_path / "jobs_pkg/__init__.py").write_text("")
    (tmp_path / "jobs_pkg/all.py").write_text("from train_all import make\ntrainers = [make('x', role='R')]\n")
    before = list(sys.path)
    (spec,) = load("", "jobs_pkg.all:trainers")
    for name in ("jobs_pkg", "jobs_pkg.all", "train_all"):
        monkeypatch.delitem(sys.modules, name)
    assert spec.name == "x"
    assert spec.origin.file == "jobs_pkg.all"
    assert sys.path == before


def test_a_file_elsewhere_imports_its_neighbours(load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/neighbour_of_target.py").write_text("NAME = 'from-neighbour'\n")
    (tmp_path / "deep/t.py").write_text(
        PRELUDE + "from neighbour_of_target import NAME\ntrainers = make(NAME, role='R')\n"
    )
    assert load("", "deep/t.py:trainers")[0].name == "from-neighbour"
    monkeypatch.delitem(sys.modules, "neighbour_of_target")


def test_roles_buckets_and_accounts_are_known_without_asking(load: Load) -> None:
    trainer = load(
        "from sagemaker.train import Session\n"
        "session = Session()\n"
        "assert session.default_bucket() == 'team-bucket'\n"
        "assert session.account_id() == '111122223333'\n"
        "assert session.boto_region_name == 'us-west-2'\n"
        "assert Session(default_bucket='mine').default_bucket() == 'mine'\n"
        "trainers = make('x', role='team/R', sagemaker_session=session)\n"
    )[0].trainer
    assert trainer.role == "arn:aws:iam::111122223333:role/team/R"
    assert trainer.output_data_config.s3_output_path == "s3://team-bucket/x"


def test_a_trainer_without_a_role_is_left_without_one(load: Load) -> None:
    assert load("trainers = make('x')")[0].trainer.role is None


def test_a_loaded_trainer_can_be_built(
    load: Load, make_payloads: Callable[..., TrainerPayloads], write: Callable[..., Path]
) -> None:
    write({"train.py": "print(1)"})
    (spec,) = load(
        "trainers = make('x', role='R', source_code=SourceCode(source_dir='src', entry_script='train.py'),"
        " hyperparameters={'amp': True})"
    )
    built = make_payloads().build(spec)
    assert built.payload["RoleArn"] == "arn:aws:iam::111122223333:role/R"
    assert built.payload["HyperParameters"] == {"amp": "true"}


def test_the_users_own_sts_follows_our_endpoint(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4000")
    load(
        "from sagemaker.core.helper import session_helper\n"
        "assert session_helper.sts_regional_endpoint('us-west-2') == 'http://127.0.0.1:4000'\n"
        "trainers = make('x', role='R')\n"
    )


def test_c18_the_users_own_clients_get_our_region(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    load(
        "import boto3\n"
        "assert boto3.client('s3').meta.region_name == 'eu-west-1'\n"
        "assert boto3.Session().region_name == 'eu-west-1'\n"
        "trainers = make('x', role='R')\n",
        region="eu-west-1",
    )
    assert os.environ["AWS_DEFAULT_REGION"] == "us-east-1"
    assert "AWS_REGION" not in os.environ


def test_everything_is_put_back(load: Load, sdk: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3
    from sagemaker.core.helper import session_helper
    from sagemaker.train.defaults import TrainDefaults

    def watched() -> list[object]:
        defaults = vars(TrainDefaults)
        return [
            *(defaults["get_role"], defaults["get_sagemaker_session"], boto3.DEFAULT_SESSION),
            *(vars(sdk.Session)["default_bucket"], vars(sdk.Session)["account_id"], vars(sdk.ModelTrainer)["train"]),
            *(session_helper.sts_regional_endpoint, dict(os.environ), list(sys.path)),
        ]

    before = watched()
    load("trainers = make('x', role='R')")
    with pytest.raises(UsageError):
        load("1 / 0")
    assert watched() == before


@pytest.mark.parametrize(
    ("code", "target", "kind", "message", "hint"),
    [
        ("", "train_all.py", UsageError, "train_all.py: which object of it?", "train_all.py:trainers"),
        ("", ":trainers", UsageError, ":trainers: which object of it?", "FILE.py:NAME"),
        ("", "gone.py:trainers", NotFoundError, "gone.py: no such file", "relative to the working directory"),
        ("", "no.such.module:x", NotFoundError, "no.such.module: no module named no", "install it"),
        ("trainer = 1", "train_all.py:trainers", NotFoundError, "there is no trainers in it", "did you mean trainer?"),
        ("", "train_all.py:xyz", NotFoundError, "there is no xyz in it", "it has make"),
        (
            "trainers = 'x'",
            "train_all.py:trainers",
            UsageError,
            "train_all.py:trainers must be a ModelTrainer, and is of type str",
            "ModelTrainer",
        ),
        (
            "trainers = {}",
            "train_all.py:trainers",
            UsageError,
            "train_all.py:trainers must be a ModelTrainer, and is of type dict",
            "ModelTrainer",
        ),
        ("trainers = []", "train_all.py:trainers", UsageError, "trainers: holds no ModelTrainer", "at least one"),
        (
            "trainers = [make('a', role='R'), make]",
            "train_all.py:trainers",
            UsageError,
            "train_all.py:trainers[1] must be a ModelTrainer, and is of type function",
            "sagemaker.train.ModelTrainer",
        ),
        (
            "def trainers():\n    return [1]",
            "train_all.py:trainers",
            UsageError,
            "train_all.py:trainers()[0] must be a ModelTrainer, and is of type int",
            "sagemaker.train.ModelTrainer",
        ),
        (
            "def trainers(n):\n    return n",
            "train_all.py:trainers",
            UsageError,
            "TypeError: trainers() missing 1 required positional argument: 'n'",
            "correct the module",
        ),
        (
            "raise SystemExit(3)",
            "train_all.py:trainers",
            UsageError,
            "ends the program (3) instead of giving ModelTrainers",
            '__name__ == "__main__"',
        ),
        (
            "import no_such_library",
            "train_all.py:trainers",
            UsageError,
            "ModuleNotFoundError: No module named 'no_such_library'",
            "correct the module",
        ),
        (
            "make('x', role='R').train()",
            "train_all.py:trainers",
            UsageError,
            "calls ModelTrainer.train() while it is loaded, which would go past the queue",
            '__name__ == "__main__"',
        ),
        (
            "from sagemaker.train.model_trainer import Mode\n"
            "trainers = make('x', training_mode=Mode.LOCAL_CONTAINER, local_container_root='.')",
            "train_all.py:trainers",
            InfeasibleError,
            "train_all.py:trainers has training_mode LOCAL_CONTAINER",
            "--local",
        ),
    ],
)
def test_what_is_wrong_with_a_target_is_told(
    load: Load, code: str, target: str, kind: type[FairshareError], message: str, hint: str
) -> None:
    with pytest.raises(kind) as caught:
        load(code, target)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("x = 1\n\ny = x / 0\n", "ZeroDivisionError: division by zero"),
        ("\n\nmake('x', role='R', colour='red')\n", "ValidationError: 1 validation error for ModelTrainer"),
        ("\n\ndef f(:\n", "SyntaxError: invalid syntax"),
        ("def trainers():\n    yield make('a', role='R')\n    raise OSError('no data')\n", "OSError: no data"),
    ],
)
def test_an_error_in_the_module_names_its_line(load: Load, tmp_path: Path, code: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(code)
    # a wrong call is told on the line of PRELUDE that makes it, the last one of the user's own code
    line = (
        PRELUDE.count("\n") + 3 if "colour" not in code else PRELUDE.splitlines().index("    return ModelTrainer(") + 1
    )
    assert caught.value.message.startswith(f"{tmp_path}/train_all.py:{line}: {message}")
    assert caught.value.__cause__ is not None
