"""What must hold between the parts of a ``fairshare.yaml``: names that refer to each other, shares that overlap.

The checks read the tree and not the models, so that they find what they can in a file that has other mistakes too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from fairshare.config.alarms import Kind, kinds_of_alarm
from fairshare.config.errors import did_you_mean
from fairshare.config.policy_tests import preemptions_of
from fairshare.config.quota_checks import check_quotas
from fairshare.config.yaml_source import Document, Steps
from fairshare.model import Problem
from fairshare.scheduler.policy import matching_entry

MAX_NAME_LENGTH: Final = 128
"""Of environments, policies and queues in AWS Batch."""

_QUEUES: Final[dict[Kind, str]] = {
    "fair-share": "fair-share queues",
    "fifo": "FIFO queues",
    "quota shares": "queues with quota shares",
}

_ENVIRONMENTS: Final = "service_environments"


def check_project(document: Document) -> list[Problem]:
    """Return the problems between the parts of a file, errors and warnings, in no particular order."""
    return [
        *_check_name_lengths(document),
        *_check_environments(document),
        *(problem for queue in document.keys("queues") for problem in _check_shares(document, queue)),
        *_check_default_queue(document),
        *_check_default_share(document),
        *_check_default_instance_type(document),
        *_check_alarms(document),
        *_check_policy_tests(document),
        *check_quotas(document),
    ]


def _check_name_lengths(document: Document) -> Iterator[Problem]:
    stack = document.text("stack") or ""
    for section in (_ENVIRONMENTS, "queues"):
        for key in document.keys(section):
            name = f"{stack}-{key}"
            if len(name) > MAX_NAME_LENGTH:
                message = f"the resource would be named {name[:20]}... with {len(name)} characters; AWS accepts 128"
                yield document.problem((section, key), message, hint="shorten the stack or this key", at_key=True)


def _check_environments(document: Document) -> Iterator[Problem]:
    """Queues name environments that exist; each environment has one queue, or there is a warning."""
    environments = document.keys(_ENVIRONMENTS)
    queues_of = defaultdict(list)
    for queue in document.keys("queues"):
        steps: Steps = ("queues", queue, "service_environment")
        name = document.text(*steps)
        if name is None:
            continue
        queues_of[name].append(queue)
        if name not in environments:
            hint = did_you_mean(name, environments, "service environments")
            yield document.problem(steps, f'unknown service environment "{name}" in queue {queue}', hint=hint)
    for name in environments:
        steps = (_ENVIRONMENTS, name)
        if not queues_of[name]:
            yield _warning(document, steps, f"no queue uses service environment {name}")
        elif len(queues_of[name]) > 1 and "capacity_limits" not in document.keys(_ENVIRONMENTS, name):
            queues = " and ".join(queues_of[name])
            message = f"queues {queues} share service environment {name}"
            hint = "the queue with the higher priority is served first; shares do not reach across queues"
            yield _warning(document, steps, message, hint)


def _check_shares(document: Document, queue: str) -> Iterator[Problem]:
    """Case C03: entries may not overlap; a hyphen or underscore may be refused by AWS."""
    steps: Steps = ("queues", queue, "fairshare", "shares")
    entries = document.keys(*steps)
    for entry in entries:
        if prefix := matching_entry(entry.removesuffix("*"), (e for e in entries if e.endswith("*") and e != entry)):
            message = f"share identifiers {prefix} and {entry} overlap in queue {queue}"
            hint = f"{prefix} already covers {entry}; AWS refuses both in one policy"
            yield document.problem((*steps, entry), message, hint=hint, at_key=True)
        if "-" in entry or "_" in entry:
            message = f"share identifier {entry} holds a hyphen or underscore"
            hint = "AWS documents letters and digits only and may refuse it"
            yield _warning(document, (*steps, entry), message, hint)
        if entry == "*":
            hint = "AWS documents a * only behind a prefix and may refuse it"
            yield _warning(document, (*steps, entry), "share identifier * covers every share", hint)


def _check_default_queue(document: Document) -> Iterator[Problem]:
    queues = document.keys("queues")
    queue = document.text("defaults", "queue")
    if queue is not None and not queue.startswith("arn:") and _queue_key(document, queue) is None:
        hint = did_you_mean(queue, queues, "queues") + "; a queue that others made is written as its ARN"
        yield document.problem(("defaults", "queue"), f'unknown queue "{queue}"', hint=hint)


def _check_default_share(document: Document) -> Iterator[Problem]:
    """The default share exists in the default queue if that is a fair-share queue, else in some fair-share queue."""
    share = document.text("defaults", "share")
    steps: Steps = ("defaults", "share")
    queue = document.text("defaults", "queue")
    key = None if queue is None else _queue_key(document, queue)
    if share is None or (queue is not None and key is None):
        return
    fair = [key for key in document.keys("queues") if "fairshare" in document.keys("queues", key)]
    if not fair:
        yield _warning(document, steps, "defaults.share has no effect: no queue of this file is a fair-share queue")
        return
    chosen = [key] if key in fair else fair
    entries = [document.keys("queues", name, "fairshare", "shares") for name in chosen]
    if "*" not in share and any(not names or matching_entry(share, names) for names in entries):
        return  # a policy without entries treats every share alike
    if "*" in share:
        hint = "a * stands for many shares; a job belongs to one"
        yield document.problem(steps, f"defaults.share: {share} is not one share", hint=hint)
        return
    known = list(dict.fromkeys(name for names in entries for name in names))
    message = f'unknown share "{share}" in queue {" or ".join(chosen)}'
    yield document.problem(steps, message, hint=did_you_mean(share, known, "shares"))


def _check_default_instance_type(document: Document) -> Iterator[Problem]:
    wanted = document.text("defaults", "instance_type")
    known = [
        name
        for key in document.keys(_ENVIRONMENTS)
        for name in (
            *document.texts(_ENVIRONMENTS, key, "instance_types"),
            *document.keys(_ENVIRONMENTS, key, "capacity_limits"),
        )
    ]
    if wanted is not None and known and wanted not in known:
        hint = did_you_mean(wanted, dict.fromkeys(known), "instance types")
        yield _warning(document, ("defaults", "instance_type"), f"no service environment lists {wanted}", hint)


def _check_alarms(document: Document) -> Iterator[Problem]:
    """Alarms are of queues of this file, and tell a topic of their own region: CloudWatch accepts no other."""
    queues = document.keys("queues")
    for queue in document.keys("alarms", "queues"):
        if queue not in queues:
            hint = did_you_mean(queue, queues, "queues")
            steps: Steps = ("alarms", "queues", queue)
            yield document.problem(steps, f'unknown queue "{queue}" in alarms', hint=hint, at_key=True)
            continue
        kind = _kind_of(document, queue)
        for id in document.keys("alarms", "queues", queue):
            kinds = kinds_of_alarm(id)
            if kinds and kind not in kinds and document.keys("alarms", "queues", queue, id):
                whose = " and ".join(sorted(_QUEUES[each] for each in kinds))
                message = f"only {whose} have the alarm {id}, and {queue} is of another kind: this changes nothing"
                yield _warning(document, ("alarms", "queues", queue, id), message)
    region, topic = document.text("region"), document.text("alarms", "sns_topic")
    of_topic = topic.split(":")[3:4] if topic is not None else []
    if region is not None and of_topic and of_topic != [region]:
        steps = ("alarms", "sns_topic")
        yield document.problem(steps, f"the topic is in {of_topic[0]}, and alarms of {region} cannot tell it")


def _kind_of(document: Document, queue: str) -> Kind:
    written = document.keys("queues", queue)
    return "quota shares" if "quota_shares" in written else "fair-share" if "fairshare" in written else "fifo"


def _check_policy_tests(document: Document) -> Iterator[Problem]:
    """Only quota shares preempt: elsewhere an assertion about preemptions could never fail."""
    quotas = [share for queue in document.keys("queues") for share in document.keys("queues", queue, "quota_shares")]
    for index, text in enumerate(document.texts("policy_tests")):
        if (share := preemptions_of(text)) is None:
            continue
        steps: Steps = ("policy_tests", index)
        if not quotas:
            message = f'"{text}": nothing is ever preempted on a fair-share or FIFO queue, and this file has no others'
            yield document.problem(steps, message, hint="remove it, or give a queue quota_shares")
        elif share and share not in quotas:
            message = f'"{text}": {share} is no quota share, and nothing else is ever preempted'
            yield document.problem(steps, message, hint=did_you_mean(share, dict.fromkeys(quotas), "quota shares"))


def _queue_key(document: Document, queue: str) -> str | None:
    """Return the key of a queue that is named by its key or by its name in AWS."""
    keys = document.keys("queues")
    stack = document.text("stack")
    return queue if queue in keys else next((key for key in keys if f"{stack}-{key}" == queue), None)


def _warning(document: Document, steps: Steps, message: str, hint: str = "") -> Problem:
    return document.problem(steps, message, hint=hint, severity="warning")
