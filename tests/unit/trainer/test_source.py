"""What of a directory is uploaded: ignores, links, size, and a digest that depends on content alone."""

from __future__ import annotations

import io
import os
import shutil
import socket
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fairshare.model import UsageError
from fairshare.trainer.source import SourceFile, SourceTree, collect

Write = Callable[[Mapping[str, str]], Path]


def paths(tree: SourceTree) -> list[str]:
    return [file.path for file in tree.files]


def left_out(tree: SourceTree) -> dict[str, str]:
    return {each.path: each.reason for each in tree.left_out}


def test_files_are_sorted_by_relative_posix_path_with_content_and_exec_bit(write: Write) -> None:
    root = write({"b/run.sh": "echo", "train.py": "x", "a.py": ""})
    (root / "b/run.sh").chmod(0o755)
    assert collect(root).files == (
        SourceFile("a.py", b""),
        SourceFile("b/run.sh", b"echo", executable=True),
        SourceFile("train.py", b"x"),
    )
    assert collect(root).size == 5


def test_c14_parts_of_a_path_are_ignored_and_not_pieces_of_a_part(write: Write) -> None:
    root = write(
        {
            ".git/objects/pack": "history",
            ".venv/bin/python": "",
            "pkg/__pycache__/m.pyc": "",
            ".env": "SECRET=1",
            "train.py": "",
            "scripts/venv.py": "",
            "environment.yml": "",
            "notes.git.txt": "",
        }
    )
    tree = collect(root)
    assert paths(tree) == ["environment.yml", "notes.git.txt", "scripts/venv.py", "train.py"]
    assert left_out(tree) == {
        ".env": "never source: .env",
        ".git/": "never source: .git",
        ".venv/": "never source: .venv",
        "pkg/__pycache__/": "never source: __pycache__",
    }


def test_c14_a_virtual_environment_of_any_name_is_left_out(write: Write) -> None:
    root = write({"train.py": "", "myenv/pyvenv.cfg": "home = /usr", "myenv/lib/x.py": "", "env/settings.py": ""})
    tree = collect(root)
    assert paths(tree) == ["env/settings.py", "train.py"]
    assert left_out(tree) == {"myenv/": "a virtual environment"}


def test_c14_more_than_the_limit_names_the_largest_entries(write: Write) -> None:
    root = write({"data/a.bin": "a" * 700, "data/b.bin": "b" * 300, "train.py": "x" * 50, "big.txt": "y" * 400})
    with pytest.raises(UsageError) as caught:
        collect(root, size_limit=1449)
    lines = caught.value.message.splitlines()
    assert lines[0] == f"{root}: 0.0 MiB to upload, more than 0.0 MiB; the largest:"
    assert lines[1] == "  data/  0.0 MiB in 2 files, the largest data/a.bin with 0.0 MiB"
    assert [line.split()[0] for line in lines[2:]] == ["big.txt", "train.py"]
    assert "move data to S3" in str(caught.value.hint)
    assert collect(root, size_limit=1450).size == 1450


def test_c15_a_link_to_a_file_inside_brings_its_content(write: Write) -> None:
    root = write({"lib/common.py": "shared", "train.py": ""})
    (root / "common.py").symlink_to("lib/common.py")
    assert SourceFile("common.py", b"shared") in collect(root).files


def test_c15_a_link_to_a_directory_inside_brings_its_files(write: Write) -> None:
    root = write({"lib/common.py": "shared"})
    (root / "alias").symlink_to("lib")
    assert paths(collect(root)) == ["alias/common.py", "lib/common.py"]


@pytest.mark.parametrize("inside", ["lib.py", "nested"])
def test_c15_links_to_the_outside_are_refused_with_their_path(write: Write, tmp_path: Path, inside: str) -> None:
    outside = tmp_path / "home/.aws"
    outside.mkdir(parents=True)
    (outside / "credentials").write_text("aws_secret_access_key = x")
    root = write({"train.py": ""})
    (root / inside).symlink_to(outside / "credentials" if inside == "lib.py" else outside)
    with pytest.raises(UsageError) as caught:
        collect(root)
    assert caught.value.message.startswith(f"{root}/{inside}: a symbolic link to {outside}")
    assert "outside of the source directory" in caught.value.message
    assert "nothing outside of it is ever uploaded" in str(caught.value.hint)


