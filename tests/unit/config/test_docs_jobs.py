"""docs/jobs.md: every example can be read, and every key is there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest

from fairshare.config.job_file import parse_job_file
from fairshare.config.job_sections import JobFileSection, JobSection

PAGE = (Path(__file__).parents[3] / "docs" / "jobs.md").read_text()
EXAMPLES = [textwrap.dedent(found) for found in re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL)]
OF_THE_RUN = {"waves", "limits", "max_in_flight"}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_can_be_read(example: str) -> None:
    key = example.split(":", 1)[0]
    if key in OF_THE_RUN:
        example = f"jobs: [{{name: a}}]\n{example}"
    elif key != "jobs":
        example = "jobs:\n- name: a\n" + textwrap.indent(example, "  ")

    assert parse_job_file(example, Path("jobs.yaml")).jobs


def test_every_key_is_explained() -> None:
    keys = {*JobSection.model_fields, *JobFileSection.model_fields} - {"jobs"}
    explained = {key for line in re.findall(r"^(`.*`)$", PAGE, re.MULTILINE) for key in re.findall(r"`(\w+)`", line)}

    assert explained == keys
