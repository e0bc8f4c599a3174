"""What holds up a busy pool of two instance families, and what a fair-share or quota-share queue changes about it.

Two public traces are replayed on a pool of two families. See README.md, which says what is assumed; nothing here calls
AWS. ``python run.py`` takes a minute; ``python run.py --seeds 20 --save results.json`` is what README.md shows.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from multiprocessing import Pool
from pathlib import Path
from random import Random
from typing import Any, Final
from zlib import crc32

from fairshare.model import MODEL_VERSION, CapacityLimit, FairsharePolicy, QuotaSharePolicy, SharingStrategy
from fairshare.scheduler.engine import Blocking, EngineOptions, PutEnvironment, PutQueue, PutQuotaShare
from fairshare.simulate.columns import parse_map
from fairshare.simulate.course import NOT_YET, Course
from fairshare.simulate.runner import simulate
from fairshare.simulate.settings import Setting, one_line
from fairshare.simulate.trace import TraceFormat, load_trace
from fairshare.simulate.workload import WorkJob, Workload, workload_of

DATA: Final = Path(__file__).parent / "data"
FAMILIES: Final = ("ml.p5.48xlarge", "ml.p4d.24xlarge")
CAPACITY: Final = {"kth": 50, "atlas": 576}
"""Instances of each family: half of the traced machine. Jobs that are larger are cut to it."""

COMPRESSIONS: Final = (1, 2, 4)
"""How many times as fast as recorded jobs arrive: they ask for some 70, 140 and 280 % of the pool."""

TEAMS: Final = 8
"""Quota shares of a queue. AWS allows 20, so the users of a trace are folded into teams."""

DECAY_SECONDS: Final = 86_400
GANG_PERCENT: Final = 1
"""The largest gangs are the largest jobs, this many per cent of all."""

Make = Callable[[int], Setting]


def one_line_for_both(capacity: int) -> Setting:
    """One strict line for both families: its head waits for its own family, and everybody behind waits with it."""
    limits = dict.fromkeys(FAMILIES, capacity)
    owned = tuple(CapacityLimit(number, family) for family, number in limits.items())
    return Setting(
        name="one FIFO for both families",
        environments={"both": PutEnvironment("both", 2 * capacity, capacity_limits=owned)},
        queues={"both": PutQueue("both", "both", policy=QuotaSharePolicy())},
        queue="both",
        weights={"both": {}},
        quota_shares={"both": [one_line("both", limits)]},
    )


def queue_per_family(name: str, capacity: int, policy: FairsharePolicy | None, blocking: Blocking) -> Setting:
    """A queue and an environment for each family; ``blocking`` is what a head that does not fit holds up."""
    return Setting(
        name=name,
        environments={family: PutEnvironment(family, capacity) for family in FAMILIES},
        queues={family: PutQueue(family, family, policy=policy) for family in FAMILIES},
        queue=FAMILIES[0],
        weights={family: {} for family in FAMILIES},
        options=EngineOptions(blocking=blocking),
    )


def quota_shares_per_family(capacity: int) -> Setting:
    """A queue for each family whose teams own equal parts of it, lend what they do not use, and borrow."""
    sizes = [capacity // TEAMS + (team < capacity % TEAMS) for team in range(TEAMS)]
    return Setting(
        name="quota shares per family",
        environments={
            family: PutEnvironment(family, capacity, capacity_limits=(CapacityLimit(capacity, family),))
            for family in FAMILIES
        },
        queues={family: PutQueue(family, family, policy=QuotaSharePolicy()) for family in FAMILIES},
        queue=FAMILIES[0],
        weights={family: {} for family in FAMILIES},
        quota_shares={
            family: [
                PutQuotaShare(f"team{team}", family, (CapacityLimit(size, family),), SharingStrategy.LEND_AND_BORROW)
                for team, size in enumerate(sizes)
            ]
            for family in FAMILIES
        },
    )


FAIR: Final = FairsharePolicy(share_decay_seconds=DECAY_SECONDS)
POLICIES: Final[dict[str, Make]] = {
    "one-fifo": one_line_for_both,
    "fifo-per-family": partial(queue_per_family, "one FIFO per family", policy=None, blocking=Blocking.QUEUE),
    "fair-queue": partial(
        queue_per_family, "fair-share, a head blocks its queue", policy=FAIR, blocking=Blocking.QUEUE
    ),
    "fair-share": partial(
        queue_per_family, "fair-share, a head blocks its share", policy=FAIR, blocking=Blocking.SHARE
    ),
    "quota-shares": quota_shares_per_family,
    "backfill": partial(queue_per_family, "FIFO, nobody waits for a head", policy=None, blocking=Blocking.NONE),
}
"""What is compared, in the order of the tables."""


@cache
def trace(name: str) -> Workload:
    """Return a trace as it was recorded, but for jobs that are larger than a family."""
    columns = parse_map("submit=submit,duration=run,size=size,share=user")
    recorded = load_trace(DATA / f"{name}.csv.gz", TraceFormat("csv", columns))
    capacity = CAPACITY[name]
    return replace(recorded, jobs=[job._replace(demand=min(job.demand, capacity)) for job in recorded.jobs])


def workload(name: str, seed: int, compression: int, policy: str, first_family_percent: int = 50) -> Workload:
    """Return a trace that arrives faster, each job pinned to a family at random: alike for all policies of a seed."""
    random = Random(f"{name}/{seed}")

    def placed(job: WorkJob) -> WorkJob:
        family = FAMILIES[random.randrange(100) >= first_family_percent]
        at = job.submit_at // compression
        if policy == "one-fifo":
            return job._replace(submit_at=at, instance_type=family)
        share = f"team{crc32(job.share.encode()) % TEAMS}" if policy == "quota-shares" else job.share
        return job._replace(submit_at=at, queue=family, instance_type=family, share=share)

    return workload_of(name, map(placed, trace(name).jobs))


def figures(course: Course, capacity: int) -> dict[str, float]:
    """Return what a run came to. Waits are seconds; utilisation is of both families, without the first and last
    twentieth of the starts, when the pool fills and empties."""
    jobs, attempts = course.workload.jobs, list(course.attempts())
    starts = sorted(attempt.start for attempt in attempts)
    begin, end = starts[len(starts) // 20], starts[-len(starts) // 20]
    used = sum(
        max(0, min(attempt.end, end) - max(attempt.start, begin)) * jobs[attempt.job].demand for attempt in attempts
    )
    lost = sum((a.end - a.start) * jobs[a.job].demand for a in attempts if a.is_preempted)
    work = sum(job.run_time * job.demand for job in jobs)
    waits = [start - job.submit_at for start, job in zip(course.first_starts, jobs, strict=True)]
    assert NOT_YET not in course.last_ends, "every job ends"
    by_size = sorted(range(len(jobs)), key=lambda index: -jobs[index].demand)
    gangs = sorted(waits[index] for index in by_size[: math.ceil(len(jobs) * GANG_PERCENT / 100)])
    span = course.end - course.begin
    return {
        "utilization": round(used / (2 * capacity * (end - begin)), 4),
        "whole_utilization": round(work / (2 * capacity * span), 4),
        "jobs_per_hour": round(len(jobs) * 3_600_000 / span, 2),
        "mean_wait": round(statistics.fmean(waits) / 1000),
        "gang_wait_p50": round(gangs[len(gangs) // 2] / 1000),
        "gang_wait_max": round(gangs[-1] / 1000),
        "preemptions": sum(course.preempted),
        "lost_fraction": round(lost / work, 4),
    }


def cell(task: tuple[str, int, str, int, int]) -> dict[str, Any]:
    """Run one policy on one trace, compression, family split and seed."""
    name, compression, policy, percent, seed = task
    capacity = CAPACITY[name]
    course = simulate(workload(name, seed, compression, policy, percent), POLICIES[policy](capacity))
    where = {"trace": name, "compression": compression, "policy": policy, "first_family_percent": percent, "seed": seed}
    return where | figures(course, capacity)


def tasks(traces: Sequence[str], seeds: int) -> Iterator[tuple[str, int, str, int, int]]:
    """Yield every cell, and at the highest compression those of a pool whose families are not asked for alike."""
    for name in traces:
        for seed in range(seeds):
            for policy in POLICIES:
                yield from ((name, compression, policy, 50, seed) for compression in COMPRESSIONS)
                yield name, COMPRESSIONS[-1], policy, 70, seed


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the results as Markdown tables: medians over the seeds, with the smallest and the largest utilisation."""
    parts = []
    settings = dict.fromkeys((row["trace"], row["compression"], row["first_family_percent"]) for row in rows)
    for name, compression, percent in settings:
        parts.append(
            f"**{name}, arrivals {compression} times as fast, families {percent}/{100 - percent}**\n\n"
            "| policy | utilisation (min - max) | jobs per hour | mean wait | largest gangs: median wait | longest |"
            " work lost |\n|---|---|---|---|---|---|---|"
        )
        for policy in POLICIES:
            chosen = [
                row
                for row in rows
                if (row["trace"], row["compression"], row["first_family_percent"], row["policy"])
                == (name, compression, percent, policy)
            ]
            if chosen:
                parts[-1] += "\n" + _line(POLICIES[policy](1 * TEAMS).name, chosen)
    return "\n\n".join(parts) + "\n"