def test_c15_a_directory_beside_with_the_same_beginning_is_outside(write: Write, tmp_path: Path) -> None:
    root = write({"train.py": ""})
    (tmp_path / "src-private").mkdir()
    (root / "x").symlink_to(tmp_path / "src-private")
    with pytest.raises(UsageError, match="outside of the source directory"):
        collect(root)


def test_c15_a_link_to_something_ignored_does_not_smuggle_it_in(write: Write) -> None:
    root = write({".env": "SECRET=1", "train.py": "", ".git/config": "token"})
    (root / "settings").symlink_to(".env")
    (root / "gitconfig").symlink_to(".git/config")
    tree = collect(root)
    assert paths(tree) == ["train.py"]
    assert left_out(tree) == {
        ".env": "never source: .env",
        ".git/": "never source: .git",
        "gitconfig": "a link to .git/config, which is left out (never source: .git)",
        "settings": "a link to .env, which is left out (never source: .env)",
    }


def test_c15_a_dangling_link_is_a_clear_error(write: Write) -> None:
    root = write({"train.py": ""})
    (root / "data").symlink_to("nowhere.csv")
    with pytest.raises(UsageError, match=r"src/data: a symbolic link that leads nowhere \(nowhere.csv\)"):
        collect(root)


def test_c15_links_that_lead_to_each_other_end(write: Write) -> None:
    root = write({"train.py": ""})
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    with pytest.raises(UsageError, match=r"src/a: a symbolic link that leads nowhere \(b\)"):
        collect(root)


def test_c15_a_directory_link_to_what_holds_it_ends(write: Write) -> None:
    root = write({"pkg/m.py": "", "train.py": ""})
    (root / "pkg/up").symlink_to("..")
    (root / "pkg/here").symlink_to(".")
    tree = collect(root)
    assert paths(tree) == ["pkg/m.py", "train.py"]
    assert left_out(tree) == dict.fromkeys(["pkg/here/", "pkg/up/"], "a link to a directory that it is in")


def test_an_ignored_link_may_lead_anywhere(write: Write) -> None:
    root = write({"train.py": ""})
    (root / ".venv").symlink_to("/usr")
    assert paths(collect(root)) == ["train.py"]


def test_the_root_may_be_a_link(write: Write, tmp_path: Path) -> None:
    write({"train.py": ""})
    (tmp_path / "alias").symlink_to("src")
    assert paths(collect(tmp_path / "alias")) == ["train.py"]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing: not a directory"):
        collect(tmp_path / "nothing")


def test_c15_links_into_a_virtual_environment_bring_nothing(write: Write) -> None:
    root = write({"train.py": "", "myenv/pyvenv.cfg": "home = /usr", "myenv/lib/x.py": ""})
    (root / "x.py").symlink_to("myenv/lib/x.py")
    tree = collect(root)
    assert paths(tree) == ["train.py"]
    assert left_out(tree)["x.py"] == "a link to myenv/lib/x.py, which is left out (a virtual environment)"


def test_pipes_and_sockets_are_refused_with_their_path_unless_ignored(write: Write) -> None:
    root = write({"train.py": ""})
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(root / "sock"))
    with pytest.raises(UsageError) as caught:
        collect(root)
    assert caught.value.message.splitlines() == [
        f"{root}/{name}: a pipe, a socket or a device, which has no content to upload: remove it, or name it in "
        ".fairshareignore"
        for name in ("pipe", "sock")
    ]
    write({".fairshareignore": "sock\n"})
    with pytest.raises(UsageError, match=r"has no content to upload$") as caught:
        collect(root)
    assert caught.value.hint == "remove it, or name it in .fairshareignore"
    write({".fairshareignore": "pipe\nsock\n"})
    assert paths(collect(root)) == ["train.py"]


def test_everything_that_cannot_be_uploaded_is_told_at_once(write: Write) -> None:
    root = write({"train.py": ""})
    (root / "a").symlink_to("nowhere")
    (root / "b").symlink_to("/etc/passwd")
    os.mkfifo(root / "c")
    with pytest.raises(UsageError) as caught:
        collect(root)
    assert [line.split(": ")[0] for line in caught.value.message.splitlines()] == [f"{root}/{name}" for name in "abc"]
    assert caught.value.hint is None, "each line has its own"


