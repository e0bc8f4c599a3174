"""What the local AWS loads, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fairshare.local

HEAVY = ("moto", "boto3", "botocore", "werkzeug", "flask", "psutil", "sagemaker")
PLAIN = (
    "call_log",
    "driver",
    "environments",
    "errors",
    "execution",
    "guard",
    "job_queues",
    "launcher",
    "listing",
    "paging",
    "policies",
    "region",
    "runtime",
    "service_jobs",
    "signature",
    "simulated",
    "tagging",
    "training_jobs",
    "validation",
)


def test_the_rules_of_the_api_load_neither_moto_nor_boto3():
    imports = "\n".join(f"import fairshare.local.{name}" for name in PLAIN)
    script = f"{imports}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_no_file_is_longer_than_600_lines():
    folder = Path(fairshare.local.__file__).parent
    assert not [path.name for path in folder.rglob("*.py") if len(path.read_text().splitlines()) > 600]
