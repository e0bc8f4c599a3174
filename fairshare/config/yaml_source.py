"""Reads YAML 1.2 into a tree that knows where each thing was written, and how.

A scalar keeps its text: what ``NO``, ``010``, ``1e-4``, ``3.10`` or ``012345670123`` means is decided by the field that
reads it (`fairshare.config.fields`), not by YAML (cases C06, C11). Aliases and merge keys (``<<``) are resolved here;
tags other than ``!!str`` are refused. ruamel.yaml does the scanning and is imported only when a file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

from fairshare.model import InvalidFileError, Problem

Steps: TypeAlias = tuple[str | int, ...]
"""Way from the root to a place in a file: keys and list indexes."""

MAX_DEPTH: Final = 60
MAX_NODES: Final = 100_000
"""Bound on the size of a file after its aliases are followed, so that nested aliases cannot exhaust memory."""

_NULL: Final = frozenset({"", "~", "null", "Null", "NULL"})
_BOOL: Final = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,300})")
_RADIX_INT: Final = re.compile(r"0o[0-7]{1,300}|0x[0-9a-fA-F]{1,300}")
_EXPONENT: Final = "[eE][-+]?[0-9]+"
_WHOLE_PART: Final = "(?:0|[1-9][0-9]*)"
_FLOAT: Final = re.compile(rf"[-+]?(?:(?:\.[0-9]+|{_WHOLE_PART}\.[0-9]*)(?:{_EXPONENT})?|{_WHOLE_PART}{_EXPONENT})")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_NOT_FINITE: Final = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")


@dataclass(frozen=True)
class Scalar:
    """One written value. ``quoted`` holds for every style but plain: its value is text, whatever it looks like."""

    text: str
    quoted: bool
    line: int
    column: int

    @property
    def is_null(self) -> bool:
        """Whether nothing was written, or ``null`` or ``~``."""
        return not self.quoted and self.text in _NULL

    @property
    def value(self) -> str | int | float | bool | None:
        """The value by YAML 1.2's core schema, but text where leading zeros would be lost (``007``)."""
        if self.quoted:
            return self.text
        if self.is_null:
            return None
        if self.text in _BOOL:
            return _BOOL[self.text]
        if _INT.fullmatch(self.text):
            return int(self.text)
        if _RADIX_INT.fullmatch(self.text):
            return int(self.text, 0)
        if _FLOAT.fullmatch(self.text):
            return float(self.text)
        if match := _NOT_FINITE.fullmatch(self.text):
            return float(match[1] + match[2])
        return self.text

    def __str__(self) -> str:
        """The value as a message shows it: quoted when it is text, shortened when it is long."""
        text = self.text if len(self.text) <= 60 else f"{self.text[:57]}..."
        return f'"{text}"' if self.quoted or isinstance(self.value, str) else text


@dataclass(frozen=True)
class ListNode:
    """A list and the place where it begins."""

    items: tuple[Node, ...]
    line: int
    column: int


@dataclass(frozen=True)
class Entry:
    """A key of a mapping, where the key was written, and its value."""

    key: str
    line: int
    column: int
    value: Node


@dataclass(frozen=True)
class MapNode:
    """A mapping and the place where it begins. Keys are the text that was written."""

    entries: Mapping[str, Entry]
    line: int
    column: int


Node: TypeAlias = Scalar | ListNode | MapNode


