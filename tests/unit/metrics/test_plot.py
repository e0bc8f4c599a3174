import re
from pathlib import Path

import pytest

from fairshare.metrics.plot import plot, render
from fairshare.metrics.ports import Point
from fairshare.metrics.series import Series
from fairshare.model import FairshareError, UsageError

SERIES = [
    Series("GPUUtilization", "algo-1", "Percent", True, (Point(0, 40), Point(60_000, 60), Point(240_000, 80)), 60),
    Series("GPUUtilization", "algo-2", "Percent", True, (Point(0, 10),), 60),
    Series("CPUUtilization", "algo-1", "Percent", False, (), 60),
]


def test_an_svg_holds_names_as_text_and_repeats_byte_for_byte():
    svg = render(SERIES, "bert <b>$x_1$", "svg")

    assert svg == render(SERIES, "bert <b>$x_1$", "svg")
    text = svg.decode()
    assert "bert &lt;b&gt;$x_1$" in text
    assert "CPUUtilization (as published)" in text
    assert "no data" in text
    assert "algo-2" in text


def test_c38_a_gap_in_the_series_is_a_gap_in_the_line():
    whole = [Series("GPUUtilization", "a", "Percent", True, tuple(Point(n * 60_000, 50) for n in range(5)), 60)]
    broken = [Series("GPUUtilization", "a", "Percent", True, tuple(Point(n * 60_000, 50) for n in (0, 1, 3, 4)), 60)]

    strokes = [
        max(path.count("M") for path in re.findall(r'd="([^"]*)"', render(series, "", "svg").decode()))
        for series in (whole, broken)
    ]
    assert strokes[1] > strokes[0]


def test_of_many_lines_the_first_are_named_and_the_others_counted():
    many = [
        Series("GPUUtilization", f"job-{n}", "Percent", True, (Point(0, n), Point(60_000, n)), 60) for n in range(40)
    ]

    text = render(many, "", "svg").decode()

    assert "job-7<" in text
    assert "job-8, 31 more<" in text
    assert "job-9" not in text


def test_a_line_along_the_edge_is_whole_and_times_are_written_out():
    full = [Series("GPUUtilization", "a", "Percent", True, tuple(Point(n * 1000, 100) for n in range(9)), 1)]

    text = render(full, "", "svg").decode()

    assert "00:00:05<" in text
    assert "1970-01-01<" in text
    heights = {
        float(y) for y in re.findall(r'<use xlink:href="#\w+" x="[0-9.]+" y="([0-9.]+)" style="fill: #1f77b4', text)
    }
    top = min(float(y) for y in re.findall(r"M [0-9.]+ [0-9.]+ \nL [0-9.]+ ([0-9.]+)", text))
    assert min(heights) > top


def test_a_page_is_complete_in_itself(tmp_path: Path):
    path = tmp_path / "use.html"
    plot(SERIES, "<script>", path)
    page = path.read_text()

    assert page.startswith("<!doctype html>")
    assert "<script>" not in page
    assert not re.search(r'(?:src|href)="(?!#)', page)


def test_a_png_is_a_png(tmp_path: Path):
    plot(SERIES[:1], "bert", tmp_path / "use.png")

    assert (tmp_path / "use.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", ["use", "use.pdf"])
def test_a_name_that_says_no_format_is_refused(tmp_path: Path, name):
    with pytest.raises(UsageError, match=f"--plot: {name} does not say what to draw") as caught:
        plot(SERIES, "bert", tmp_path / name)

    assert caught.value.hint == "end it in .svg, .png or .html"


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(FairshareError, match=r"cannot write .*missing.use\.svg: No such file or directory"):
        plot([], "bert", tmp_path / "missing" / "use.svg")
