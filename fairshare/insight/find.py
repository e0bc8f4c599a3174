"""The job a person means by its name or id, a unique prefix of either, or its ARN."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from fairshare.insight.jobs import latest_by_id
from fairshare.model import ACTIVE_STATUSES, JobSummary, NotFoundError, UsageError
from fairshare.submit.ports import JobBackend

_FULL_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SHOWN: Final = 8
"""Matches that an error lists at most."""


def job_id_in(text: str) -> str | None:
    """Return the job id when ``text`` is a whole id or an ARN, without asking AWS; None when it must be looked up."""
    if text.startswith("arn:"):
        return text.rsplit("/", 1)[-1]
    return text if _FULL_ID.fullmatch(text) else None


def find_jobs(backend: JobBackend, queue: str | None, wanted: Sequence[str]) -> dict[str, JobSummary]:
    """Return the job that each text means, by text, in the order given.

    Jobs that are still going are looked at first, so a prefix need not be unique among all that ever ran; only when
    none of them matches is the history read. An exact id wins over an exact name, a name over a prefix of an id, and
    that over a prefix of a name: ``digits-lr0-1`` means ``digits-lr0-1-5cc349``, whose end `submit` made.

    Args:
        backend: AWS Batch.
        queue: where to look for names and prefixes; None is enough for whole ids and ARNs.
        wanted: what the user typed.

    Raises:
        NotFoundError: nothing goes by one of the texts.
        UsageError: a text fits several jobs, is empty, or needs a queue.
    """
    ids = {text: job_id for text in wanted if (job_id := job_id_in(text)) is not None}
    found: dict[str, JobSummary] = {}
    described = backend.describe(list(dict.fromkeys(ids.values()))) if ids else {}
    for text, job_id in ids.items():
        if job_id not in described:
            raise _not_found(text, queue, ())
        found[text] = described[job_id]
    if open_texts := [text for text in dict.fromkeys(wanted) if text not in ids]:
        found |= _look_up(backend, queue, open_texts)
    return {text: found[text] for text in wanted}


def find_job(backend: JobBackend, queue: str | None, wanted: str) -> JobSummary:
    """Return the one job that ``wanted`` means; raises as `find_jobs` does."""
    return find_jobs(backend, queue, [wanted])[wanted]


def _look_up(backend: JobBackend, queue: str | None, texts: Sequence[str]) -> dict[str, JobSummary]:
    if "" in texts:
        raise UsageError(
            "a job was given as an empty text", hint="give a name, an id, a unique prefix of one, or an ARN"
        )
    if queue is None:
        raise UsageError(
            f"no queue is chosen in which to look for {texts[0]!r}",
            hint="name it with -q QUEUE, or give the whole job id or its ARN",
        )
    active = latest_by_id(backend.list(queue, ACTIVE_STATUSES))
    found = {text: job for text in texts if (job := _match(text, active)) is not None}
    missing = [text for text in texts if text not in found]
    if missing:
        everything = latest_by_id(backend.list(queue, None))
        for text in missing:
            job = _match(text, everything)
            if job is None:
                raise _not_found(text, queue, {job.job_name for job in everything})
            found[text] = job
    return found


def _match(text: str, jobs: Sequence[JobSummary]) -> JobSummary | None:
    for matches in (
        [job for job in jobs if job.job_id == text],
        [job for job in jobs if job.job_name == text],
        [job for job in jobs if job.job_id.startswith(text)],
        [job for job in jobs if job.job_name.startswith(text)],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise _ambiguous(text, matches)
    return None


def _ambiguous(text: str, matches: Sequence[JobSummary]) -> UsageError:
    newest = sorted(matches, key=lambda job: -job.created_at)
    lines = [f"  {job.job_id}  {job.job_name}  {job.status}" for job in newest[:_SHOWN]]
    if len(newest) > _SHOWN:
        lines.append(f"  and {len(newest) - _SHOWN} more")
    return UsageError(
        "\n".join([f"{text!r} fits {len(matches)} jobs:", *lines]), hint="give more of the name, or the id"
    )


def _not_found(text: str, queue: str | None, names: Collection[str]) -> NotFoundError:
    where = f" in queue {queue}" if queue else ""
    close = get_close_matches(text, sorted(names), n=1)
    guess = f"did you mean {close[0]}? " if close else ""
    return NotFoundError(
        f"no job goes by {text!r}{where}",
        hint=f"{guess}`fairshare queue --all` lists the jobs; Batch forgets one 7 days after its end",
    )
