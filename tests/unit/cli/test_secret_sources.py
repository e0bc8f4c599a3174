from __future__ import annotations

from pathlib import Path

import pytest

from fairshare.cli.secret_sources import value_finder
from fairshare.config.jobs import SecretRef
from fairshare.model import UsageError

JOBS = """\
jobs:
  - name: a
    source: {dir: ., entry: a.py}
    environment: {API_KEY: in_the_file, HF_TOKEN: {from_env: HF_TOKEN}}
    hyperparameters: {password: 17}
  - name: b
    source: {dir: ., entry: a.py}
    environment: {API_KEY: of_another_job}
    sweep: {password: [1, two]}
"""


@pytest.fixture
def job_file(tmp_path: Path) -> str:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    return str(path)


def test_c46_a_reference_is_followed(tmp_path: Path, job_file: str) -> None:
    (tmp_path / "token").write_text("from the file\n")
    find = value_finder({"HF_TOKEN": "from the variable", "KEY": "not this"}, job_file)

    assert find("Environment", "KEY", SecretRef(from_env="HF_TOKEN")) == ["from the variable"]
    assert find("Environment", "KEY", SecretRef(from_file=str(tmp_path / "token"))) == ["from the file"]
    with pytest.raises(UsageError, match="environment KEY: the variable GONE is not set here"):
        find("Environment", "KEY", SecretRef(from_env="GONE"))


def test_c46_a_value_that_was_written_out_is_looked_for_where_it_may_stand(job_file: str) -> None:
    find = value_finder({"API_KEY": "from the variable"}, job_file)

    assert find("Environment", "API_KEY", SecretRef()) == ["from the variable", "in_the_file", "of_another_job"]
    assert find("HyperParameters", "password", SecretRef()) == ["17", "1", "two"]
    assert find("Environment", "HF_TOKEN", SecretRef()) == []
    assert find("Environment", "ELSE", SecretRef()) == []


def test_c46_a_value_of_a_raw_request_is_looked_for_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"Environment": {"API_KEY": "one"}}\n{"HyperParameters": {"password": "two"}}\n')
    find = value_finder({}, str(path))

    assert find("Environment", "API_KEY", SecretRef()) == ["one"]
    assert find("HyperParameters", "password", SecretRef()) == ["two"]
    assert find("HyperParameters", "API_KEY", SecretRef()) == []


@pytest.mark.parametrize("content", [None, "jobs: ["])
def test_c46_a_job_file_that_is_gone_or_broken_has_no_values(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "gone.yaml"
    if content is not None:
        path.write_text(content)

    assert value_finder({}, str(path))("Environment", "API_KEY", SecretRef()) == []
    assert value_finder({}, None)("Environment", "API_KEY", SecretRef()) == []