@dataclass(frozen=True)
class Document:
    """A file that could be read, and the problems met on the way that did not stop the reading (duplicate keys)."""

    file: str
    lines: tuple[str, ...]
    root: Node
    problems: tuple[Problem, ...] = ()

    def node(self, steps: Steps) -> Node | None:
        """Return what is written at a place, or None."""
        entry = self._entry(steps)
        return entry.value if isinstance(entry, Entry) else entry

    def keys(self, *steps: str | int) -> tuple[str, ...]:
        """Return the keys of the mapping at a place; empty when there is none."""
        node = self.node(steps)
        return tuple(node.entries) if isinstance(node, MapNode) else ()

    def below(self, *steps: str | int) -> tuple[str | int, ...]:
        """Return the steps to what is inside the mapping or list at a place; none for anything else."""
        node = self.node(steps)
        return tuple(range(len(node.items))) if isinstance(node, ListNode) else self.keys(*steps)

    def text(self, *steps: str | int) -> str | None:
        """Return the text written at a place, or None when there is no value."""
        node = self.node(steps)
        return node.text if isinstance(node, Scalar) and not node.is_null else None

    def texts(self, *steps: str | int) -> tuple[str, ...]:
        """Return the texts in the list at a place; empty when there is none."""
        node = self.node(steps)
        return tuple(i.text for i in node.items if isinstance(i, Scalar)) if isinstance(node, ListNode) else ()

    def position(self, steps: Steps, *, at_key: bool = False) -> tuple[int, int]:
        """Return line and column, from 1, of a place.

        That is the value when it is a scalar. A mapping or list is where its key is: so is a value that was left empty,
        and any value with ``at_key``. A place that does not exist is where the nearest thing around it is.
        """
        entry = self._entry(steps)
        if entry is None:
            return self.position(steps[:-1])
        if isinstance(entry, Entry) and not at_key and isinstance(entry.value, Scalar) and not entry.value.is_null:
            return entry.value.line, entry.value.column
        return entry.line, entry.column

    def source_line(self, line: int) -> str:
        """Return the text of a line, counted from 1; empty behind the end."""
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def problem(
        self, steps: Steps, message: str, *, hint: str = "", severity: str = "error", at_key: bool = False
    ) -> Problem:
        """Return a problem with the value (or with the key) at a place."""
        line, column = self.position(steps, at_key=at_key)
        return Problem(
            self.file, line, column, message, dotted(steps), hint, severity, source_line=self.source_line(line)
        )

    def data(self) -> Any:
        """Return the tree as nested ``dict`` and ``list`` with a `Scalar` at each leaf, for pydantic."""
        return _data(self.root)

    def _entry(self, steps: Steps) -> Entry | Node | None:
        place: Entry | Node = self.root
        for step in steps:
            node = place.value if isinstance(place, Entry) else place
            if isinstance(node, MapNode) and step in node.entries:
                place = node.entries[str(step)]
            elif isinstance(node, ListNode) and isinstance(step, int) and step < len(node.items):
                place = node.items[step]
            else:
                return None
        return place


def dotted(steps: Steps) -> str:
    """Return a place as text: ``jobs[0].compute.instance_count``."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def read_text(path: Path) -> str:
    """Return the text of a file: UTF-8, with or without a byte-order mark.

    Raises:
        InvalidFileError: no such file, not readable, or not UTF-8.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidFileError([Problem(str(path), 0, 0, f"cannot be read: {reason}")]) from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8", errors="replace")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        hint = "save the file as UTF-8"
        raise InvalidFileError([Problem(str(path), line, column, "is not UTF-8 text", hint=hint)]) from None


