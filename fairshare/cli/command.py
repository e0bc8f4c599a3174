"""How a command is declared, and the flags that every command takes.

A module of commands makes an app and puts functions on it; the function's first parameter is the `AppContext`, the
others are Typer's::

    app = new_app()

    @command(app, examples=("fairshare queue --all",), exit_codes=(4,))
    def queue(context: AppContext, all: Annotated[bool, typer.Option("--all")] = False) -> None:
        \"\"\"Show the jobs of a queue in dispatch order.\"\"\"

Flags that belong together can be a `FlagGroup`: a parameter of that type stands for all of them.

Then `fairshare.cli.main.COMMANDS` needs one line. A command returns None, raises a
`fairshare.model.FairshareError`, or, when it has printed its answer and still did not succeed, raises
``typer.Exit(code)``.
"""

from __future__ import annotations

import inspect
import signal
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand

from fairshare.cli.context import AppContext, Options
from fairshare.cli.exit_codes import exit_code_line
from fairshare.cli.output import OutputFormat
from fairshare.model import FairshareError, InterruptedRunError

_Function = TypeVar("_Function", bound=Callable[..., None])


class TerminatedError(KeyboardInterrupt):
    """SIGTERM arrived; unwinds like Ctrl-C."""


@dataclass(frozen=True)
class Launch:
    """What the root of the command line hands to the command: how to make its context, and flags given before it."""

    make_context: Callable[[Options], AppContext]
    options: Options


@dataclass(frozen=True)
class FlagGroup:
    """Flags that a command takes as one parameter, and that its help shows under a heading of their own.

    Subclasses are frozen dataclasses; each field is declared like a parameter of a command, with a default.
    """

    heading: ClassVar[str]

    @classmethod
    def parameters(cls) -> Iterator[inspect.Parameter]:
        """Yield the fields as parameters that Typer understands, with the heading in them."""
        hints = get_type_hints(cls, include_extras=True)
        for field in fields(cls):
            kind, option = hints[field.name].__origin__, copy(hints[field.name].__metadata__[0])
            option.rich_help_panel = cls.heading
            yield inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, option]
            )

    @classmethod
    def take(cls, values: dict[str, Any]) -> FlagGroup:
        """Take the fields out of what Typer parsed."""
        return cls(**{field.name: values.pop(field.name) for field in fields(cls)})


class _Command(TyperCommand):
    """A command whose help has a section for each `FlagGroup` before the other options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": []}
        for parameter in self.get_params(ctx):
            heading = "Arguments" if parameter.param_type_name == "argument" else "Options"
            record = parameter.get_help_record(ctx)
            if record is not None:
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or heading, []).append(record)
        for heading, records in sections.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)


def new_app(help: str | None = None) -> typer.Typer:
    """Return an app to put commands on, with plain help: Rich would double the time of every ``--help``."""
    return typer.Typer(help=help, rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


def command(
    app: typer.Typer,
    *,
    examples: Sequence[str],
    exit_codes: Sequence[int] = (),
    name: str | None = None,
    short_file_flag: bool = True,
) -> Callable[[_Function], _Function]:
    """Put a function on an app as a command that takes the common flags after its own.

    Args:
        app: from `new_app`.
        examples: command lines for the end of ``--help``.
        exit_codes: those of `EXIT_CODES` that mean something particular here; 0, 1 and 2 are always named.
        name: of the command; None = the function's name.
        short_file_flag: whether ``-f`` means ``--file``; False where the command uses ``-f`` itself.
    """

    def register(function: _Function) -> _Function:
        _, *own = inspect.signature(function, eval_str=True).parameters.values()
        groups = {each.name: each.annotation for each in own if _is_group(each)}

        def run(ctx: typer.Context, **values: Any) -> None:
            launch: Launch = ctx.obj
            options = take_options(values, launch.options)
            values |= {name: group.take(values) for name, group in groups.items()}
            context = launch.make_context(options)
            try:
                function(context, **values)
            except KeyboardInterrupt as interrupt:
                raise interrupted(interrupt) from None
            except FairshareError as error:
                context.located(error)
                raise

        run.__doc__ = function.__doc__
        flat = [flag for each in own for flag in (each.annotation.parameters() if _is_group(each) else [each])]
        set_signature(run, flat, short_file_flag=short_file_flag)
        called = name or function.__name__.replace("_", "-")
        app.command(called, cls=_Command, epilog=epilog(examples, exit_codes))(run)
        return function

    return register


def _is_group(parameter: inspect.Parameter) -> bool:
    return isinstance(parameter.annotation, type) and issubclass(parameter.annotation, FlagGroup)


def interrupted(
    interrupt: KeyboardInterrupt, message: str | None = None, *, hint: str | None = None
) -> InterruptedRunError:
    """Return the error for Ctrl-C or SIGTERM; ``message`` and ``hint`` say what was done and what is left."""
    if isinstance(interrupt, TerminatedError):
        return InterruptedRunError(message or "terminated", signal_number=signal.SIGTERM, hint=hint)
    return InterruptedRunError(message or "interrupted", signal_number=signal.SIGINT, hint=hint)


def set_signature(
    function: Callable[..., Any], own: Sequence[inspect.Parameter], *, short_file_flag: bool = True
) -> None:
    """Make Typer see a function as ``(ctx, own parameters, common flags)``."""
    common = list(inspect.signature(_common_flags, eval_str=True).parameters.values())
    if not short_file_flag:
        common[0] = common[0].replace(annotation=_LONG_FILE_FLAG)
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [ctx, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in (*own, *common))]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def take_options(values: dict[str, Any], before: Options) -> Options:
    """Take the common flags out of what Typer parsed, over those given before the command."""
    given = {field.name: values.pop(field.name) for field in fields(Options)}
    return replace(before, **{name: value for name, value in given.items() if value})


_FILE_HELP: Final = "Project file (default: fairshare.yaml here or in a directory above)."
_LONG_FILE_FLAG: Final = Annotated[Path | None, typer.Option("--file", metavar="FILE", help=_FILE_HELP)]


def _common_flags(
    file: Annotated[Path | None, typer.Option("--file", "-f", metavar="FILE", help=_FILE_HELP)] = None,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME", help="AWS profile.")] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="NAME", help="AWS region.")] = None,
    endpoint_url: Annotated[
        str | None, typer.Option("--endpoint-url", metavar="URL", help="Address of every AWS service.")
    ] = None,
    local: Annotated[
        bool, typer.Option("--local", help="The AWS on this machine, from `fairshare local start`.")
    ] = False,
    output: Annotated[
        OutputFormat | None,
        typer.Option(
            "--output", "-o", metavar="<table|json|yaml|csv|name>", help="Format of the answer (default: table)."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Only its signature is used; the names are those of `Options`."""


def epilog(examples: Sequence[str], exit_codes: Sequence[int]) -> str:
    """Return the end of a help: examples and exit codes."""
    lines = ["\b", "Examples:", *(f"  {example}" for example in examples)]
    codes = f"Exit codes: {exit_code_line(exit_codes)}. All of them: fairshare help exit-codes."
    return "\n".join([*lines, "", codes])
