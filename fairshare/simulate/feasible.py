"""Which jobs of a workload a setting can take at all, and what becomes of those that can never start.

A job that is too large waits at the head of its queue, and everything behind it waits with it. Where the queue has a
time limit for that reason AWS ends the job when it has been there so long; without one it would be there for ever,
so nothing is simulated.
"""

from __future__ import annotations

from fairshare.config.errors import did_you_mean
from fairshare.model import InfeasibleError, UsageError
from fairshare.scheduler.books import Terms, obstacle
from fairshare.scheduler.engine import PutQuotaShare
from fairshare.scheduler.heads import TOO_LARGE, over_quota
from fairshare.simulate.settings import Setting
from fairshare.simulate.workload import WorkJob, Workload


def hopeless_jobs(workload: Workload, setting: Setting) -> frozenset[int]:
    """Return the indexes of the jobs that can never start, and that a time limit of their queue will end.

    Raises:
        UsageError: a job names a queue or a quota share that the setting does not have, or no instance type where its
            share has several.
        InfeasibleError: a job can never start, and no time limit of its queue will end it.
    """
    hopeless: set[int] = set()
    alike: dict[tuple[str, str, str, int], bool] = {}
    too_large: dict[str, list[int]] = {}
    for index, job in enumerate(workload.jobs):
        queue = job.queue or setting.queue
        if queue not in setting.queues:
            hint = did_you_mean(queue, setting.queues, "queues")
            raise UsageError(
                f"job {job.id} goes to queue {queue}, which policy {setting.name} does not have", hint=hint
            )
        if queue in setting.quota_shares:
            what = queue, job.share, job.instance_type, job.demand
            if what not in alike:
                alike[what] = _is_beyond_quota(job, queue, setting)
            if alike[what]:
                hopeless.add(index)
        elif job.demand > setting.capacity_of(queue):
            if _is_ended(setting, queue, TOO_LARGE.code):
                hopeless.add(index)
            else:
                too_large.setdefault(queue, []).append(job.demand)
    for queue, demands in too_large.items():
        _refuse(queue, demands, workload, setting)
    return frozenset(hopeless)


def _is_ended(setting: Setting, queue: str, reason: str) -> bool:
    """Whether a time limit of a queue ends the job at its head that is blocked for a reason."""
    return any(limit.reason == reason for limit in setting.queues[queue].time_limits)


def _refuse(queue: str, demands: list[int], workload: Workload, setting: Setting) -> None:
    environment = setting.queues[queue].environment
    raise InfeasibleError(
        f"{len(demands)} of {len(workload.jobs)} jobs of {workload.name} need up to {max(demands)} instances; "
        f"{environment} has {setting.capacity_of(queue)}, so they would block queue {queue} for ever",
        hint=f"give --capacity {environment}={max(demands)}, or count in larger units with --unit",
    )


def _is_beyond_quota(job: WorkJob, queue: str, setting: Setting) -> bool:
    """Whether a job can never start in its quota share; raises where nothing would end it."""
    shares = {share.name: _terms(share) for share in setting.quota_shares[queue]}
    share = setting.quota_share_of(queue, job.share)
    if share is None:
        hint = did_you_mean(job.share, shares, "quota shares")
        raise UsageError(f"job {job.id} is of quota share {job.share}, which queue {queue} does not have", hint=hint)
    instance_type = job.instance_type or setting.only_type_of(queue, job.share)
    limits = setting.limits_of(queue)
    if instance_type not in limits:
        has = ", ".join(limits)
        raise UsageError(
            f"job {job.id} of quota share {job.share} names no instance type that queue {queue} has ({has})",
            hint="write instance_type in its stream, or map it with --map type=COLUMN",
        )
    text, code = obstacle(share.name, ((instance_type, job.demand),), shares), over_quota("").code
    if job.demand > limits[instance_type]:
        text, code = f"the environment has {limits[instance_type]}", TOO_LARGE.code
    if text is None or _is_ended(setting, queue, code):
        return text is not None
    raise InfeasibleError(
        f"job {job.id} needs {job.demand} instances of {instance_type}; its quota share {share.name} could never "
        f"start it: {text}",
        hint="raise the share's capacity_limits or borrow_limit, or the environment's limits with --capacity",
    )


def _terms(share: PutQuotaShare) -> Terms:
    limits = {limit.capacity_unit: limit.max_capacity for limit in share.capacity_limits}
    return Terms(limits, share.sharing, share.borrow_limit, share.in_share_preemption)
