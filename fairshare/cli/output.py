"""Where output goes: data to stdout in the format asked for, talk to stderr.

``table`` is for people and may change; ``json`` and ``yaml`` are documents with ``api_version`` and ``kind``; ``csv``
and ``name`` exist for lists (``name`` prints one identifier a line, for ``xargs``).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any

from fairshare.cli.render import safe
from fairshare.model import API_VERSION, UsageError


class OutputFormat(StrEnum):
    """Values of ``-o``."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"
    NAME = "name"
    JUNIT = "junit"
    """Of tests only, for CI systems."""


class Output:
    """The two streams of one command.

    Args:
        format: of the data on stdout.
        width: cells that a table may use; None = as wide as it needs (a pipe).
    """

    def __init__(self, format: OutputFormat = OutputFormat.TABLE, width: int | None = None) -> None:
        self.format = format
        self.width = width

    @property
    def is_for_people(self) -> bool:
        """Whether tables are wanted, not documents."""
        return self.format is OutputFormat.TABLE

    def show(
        self,
        kind: str,
        data: Mapping[str, Any],
        *,
        text: Callable[[int | None], str],
        rows: str | None = None,
        name: str | None = None,
        junit: Callable[[], str] | None = None,
    ) -> None:
        """Print the one answer of a command on stdout.

        Args:
            kind: of the document, e.g. ``JobList``.
            data: the document without ``api_version`` and ``kind``; holds JSON types only.
            text: makes the text for people from the width in cells.
            rows: key in ``data`` of the list that ``csv`` prints; None if there is none.
            name: key in each row that ``name`` prints.
            junit: makes the JUnit XML of an answer about tests.

        Raises:
            UsageError: the format does not suit this answer.
        """
        match self.format:
            case OutputFormat.TABLE:
                self.write(text(self.width))
            case OutputFormat.JSON:
                self.write(json.dumps({"api_version": API_VERSION, "kind": kind, **data}, indent=2))
            case OutputFormat.YAML:
                self.write(yaml_text({"api_version": API_VERSION, "kind": kind, **data}))
            case OutputFormat.JUNIT if junit is not None:
                self.write(junit())
            case _:
                if rows is None or name is None or self.format is OutputFormat.JUNIT:
                    raise UsageError(
                        f"this answer cannot be printed as {self.format}", hint="use -o table, json or yaml"
                    )
                items: Sequence[Mapping[str, Any]] = data[rows]
                self.write(_csv(items) if self.format is OutputFormat.CSV else _names(items, name))

    def write(self, text: str) -> None:
        """Print text, already safe, on stdout; nothing when it is empty."""
        if text:
            print(text.rstrip("\n"), flush=True)

    def talk(self, text: str) -> None:
        """Print a remark for people on stderr."""
        print(safe(text, keep="\n\t"), file=sys.stderr, flush=True)

    def suggest(self, command: str) -> None:
        """End a screen with the next useful command, on stderr; programs are not told."""
        if self.is_for_people:
            self.talk(f"Next: {command}")


def yaml_text(document: Mapping[str, Any]) -> str:
    """Return a document as YAML, without aliases: CloudFormation reads none."""
    from io import StringIO

    from ruamel.yaml import YAML

    writer: Any = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.allow_unicode = False
    writer.width = 4096
    writer.sort_base_mapping_type_on_output = False
    writer.representer.ignore_aliases = lambda value: True
    text = StringIO()
    writer.dump(document, text)
    return text.getvalue()


def _csv(items: Sequence[Mapping[str, Any]]) -> str:
    import csv
    from io import StringIO

    text = StringIO()
    titles = list(dict.fromkeys(key for item in items for key in item))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(titles)
    writer.writerows([_csv_cell(item.get(title)) for title in titles] for item in items)
    return text.getvalue()


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    return safe(value) if isinstance(value, str) else json.dumps(value)


def _names(items: Sequence[Mapping[str, Any]], name: str) -> str:
    return "\n".join(safe(str(item[name])) for item in items)
