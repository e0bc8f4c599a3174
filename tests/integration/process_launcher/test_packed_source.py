"""A source that travels as one archive: unpacked by the SDK's start script, with its exec bits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairshare.config.jobs import JobSpec, Origin
from fairshare.model import JobStatus
from fairshare.trainer.payload import TrainerPayloads

TRAIN = """
import os, pathlib, subprocess
from pkg.lib import WORD
said = subprocess.run(["./bin/tool", WORD], check=True, capture_output=True, text=True).stdout
(pathlib.Path(os.environ["SM_MODEL_DIR"]) / "model.txt").write_text(said)
"""


def test_c15_an_executable_is_executable_in_the_job(bench: Any, tmp_path: Path) -> None:
    source = tmp_path / "src"
    files = {"train.py": TRAIN, "pkg/lib.py": "WORD = 'packed'\n", "bin/tool": '#!/bin/sh\necho "tool says $1"\n'}
    for name, text in files.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (source / "bin/tool").chmod(0o755)
    payloads = TrainerPayloads(
        region="us-west-2",
        account_id="123456789012",
        bucket="training-data",
        boto_session=None,
        put_missing=lambda uploads: len([bench.put(each.s3_uri.split("/", 3)[3], each.body) for each in uploads]),
    )
    built = payloads.build(
        JobSpec(
            name="packed",
            origin=Origin("jobs.yaml"),
            source_dir=source,
            entry="train.py",
            instance_type="ml.m5.large",
            image="123456789012.dkr.ecr.us-west-2.amazonaws.com/train:1",
            role="MLTraining",
            max_runtime=600,
        )
    )
    payloads.upload(built.uploads)

    attempt = bench.start({**built.payload, "TrainingJobName": "packed"})
    report = bench.end(attempt)

    assert report.status is JobStatus.SUCCEEDED, "\n".join(bench.log(attempt))
    assert bench.unpack(report.model_artifact) == {"model.txt": "tool says packed\n"}
    assert built.source is not None
    assert (built.source.files, built.source.s3_uri.endswith(".tar.gz")) == (3, True)
