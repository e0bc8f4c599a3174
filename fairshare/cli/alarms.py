"""``fairshare alarms``, ``alarms review`` and ``alarms backtest``: how alarms stand, whether they are any good."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.model import NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.metrics.ports import AlarmStatus
    from fairshare.metrics.review import Backtest, Change

app = new_app()

_FIRING: Final = 10
_LACKING: Final = 11
_TWO_WEEKS: Final = "14d"

All = Annotated[bool, typer.Option("--all", help="Every alarm of the region, not the stack's only.")]
Names = Annotated[
    list[str] | None,
    typer.Option("--alarm", metavar="NAME", help="Only this alarm, with or without the stack's name; repeatable."),
]
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="How far to look back: 24h, 14d.")]


@command(app, examples=("fairshare alarms", "fairshare alarms --all -o json"), exit_codes=(6, 10, 11))
def alarms(context: AppContext, all: All = False) -> None:
    """Show alarms, those that fire first: since when, and why. Exit code 10: one fires; else 11: one lacks data."""
    from fairshare.cli.alarms_view import list_document, list_text
    from fairshare.metrics.ports import AlarmState

    found, now = _chosen(context, all, None), context.clock.now()
    context.out.show(
        "AlarmList",
        list_document(found),
        text=lambda width: list_text(found, now, width),
        rows="alarms",
        name="name",
    )
    context.suggest("fairshare alarms review" if found else "fairshare setup")
    states = {alarm.state for alarm in found}
    if AlarmState.ALARM in states:
        raise typer.Exit(_FIRING)
    if AlarmState.INSUFFICIENT_DATA in states:
        raise typer.Exit(_LACKING)


@command(
    app,
    name="alarms review",
    examples=("fairshare alarms review", "fairshare alarms review --all --since 7d -o json"),
    exit_codes=(4, 6),
)
def alarms_review(context: AppContext, all: All = False, alarm: Names = None, since: Since = _TWO_WEEKS) -> None:
    """Look for what makes alarms useless: settings, missing data, dimensions that are gone, no action, flapping.

    Each finding says what happens and which setting to change, tried on the alarm's own past where that is possible.
    """
    from fairshare.cli.alarms_view import review_document, review_text
    from fairshare.metrics.review import review_alarms

    chosen, now = _chosen(context, all, alarm), context.clock.now()
    start = _begin(context, since)
    reviews = review_alarms(context.alarms, context.metrics, chosen, start=start, now=now)
    context.out.show(
        "AlarmReview",
        review_document(reviews),
        text=lambda width: review_text(reviews, now - start, width),
        rows="alarms",
        name="name",
    )
    context.suggest("fairshare alarms backtest --alarm NAME --set threshold=VALUE")


@command(
    app,
    name="alarms backtest",
    examples=(
        "fairshare alarms backtest",
        "fairshare alarms backtest --alarm gpu-oldest-wait-LOWPRI --set threshold=2h",
        "fairshare alarms backtest --since 7d --set evaluation_periods=6 -o json",
        "fairshare alarms backtest --simulation monday.json --policy fairshare",
    ),
    exit_codes=(4, 6),
)
def alarms_backtest(
    context: AppContext,
    all: All = False,
    alarm: Names = None,
    since: Since = _TWO_WEEKS,
    set: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Replay with this setting, too, as threshold=2h; repeatable."),
    ] = None,
    simulation: Annotated[
        Path | None,
        typer.Option("--simulation", metavar="FILE", help="Replay the project's over `simulate --starts -o json`."),
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="Which policy of a simulation of several.")
    ] = None,
) -> None:
    """Replay alarms over their metrics' past by CloudWatch's rules: when they would have fired, as set or otherwise.

    Settings: threshold, period, evaluation_periods, datapoints_to_alarm, treat_missing_data, comparison_operator.
    """
    from fairshare.cli.alarms_view import backtest_document, backtest_text
    from fairshare.metrics.alarm_settings import parse_settings
    from fairshare.metrics.review import backtest_alarms

    change = parse_settings(set or [])
    if policy is not None and simulation is None:
        raise UsageError("--policy is of a simulation", hint="give --simulation FILE, too")
    if simulation is not None:
        tested, length = _simulated(context, simulation, policy, alarm, change)
    else:
        chosen, now = _chosen(context, all, alarm), context.clock.now()
        start = _begin(context, since)
        length = now - start
        tested = backtest_alarms(context.alarms, context.metrics, chosen, start=start, now=now, change=change)
    context.out.show(
        "AlarmReview",
        backtest_document(tested),
        text=lambda width: backtest_text(tested, length, set or [], width),
        rows="alarms",
        name="name",
    )
    context.suggest("fairshare alarms review")


def _simulated(
    context: AppContext, path: Path, policy: str | None, names: Sequence[str] | None, change: Change
) -> tuple[tuple[Backtest, ...], int]:
    """Replay the project's alarms, which need not exist anywhere, over a simulation; return its length in ms, too."""
    import json

    from fairshare.insight.simulated import QueuePlace, SimulatedGauges, backtest_simulation, policy_of
    from fairshare.metrics.backtest import queries_of
    from fairshare.provision.alarms import desired_alarms

    project = context.require_project()
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        hint = "make it with `fairshare simulate ... --starts -o json > FILE`"
        raise UsageError(f"{path} is no simulation: {error}", hint=hint) from None
    chosen_policy = policy_of(document if isinstance(document, dict) else {}, policy)
    places = {
        key: QueuePlace(project.resource_name(key), queue.service_environment, queue.share_names)
        for key, queue in project.queues.items()
    }
    gauges = SimulatedGauges(
        chosen_policy, project.stack, lambda key: places.get(key) or QueuePlace(project.resource_name(key), key)
    )
    known = {alarm.name: alarm.definition for alarm in desired_alarms(project, {})}
    wanted = [name if name in known else f"{project.stack}-{name}" for name in names or known]
    for name in wanted:
        if name not in known:
            raise NotFoundError(f"the project has no alarm {name}", hint=", ".join(known))
    alarms = [(name, known[name]) for name in wanted]
    return backtest_simulation(gauges, alarms, lambda each: queries_of(each).values(), change), gauges.end


def _chosen(context: AppContext, all: bool, names: Sequence[str] | None) -> tuple[AlarmStatus, ...]:
    """Return the alarms that are meant: by name, else the stack's, else all.

    Raises:
        UsageError: the stack's are meant, and there is no stack.
        NotFoundError: there is no alarm of a name.
    """
    if names:
        return tuple(dict.fromkeys(_named(context, name) for name in names))
    if all:
        return context.alarms.alarms()
    if context.project is None:
        raise UsageError("no fairshare.yaml says which stack's alarms", hint="say --all, or give --file")
    return context.alarms.alarms(f"{context.stack}-")


def _named(context: AppContext, name: str) -> AlarmStatus:
    from fairshare.config.errors import did_you_mean

    with_stack = f"{context.stack}-{name}"
    found = {alarm.name: alarm for alarm in context.alarms.alarms(names=[name, with_stack])}
    if (alarm := found.get(name) or found.get(with_stack)) is not None:
        return alarm
    known = [alarm.name for alarm in context.alarms.alarms(f"{context.stack}-" if context.stack else "")]
    raise NotFoundError(f"there is no alarm {name}", hint=did_you_mean(with_stack, known, "alarms"))


def _begin(context: AppContext, since: str) -> int:
    from fairshare.cli.measuring import begin_of

    return begin_of(context, since)
