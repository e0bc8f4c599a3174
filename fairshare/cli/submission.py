"""What ``submit``, ``resume`` and ``demo`` share: joining the SDK, AWS and the journal into one submission, and
sending it.

`prepare_run` writes nothing; `send_run` sends what it returned, `resume_run` what an earlier session left. Signals end
sending between two calls; calls under way get a moment to answer.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairshare.cli.command import interrupted
from fairshare.cli.context import AppContext
from fairshare.config.jobs import JobSpec
from fairshare.model import InterruptedRunError, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.submit.dispatch import RunResult, SubmitPlan
    from fairshare.submit.events import Event
    from fairshare.submit.holder import Holder
    from fairshare.submit.ports import Payloads
    from fairshare.submit.prepare import SubmitOptions
    from fairshare.submit.rate import Pace
    from fairshare.submit.records import RunRecord
    from fairshare.submit.recovery import Recovery
    from fairshare.submit.resolve import QueueFacts
    from fairshare.submit.watch import LookPace

LOCAL_IMAGE_NAME: Final = "python"
LOCAL_ROLE: Final = "MLTraining"
"""Image and role of a local run that names none: an image is not used there, and the local AWS has this role."""


@dataclass(frozen=True)
class PreparedRun:
    """A plan, the maker of its payloads (it has the uploads), and the rate in calls a second."""

    plan: SubmitPlan
    payloads: Payloads
    rate: float


def prepare_run(
    context: AppContext,
    specs: Sequence[JobSpec],
    options: SubmitOptions,
    *,
    run_id: str | None = None,
    rate: float | None = None,
) -> PreparedRun:
    """Return everything that would be sent, without a write.

    Args:
        context: of the command.
        specs: jobs as written.
        options: waves and overrides.
        run_id: name of the run; None makes one.
        rate: SubmitServiceJob calls a second; None = just below AWS's limit, or no limit on this machine.

    Raises:
        UsageError: a rate of 0 for anything but this machine, or a bad run id.
        InvalidFileError, InfeasibleError: problems of the jobs.
    """
    from fairshare.cli.quotas import training_quotas
    from fairshare.submit.naming import check_run_id, new_run_id
    from fairshare.submit.prepare import prepare
    from fairshare.submit.requests import RunIdentity

    session = context.session
    rate = checked_rate(context, rate)
    if run_id is not None:
        check_run_id(run_id)
    identity = RunIdentity(
        run_id=run_id or new_run_id(random.Random()),
        created_at=context.clock.now(),
        region=session.region,
        account_id=session.account_id,
        job_file=job_file_of(specs),
    )
    payloads = _payloads(context)
    plan = prepare(
        [_with_local_defaults(context, spec) for spec in specs] if session.is_loopback else specs,
        identity=identity,
        payloads=payloads,
        project=context.project,
        observed_queues=_foreign_queues(context, specs, options),
        options=replace(options, quotas=training_quotas(context)),
    )
    return PreparedRun(plan, payloads, rate)


def checked_rate(context: AppContext, rate: float | None) -> float:
    """Return the rate in calls a second: what was asked for, else just below AWS's limit, or 0 on this machine.

    Raises:
        UsageError: it is negative, or 0 for anything but this machine.
    """
    from fairshare.submit.rate import DEFAULT_RATE

    is_loopback = context.session.is_loopback
    if rate is None:
        return 0 if is_loopback else DEFAULT_RATE
    if rate < 0:
        raise UsageError(f"--rate {rate:g} is less than 0", hint="leave --rate out for 4.9 calls a second")
    if rate == 0 and not is_loopback:
        raise UsageError("--rate 0 would flood AWS: it is for this machine only", hint="leave --rate out for 4.9/s")
    return rate


def _payloads(context: AppContext) -> Payloads:
    from fairshare.trainer.payload import TrainerPayloads

    session = context.session
    return TrainerPayloads(
        region=session.region,
        account_id=session.account_id,
        bucket=bucket_of(context),
        boto_session=session.boto_session,
        put_missing=context.objects.put_missing,
        clock=context.clock,
        environ=context.environ,
    )


def send_run(context: AppContext, run: PreparedRun, on_event: Callable[[Event], None]) -> RunResult:
    """Send a run and return what became of it.

    Raises:
        RunHeldError: another process is sending it.
        InterruptedRunError: Ctrl-C or SIGTERM ended sending; the message counts what was sent (case C23).
        FairshareError: the journal or the uploads failed before the first call.
    """
    from fairshare.submit.calls import open_calls
    from fairshare.submit.dispatch import dispatch, upload
    from fairshare.submit.journal import Journal

    run_id = run.plan.identity.run_id
    with Journal.create(context.runs_dir, run_id, _holder(context, "fairshare submit")) as journal:
        try:
            upload(run.plan, run.payloads, on_event)
        except KeyboardInterrupt as interrupt:
            raise interrupted(interrupt, "interrupted while uploading: nothing was sent") from None
        pace = _pace(context, run.rate)
        calls_of = open_calls(context.jobs, run.plan.width, _looks(context))
        with calls_of as calls, _signals_noted() as received:
            result = dispatch(run.plan, calls, journal, context.clock, pace, on_event, stop=lambda: bool(received))
    return _unless_interrupted(result, received)


def resume_run(
    context: AppContext,
    record: RunRecord,
    *,
    rate: float,
    failed: bool,
    max_in_flight: int | None = None,
    progress: Callable[[Recovery], AbstractContextManager[Callable[[Event], None]]],
) -> tuple[Recovery, RunResult]:
    """Go on with a run; return what was left of it and what became of that.

    Args:
        context: of the command.
        record: the run.
        rate: calls a second, from `checked_rate`.
        failed: send also again what was refused or ended FAILED.
        max_in_flight: jobs sent and not ended, at most; None = what the run was submitted with.
        progress: entered once it is known what is to be sent; yields what is told of events.

    Raises:
        RunHeldError: another process is sending it.
        InterruptedRunError: Ctrl-C or SIGTERM ended sending.
        UsageError: a secret value is not known any more, or another one now.
    """
    from fairshare.cli.secret_sources import value_finder
    from fairshare.submit.calls import open_calls
    from fairshare.submit.dispatch import dispatch
    from fairshare.submit.journal import Journal
    from fairshare.submit.recovery import recover

    with Journal.open(record.path, _holder(context, "fairshare resume")) as journal:
        for warning in journal.warnings:
            context.out.talk(f"warning: {warning}")
        find_values = value_finder(context.environ, record.identity.job_file)
        recovery = recover(
            journal, context.jobs, find_values, context.clock.now(), failed=failed, max_in_flight=max_in_flight
        )
        pace = _pace(context, rate)
        calls_of = open_calls(context.jobs, recovery.plan.width, _looks(context))
        with calls_of as calls, progress(recovery) as on_event, _signals_noted() as received:
            plan, stop = recovery.plan, lambda: bool(received)
            result = dispatch(plan, calls, journal, context.clock, pace, on_event, stop, recovery.earlier)
    result = replace(result, sent=(*recovery.found, *result.sent))
    return recovery, _unless_interrupted(result, received)


def _looks(context: AppContext) -> LookPace:
    from fairshare.submit.watch import LOOPBACK_LOOKS, LookPace

    return LOOPBACK_LOOKS if context.session.is_loopback else LookPace()


def _holder(context: AppContext, command: str) -> Holder:
    from fairshare.submit.holder import Holder

    return Holder(command, context.clock.now())


def _pace(context: AppContext, rate: float) -> Pace:
    """The pace of this process: its part of the budget that all processes of the user share on this host."""
    import socket

    from fairshare.config.paths import runtime_dir
    from fairshare.scheduler.clock import uptime_ms
    from fairshare.submit.budget import BudgetKey, SharedBucket, boot_id
    from fairshare.submit.rate import Pace

    session = context.session
    key = BudgetKey(session.account_id, session.region, session.endpoint_url, socket.gethostname())
    return Pace(random.Random(), rate, buckets=SharedBucket(runtime_dir(context.environ), key, uptime_ms, boot_id()))


def _unless_interrupted(result: RunResult, received: Sequence[int]) -> RunResult:
    if not result.interrupted or result.cause is not None:  # a cause that follows is worse: jobs were not noted
        return result
    raise InterruptedRunError(
        f"stopped: {result.summary()} of run {result.run_id}",
        signal_number=received[0],
        hint=f"`fairshare resume {result.run_id}` sends the rest; what was sent goes on, "
        f"`fairshare cancel --run {result.run_id}` ends it",
    )


def job_file_of(specs: Sequence[JobSpec]) -> str | None:
    """Return the path of the file that the jobs are from; None for a script, for Python and for stdin."""
    from fairshare.submit.payload_target import SUFFIXES

    files = {spec.origin.file for spec in specs if spec.origin.line and Path(spec.origin.file).suffix in SUFFIXES}
    return str(Path(files.pop()).absolute()) if len(files) == 1 else None


def bucket_of(context: AppContext) -> str:
    """Return the bucket for sources and output: the project's, else the one SageMaker uses by default."""
    named = context.project.defaults.bucket if context.project else None
    return named or context.session.default_bucket


