"""Our reading of ``.gitignore`` files against git's own, on random trees and patterns."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from fairshare.trainer.ignore import Ignores
from fairshare.trainer.source import collect

NAMES = ("a", "b", "build", "d", "data.ckpt", "foo", "foo.py", "x.txt")
PATTERNS = (
    *("a", "foo", "*.py", "*", "**", "?", "[ab]", "f*", "[!a]", "[[:alpha:]]", "a**b", "#c", "\\!x", "x.txt  "),
    *("/a", "/*", "*/", "**/", "a/", "x.txt/", "d/foo/", "b/*", "*/foo", "d/*/x.txt"),
    *("**/foo", "foo/**", "a/**/b", "d/**/", "/**/foo"),
    *("!foo", "!/a", "!*/", "!*.py", "!d/**", "!/d/", "!x.txt", "!foo/a", "!a/b"),
)


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("seed", range(25))
def test_c14_the_same_files_are_left_out_as_by_git(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    root = tmp_path / "tree"
    folders = _tree(root, rng)
    for folder in {root, *rng.sample(folders, 2)}:
        (folder / ".gitignore").write_text("".join(f"{rng.choice(PATTERNS)}\n" for _ in range(rng.randint(1, 5))))

    tree = collect(root, Ignores((".git", ".gitignore")))

    assert [file.path for file in tree.files] == _untracked(root), _rules(root)


def _tree(root: Path, rng: random.Random) -> list[Path]:
    """Make folders in folders, and files in each; return the folders."""
    root.mkdir()
    folders = [root]
    for _ in range(7):
        folder = rng.choice(folders) / rng.choice(NAMES)
        if not folder.exists():
            folder.mkdir()
            folders.append(folder)
    for folder in folders:
        for name in rng.sample(NAMES, 4):
            if not (folder / name).exists():
                (folder / name).write_text("")
    return folders


def _untracked(root: Path) -> list[str]:
    """Return the files that git would add, without the ignore files themselves and without this user's settings."""
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(root.parent)}

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    git("init", "--quiet")
    listed = git("ls-files", "--others", "--exclude-standard", "-z").split("\0")
    return sorted(path for path in listed if path and not path.endswith(".gitignore"))


def _rules(root: Path) -> dict[str, str]:
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob(".gitignore")}
