"""What a reader of a simulation must know: the model, the choices AWS leaves open, and what somebody assumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fairshare.model import MODEL_VERSION
from fairshare.scheduler.policy import matching_entry
from fairshare.simulate.document import options_document
from fairshare.simulate.figures import Figures
from fairshare.simulate.settings import Setting
from fairshare.simulate.workload import Workload

_SHOWN: Final = 5


def notes_of(workload: Workload, settings: Sequence[Setting], policies: Sequence[Figures] = ()) -> list[str]:
    """Return one sentence for each; ``policies`` tell of jobs that are in no wait."""
    notes = [f"Model {MODEL_VERSION}, not AWS itself: {switches_text(settings)}."]
    notes += [f"{text}." for text in workload.assumptions]
    if workload.left_out:
        notes.append(f"{workload.left_out:,} jobs of the workload never ran and are left out.")
    for setting in settings:
        if strangers := _unlisted(workload, setting):
            shown = ", ".join(strangers[:_SHOWN]) + (", ..." if len(strangers) > _SHOWN else "")
            who = (
                "1 share is not in the policy and weighs"
                if len(strangers) == 1
                else (f"{len(strangers)} shares are not in the policy and weigh")
            )
            notes.append(f"{setting.name}: {who} 1 ({shown}).")
    return [*notes, *(text for figures in policies for text in _without_wait(figures))]


def _without_wait(figures: Figures) -> Iterator[str]:
    """Yield what became of the jobs that never started."""
    for reason, number in figures.given_up.items():
        who = "1 job was" if number == 1 else f"{number:,} jobs were"
        yield f"{figures.name}: {who} ended by a time limit ({reason}) and never started; no wait counts them."
    if figures.unfinished:
        who = "1 job" if figures.unfinished == 1 else f"{figures.unfinished:,} jobs"
        yield f"{figures.name}: {who} never ended; no wait counts what never started."


def switches_text(settings: Iterable[Setting]) -> str:
    """Return every open switch with its value, and with all its values where settings differ."""
    values: dict[str, dict[str, None]] = {}
    for setting in settings:
        for name, value in options_document(setting.options).items():
            values.setdefault(name, {})[str(value)] = None
    return ", ".join(f"{name} {' or '.join(each)}" for name, each in values.items())


def _unlisted(workload: Workload, setting: Setting) -> list[str]:
    """Return the shares that a fair-share policy does not list; none if it lists no share at all."""
    found = set()
    for queue, share in {(job.queue or setting.queue, job.share) for job in workload.jobs}:
        weights = {} if queue in setting.quota_shares else setting.weights[queue]
        if setting.queues[queue].policy is not None and weights and matching_entry(share, weights) is None:
            found.add(share)
    return sorted(found)