def parse_yaml(text: str, file: str) -> Document:
    """Read one YAML document.

    Args:
        text: content of the file; line ends may be LF, CRLF or CR.
        file: name for messages.

    Raises:
        InvalidFileError: the text is empty, is not YAML, or holds what `Document` cannot express.
    """
    return _TreeBuilder(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"), file).build()


def _data(node: Node) -> Any:
    if isinstance(node, MapNode):
        return {key: _data(entry.value) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [_data(item) for item in node.items]
    return node


class _TreeBuilder:
    """Turns ruamel's events into a `Document`, following aliases and merge keys."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._lines = tuple(re.split("[\n\x85\u2028\u2029]", text))  # what ruamel counts as lines
        self._problems: list[Problem] = []
        self._anchors: dict[str, tuple[Node, int]] = {}
        self._nodes = 0
        self._line = 1

    def build(self) -> Document:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError
        from ruamel.yaml.reader import ReaderError

        try:
            events = self._events(YAML(typ="safe", pure=True))
            next(events)  # the stream starts
            if "DocumentStart" not in _kind(next(events)):
                self._fail(1, 1, "the file is empty")
            root = self._node(next(events), events, depth=0)
            next(events)  # the document ends
            extra = next(events)
            if "DocumentStart" in _kind(extra):
                self._fail_at(extra, "a second document begins here", "keep one document in a file: remove the ---")
        except ReaderError as error:
            before = self._text[: error.position]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            self._fail(line, column, f"the control character U+{error.character:04X} cannot be in YAML", "remove it")
        except MarkedYAMLError as error:
            self._fail(*_explain(error))
        except (ValueError, OverflowError):  # ruamel on an escape such as "\\U99999999"
            self._fail(self._line, 1, "not valid YAML from here on", "check the escapes in double quotes")
        return Document(self._file, self._lines, root, tuple(self._problems))

    def _events(self, yaml: Any) -> Iterator[Any]:
        for event in yaml.parse(self._text):
            self._line = event.end_mark.line + 1
            yield event

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        if depth > MAX_DEPTH:
            self._fail_at(event, f"nested more than {MAX_DEPTH} levels deep")
        if _kind(event) == "Alias":
            return self._alias(event)
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self._fail_at(event, f"tag {event.tag} is not supported", "remove it; quote the value to make it text")
        before = self._nodes
        self._count(event, 1)
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        node: Node
        if _kind(event) == "Scalar":
            if _SURROGATE.search(event.value):
                self._fail_at(event, "holds half of a character (a lone surrogate)", "check the escapes in it")
            node = Scalar(event.value, event.style is not None or event.tag is not None, line, column)
        elif _kind(event) == "SequenceStart":
            node = ListNode(tuple(self._items(events, depth)), line, column)
        else:
            node = MapNode(self._entries(events, depth), line, column)
        if event.anchor:
            self._anchors[event.anchor] = (node, self._nodes - before)
        return node

    def _items(self, events: Iterator[Any], depth: int) -> Iterator[Node]:
        while _kind(event := next(events)) != "SequenceEnd":
            yield self._node(event, events, depth + 1)

    def _entries(self, events: Iterator[Any], depth: int) -> dict[str, Entry]:
        entries: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        while _kind(event := next(events)) != "MappingEnd":
            key = self._node(event, events, depth + 1)
            if not isinstance(key, Scalar):
                self._fail_at(event, "a key must be plain text")
            value = self._node(next(events), events, depth + 1)
            if key.text == "<<" and not key.quoted:
                merged = self._merge(event, value) | merged
            elif key.text in entries:
                self._duplicate(key, entries[key.text])
            else:
                entries[key.text] = Entry(key.text, key.line, key.column, value)
        return merged | entries

    def _merge(self, event: Any, value: Node) -> dict[str, Entry]:
        """Return the entries that a merge key brings; of several mappings the first one wins."""
        merged: dict[str, Entry] = {}
        for source in reversed(value.items) if isinstance(value, ListNode) else (value,):
            if not isinstance(source, MapNode):
                self._fail_at(event, "<< takes a mapping, or a list of mappings", "write <<: *name")
            merged |= source.entries
        return merged

    def _alias(self, event: Any) -> Node:
        if event.anchor not in self._anchors:
            self._fail_at(
                event,
                f"*{event.anchor} refers to nothing that is written above it",
                "put quotes around it to make it text, or mark the value that is meant with &",
            )
        node, size = self._anchors[event.anchor]
        self._count(event, size)
        return node

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            self._fail_at(event, f"more than {MAX_NODES} values, aliases included")

    def _duplicate(self, key: Scalar, first: Entry) -> None:
        self._problems.append(
            Problem(
                self._file,
                key.line,
                key.column,
                f'duplicate key "{key.text}": it is already on line {first.line}',
                key.text,
                "remove one of the two",
                source_line=self._lines[key.line - 1],
            )
        )

    def _fail_at(self, event: Any, message: str, hint: str = "") -> NoReturn:
        self._fail(event.start_mark.line + 1, event.start_mark.column + 1, message, hint)

    def _fail(self, line: int, column: int, message: str, hint: str = "") -> NoReturn:
        source_line = self._lines[line - 1] if line <= len(self._lines) else ""
        problem = Problem(self._file, line, column, message, hint=hint, source_line=source_line)
        raise InvalidFileError([*self._problems, problem]) from None


def _kind(event: Any) -> str:
    """``ScalarEvent`` -> ``Scalar``."""
    return type(event).__name__.removesuffix("Event")


_SYNTAX: Final = (
    (r"character '\\t'", "a tab cannot indent YAML", "use spaces"),
    (r"character ['\"](.)['\"] that", r"\1 cannot begin a value", "put quotes around the value"),
    (r"mapping values", "a colon is not expected here", "quote text that holds a colon, or check the indentation"),
    (r"could not find expected ':'", "a colon is missing after this key", "write key: value"),
    (r"unexpected end of stream", "this quote is never closed", "add the closing quote"),
    (
        r"'<stream end>'|^expected ','",
        "a bracket is not closed, or a comma is missing",
        "check the list or mapping here",
    ),
    (r"expected <block end>, but found '[]}]'", "there is no opening bracket for this one", "remove it"),
    (r"expected <block end>", "this line does not line up with those above it", "give it their indentation"),
)
"""Pattern of ruamel's text, what it means, what to do. The first that fits is used."""


def _explain(error: Any) -> tuple[int, int, str, str]:
    """Return line, column, message and hint for a syntax error."""
    text = str(error.problem or error)
    mark = error.problem_mark
    if "end of stream" in text or "could not find expected ':'" in text:
        mark = error.context_mark  # where the quote or the key begins; the other mark is where the scanner gave up
    for pattern, message, hint in _SYNTAX:
        if match := re.search(pattern, text):
            return mark.line + 1, mark.column + 1, match.expand(message), hint
    return mark.line + 1, mark.column + 1, f"not valid YAML: {text}", ""
