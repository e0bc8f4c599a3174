"""A complete project file to vary, and the problems of a file as short lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairshare.config.job_file import parse_job_file
from fairshare.config.jobs import JobFile
from fairshare.config.project import Project, parse_project
from fairshare.model import InvalidFileError

PROJECT = """\
version: 1
stack: search-ml
region: us-west-2
service_environments:
  gpu: {capacity: 16, instance_types: [ml.g6.12xlarge]}
  cpu: {capacity: 8, instance_types: [ml.c5.2xlarge]}
queues:
  gpu:
    service_environment: gpu
    priority: 10
    fairshare:
      share_decay_seconds: 3600
      compute_reservation: 0
      shares:
        HIGHPRI: {weight_factor: 1}
        MIDPRI: {weight_factor: 3}
        LOWPRI: {weight_factor: 5}
  batch: {service_environment: cpu, fifo: true}
defaults: {queue: gpu, share: LOWPRI, priority: 10, role: MLTraining, image: my-image-uri, max_runtime: 24h}
alarms: {}
"""


def _problem_lines(read: Callable[[str, Path], object], text: str) -> list[str]:
    try:
        read(text, Path("file.yaml"))
    except InvalidFileError as error:
        return [f"{p.line}:{p.column} {p.message}" + (f" | {p.hint}" if p.hint else "") for p in error.problems]
    return []


@pytest.fixture
def project_text() -> str:
    return PROJECT


@pytest.fixture
def vary() -> Callable[..., str]:
    """The project file with pieces replaced; each piece must be in it exactly once."""

    def varied(*replacements: tuple[str, str]) -> str:
        text = PROJECT
        for old, new in replacements:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        return text

    return varied


@pytest.fixture
def with_shares() -> Callable[[str], str]:
    """A small project file whose one queue has the shares given as a YAML flow mapping, on line 7."""

    def project(shares: str) -> str:
        return (
            "version: 1\nstack: s\nservice_environments:\n  gpu: {capacity: 4, instance_types: [ml.g6.xlarge]}\n"
            f"queues:\n  gpu: {{service_environment: gpu, fairshare: {{shares:\n{shares} }}}}\n"
        )

    return project


@pytest.fixture
def read_project() -> Callable[[str], Project]:
    return lambda text: parse_project(text, Path("file.yaml"))


@pytest.fixture
def project_problems() -> Callable[[str], list[str]]:
    return lambda text: _problem_lines(parse_project, text)


@pytest.fixture
def read_jobs(tmp_path: Path) -> Callable[[str], JobFile]:
    """Reads a job file that lies in ``tmp_path``."""
    return lambda text: parse_job_file(text, tmp_path / "jobs.yaml")


@pytest.fixture
def job_problems() -> Callable[[str], list[str]]:
    return lambda text: _problem_lines(parse_job_file, text)
