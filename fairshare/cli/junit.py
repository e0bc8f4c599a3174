"""JUnit XML, as CI systems read it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from fairshare.cli.render import safe


@dataclass(frozen=True)
class Case:
    """One test: where it belongs, its name, and why it failed; None = it passed."""

    group: str
    name: str
    failure: str | None = None


def junit_xml(suite: str, cases: Sequence[Case]) -> str:
    """Return a document with one suite."""
    failures = sum(case.failure is not None for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failures), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    element = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
    for case in cases:
        place = {"classname": safe(case.group), "name": safe(case.name)}
        test = ElementTree.SubElement(element, "testcase", place)
        if case.failure is not None:
            ElementTree.SubElement(test, "failure", {"message": safe(case.failure)}).text = safe(case.failure)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode")
