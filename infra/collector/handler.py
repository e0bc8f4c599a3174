"""AWS Lambda entry of the collector: publishes the gauges of queues and shares that AWS does not publish.

It shares the package's code, needs boto3 and nothing else, and takes its configuration from the environment:
``FAIRSHARE_QUEUES`` (names or ARNs, separated by commas) and ``FAIRSHARE_STACK`` (of queues without the tag
``fairshare:stack``). Two kinds of event reach it:

- a schedule: look at every queue and publish its gauges;
- EventBridge's ``Batch Service Job State Change``: when the job has ended, count it.

The README beside this file says why, and how to deploy it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from fairshare.aws.jobs import summary_from
from fairshare.aws.metrics import CloudWatch
from fairshare.aws.queues import BatchQueues
from fairshare.aws.session import AwsSession
from fairshare.insight.collect import Cursor, gauges, look_at
from fairshare.insight.queue_state import gauges_of_end
from fairshare.metrics.gauges import gauge_data
from fairshare.metrics.ports import Datum
from fairshare.model import TERMINAL_STATUSES
from fairshare.scheduler.clock import SystemClock

STATE_CHANGE: Final = "Batch Service Job State Change"
"""Detail type of the events that tell of a service job
(https://docs.aws.amazon.com/batch/latest/userguide/batch_job_events.html)."""

_cursors: dict[str, Cursor] = {}
"""What decides about each queue, kept while Lambda keeps this process: it saves calls and nothing else."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, int]:
    """Answer one event of EventBridge; return how many values were published.

    Raises:
        KeyError: ``FAIRSHARE_QUEUES`` or ``AWS_REGION`` is not set.
        FairshareError: AWS refused, or cannot be asked.
    """
    session = _session(os.environ["AWS_REGION"])
    stack = os.environ.get("FAIRSHARE_STACK", "")
    now = SystemClock().now()
    data = _end_data(event["detail"], stack, now) if event.get("detail-type") == STATE_CHANGE else None
    if data is None:
        data = _queue_data(session, os.environ["FAIRSHARE_QUEUES"], stack, now)
    if data:
        CloudWatch(session).put(data)
    return {"published": len(data)}


@cache
def _session(region: str) -> AwsSession:
    """One for this process: making clients takes longer than most calls."""
    return AwsSession(region=region)


def _end_data(detail: Mapping[str, Any], stack: str, now: int) -> list[Datum]:
    """The end of a job, when the event tells of one."""
    job = summary_from(detail)
    if job.status not in TERMINAL_STATUSES:
        return []
    ended = gauges_of_end(str(detail["jobQueue"]).rsplit("/", 1)[-1], stack, job)
    return gauge_data(ended, now if job.stopped_at is None else job.stopped_at)


def _queue_data(session: AwsSession, queues: str, stack: str, now: int) -> list[Datum]:
    source, metrics = BatchQueues(session), CloudWatch(session)
    looks = []
    for queue in filter(None, map(str.strip, queues.split(","))):
        look = look_at(queue, source, metrics, now=now, cursor=_cursors.get(queue), stack=stack, counts_ends=False)
        _cursors[queue] = look.cursor
        looks.append(look)
    return [datum for each in gauges(looks, now) for datum in gauge_data(each, now)]
