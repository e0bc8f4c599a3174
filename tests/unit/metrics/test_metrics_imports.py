"""What the metrics load, and when."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import fairshare.metrics

HEAVY = ("boto3", "botocore", "moto", "sagemaker", "matplotlib", "numpy", "rich")


def test_the_core_loads_neither_aws_nor_anything_that_draws():
    modules = [path.stem for path in Path(fairshare.metrics.__file__).parent.glob("*.py") if path.stem != "__init__"]
    imports = "\n".join(f"import fairshare.metrics.{name}" for name in modules)
    script = f"{imports}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
