"""SageMaker's training-container contract in a directory of this machine.

What a container finds below ``/opt/ml``, in which files and environment variables:
https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fairshare.local.processes.localise import Localiser, is_safe_path, uses_mpi
from fairshare.local.processes.training_request import CODE_CHANNEL, SDK_CHANNEL, TrainingRequest

if TYPE_CHECKING:
    from fairshare.local.endpoint import LocalEndpoint

PASSED_ON: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}
)
"""Variables of the local AWS that a training job gets; all others (tokens, credentials, proxies) it does not."""

PASSED_ON_PREFIXES: Final = ("LC_", "CUDA_", "NVIDIA_")

_SCRATCH_PREFIX = "fairshare-"
_SCRATCH_LINK = "scratch"
_FOLDERS = ("input/config", "input/data", "model", "output/data", "checkpoints", "code")


@dataclass(frozen=True)
class JobDirectory:
    """Where one attempt lives.

    ``home`` (below the jobs directory) keeps the log. ``private`` holds what only the running job needs; it is
    ``home``, or ``scratch`` when the path of ``home`` has characters that SageMaker's start script cannot take.
    ``scratch`` lies in the system's temporary directory and holds the job's own: Python's multiprocessing puts sockets
    there, and the path of a socket is limited to about 100 characters.
    """

    home: Path
    private: Path
    scratch: Path

    @classmethod
    def create(cls, jobs_dir: Path, name: str) -> JobDirectory:
        """Make the directory of an attempt anew; what an earlier one of that name left is removed."""
        home = jobs_dir / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700, parents=True)
        scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH_PREFIX)).resolve()
        (home / _SCRATCH_LINK).symlink_to(scratch)
        directory = cls(home, home if is_safe_path(home) else scratch, scratch)
        for folder in _FOLDERS:
            (directory.root / folder).mkdir(parents=True)
        directory.temporary.mkdir()
        directory.environment_file.touch(mode=0o600)
        return directory

    @property
    def root(self) -> Path:
        """In place of ``/opt/ml``."""
        return self.private / "ml"

    @property
    def log(self) -> Path:
        """The job's output."""
        return self.home / "log"

    @property
    def temporary(self) -> Path:
        """For ``TMPDIR``."""
        return self.scratch / "tmp"

    @property
    def venv(self) -> Path:
        """The job's own virtual environment."""
        return self.private / "venv"

    @property
    def environment_file(self) -> Path:
        """In place of ``/etc/environment``."""
        return self.private / "environment"

    @property
    def data(self) -> Path:
        """Holds one directory per channel."""
        return self.root / "input" / "data"

    @property
    def drivers(self) -> Path:
        """The job's copy of the SDK's drivers."""
        return self.data / SDK_CHANNEL

    @property
    def code(self) -> Path:
        """The job's copy of the user's source directory."""
        return self.data / CODE_CHANNEL

    @property
    def working(self) -> Path:
        """Working directory of the container's first process."""
        return self.root / "code"

    @property
    def model(self) -> Path:
        """What the job leaves here becomes ``model.tar.gz``."""
        return self.root / "model"

    @property
    def output_data(self) -> Path:
        """What the job leaves here becomes ``output.tar.gz``."""
        return self.root / "output" / "data"

    def failure(self) -> str:
        """The first 1024 characters of ``/opt/ml/output/failure``, where a job says why it failed; empty without it."""
        try:
            return (self.root / "output" / "failure").read_text(encoding="utf-8", errors="replace").strip()[:1024]
        except OSError:
            return ""

    def discard(self) -> None:
        """Remove everything but the log."""
        for path in (self.root, self.venv, self.scratch):
            shutil.rmtree(path, ignore_errors=True)
        for path in (self.environment_file, self.home / _SCRATCH_LINK):
            path.unlink(missing_ok=True)

    def keep(self) -> None:
        """Keep the files of the job (its artefacts could not be uploaded) for the user to rescue."""
        shutil.rmtree(self.temporary if self.private == self.scratch else self.scratch, ignore_errors=True)
        (self.home / _SCRATCH_LINK).unlink(missing_ok=True)


def discard_leftovers(jobs_dir: Path) -> None:
    """Discard what attempts left whose launcher was killed: their directories still have the link to the scratch."""
    for link in jobs_dir.glob(f"*/{_SCRATCH_LINK}"):
        scratch = link.resolve()
        is_ours = scratch.parent == Path(tempfile.gettempdir()).resolve() and scratch.name.startswith(_SCRATCH_PREFIX)
        if link.is_symlink() and is_ours:
            home = link.parent
            JobDirectory(home, home if is_safe_path(home) else scratch, scratch).discard()


def write_configuration(directory: JobDirectory, request: TrainingRequest, localiser: Localiser) -> None:
    """Write ``hyperparameters.json``, ``inputdataconfig.json`` and ``resourceconfig.json``.

    ``/opt/ml`` in the value of a hyperparameter (``model_dir: /opt/ml/model``) becomes the job's directory. The host is
    called ``algo-1``, as in SageMaker, but ``localhost`` under MPI, which must be able to resolve it.
    """
    host = "localhost" if uses_mpi(directory.drivers) else "algo-1"
    group = {"instance_group_name": "homogeneousCluster", "instance_type": request.instance_type, "hosts": [host]}
    files: dict[str, Any] = {
        "hyperparameters": {name: localiser.text(value) for name, value in request.hyperparameters.items()},
        "inputdataconfig": {
            channel.name: {
                **({"ContentType": channel.content_type} if channel.content_type else {}),
                "TrainingInputMode": "File",
                "S3DistributionType": "FullyReplicated",
                "RecordWrapperType": "None",
            }
            for channel in request.channels
        },
        "resourceconfig": {
            "current_host": host,
            "current_instance_type": request.instance_type,
            "current_group_name": group["instance_group_name"],
            "hosts": [host],
            "instance_groups": [group],
            "network_interface_name": "lo",
        },
    }
    for name, content in files.items():
        (directory.root / "input" / "config" / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def inherited_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that training jobs inherit from the local AWS: an allow-list, so that no secret does."""
    return {name: value for name, value in environ.items() if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)}


def default_environment(cores: int, free_port: int) -> dict[str, str]:
    """Return variables that the request's ``Environment`` may override.

    ``OMP_NUM_THREADS`` is a quarter of the cores: several jobs run at once, and numerical libraries that each start one
    spinning thread per core bring a small machine to a standstill. ``PET_MASTER_PORT`` keeps two torchrun jobs apart.
    """
    return {
        "PYTHONUNBUFFERED": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_INPUT": "1",
        "OMP_NUM_THREADS": str(max(1, cores // 4)),
        "PET_MASTER_PORT": str(free_port),
        "NO_PROXY": "127.0.0.1,localhost",
    }


def requested_environment(request: TrainingRequest, localiser: Localiser) -> dict[str, str]:
    """Return the request's ``Environment`` with ``/opt/ml`` replaced.

    Variables that begin with ``AWS_`` are left out: they are meant for the cloud, and what runs here talks to the local
    AWS only.
    """
    return {n: localiser.text(value) for n, value in request.environment.items() if not n.startswith("AWS_")}


def aws_environment(endpoint: LocalEndpoint, region: str) -> dict[str, str]:
    """Return the variables that send every AWS client of the job to the local AWS, whatever the user's files say."""
    return {
        "AWS_ENDPOINT_URL": endpoint.url,
        "AWS_ACCESS_KEY_ID": endpoint.access_key_id,
        "AWS_SECRET_ACCESS_KEY": endpoint.secret_access_key,
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