def _line(title: str, rows: Sequence[dict[str, Any]]) -> str:
    def median(key: str) -> float:
        return float(statistics.median(row[key] for row in rows))

    used = [row["utilization"] for row in rows]
    hours = [f"{median(key) / 3600:,.1f} h" for key in ("mean_wait", "gang_wait_p50", "gang_wait_max")]
    spread = f"{statistics.median(used):.2f} ({min(used):.2f} - {max(used):.2f})"
    return (
        f"| {title} | {spread} | {median('jobs_per_hour'):,.1f} | {' | '.join(hours)} | {median('lost_fraction'):.1%} |"
    )


def assumptions(seeds: int) -> str:
    """Return what the figures rest on."""
    sizes = ", ".join(f"{name} {number}" for name, number in CAPACITY.items())
    return "\n".join(
        [
            f"Model {MODEL_VERSION} of AWS Batch's scheduler, not AWS itself. Seeds: {seeds}. What is assumed:",
            "- each job needs one of two families, drawn by the seed; no trace tells any",
            f"- a family has half of the traced machine's instances ({sizes}); larger jobs are cut to that",
            "- a job is a gang: it starts when all its instances are free",
            "- jobs arrive as recorded, or faster; they run as long as recorded, and never fail",
            f"- every user is a share of weight 1, with a decay of {DECAY_SECONDS // 3600} h",
            f"- for quota shares users are folded into {TEAMS} teams, which own equal parts of each family",
            "- a preempted job begins again; there are no priorities, so nothing is preempted inside a share",
            "- whether AWS lets other shares pass a blocked head is not published: both answers are shown",
        ]
    )


def main() -> int:
    """Run, print the tables, and keep the results if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=1, metavar="N", help="pinnings to try (default: 1)")
    parser.add_argument("--trace", action="append", choices=sorted(CAPACITY), help="one trace only")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="at the same time (default: 2)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write every run as JSON")
    args = parser.parse_args()
    if args.seeds < 1 or args.processes < 1:
        parser.error("--seeds and --processes are at least 1")
    todo = list(tasks(args.trace or sorted(CAPACITY, reverse=True), args.seeds))
    rows = []
    with Pool(args.processes) as pool:
        for number, row in enumerate(pool.imap(cell, todo), 1):
            rows.append(row)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(todo)} runs", end="", file=sys.stderr, flush=True)
    print(assumptions(args.seeds), table(rows), sep="\n\n")
    if args.save is not None:
        document = {"model_version": MODEL_VERSION, "seeds": args.seeds, "runs": rows}
        args.save.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
