"""``fairshare setup`` and ``fairshare teardown``: plan, show, confirm, look again, apply."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.command import command, interrupted, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.findings import finding_document, findings_in_short, findings_of
from fairshare.model import IN_USE_STATUSES, OWNER_TAG, WAITING_STATUSES, CredentialsError, Problem, UsageError

if TYPE_CHECKING:
    from fairshare.provision.plan import Change, Plan

app = new_app()

_CHANGES_PENDING: Final = 10

PlanFile = Annotated[
    Path | None, typer.Argument(metavar="PLAN_FILE", help="Apply the plan that --plan-out saved, and nothing else.")
]
Adopt = Annotated[bool, typer.Option("--adopt", help="Take over resources of these names that fairshare did not make.")]
PlanOut = Annotated[
    Path | None, typer.Option("--plan-out", metavar="FILE", help="Save the plan to apply it later; change nothing.")
]
EndJobs = Annotated[bool, typer.Option("--end-jobs", help="End jobs that have not ended, too.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")]
DetailedExitCode = Annotated[
    bool,
    typer.Option("--detailed-exitcode", help="With --dry-run or --plan-out: exit 10 if there are changes, 0 if not."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Apply without asking.")]


@dataclass(frozen=True)
class _Manner:
    """How a plan is carried out."""

    name: str
    """Of the command, for others that wait for it."""
    is_dry: bool
    yes: bool
    detailed_exitcode: bool


@command(
    app,
    examples=(
        "fairshare setup --dry-run --detailed-exitcode",
        "fairshare setup --local --yes",
        "fairshare setup --plan-out plan.json && fairshare setup plan.json",
    ),
    exit_codes=(4, 5, 6, 7, 8, 10),
)
def setup(
    context: AppContext,
    plan_file: PlanFile = None,
    adopt: Adopt = False,
    plan_out: PlanOut = None,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
    yes: Yes = False,
) -> None:
    """Create or update what fairshare.yaml describes: environments, policies, queues, alarms and the dashboard.

    What is shown is what is applied: when something changes in AWS between the two, setup says what and stops.
    """
    if plan_out is not None and yes:
        raise UsageError("--plan-out changes nothing and --yes applies", hint="leave one of them out")
    if plan_file is not None and (adopt or plan_out is not None):
        flag = "--adopt" if adopt else "--plan-out"
        raise UsageError(f"{flag} makes a new plan, and {plan_file} is one", hint="leave one of them out")
    plan = _new_plan(context, adopt=adopt) if plan_file is None else _saved_plan(context, plan_file)
    findings = findings_of(context.require_project()) if plan_file is None else []
    manner = _Manner("fairshare setup", dry_run or plan_out is not None, yes, detailed_exitcode)
    if plan_out is not None:
        _save(context, plan, plan_out)
    _carry_out(context, plan, manner, findings)
    saved = plan_out or plan_file
    again = f"fairshare setup {shlex.quote(str(saved))}" if saved else f"fairshare setup{' --adopt' if adopt else ''}"
    context.suggest(again if manner.is_dry else "fairshare submit JOBS")
    _exit_in_detail(plan, manner)


@command(
    app, examples=("fairshare teardown --dry-run", "fairshare teardown --local --yes"), exit_codes=(5, 6, 7, 8, 10)
)
def teardown(
    context: AppContext,
    end_jobs: EndJobs = False,
    dry_run: DryRun = False,
    detailed_exitcode: DetailedExitCode = False,
    yes: Yes = False,
) -> None:
    """Delete everything of the stack: dashboard and alarms, then queues, policies and environments.

    It waits until each is gone. After an interruption the same command goes on; when all is gone it does nothing.
    """
    from fairshare.provision.compare import is_going
    from fairshare.provision.plan import plan_teardown

    stack = context.require_project().stack
    observed = context.stack_provisioner.observe((), stack)
    active = {
        name: len(context.jobs.list(name, WAITING_STATUSES | IN_USE_STATUSES))
        for name, queue in observed.job_queues.items()
        if queue.tags.get(OWNER_TAG) == stack and not is_going(queue)
    }
    plan = plan_teardown(
        observed,
        stack,
        region=context.region,
        account_id=context.session.account_id,
        active_jobs=active,
        end_jobs=end_jobs,
    )
    manner = _Manner("fairshare teardown", dry_run, yes, detailed_exitcode)
    _carry_out(context, plan, manner)
    _exit_in_detail(plan, manner)


def _new_plan(context: AppContext, *, adopt: bool) -> Plan:
    from fairshare.provision.desired import desired_state
    from fairshare.provision.plan import plan_setup

    project = context.require_project()
    for warning in project.warnings:
        context.out.talk(str(warning))
    desired = desired_state(project, context.aws_place)
    observed = context.stack_provisioner.observe(desired.names, desired.stack)
    return plan_setup(desired, observed, region=context.region, account_id=context.session.account_id, adopt=adopt)


def _saved_plan(context: AppContext, path: Path) -> Plan:
    """Read a plan and make sure that it can still be applied, here.

    Raises:
        UsageError, CredentialsError: it is for another region, or another account.
        StalePlanError: something has changed since it was made.
    """
    from fairshare.provision.apply import observe_again
    from fairshare.provision.document import load_plan
    from fairshare.provision.stale import refuse_stale

    saved = load_plan(path)
    plan = saved.plan
    if context.region != plan.region:
        raise UsageError(
            f"{path} is for region {plan.region}, and this command acts in {context.region}",
            hint=f"say --region {plan.region}, or make a plan for {context.region} with --plan-out",
        )
    account = context.session.account_id
    if account != plan.account_id:
        raise CredentialsError(
            f"{path} is for account {plan.account_id}, and these credentials belong to account {account}",
            hint="Choose the right profile with `--profile`, or make a plan for this account with `--plan-out`.",
        )
    context.out.talk(f"Plan of {saved.created_at} from {path}")
    refuse_stale(plan, observe_again(plan, context.stack_provisioner))
    return plan


def _save(context: AppContext, plan: Plan, path: Path) -> None:
    from fairshare.cli.render import utc_time
    from fairshare.provision.document import save_plan

    save_plan(plan, path, utc_time(context.clock.now()))
    context.out.talk(f"Saved to {path}. It is applied to what there is now, or refused.")


def _carry_out(context: AppContext, plan: Plan, manner: _Manner, findings: Sequence[Problem] = ()) -> None:
    """Show a plan, ask, apply it and print the answer: the plan once, as text or as one document.

    Args:
        context: of the command.
        plan: the plan.
        manner: how it is carried out.
        findings: of `fairshare policy lint` in the file that the plan was made from; they are told and stop nothing.
    """
    from fairshare.cli.plan_view import change_summary, plan_text
    from fairshare.cli.render import count
    from fairshare.provision.document import to_json

    shown = plan_text(plan, context.place, context.out.width)
    if findings:
        shown += f"\n\n{findings_in_short(findings, context.out.width)}"
    if context.out.is_for_people:
        context.out.write(f"{shown}\n\nPlan: {change_summary(plan)}.")
    if plan.has_changes and not manner.is_dry:
        if not manner.yes:
            context.confirm(f"Apply {count(len(plan.pending), 'change')}?")
        _apply(context, plan, manner.name)
    if not context.out.is_for_people:
        document = to_json(plan, applied=not manner.is_dry)
        if findings:
            document["lint"] = [finding_document(finding) for finding in findings]
        context.out.show(document.pop("kind"), document, text=lambda width: shown, rows="changes", name="name")


def _apply(context: AppContext, plan: Plan, name: str) -> None:
    """Apply a plan while no other fairshare of this machine changes the stack."""
    from fairshare.provision.apply import RESUME_HINT, apply
    from fairshare.provision.lock import StackPlace, stack_lock

    place = StackPlace(plan.stack, plan.region, plan.account_id, context.session.endpoint_url)
    made: list[Change] = []

    def tell(change: Change) -> None:
        made.append(change)
        context.out.talk(f"{change.action.lower()}d {change.label}")

    try:
        with stack_lock(context.state_dir / "stacks", place, name):
            apply(plan, context.stack_provisioner, tell)
    except KeyboardInterrupt as interrupt:
        done = f"stopped after {len(made)} of {len(plan.pending)} changes"
        raise interrupted(interrupt, done, hint=RESUME_HINT) from None


def _exit_in_detail(plan: Plan, manner: _Manner) -> None:
    if manner.is_dry and manner.detailed_exitcode and plan.has_changes:
        raise typer.Exit(_CHANGES_PENDING)
