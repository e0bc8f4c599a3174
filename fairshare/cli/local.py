"""``fairshare local start | stop | status | env | events``: AWS on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from fairshare.cli.command import FlagGroup, command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.local_events import events
from fairshare.cli.ready_file import ReadyFile, default_ready_file
from fairshare.model import NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.local.daemon import RunningServer
    from fairshare.local.processes.allotment import Allotment
    from fairshare.local.server import LocalServer

app = new_app("AWS on this machine: Batch, SageMaker, S3, CloudWatch, Logs, IAM and STS on 127.0.0.1.")


_REGION: Final = "us-east-1"


class LauncherName(StrEnum):
    """How training jobs run."""

    PROCESS = "process"
    SIMULATED = "simulated"


@dataclass(frozen=True)
class MeasuringFlags(FlagGroup):
    """How the use of a script is measured."""

    heading: ClassVar = "Measuring what scripts use"

    metrics_period: Annotated[
        str, typer.Option("--metrics-period", metavar="DURATION", help="How often the use of a script is published.")
    ] = "60s"
    cores: Annotated[
        float | None,
        typer.Option("--cores", metavar="N", help="100 % of a job's CPU utilization (default: all of the machine)."),
    ] = None
    memory: Annotated[
        str | None,
        typer.Option("--memory", metavar="SIZE", help="100 % of its memory utilization: 512MiB, 8GiB (default: all)."),
    ] = None

    def checked(self) -> Measuring:
        """Return the flags as numbers.

        Raises:
            UsageError: one of them means nothing.
        """
        if self.cores is not None and self.cores <= 0:
            raise UsageError(f"--cores {self.cores:g} is not more than 0", hint="2, or a part of one: 0.5")
        return Measuring(_period(self.metrics_period), self.cores, _memory(self.memory))


@dataclass(frozen=True)
class Measuring:
    """Seconds between values, and what is 100 %; None = all of the machine."""

    period: int
    cores: float | None
    memory_bytes: int | None

    def arguments(self) -> list[str]:
        """Return the same as flags of a command line."""
        words = ["--metrics-period", str(self.period)]
        words += [] if self.cores is None else ["--cores", str(self.cores)]
        return words + ([] if self.memory_bytes is None else ["--memory", str(self.memory_bytes)])

    def allotment(self) -> Allotment:
        """Return what a job may use."""
        from fairshare.local.processes.allotment import Allotment

        machine = Allotment.of_machine()
        return Allotment(
            machine.cores if self.cores is None else self.cores,
            machine.memory_bytes if self.memory_bytes is None else self.memory_bytes,
        )


@command(
    app,
    examples=(
        "fairshare local start",
        "fairshare local start --launcher simulated --speed 60 --port 4566",
        "fairshare local start --faults lost_reply=0.2,throttle=0.2,error=0.05,latency_ms=5,submit_tps=5",
    ),
    exit_codes=(8,),
)
def start(
    context: AppContext,
    launcher: Annotated[
        LauncherName, typer.Option("--launcher", help="process runs the scripts; simulated only lets time pass.")
    ] = LauncherName.PROCESS,
    port: Annotated[int, typer.Option("--port", metavar="N", min=0, max=65535, help="0 = any free port.")] = 0,
    state_dir: Annotated[
        Path | None, typer.Option("--state-dir", metavar="DIR", help="Its state, job directories and log.")
    ] = None,
    ready_file: ReadyFile = None,
    foreground: Annotated[bool, typer.Option("--foreground", help="Serve until Ctrl-C or SIGTERM.")] = False,
    speed: Annotated[
        float, typer.Option("--speed", metavar="X", help="Divides simulated run times; time stamps stay real.")
    ] = 1.0,
    faults: Annotated[
        list[str] | None,
        typer.Option("--faults", metavar="RULE", help="What goes wrong on purpose: throttle=0.2,ops=... Repeatable."),
    ] = None,
    measured: MeasuringFlags = MeasuringFlags(),
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin from empty; old state is moved aside.")] = False,
) -> None:
    """Start AWS on this machine. Commands with --local talk to it.

    It listens on 127.0.0.1 only and answers only who knows the random key in the ready file. It goes on where it
    stopped, even when it was killed: jobs whose processes ended with it have failed, everything else is as it was.
    """
    if speed <= 0:
        raise UsageError(f"--speed {speed} is not more than 0", hint="60 makes a simulated minute a second")
    if speed != 1 and launcher is LauncherName.PROCESS:
        raise UsageError("--speed is for --launcher simulated", hint="real scripts take the time they take")
    folder = (state_dir or context.state_dir / "local").absolute()
    ready = (ready_file or default_ready_file(context)).absolute()
    rules, measuring = faults or [], measured.checked()
    if foreground:
        from fairshare.local.server import LocalServer

        options: dict[str, Any] = {"port": port, "speed": speed, "faults": rules, "fresh": fresh}
        options |= {"metrics_period": measuring.period, "allotment": measuring.allotment()}
        _serve(context, LocalServer(launcher=launcher.value, state_dir=folder, ready_file=ready, **options), launcher)
        return
    from fairshare.local.daemon import start_server
    from fairshare.local.faults import Faults

    Faults(rules)  # says what is wrong here rather than in the server's log
    arguments = ["--launcher", launcher.value, "--port", str(port), "--speed", str(speed)]
    arguments += ["--state-dir", str(folder), "--ready-file", str(ready), *measuring.arguments()]
    arguments += [word for rule in rules for word in ("--faults", rule)] + ["--fresh"] * fresh
    server = start_server(arguments, ready_file=ready, log_file=folder / "server.log", clock=context.clock)
    _show(context, server, "is up")
    context.out.suggest("fairshare setup --local")


@command(app, examples=("fairshare local stop",), exit_codes=(4, 8))
def stop(context: AppContext, ready_file: ReadyFile = None) -> None:
    """Stop it, and the training jobs that run in it."""
    from fairshare.local.daemon import stop_server

    server = stop_server(ready_file or default_ready_file(context), context.clock)
    _show(context, server, "has stopped")


@command(app, examples=("fairshare local status -o json",), exit_codes=(4,))
def status(context: AppContext, ready_file: ReadyFile = None) -> None:
    """Say whether it runs, and where."""
    from fairshare.local.daemon import find_server

    server = find_server(ready_file or default_ready_file(context))
    if server is None:
        raise NotFoundError("no local AWS is running", hint="`fairshare local start` starts one")
    _show(context, server, "is up")


@command(app, examples=('eval "$(fairshare local env)" && aws batch describe-job-queues',), exit_codes=(4,))
def env(context: AppContext, ready_file: ReadyFile = None) -> None:
    """Print the variables that bring any other AWS client here, for a shell to evaluate."""
    import shlex

    from fairshare.aws.session import AwsSession

    session = AwsSession.from_ready_file(ready_file or default_ready_file(context), context.options.region or _REGION)
    variables = session.environment()
    context.out.show(
        "LocalEnvironment",
        {"environment": variables},
        text=lambda width: "\n".join(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
    )


command(
    app, examples=("fairshare local events -f -o json | jq .detail.status",), exit_codes=(4,), short_file_flag=False
)(events)


def _period(text: str) -> int:
    from fairshare.config.durations import parse_duration
    from fairshare.local.processes.period import check_period

    try:
        return check_period(parse_duration(text))
    except ValueError as error:
        raise UsageError(f"--metrics-period: {error}", hint="write for instance 60s or 1s") from None


def _memory(text: str | None) -> int | None:
    from fairshare.config.sizes import parse_size

    if text is None:
        return None
    try:
        size = parse_size(text)
    except ValueError as error:
        raise UsageError(f"--memory: {error}", hint="write for instance 512MiB") from None
    if size == 0:
        raise UsageError("--memory 0 leaves jobs nothing", hint="write for instance 512MiB")
    return size


def _serve(context: AppContext, server: LocalServer, launcher: LauncherName) -> None:
    """Serve in this process; Ctrl-C and SIGTERM are the normal end."""
    import threading

    try:
        address = server.start()
        context.out.talk(f"AWS on this machine: {address.endpoint_url} ({launcher} launcher). Ctrl-C ends it.")
        server.serve_forever(threading.Event())
    except KeyboardInterrupt:
        context.out.talk("stopped")


def _show(context: AppContext, server: RunningServer, state: str) -> None:
    document: dict[str, Any] = {
        "endpoint_url": server.endpoint_url,
        "launcher": server.launcher,
        "pid": server.pid,
        "ready_file": str(server.ready_file),
    }
    context.out.show(
        "LocalServer",
        document,
        text=lambda width: (
            f"AWS on this machine {state}: {server.endpoint_url} ({server.launcher} launcher, process {server.pid})"
        ),
    )