@contextmanager
def _signals_noted() -> Iterator[list[int]]:
    """Note the first Ctrl-C or SIGTERM instead of raising it; a second one ends the program as usual."""
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def note(number: int, frame: object) -> None:
        received.append(number)
        for each, handler in before.items():
            signal.signal(each, handler)

    for number in before:
        signal.signal(number, note)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _with_local_defaults(context: AppContext, spec: JobSpec) -> JobSpec:
    """On this machine a newcomer needs neither an image nor a role."""
    if spec.is_finished:
        return spec
    defaults = context.project.defaults if context.project else None
    image = spec.image or (defaults.image if defaults else None)
    role = spec.role or (defaults.role if defaults else None)
    session = context.session
    local_image = f"{session.account_id}.dkr.ecr.{session.region}.amazonaws.com/{LOCAL_IMAGE_NAME}:local"
    return replace(spec, image=image or local_image, role=role or LOCAL_ROLE)


def _foreign_queues(context: AppContext, specs: Sequence[JobSpec], options: SubmitOptions) -> list[QueueFacts]:
    """Ask AWS about queues that jobs name and the project does not have.

    One that a job file names and nobody has is left to the checks, which tell it with everything else.

    Raises:
        NotFoundError: a flag names a queue that nobody has.
    """
    overrides = options.overrides
    flagged = set(overrides.queues or (overrides.queue,)) - {None}
    named = flagged or {name for spec in specs for name in spec.queues or (spec.queue,)}
    unknown = [name for name in named if name and not (context.project and context.project.queue(name))]
    facts = []
    for name in sorted(unknown):
        try:
            facts.append(_observed_queue(context, name))
        except NotFoundError:
            if flagged:
                raise
    return facts


def _observed_queue(context: AppContext, name: str) -> QueueFacts:
    from fairshare.insight.queues import observe_queue
    from fairshare.submit.resolve import QueueFacts

    view = observe_queue(context.provisioner, name, context.stack)
    return QueueFacts(
        name=name,
        key=view.queue.name,
        is_fair_share=view.policy is not None,
        capacity=view.capacity,
        weights=view.weights,
        compute_reservation=view.policy.compute_reservation if view.policy else 0,
        quota_shares=view.quota_terms,
        limits=view.limits,
    )
