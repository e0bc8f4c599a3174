"""Ignore files are read as git reads them; what is never source stays out."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fairshare.trainer.ignore import Ignores
from fairshare.trainer.source import collect

Write = Callable[[Mapping[str, str]], Path]
TREE = ("a/b/c.txt", "a/b/d.py", "a/x.txt", "build/m.py", "doc/a/n.txt", "foo", "note.ckpt", "train.py", "x.txt")


@pytest.fixture
def packed(write: Write) -> Callable[..., list[str]]:
    """What is uploaded of `TREE` with the given files beside it."""

    def look(files: Mapping[str, str]) -> list[str]:
        root = write({**dict.fromkeys(TREE, ""), **files})
        return [file.path for file in collect(root).files]

    return look


def without(*paths: str) -> list[str]:
    return [path for path in TREE if path not in paths]


@pytest.mark.parametrize("file", [".fairshareignore", ".gitignore"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", list(TREE)),
        ("# build/\n\n", list(TREE)),
        ("build/", without("build/m.py")),
        ("build", without("build/m.py")),
        ("foo/", list(TREE)),
        ("x.txt", without("a/x.txt", "x.txt")),
        ("/x.txt", without("x.txt")),
        ("a/x.txt", without("a/x.txt")),
        ("b/c.txt", list(TREE)),
        ("**/c.txt", without("a/b/c.txt")),
        ("a/**/c.txt", without("a/b/c.txt")),
        ("a/**", without("a/b/c.txt", "a/b/d.py", "a/x.txt")),
        ("a/*\n!a/b/", without("a/x.txt")),
        ("a/**\n!a/b", without("a/b/c.txt", "a/b/d.py", "a/x.txt")),
        ("*.txt\n!x.txt", without("a/b/c.txt", "doc/a/n.txt")),
        ("a/\n!a/x.txt", without("a/b/c.txt", "a/b/d.py", "a/x.txt", "doc/a/n.txt")),
        ("*\n!*/\n!*.py", ["a/b/d.py", "build/m.py", "train.py"]),
        ("/*\n!/a/\n/a/*\n!/a/x.txt", ["a/x.txt"]),
        ("a/**/", without("a/b/c.txt", "a/b/d.py")),
        ("[[:alpha:]].txt", without("a/b/c.txt", "a/x.txt", "doc/a/n.txt", "x.txt")),
        ("[!x].txt", without("a/b/c.txt", "doc/a/n.txt")),
        ("note.ckpt  ", without("note.ckpt")),
        ("\ufeffnote.ckpt\r\nfoo\r\n", without("note.ckpt", "foo")),
        ("!\n/\n[[a]\\\n", list(TREE)),
    ],
)
def test_c14_patterns_mean_what_git_says(
    packed: Callable[..., list[str]], file: str, lines: str, expected: list[str]
) -> None:
    """The expected lists are those of ``git ls-files --others --exclude-standard``."""
    assert packed({file: lines}) == expected


def test_c14_each_gitignore_speaks_of_what_lies_below_it_and_the_nearest_wins(
    packed: Callable[..., list[str]],
) -> None:
    files = {".gitignore": "*.txt\n/b\n", "a/.gitignore": "!x.txt\n/b/*.py\n"}

    assert packed(files) == without("a/b/c.txt", "a/b/d.py", "doc/a/n.txt", "x.txt")


def test_c14_a_fairshareignore_takes_the_place_of_all_gitignores(packed: Callable[..., list[str]]) -> None:
    files = {".gitignore": "*.py\n", "a/.gitignore": "*\n", "a/.fairshareignore": "*\n", ".fairshareignore": "*.ckpt\n"}

    assert packed(files) == without("note.ckpt")


def test_c14_ignore_files_above_the_directory_are_not_read(write: Write, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("*\n")

    assert [file.path for file in collect(write({"train.py": ""})).files] == ["train.py"]


def test_c14_no_general_pattern_takes_back_what_is_never_source(packed: Callable[..., list[str]]) -> None:
    secret = {".env": "SECRET=1", ".venv/lib/m.py": "", ".git/hooks/x.py": ""}

    assert packed({**secret, ".gitignore": "*\n!*/\n!*.py\n!.env\n"}) == ["a/b/d.py", "build/m.py", "train.py"]
    assert packed({**secret, ".fairshareignore": "!*\n!*/\n!**\n"}) == list(TREE)


def test_c14_a_default_is_taken_back_by_its_full_name(packed: Callable[..., list[str]]) -> None:
    files = {
        ".env": "SECRET=1",
        ".env.example": "",
        "conf/.cache/x": "",
        ".fairshareignore": "!.env.example\n!.cache/\n",
    }

    assert packed(files) == sorted([*TREE, ".env.example", "conf/.cache/x"])


def test_c14_each_entry_is_left_out_with_its_reason(write: Write) -> None:
    root = write({"train.py": "", "a/.gitignore": "\n*.ckpt\n", "a/x.ckpt": "", "b/deep/x": "", ".gitignore": "b/\n"})

    assert [(each.path, each.reason) for each in collect(root).left_out] == [
        (".gitignore", "never source: .gitignore"),
        ("a/.gitignore", "never source: .gitignore"),
        ("a/x.ckpt", "a/.gitignore:2"),
        ("b/", ".gitignore:1"),
    ]


def test_what_is_ignored_is_not_looked_into(write: Write) -> None:
    root = write({"train.py": "", "data/x": "", ".gitignore": "data/\nlinks/\nloop\n", "links/keep": ""})
    (root / "links/gone").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "data/pipe")

    assert [file.path for file in collect(root).files] == ["train.py"]


def test_c15_a_link_to_something_that_an_ignore_file_names_brings_nothing(write: Write) -> None:
    root = write({"train.py": "", "private/.gitignore": "keys/\n", "private/keys/k.pem": "", "private/ok.py": ""})
    (root / "k.pem").symlink_to("private/keys/k.pem")
    (root / "alias").symlink_to("private")

    tree = collect(root)

    assert [file.path for file in tree.files] == ["alias/ok.py", "private/ok.py", "train.py"]
    assert {each.path: each.reason for each in tree.left_out}["k.pem"] == (
        "a link to private/keys/k.pem, which is left out (private/.gitignore:1)"
    )


def test_data_is_taken_as_it_is(write: Write) -> None:
    root = write({".gitignore": "*\n", ".env": "", "x.pyc": "", "m/pyvenv.cfg": ""})

    assert len(collect(root, Ignores((), files=False)).files) == 4
