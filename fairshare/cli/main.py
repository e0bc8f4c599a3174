"""The entry point: which commands there are, and what happens to errors.

To add a command, declare it (see `fairshare.cli.command`) and add one line to `COMMANDS`: its section, the module that
holds its ``app``, and the line that ``fairshare --help`` shows. A group such as ``local start | stop`` is an ``app``
with ``group=True``. Modules are imported only when their command runs or shows its help.

Errors: a `fairshare.model.FairshareError` becomes text on stderr, or one JSON document on stdout under ``-o json``, and
its exit code. Anything else is a bug of ours: one line, and the traceback only with ``--debug``.
"""

from __future__ import annotations

import gc
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from fairshare.cli.command import Launch, TerminatedError, interrupted, set_signature, take_options
from fairshare.cli.context import AppContext, Options
from fairshare.model import FairshareError, UsageError
from fairshare.version import __version__


@dataclass(frozen=True)
class Entry:
    """One line of the table of commands."""

    section: str
    module: str
    summary: str
    group: bool = False


COMMANDS: Final[Mapping[str, Entry]] = {
    "demo": Entry("Start", "fairshare.cli.demo", "the whole tour, offline, in 20 seconds"),
    "local": Entry("Start", "fairshare.cli.local", "AWS on this machine: start, stop, status, env, events", group=True),
    "setup": Entry("Start", "fairshare.cli.setup", "create or update what fairshare.yaml describes"),
    "teardown": Entry("Start", "fairshare.cli.setup", "delete it again"),
    "submit": Entry("Act", "fairshare.cli.submit", "send training jobs, in waves"),
    "resume": Entry("Act", "fairshare.cli.resume", "send what is left of a run, after anything"),
    "runs": Entry("Look", "fairshare.cli.runs", "what was sent from this machine", group=True),
    "results": Entry("Look", "fairshare.cli.results", "metrics, time and models of a run"),
    "queue": Entry("Look", "fairshare.cli.queue", "jobs in dispatch order"),
    "shares": Entry("Look", "fairshare.cli.queue", "what each share is due and holds"),
    "job": Entry("Look", "fairshare.cli.queue", "one job"),
    "logs": Entry("Look", "fairshare.cli.logs", "what a job printed"),
    "wait": Entry("Act", "fairshare.cli.wait", "until jobs have ended"),
    "metrics": Entry("Look", "fairshare.cli.metrics", "use of a job's hosts, a share or a queue"),
    "metrics publish": Entry("Look", "fairshare.cli.metrics_publish", "gauges of queues and shares, to CloudWatch"),
    "efficiency": Entry("Look", "fairshare.cli.efficiency", "did the devices work, and what to change"),
    "compare": Entry("Look", "fairshare.cli.compare", "two jobs, runs or shares side by side"),
    "cost": Entry("Look", "fairshare.cli.cost", "instance-hours and money of a job, a run or a share"),
    "simulate": Entry("Ask", "fairshare.cli.simulate", "what would policies do to a workload"),
    "policy": Entry("Ask", "fairshare.cli.policy", "test what fairshare.yaml asserts, find its traps", group=True),
    "alarms": Entry("Look", "fairshare.cli.alarms", "which alarms fire, since when and why"),
    "alarms review": Entry("Look", "fairshare.cli.alarms", "the traps that alarms fall into, and the way out"),
    "alarms backtest": Entry("Look", "fairshare.cli.alarms", "when alarms would have fired, as set or otherwise"),
    "cancel": Entry("Act", "fairshare.cli.cancel", "end jobs, a run, or all jobs of a share"),
    "export": Entry("Start", "fairshare.cli.export", "documents: cloudformation, iam, dashboard", group=True),
    "help": Entry("Help", "fairshare.cli.help", "help on a command, or on exit-codes"),
}


