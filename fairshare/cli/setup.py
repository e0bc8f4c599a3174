"""``fairshare setup`` and ``fairshare teardown``: plan, show, confirm, apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext
from fairshare.model import IN_USE_STATUSES, OWNER_TAG, WAITING_STATUSES

if TYPE_CHECKING:
    from fairshare.provision.plan import Plan

app = new_app()

_DRY_RUN_HELP: Final = "Show the plan and change nothing."
_YES_HELP: Final = "Apply without asking."


@command(app, examples=("fairshare setup --dry-run", "fairshare setup --local --yes"), exit_codes=(5, 6, 7, 8))
def setup(
    context: AppContext,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN_HELP)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=_YES_HELP)] = False,
) -> None:
    """Create or update the service environments, scheduling policies and job queues of fairshare.yaml."""
    from fairshare.provision.desired import desired_state
    from fairshare.provision.plan import plan_setup

    project = context.require_project()
    for warning in project.warnings:
        context.out.talk(str(warning))
    desired = desired_state(project)
    observed = context.provisioner.observe(desired.names, desired.stack)
    plan = plan_setup(desired, observed, region=context.region, account_id=context.session.account_id)
    _carry_out(context, plan, dry_run=dry_run, yes=yes)
    context.suggest("fairshare setup" if dry_run else "fairshare submit JOBS")


@command(app, examples=("fairshare teardown --dry-run", "fairshare teardown --local --yes"), exit_codes=(5, 6, 7, 8))
def teardown(
    context: AppContext,
    end_jobs: Annotated[bool, typer.Option("--end-jobs", help="End jobs that have not ended, too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN_HELP)] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help=_YES_HELP)] = False,
) -> None:
    """Delete everything that carries the stack's tag: queues, then policies, then environments."""
    from fairshare.provision.plan import plan_teardown

    stack = context.require_project().stack
    observed = context.provisioner.observe((), stack)
    active = {
        name: len(context.jobs.list(name, WAITING_STATUSES | IN_USE_STATUSES))
        for name, queue in observed.job_queues.items()
        if queue.tags.get(OWNER_TAG) == stack
    }
    plan = plan_teardown(
        observed,
        stack,
        region=context.region,
        account_id=context.session.account_id,
        active_jobs=active,
        end_jobs=end_jobs,
    )
    _carry_out(context, plan, dry_run=dry_run, yes=yes)


def _carry_out(context: AppContext, plan: Plan, *, dry_run: bool, yes: bool) -> None:
    """Show a plan, ask, apply it and print the answer: the plan once, as text or as one document."""
    from fairshare.cli.plan_view import change_summary, plan_text
    from fairshare.cli.render import count
    from fairshare.provision.apply import apply, to_json

    shown = plan_text(plan, context.place, context.out.width)
    if context.out.is_for_people:
        context.out.write(f"{shown}\n\nPlan: {change_summary(plan)}.")
    if plan.has_changes and not dry_run:
        if not yes:
            context.confirm(f"Apply {count(len(plan.pending), 'change')}?")
        apply(plan, context.provisioner, lambda change: context.out.talk(f"{change.action.lower()}d {change.label}"))
    if not context.out.is_for_people:
        document = to_json(plan, applied=not dry_run)
        context.out.show(document.pop("kind"), document, text=lambda width: shown, rows="changes", name="name")
