from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest

from fairshare.local.processes import container
from fairshare.local.processes.container import JobDirectory
from fairshare.local.processes.localise import Localiser
from fairshare.local.processes.training_request import TrainingRequest, read_request


@pytest.fixture
def directory(tmp_path: Path) -> JobDirectory:
    return JobDirectory.create(tmp_path / "jobs", "digits")


@pytest.fixture
def localiser(directory: JobDirectory) -> Localiser:
    return Localiser(directory.root, directory.environment_file, 1)


def request(**fields: object) -> TrainingRequest:
    body = {
        "AlgorithmSpecification": {"ContainerEntrypoint": ["true"]},
        "OutputDataConfig": {"S3OutputPath": "s3://b"},
        "ResourceConfig": {"InstanceType": "ml.m5.large"},
    }
    return read_request("digits", {**body, **fields})


def test_a_job_directory_has_the_containers_folders(directory: JobDirectory) -> None:
    folders = sorted(p.relative_to(directory.root).as_posix() for p in directory.root.rglob("*"))
    assert folders == [
        *("checkpoints", "code", "input", "input/config", "input/data", "model", "output", "output/data"),
    ]
    assert directory.temporary.is_dir()
    assert directory.home.stat().st_mode & 0o777 == 0o700
    assert directory.environment_file.stat().st_mode & 0o777 == 0o600
    directory.discard()


def test_what_an_earlier_attempt_of_the_name_left_is_gone(tmp_path: Path, directory: JobDirectory) -> None:
    directory.log.write_text("old")
    directory.discard()
    again = JobDirectory.create(tmp_path / "jobs", "digits")
    assert not again.log.exists()
    again.discard()


def test_discarding_leaves_the_log(directory: JobDirectory) -> None:
    directory.log.write_text("line")
    directory.venv.mkdir()
    directory.discard()
    assert list(directory.home.iterdir()) == [directory.log]
    assert not directory.scratch.exists()
    directory.discard()


def test_keeping_leaves_the_jobs_files_and_nothing_temporary(directory: JobDirectory) -> None:
    (directory.model / "w").write_text("0.5")
    directory.keep()
    assert (directory.model / "w").exists()
    assert not directory.scratch.exists()
    container.discard_leftovers(directory.home.parent)
    assert (directory.model / "w").exists(), "kept files are no leftovers"


def test_a_path_that_breaks_scripts_is_kept_out_of_the_jobs_paths(tmp_path: Path) -> None:
    directory = JobDirectory.create(tmp_path / "my jobs", "digits")
    assert directory.private == directory.scratch
    assert " " not in str(directory.root)
    assert directory.log.parent == tmp_path / "my jobs" / "digits"
    container.discard_leftovers(tmp_path / "my jobs")
    assert not directory.scratch.exists()
    assert list(directory.home.iterdir()) == []


def test_leftovers_are_discarded_but_nothing_that_a_link_points_to_elsewhere(
    tmp_path: Path, directory: JobDirectory
) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (tmp_path / "jobs" / "odd").mkdir()
    (tmp_path / "jobs" / "odd" / "scratch").symlink_to(precious)
    container.discard_leftovers(tmp_path / "jobs")
    assert precious.exists()
    assert not directory.scratch.exists()
    assert not directory.root.exists()


def test_the_scratch_path_is_short_enough_for_sockets(directory: JobDirectory) -> None:
    socket = directory.temporary / "pymp-12345678" / "listener-12345678"
    assert len(str(socket)) - len(tempfile.gettempdir()) < 65
    directory.discard()


def test_the_failure_file_is_cut_to_what_sagemaker_returns(directory: JobDirectory) -> None:
    assert directory.failure() == ""
    (directory.root / "output" / "failure").write_bytes(b"\xff\n" + b"x" * 3000)
    assert directory.failure() == "�\n" + "x" * 1022
    directory.discard()


def test_under_mpi_the_host_is_localhost(directory: JobDirectory, localiser: Localiser) -> None:
    directory.drivers.mkdir()
    (directory.drivers / "sm_train.sh").write_text("python distributed_drivers/mpi_driver.py")
    container.write_configuration(directory, request(), localiser)
    config = json.loads((directory.root / "input" / "config" / "resourceconfig.json").read_text())
    assert (config["current_host"], config["hosts"]) == ("localhost", ["localhost"])
    directory.discard()


def test_jobs_inherit_an_allow_list() -> None:
    environ = {
        "PATH": "/bin",
        "LC_TIME": "C",
        "NVIDIA_VISIBLE_DEVICES": "0",
        "HF_TOKEN": "x",
        "AWS_PROFILE": "p",
        "A": "",
    }
    assert container.inherited_environment(environ) == {
        "PATH": "/bin",
        "LC_TIME": "C",
        "NVIDIA_VISIBLE_DEVICES": "0",
    }


def test_c44_devices_set_to_none_stay_none() -> None:
    assert container.inherited_environment({"CUDA_VISIBLE_DEVICES": ""}) == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(("cores", "threads"), [(1, "1"), (2, "1"), (8, "2"), (64, "16")])
def test_numerical_libraries_get_a_quarter_of_the_cores(cores: int, threads: str) -> None:
    assert container.default_environment(cores, 1)["OMP_NUM_THREADS"] == threads


def test_the_requests_environment_loses_only_its_aws_variables(localiser: Localiser, directory: JobDirectory) -> None:
    environment = {"HF_HOME": "/opt/ml/cache", "AWS_REGION": "eu-west-1", "TOKEN": "t"}
    assert container.requested_environment(request(Environment=environment), localiser) == {
        "HF_HOME": f"{directory.root}/cache",
        "TOKEN": "t",
    }
    directory.discard()