class _LazyGroup(TyperGroup):
    """A group that knows its commands from `COMMANDS` and imports one only when it is needed."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from importlib import import_module

        from typer.main import get_group

        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        group = get_group(import_module(entry.module).app)
        return group if entry.group else group.commands[cmd_name]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if (two_words := " ".join(args[:2])) in COMMANDS:
            args = [two_words, *args[2:]]
        if args[0] not in COMMANDS:
            from fairshare.config.errors import suggest

            close = suggest(args[0], COMMANDS)
            guess = f"did you mean `fairshare {close}`? " if close else ""
            raise UsageError(f"there is no command {args[0]!r}", hint=f"{guess}`fairshare --help` lists them")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl([(name, e.summary) for name, e in COMMANDS.items() if e.section == section])


def _root(ctx: typer.Context, version: bool, **values: Any) -> None:
    """Fair-share queues and staggered waves of SageMaker training jobs, on AWS Batch or on this machine."""
    ctx.obj = Launch(ctx.obj.make_context, take_options(values, Options()))
    if ctx.invoked_subcommand is None:
        print(ctx.get_help())


def _print_version(asked: bool) -> None:
    if asked:
        print(f"fairshare {__version__}")
        raise typer.Exit


def _make_app() -> typer.Typer:
    root = typer.Typer(
        cls=_LazyGroup,
        rich_markup_mode=None,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Flags may stand before or after the command. Exit codes: fairshare help exit-codes.",
    )
    flag = Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")]
    version = inspect.Parameter("version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=flag)
    set_signature(_root, [version])
    root.callback(invoke_without_command=True)(_root)
    return root


app = _make_app()
"""The whole command line as a Typer app, for tools that document or test one. Errors are handled by `run`."""


def main() -> None:
    """Run the command line of this process and exit."""
    signal.signal(signal.SIGTERM, _terminate)
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    code = run(sys.argv[1:])
    gc.freeze()  # at its end Python collects once more: half a second of looking at the SDK's classes
    sys.exit(code)


def run(argv: Sequence[str], make_context: Callable[[Options], AppContext] | None = None) -> int:
    """Run one command line and return its exit code. Prints, never raises.

    Args:
        argv: arguments without the program's name.
        make_context: makes the context of the command; None = of this process. Tests put fakes in.
    """
    launch = Launch(make_context or (lambda options: AppContext(options, os.environ, Path.cwd())), Options())
    command = typer.main.get_command(app)
    try:
        result = command.main(args=list(argv), prog_name="fairshare", standalone_mode=False, obj=launch)
        return result if isinstance(result, int) else 0
    except FairshareError as error:
        return _report(error, error, argv)
    except typer.TyperException as error:
        return _report(_usage_error(error), error, argv)
    except KeyboardInterrupt as interrupt:
        return _report(interrupted(interrupt), interrupt, argv)
    except SystemExit as stop:  # Typer's answer to a reader of stdout that has left
        return stop.code if isinstance(stop.code, int) else 1
    except Exception as error:
        return _report(_internal_error(error), error, argv)


def _terminate(signal_number: int, frame: object) -> None:
    raise TerminatedError


def _usage_error(error: typer.TyperException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "fairshare"
    return UsageError(error.format_message(), hint=f"`{path} --help` shows how it is used")


def _internal_error(error: Exception) -> FairshareError:
    text = f"internal error: {type(error).__name__}: {error}"
    return FairshareError(text, hint="run it again with --debug to see where, and report it")


def _report(error: FairshareError, cause: BaseException, argv: Sequence[str]) -> int:
    from fairshare.cli.errors import error_document, error_text

    if "--debug" in argv:
        import traceback

        traceback.print_exception(cause)
    try:
        if _wants_json(argv):
            print(json.dumps(error_document(error), indent=2), flush=True)
        else:
            print(error_text(error), file=sys.stderr, flush=True)
    except BrokenPipeError:
        _silence_stdout()
    return error.exit_code


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether ``-o json`` was asked for, read without a parser: the error may be that the flags cannot be parsed."""
    from itertools import pairwise

    joined = {"-ojson", "--output=json"}
    apart = {("-o", "json"), ("--output", "json")}
    return any(argument in joined for argument in argv) or any(pair in apart for pair in pairwise(argv))


def _silence_stdout() -> None:
    """Keep the interpreter from complaining at exit that nobody reads stdout any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
