"""The main job, as a newcomer runs it: real processes, a real server, nothing left afterwards."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A TMPDIR of the test's own: everything the demo starts carries its name in arguments, environment or folder."""
    folder = tmp_path / "demo-tmp"
    folder.mkdir()
    return folder


class Demo:
    """A running demo whose stderr is read line by line."""

    def __init__(self, temporary: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "fairshare", "demo", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(temporary), "NO_COLOR": "1"},
        )
        self.talk: list[str] = []
        self._seen = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._seen:
                self.talk.append(line)
                self._seen.notify_all()

    def wait_for(self, text: str) -> None:
        with self._seen:
            assert self._seen.wait_for(lambda: any(text in line for line in self.talk), timeout=60), "".join(self.talk)

    def end(self) -> str:
        """Return stdout once the process has ended."""
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        self.process.wait(timeout=90)
        self._reader.join(timeout=10)
        self.process.stdout.close()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return out

    @property
    def port(self) -> int:
        match = re.search(r"http://127\.0\.0\.1:(\d+)", "".join(self.talk))
        assert match is not None, "".join(self.talk)
        return int(match[1])


def left_over(temporary: Path) -> list[str]:
    """Processes that belong to the demo in that temporary folder."""
    return [text for text in _processes() if str(temporary) in text]


def _processes() -> Iterator[str]:
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid():
                yield " ".join([*process.cmdline(), process.cwd(), *map(str, process.environ().values())])
        except psutil.Error:
            continue


def assert_nothing_left(demo: Demo, temporary: Path) -> None:
    assert left_over(temporary) == []
    assert list(temporary.iterdir()) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", demo.port)) != 0, "the demo's port is still open"


def test_every_model_is_trained_and_its_accuracy_is_that_of_its_artefact(temporary: Path, tmp_path: Path) -> None:
    demo = Demo(temporary, "-o", "json", "--keep", str(tmp_path / "models"))
    document = json.loads(demo.end())
    assert demo.process.returncode == 0, "".join(demo.talk)
    assert (document["api_version"], document["kind"]) == ("fairshare/v1", "Demo")
    jobs = document["jobs"]
    assert len(jobs) == 12
    assert {job["status"] for job in jobs} == {"SUCCEEDED"}
    assert {job["wave"] for job in jobs} == {1, 2, 3}
    priorities = {(job["share_identifier"], job["scheduling_priority"]) for job in jobs}
    assert priorities == {("LOWPRI", 10), ("MIDPRI", 50), ("HIGHPRI", 80)}
    for job in jobs:
        archive = (tmp_path / "models" / f"{job['job_name']}.tar.gz").read_bytes()
        assert job["accuracy"] > 0.9
        assert job["accuracy"] == _measured_accuracy(archive)
        assert job["artifact"].startswith("s3://")
        assert job["artifact"].endswith("/output/model.tar.gz")
    shares = {share["share_identifier"]: share for share in document["shares"]}
    assert {name: share["jobs"] for name, share in shares.items()} == {"LOWPRI": 6, "MIDPRI": 3, "HIGHPRI": 3}
    assert shares["HIGHPRI"]["overtook"] > 0
    assert shares["LOWPRI"]["overtook"] == 0
    assert all(0 < share["cpu_mean_percent"] <= 100 for share in shares.values()), "measured by the launcher"
    assert_nothing_left(demo, temporary)


def _measured_accuracy(archive: bytes) -> float:
    """Load the model out of its archive and test it again on the same digits."""
    import joblib
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        stored = tar.extractfile("model.joblib")
        assert stored is not None
        model = joblib.load(io.BytesIO(stored.read()))
    images, labels = load_digits(return_X_y=True)
    _, images, _, labels = train_test_split(images / 16.0, labels, test_size=0.25, random_state=0, stratify=labels)
    return float(model.score(images, labels))


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_no_process_and_no_port(temporary: Path, number: signal.Signals, code: int) -> None:
    demo = Demo(temporary)
    demo.wait_for("RUNNING")
    assert len(left_over(temporary)) > 1, "the training script should be running"
    demo.process.send_signal(number)
    assert demo.end() == ""
    assert demo.process.returncode == code, "".join(demo.talk)
    assert_nothing_left(demo, temporary)
