"""``fairshare policy test | lint``: what fairshare.yaml asserts about its policies, and the traps in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.findings import finding_document, findings_of
from fairshare.cli.queue import QueueFlag
from fairshare.cli.render import Column, count, table
from fairshare.model import MODEL_VERSION, Problem, UsageError

if TYPE_CHECKING:
    from fairshare.config.policy_tests import PolicyTest
    from fairshare.config.project import Project
    from fairshare.simulate.assertions import Verdict
    from fairshare.simulate.figures import Figures
    from fairshare.simulate.settings import Setting

app = new_app("Test what fairshare.yaml asserts about its policies, and find the traps in them.")

_FAILED: Final = 5
_OF_THE_FILE: Final = "P00"
"""Code of what every command warns about when it reads the file."""


@command(
    app,
    examples=(
        "fairshare policy test",
        "fairshare policy test scenarios/monday.yaml scenarios/crunch.yaml -o junit > policy.xml",
    ),
    exit_codes=(_FAILED,),
    name="test",
)
def run_tests(
    context: AppContext,
    workloads: Annotated[
        list[Path] | None, typer.Argument(metavar="[WORKLOAD]...", help="For assertions that name none.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", metavar="N", help="Draw workloads with this seed.")] = None,
    queue: QueueFlag = None,
) -> None:
    """Check each assertion of policy_tests by a simulation of the workload it names.

    One that names no workload is checked on those given here, and on all that others name.
    """
    from fairshare.simulate.notes import switches_text
    from fairshare.simulate.settings import setting_of

    project = context.require_project()
    if not project.policy_tests:
        hint = 'write policy_tests: ["HIGHPRI p95 wait < 10m on scenarios/monday.yaml"]'
        raise UsageError(f"{project.file} asserts nothing: it has no policy_tests", hint=hint)
    setting = setting_of("project", project, queue)
    verdicts = list(_verdicts(project, setting, workloads or [], seed))
    failed = sum(not verdict.passed for verdict in verdicts)
    data: dict[str, Any] = {
        "model_version": MODEL_VERSION,
        "switches": switches_text([setting]),
        "passed": failed == 0,
        "assertions": [_verdict_document(verdict) for verdict in verdicts],
    }
    context.out.show(
        "PolicyTests",
        data,
        text=lambda width: _verdict_table(verdicts, f"Model {MODEL_VERSION}: {data['switches']}.", width),
        rows="assertions",
        name="assertion",
        junit=lambda: _verdicts_junit(verdicts),
    )
    if failed:
        context.out.talk(f"{failed} of {count(len(verdicts), 'assertion')} failed")
        raise typer.Exit(_FAILED)


@command(
    app,
    examples=("fairshare policy lint", "fairshare policy lint jobs.yaml sweeps/*.yaml -o json"),
    exit_codes=(_FAILED,),
)
def lint(
    context: AppContext,
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="[JOBFILE]...", help="Job files sent to these queues.")
    ] = None,
) -> None:
    """Find traps: inverted weights, reservations that idle the pool, use forgotten too soon, jobs that never start.

    Each finding says what happens, with numbers, and what to change. Calls nothing.
    """
    from fairshare.config.job_file import load_job_file

    project = context.require_project()
    findings = findings_of(project, [load_job_file(path) for path in files or []])
    problems = [*(replace(warning, key=_OF_THE_FILE) for warning in project.warnings), *findings]
    context.out.show(
        "PolicyLint",
        {"passed": not problems, "findings": [finding_document(problem) for problem in problems]},
        text=lambda width: _problems_text(problems),
        rows="findings",
        name="code",
        junit=lambda: _problems_junit(project, problems),
    )
    if problems:
        raise typer.Exit(_FAILED)


# -- assertions ------------------------------------------------------------------------------------------------------


def _verdicts(project: Project, setting: Setting, given: Sequence[Path], seed: int | None) -> Iterator[Verdict]:
    """Judge the assertions, in the order of the file; each workload is simulated once."""
    from fairshare.simulate.assertions import judge

    folder = project.file.absolute().parent
    named = [folder / each.workload for each in project.policy_tests if each.workload is not None]
    everywhere = list(dict.fromkeys([*given, *named]))
    known: dict[Path, Figures] = {}
    for assertion in project.policy_tests:
        places = everywhere if assertion.workload is None else [folder / assertion.workload]
        if not places:
            raise UsageError(f'"{assertion.text}": on which workload?', hint="write on FILE, or give a workload file")
        for path in places:
            if path not in known:
                known[path] = _figures(path, setting, seed)
            _refuse_without_quotas(assertion, path, known[path], setting)
            yield judge(assertion, path.name, known[path])


def _refuse_without_quotas(assertion: PolicyTest, path: Path, figures: Figures, setting: Setting) -> None:
    """Refuse an assertion about preemptions where no job can be preempted: it could never fail."""
    queues = {share.name.rpartition("/")[0] or setting.queue for share in figures.shares}
    if assertion.figure == "preemptions" and queues.isdisjoint(setting.quota_shares):
        where = f"the jobs of {path.name} go to {' and '.join(sorted(queues))}, where nothing is ever preempted"
        hint = f"choose a queue with quota shares: -q {' or -q '.join(setting.quota_shares)}"
        raise UsageError(f'"{assertion.text}": {where}', hint=hint)


def _figures(path: Path, setting: Setting, seed: int | None) -> Figures:
    from fairshare.simulate.figures import figures_of
    from fairshare.simulate.runner import simulate
    from fairshare.simulate.sources import load_workload

    return figures_of(simulate(load_workload(path, seed), setting))


def _verdict_document(verdict: Verdict) -> dict[str, Any]:
    return {
        "assertion": verdict.test.text,
        "workload": verdict.workload,
        "passed": verdict.passed,
        "found": verdict.found,
    }


def _verdict_table(verdicts: Sequence[Verdict], note: str, width: int | None) -> str:
    columns = (
        Column(""),
        Column("ASSERTION", shrinks=True),
        Column("WORKLOAD", shrinks=True),
        Column("FOUND", shrinks=True, prose=True),
    )
    rows = [
        ["ok" if each.passed else "FAILED", each.test.text.partition(" on ")[0], each.workload, each.found]
        for each in verdicts
    ]
    return f"{table(columns, rows, width)}\n\n{note}"


def _verdicts_junit(verdicts: Sequence[Verdict]) -> str:
    from fairshare.cli.junit import Case, junit_xml

    cases = [Case(each.workload, each.test.text, None if each.passed else each.found) for each in verdicts]
    return junit_xml("fairshare policy test", cases)


# -- traps -----------------------------------------------------------------------------------------------------------


def _problems_text(problems: Sequence[Problem]) -> str:
    from fairshare.cli.render import safe

    if not problems:
        return "No traps found."
    lines = []
    for each in problems:
        lines.append(safe(f"{each.file}:{each.line}:{each.column}: {each.key}: {each.message}"))
        lines.append(f"  {safe(each.hint)}")
    return "\n".join([*lines, f"{count(len(problems), 'finding')}."])


def _problems_junit(project: Project, problems: Sequence[Problem]) -> str:
    from fairshare.cli.junit import Case, junit_xml

    cases = [Case(problem.file, f"{problem.key} line {problem.line}", problem.message) for problem in problems]
    return junit_xml("fairshare policy lint", cases or [Case(str(project.file), "no traps")])
