"""The log of calls and the bodies of objects on the disk."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fairshare.local.write_log import BodyFiles, WriteLog, put_aside
from fairshare.model import FairshareError, InvalidFileError

RESTART = "`fairshare local start --fresh` puts the old state aside and begins from empty"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


def written(path: Path, count: int) -> bytes:
    """Write so many records, and return what the file holds."""
    log = WriteLog(path)
    for number in range(count):
        log.append("call", {"at": number, "text": "Füße\n"})
    log.sync()
    log.close()
    return path.read_bytes()


def read(path: Path) -> list[int]:
    log = WriteLog(path)
    try:
        return [record["at"] for _, record in log.read()]
    finally:
        log.close()


def test_what_was_synced_is_read_with_its_lines(path):
    written(path, 2)
    log = WriteLog(path)
    records = list(log.read())
    assert [(number, record["type"], record["at"], record["text"]) for number, record in records] == [
        (2, "call", 0, "Füße\n"),
        (3, "call", 1, "Füße\n"),
    ]
    assert log.next_seq == 3
    log.close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_seed_stays(path):
    first = WriteLog(path)
    first.close()
    again, other = WriteLog(path), WriteLog(path.with_name("other"))
    assert again.seed == first.seed != other.seed
    again.close()
    other.close()


def test_a_log_cut_anywhere_is_whole_up_to_there_and_goes_on(path):
    content = written(path, 2)
    ends = [number + 1 for number, byte in enumerate(content) if byte == ord("\n")]
    for length in range(len(content) + 1):
        path.write_bytes(content[:length])
        whole = sum(end <= length for end in ends)
        assert read(path) == list(range(max(0, whole - 1)))
        log = WriteLog(path)
        list(log.read())
        log.append("call", {"at": 99})
        log.close()
        assert read(path)[-1] == 99


@pytest.mark.parametrize(
    ("line", "old", "new", "message"),
    [
        (1, b'"at":0', b'"at":7', "damaged log: its checksum is wrong"),
        (1, b'"crc"', b'"crd"', "damaged log: it is not a record of a journal"),
        (0, b'"seed":"', b'"seed":"0', "damaged log: its checksum is wrong"),
    ],
)
def test_damage_is_refused_with_its_line(path, line, old, new, message):
    lines = written(path, 3).splitlines(keepends=True)
    lines[line] = lines[line].replace(old, new)
    path.write_bytes(b"".join(lines))
    with pytest.raises(InvalidFileError) as refused:
        read(path)
    problem = refused.value.problems[0]
    assert (problem.file, problem.line, problem.message, problem.hint) == (str(path), line + 1, message, RESTART)


def test_a_missing_line_is_refused(path):
    lines = written(path, 3).splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(InvalidFileError, match="damaged log: seq is 3, expected 2"):
        read(path)


def test_a_log_of_another_format_is_refused(path, monkeypatch):
    monkeypatch.setattr("fairshare.local.write_log.FORMAT", 2)
    written(path, 1)
    monkeypatch.undo()
    with pytest.raises(InvalidFileError, match="it has format 2, this fairshare reads format 1"):
        WriteLog(path)


def test_threads_that_wait_for_the_disk_share_an_fsync(path, monkeypatch):
    log = WriteLog(path)
    list(log.read())
    entered, go_on = threading.Event(), threading.Event()
    syncs = []

    def fsync(file: int) -> None:
        syncs.append(file)
        entered.set()
        assert go_on.wait(10)

    monkeypatch.setattr("fairshare.local.write_log.os.fsync", fsync)
    log.append("call", {"at": 0})
    threads = [threading.Thread(target=log.sync)]
    threads[0].start()
    assert entered.wait(10)
    for at in range(1, 6):
        log.append("call", {"at": at})
        threads.append(threading.Thread(target=log.sync))
        threads[-1].start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert log.sync() == 7
    assert len(syncs) == 2
    log.close()


def test_after_a_failed_write_nothing_is_added(path, monkeypatch):
    log = WriteLog(path)
    list(log.read())
    with monkeypatch.context() as patched:
        patched.setattr("fairshare.local.write_log.os.write", lambda file, data: 3)
        with pytest.raises(FairshareError, match=f"cannot keep the state of the local AWS in {path}: the disk is full"):
            log.append("call", {"at": 0})
    with pytest.raises(
        FairshareError, match=r"could not be written \(the disk is full\), so no change is accepted"
    ) as e:
        log.append("call", {"at": 0})
    assert e.value.hint == "free some space and start the local AWS again"
    log.close()
    assert read(path) == []


def test_a_directory_that_cannot_be_written_is_a_clear_error(tmp_path):
    with pytest.raises(
        FairshareError, match=r"cannot keep the state of the local AWS in .*: No such file or directory"
    ):
        WriteLog(tmp_path / "missing" / "calls.jsonl")


def test_bodies_are_kept_once_and_others_removed(tmp_path):
    bodies = BodyFiles(tmp_path / "s3")
    bodies.keep_only(set())
    name = bodies.keep(b"a body")
    assert bodies.keep(b"a body") == name
    other = bodies.keep(b"another")
    (tmp_path / "s3" / ".new-torn").write_bytes(b"half of")
    bodies.keep_only({name, ""})
    assert [path.name for path in (tmp_path / "s3").iterdir()] == [name]
    assert bodies.read(name) == b"a body"
    with pytest.raises(FairshareError, match=f"cannot read .*{other}: No such file or directory"):
        bodies.read(other)


def test_old_state_is_put_aside(tmp_path):
    put_aside(tmp_path, ("calls.jsonl", "s3"), 5)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "calls.jsonl").write_text("log")
    put_aside(tmp_path, ("calls.jsonl", "s3"), 6)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*"))] == [
        "old-6",
        "old-6/calls.jsonl",
    ]
