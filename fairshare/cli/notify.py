"""``--notify``: tell somebody who is elsewhere that a command has done its work.

Told are counts, names of jobs and the time it took: nothing that could be a secret. A message that cannot be delivered
is a warning; it never changes how the command ends.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from fairshare.cli.context import AppContext
from fairshare.cli.render import count, elapsed
from fairshare.model import API_VERSION, FairshareError, UsageError

if TYPE_CHECKING:
    from fairshare.insight.wait import WaitResult
    from fairshare.submit.dispatch import RunResult

Event = Literal["sent", "ended", "unfinished"]

NotifyFlag = Annotated[
    str | None,
    typer.Option(
        "--notify",
        metavar="sns:ARN|cmd:COMMAND",
        help="When done (with --wait, when all jobs have ended): tell an SNS topic, or a command, on its stdin.",
    ),
]

_SECONDS: Final = 60
"""A command that takes longer is ended: it must not hold up what comes after."""

_NAMES_SHOWN: Final = 10


@dataclass(frozen=True)
class Notice:
    """What is told. ``counts`` are in the order in which they are read."""

    command: str
    """``submit``, ``resume`` or ``wait``."""
    run_id: str | None
    counts: Mapping[str, int]
    failed: tuple[str, ...]
    """Names of the jobs that were refused or ended FAILED."""
    milliseconds: int
    """From the beginning of the command to its end."""
    event: Event
    """What the counts are about: jobs were sent; all have ended; or waiting was given up before that."""

    @property
    def subject(self) -> str:
        """One line: ``fairshare: run lunar-otter ended: 11 succeeded, 1 failed``."""
        what = f"run {self.run_id}" if self.run_id else count(sum(self.counts.values()), "job")
        counts = ", ".join(f"{number} {name}" for name, number in self.counts.items() if number)
        return f"fairshare: {what} {self.event}: {counts or 'nothing'}"

    @property
    def text(self) -> str:
        """Everything, for people."""
        lines = [self.subject, f"fairshare {self.command} took {elapsed(self.milliseconds)}"]
        if self.failed:
            more = f" and {len(self.failed) - _NAMES_SHOWN} more" if len(self.failed) > _NAMES_SHOWN else ""
            lines.append(f"Failed: {', '.join(self.failed[:_NAMES_SHOWN])}{more}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the document that a command gets on its stdin."""
        return {
            "api_version": API_VERSION,
            "kind": "Notice",
            "command": self.command,
            "run_id": self.run_id,
            "event": self.event,
            "counts": dict(self.counts),
            "failed": list(self.failed),
            "seconds": self.milliseconds // 1000,
            "text": self.text,
        }


class Notifier:
    """Delivers a notice to where ``--notify`` points; nowhere without it.

    Args:
        context: of the command.
        command: for the message: ``submit``, ``resume`` or ``wait``.
        target: value of ``--notify``; checked here, before the command does anything.

    Raises:
        UsageError: it is neither ``sns:ARN`` nor ``cmd:COMMAND``.
    """

    def __init__(self, context: AppContext, command: str, target: str | None) -> None:
        self._context = context
        self._command = command
        self._began = context.clock.now()
        self._kind, _, self._address = (target or "").partition(":")
        if target is not None:
            self._check(target)

    def tell_result(self, result: RunResult, waited: WaitResult | None = None) -> None:
        """Tell what was sent and, if it was waited for, how it ended."""
        counts = _ends(waited) if waited is not None else {"submitted": len(result.sent)}
        counts |= {"refused": len(result.refused), "skipped": len(result.skipped), "not sent": len(result.left)}
        names = [job.request.job_name for job, _ in result.refused]
        names += _failed(waited, {ref.job_id: ref.job_name for _, ref in result.sent}) if waited is not None else []
        self._tell(result.run_id, counts, names, "sent" if waited is None else _event(waited))

    def tell_waited(self, waited: WaitResult, *, run_id: str | None) -> None:
        """Tell how jobs ended."""
        self._tell(run_id, _ends(waited), _failed(waited, {}), _event(waited))

    def _tell(self, run_id: str | None, counts: Mapping[str, int], failed: Sequence[str], event: Event) -> None:
        if not self._kind:
            return
        took = self._context.clock.now() - self._began
        notice = Notice(self._command, run_id, counts, tuple(failed), took, event)
        try:
            if self._kind == "sns":
                self._publish(notice)
            else:
                self._run(notice)
        except FairshareError as error:
            self._context.out.talk(f"warning: not notified: {error.message}")

    def _check(self, target: str) -> None:
        from fairshare.aws.notify import check_topic

        if self._kind == "sns":
            check_topic(self._address, self._context.region)
        elif self._kind != "cmd" or not _words(self._address):
            raise UsageError(
                f"--notify {target}: where to?",
                hint="write sns:ARN of a topic, or cmd:COMMAND, for example cmd:./tell.sh",
            )

    def _publish(self, notice: Notice) -> None:
        from fairshare.aws.notify import publish

        publish(self._context.session, self._address, notice.subject, notice.text)

    def _run(self, notice: Notice) -> None:
        """Run the command; what it prints is talk, because stdout is for the answer of ours."""
        import subprocess

        words = _words(self._address)
        about = {"FAIRSHARE_RUN_ID": notice.run_id or "", "FAIRSHARE_FAILED_JOBS": str(len(notice.failed))}
        try:
            done = subprocess.run(
                words,
                input=json.dumps(notice.to_json()),
                env={**self._context.environ, **about},
                cwd=self._context.cwd,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_SECONDS,
                check=False,
            )
        except OSError as error:
            raise FairshareError(f"cannot run {words[0]}: {error.strerror}") from error
        except subprocess.TimeoutExpired:
            raise FairshareError(f"{words[0]} did not end within {_SECONDS} s") from None
        if done.stdout:
            self._context.out.talk(done.stdout.rstrip("\n"))
        if done.returncode:
            raise FairshareError(f"{words[0]} ended with exit code {done.returncode}")


def _event(waited: WaitResult) -> Event:
    from fairshare.insight.wait import Outcome

    return "unfinished" if waited.having(Outcome.UNFINISHED) else "ended"


def _ends(waited: WaitResult) -> dict[str, int]:
    from fairshare.insight.wait import Outcome

    return {outcome.value.lower(): len(waited.having(outcome)) for outcome in Outcome}


def _failed(waited: WaitResult, names: Mapping[str, str]) -> list[str]:
    from fairshare.insight.wait import Outcome

    failed = waited.having(Outcome.FAILED)
    return [job.last_known.job_name if job.last_known else names.get(job.job_id, job.job_id) for job in failed]


def _words(command: str) -> list[str]:
    """Return the words of a command, as a shell splits them. No shell runs: for a pipe write ``sh -c '...'``."""
    try:
        return shlex.split(command)
    except ValueError as error:
        raise UsageError(f"--notify cmd:{command}: {error}", hint="close the quotes") from None
