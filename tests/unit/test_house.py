"""The rules of the house that no linter knows: files and functions that can be read, packages that have a map."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "fairshare"
CODE = sorted(PACKAGE.rglob("*.py")) + sorted((ROOT / "infra").rglob("*.py"))
MAPS = sorted(path.parent for path in PACKAGE.rglob("__init__.py") if path.parent not in (PACKAGE, PACKAGE / "cli"))
LINES_OF_A_FILE = 600
LINES_OF_A_FUNCTION = 50


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the functions of a file with their lines, decorators not counted."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or 0) - node.lineno + 1


def docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""


def words_in_backticks(text: str) -> set[str]:
    """Return the parts of every `dotted.name` of a docstring."""
    return {word for name in re.findall(r"(?<!`)`([\w.]+)`", text) for word in name.split(".")}


def test_no_file_is_too_long():
    lengths = {shown(path): len(path.read_text("utf-8").splitlines()) for path in CODE}

    assert {name: lines for name, lines in lengths.items() if lines >= LINES_OF_A_FILE} == {}


def test_no_function_is_too_long():
    lengths = {f"{shown(path)} {name}": lines for path in CODE for name, lines in functions(path)}

    assert {name: lines for name, lines in lengths.items() if lines > LINES_OF_A_FUNCTION} == {}


def test_every_module_says_what_belongs_in_it():
    assert [shown(path) for path in CODE if not docstring(path) and path.name != "__main__.py"] == []


@pytest.mark.parametrize("package", MAPS, ids=shown)
def test_a_package_has_a_map_of_its_modules(package):
    named = words_in_backticks(docstring(package / "__init__.py"))
    modules = {path.stem for path in package.glob("*.py")} | {
        path.parent.name for path in package.glob("*/__init__.py")
    }

    assert modules - named - {"__init__"} == set()


def test_the_map_of_the_command_line_names_what_exists():
    named = words_in_backticks(docstring(PACKAGE / "cli" / "__init__.py"))
    existing = {path.stem for path in (PACKAGE / "cli").glob("*.py")} | {package.name for package in MAPS}

    assert named - existing - {"fairshare", "model", "COMMANDS"} == set()
