"""What of a directory is uploaded: ignores, links, size, and a digest that depends on content alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fairshare.model import UsageError
from fairshare.trainer.source import SourceFile, SourceTree, collect

Write = Callable[[Mapping[str, str]], Path]


def paths(tree: SourceTree) -> list[str]:
    return [file.path for file in tree.files]


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
    assert tree.left_out == (".env", ".git", ".venv", "pkg/__pycache__")


def test_c14_a_virtual_environment_of_any_name_is_left_out(write: Write) -> None:
    root = write({"train.py": "", "myenv/pyvenv.cfg": "home = /usr", "myenv/lib/x.py": "", "env/settings.py": ""})
    tree = collect(root)
    assert paths(tree) == ["env/settings.py", "train.py"]
    assert tree.left_out == ("myenv/",)


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
    assert tree.left_out == (".env", ".git", "gitconfig", "settings")


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
    assert tree.left_out == ("pkg/here", "pkg/up")


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


def test_a_pipe_is_left_out_rather_than_waited_for(write: Write) -> None:
    root = write({"train.py": ""})
    os.mkfifo(root / "pipe")
    assert collect(root).left_out == ("pipe",)


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
