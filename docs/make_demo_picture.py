"""Run ``fairshare demo`` and draw what it prints: ``python docs/make_demo_picture.py`` rewrites docs/demo.svg."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 92
PICTURE = Path(__file__).with_name("demo.svg")


def main() -> None:
    demo = subprocess.run(
        [sys.executable, "-m", "fairshare", "demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ fairshare demo", style="bold"))
    for line in shortened(demo.stdout.splitlines()):
        console.print(Text(line, style=style_of(line)))
    svg = console.export_svg(title="fairshare demo", font_aspect_ratio=0.61)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # no fonts from elsewhere: the picture is offline
    PICTURE.write_text(svg.replace("Fira Code", "ui-monospace, Menlo, Consolas"))


def shortened(lines: list[str]) -> list[str]:
    """Leave out the middle of the story: the beginning of the queue's log and the result tell it."""
    events = [index for index, line in enumerate(lines) if re.match(r" *\d+\.\d s  (RUN|SUCC)", line)]
    kept = events[:14]
    hidden = set(events[14:])
    head = [line for index, line in enumerate(lines) if index not in hidden]
    at = head.index(lines[kept[-1]]) + 1
    return [*head[:at], "    ...", *head[at:]]


def style_of(line: str) -> str:
    """Colour by what a line is about."""
    if line.startswith("$"):
        return "bold"
    if "HIGHPRI" in line:
        return "bright_green"
    if "MIDPRI" in line:
        return "bright_cyan"
    if "LOWPRI" in line:
        return "bright_yellow"
    return "bold" if re.match(r"^(MODEL|SHARE) ", line) else "default"


if __name__ == "__main__":
    main()