def test_c14_too_many_files_names_where_they_are(write: Write) -> None:
    root = write({"train.py": "", **{f"data/{n}": "" for n in range(5)}, **{f"out/{n}": "" for n in range(3)}})
    with pytest.raises(UsageError) as caught:
        collect(root, file_limit=8)
    assert caught.value.message.splitlines() == [
        f"{root}: 9 files to upload, more than 8; most of them in:",
        "  data/  5 files",
        "  out/  3 files",
    ]
    assert caught.value.hint == (
        "name what is not source in .fairshareignore, or move data to S3 and name it under inputs"
    )
    assert len(collect(root, file_limit=9).files) == 9


def test_a_path_is_explained_by_the_directory_that_was_left_out(write: Write) -> None:
    tree = collect(write({"train.py": "", "build/lib/m.py": "", ".gitignore": "# built\nbuild/\n"}))
    assert tree.reason_left_out("build/lib/m.py") == ".gitignore:2"
    assert tree.reason_left_out("train.py") is None


def test_an_archive_has_content_and_exec_bits_and_nothing_of_this_machine(write: Write) -> None:
    root = write({"train.py": "x = 1", "bin/tool": "#!/bin/sh", "dätä.txt": ""})
    (root / "bin/tool").chmod(0o700)
    os.utime(root / "train.py", (1, 1))
    packed = collect(root).archive
    os.utime(root / "train.py", (2, 2))
    assert collect(root).archive == packed
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        entries = [(entry.name, entry.mode, entry.mtime, entry.uid, entry.uname) for entry in archive]
        script = archive.extractfile("train.py")
        assert script is not None
        assert script.read() == b"x = 1"
    assert entries == [("bin/tool", 0o755, 0, 0, ""), ("dätä.txt", 0o644, 0, 0, ""), ("train.py", 0o644, 0, 0, "")]


def test_a_tree_is_packed_when_s3_would_lose_exec_bits_or_take_many_requests(write: Write) -> None:
    root = write({"train.sh": "", "tool": ""})
    (root / "train.sh").chmod(0o755)
    assert not collect(root).travels_packed("./train.sh"), "the SDK's scripts make the entry executable"
    assert collect(root).travels_packed("tool")
    assert collect(root).travels_packed(None)
    (root / "train.sh").chmod(0o644)
    assert not collect(root).travels_packed(None)
    write({f"pkg/m{number}.py": "" for number in range(98)})
    assert collect(root).travels_packed("train.sh")


def test_a_name_that_is_not_utf8_is_refused(write: Write) -> None:
    root = write({"train.py": ""})
    Path(os.fsdecode(os.fsencode(root) + b"/caf\xe9.py")).write_text("")
    with pytest.raises(UsageError, match=r"the file name b'caf\\xe9.py' is not UTF-8"):
        collect(root)


def test_equal_content_has_an_equal_digest_wherever_it_lies(write: Write, tmp_path: Path) -> None:
    root = write({"a/b.py": "1", "c.py": "2"})
    shutil.copytree(root, tmp_path / "elsewhere/deep")
    os.utime(tmp_path / "elsewhere/deep/c.py", (1, 1))
    assert collect(root).digest == collect(tmp_path / "elsewhere/deep").digest


@pytest.mark.parametrize(
    "other",
    [
        (SourceFile("a", b"1"), SourceFile("b", b"3")),
        (SourceFile("a", b"1"), SourceFile("c", b"2")),
        (SourceFile("a", b"1"), SourceFile("b", b"2", executable=True)),
        (SourceFile("a", b"1b2"),),
        (SourceFile("a", b"1"),),
        (SourceFile("a1", b""), SourceFile("b", b"2")),
    ],
)
def test_any_difference_gives_another_digest(other: tuple[SourceFile, ...]) -> None:
    tree = SourceTree(Path("x"), (SourceFile("a", b"1"), SourceFile("b", b"2")))
    assert tree.digest != SourceTree(Path("x"), other).digest
