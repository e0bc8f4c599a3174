"""Changes of a project file for a what-if: ``queues.gpu.fairshare.shares.LOWPRI.weight_factor=8``.

Dots divide a key, but not an instance type: ``queues.sweep.quota_shares.TEAMA.capacity_limits.ml.c5.xlarge=4``.

The file is changed as a tree and checked anew, so a variant obeys every rule that a file does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Final, TypeVar

from fairshare.config.errors import did_you_mean
from fairshare.config.project import Project, check_document
from fairshare.config.yaml_source import Entry, MapNode, Node, Scalar, parse_yaml, read_text
from fairshare.model import InvalidFileError, Problem, UsageError

Key = TypeVar("Key")
Value = TypeVar("Value")

_BY_TYPE: Final = "capacity_limits"

Change = tuple[str, str]
"""A key and the value it gets; "" = the key is removed."""


def parse_change(text: str) -> Change:
    """Return key and value of ``KEY=VALUE``.

    Raises:
        UsageError: not of this form.
    """
    key, equals, value = text.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise UsageError(
            f"--set {text}: this is no KEY=VALUE", hint="write queues.gpu.fairshare.shares.LOWPRI.weight_factor=8"
        )
    return key.strip(), value.strip()


def variants(changes: Sequence[tuple[Key, Value]]) -> Iterator[tuple[tuple[Key, Value], ...]]:
    """Yield the variants that changes describe: all together, and one for each value of a key that has several.

    No change at all is one variant.
    """
    values: dict[Key, list[tuple[Key, Value]]] = {}
    for change in changes:
        values.setdefault(change[0], []).append(change)
    return product(*values.values())


def variant_name(name: str, changes: Sequence[Change]) -> str:
    """Return a short name: that of the file, with the last two words of each key that say something, and the value."""
    words = (f"{'.'.join([step for step in _steps(key) if step != _BY_TYPE][-2:])}={value}" for key, value in changes)
    return f"{name} {', '.join(words)}"


def changed_project(path: Path, changes: Sequence[Change]) -> Project:
    """Return a project file as it would be with some changes.

    Raises:
        InvalidFileError: the file, or what becomes of it, is wrong.
        UsageError: a key leads through something that is no mapping, or to a newcomer that is not complete.
    """
    before = document = parse_yaml(read_text(path), str(path))
    for key, value in changes:
        root = _changed(document.root, _steps(key), value, key)
        document = replace(document, root=root)
    try:
        return check_document(document, path)
    except InvalidFileError as error:
        check_document(before, path)
        for key, _ in changes:
            _refuse_newcomer(before.root, _steps(key), key, error.problems)
        raise


def _refuse_newcomer(node: Node, steps: Sequence[str], key: str, problems: Sequence[Problem]) -> None:
    """Raise UsageError where problems are of something that the file did not have: most likely its name is wrong."""
    for depth, step in enumerate(steps[:-1]):
        if not isinstance(node, MapNode):
            return
        if step not in node.entries:
            newcomer = ".".join(steps[: depth + 1])
            if not any(newcomer in problem.message for problem in problems):
                return
            where = ".".join(steps[:depth]) or "the file"
            raise UsageError(f"--set {key}: {where} has no {step}", hint=did_you_mean(step, node.entries, "keys there"))
        node = node.entries[step].value


def _steps(key: str) -> list[str]:
    """Return the words of a key; what follows the limits by type is one instance type."""
    head, found, instance_type = key.partition(f".{_BY_TYPE}.")
    return [*head.split("."), _BY_TYPE, instance_type] if found else head.split(".")


def _changed(node: Node, steps: Sequence[str], value: str, key: str) -> MapNode:
    if not isinstance(node, MapNode):
        raise UsageError(f"--set {key}: there is no mapping around {steps[0]}", hint="name a key of the project file")
    step, *below = steps
    entries = dict(node.entries)
    if not below and not value:
        entries.pop(step, None)
    else:
        old = entries.get(step)
        inner: Node = old.value if old is not None else MapNode({}, node.line, node.column)
        new = _changed(inner, below, value, key) if below else Scalar(value, False, node.line, node.column)
        line, column = (old.line, old.column) if old is not None else (node.line, node.column)
        entries[step] = Entry(step, line, column, new)
    return replace(node, entries=entries)
