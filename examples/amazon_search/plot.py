"""Draws utilisation.png of results.json: the median over the seeds, with the smallest and the largest."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from run import COMPRESSIONS, POLICIES, TEAMS

HERE = Path(__file__).parent
COLOURS = {"kth": "#4c78a8", "atlas": "#f58518"}


def main() -> None:
    rows = json.loads((HERE / "results.json").read_text(encoding="utf-8"))["runs"]
    figure, axes = plt.subplots(figsize=(8, 3.6), dpi=150, facecolor="white")
    for number, (trace, colour) in enumerate(COLOURS.items()):
        for place, policy in enumerate(POLICIES):
            used = [
                row["utilization"]
                for row in rows
                if (row["trace"], row["policy"], row["compression"], row["first_family_percent"])
                == (trace, policy, COMPRESSIONS[-1], 50)
            ]
            median = statistics.median(used)
            at = place + (0.2 if number else -0.2)
            label = trace if place == 0 else None
            axes.barh(at, median, height=0.36, color=colour, label=label)
            axes.plot([min(used), max(used)], [at, at], color="black", linewidth=1.2)
            axes.text(max(used) + 0.01, at, f"{median:.0%}", va="center", fontsize=8)
    axes.set_yticks(range(len(POLICIES)), [make(TEAMS).name for make in POLICIES.values()], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.08)
    axes.set_xlabel("instances in use, two families, more work than fits; black: smallest to largest of 20 seeds")
    axes.xaxis.label.set_size(8)
    axes.legend(loc="upper right", fontsize=8)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    figure.savefig(HERE / "utilisation.png")


if __name__ == "__main__":
    main()
