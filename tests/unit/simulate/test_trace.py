"""Traces: SWF and CSV, column maps, and lines that cannot be read."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from fairshare.model import InvalidFileError, UsageError
from fairshare.simulate.columns import parse_map
from fairshare.simulate.trace import TraceFormat, is_trace, load_trace
from fairshare.simulate.workload import merge

SWF_LINE = "7 100 -1 60 12 -1 -1 12 900 -1 1 3 1 -1 2 -1 -1 -1"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def csv_format(mapped: str, unit: int = 1) -> TraceFormat:
    return TraceFormat(mapped=parse_map(mapped), unit=unit)


def test_swf_counts_allocated_processors_in_units_rounded_up(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path / "a.swf", f"; a comment\n\n{SWF_LINE}\n"), TraceFormat(unit=8))

    assert [tuple(job) for job in trace.jobs] == [("7", 0, 60_000, 2, "user3", 0, "", "")]
    assert trace.assumptions == (
        "a.swf: each user is a share",
        "a.swf: 8 of its units are one instance, rounded up",
    )


def test_swf_jobs_that_never_ran_are_left_out_whatever_their_status(tmp_path: Path) -> None:
    lines = [SWF_LINE, SWF_LINE.replace(" 60 ", " 0 "), SWF_LINE.replace(" 60 12 ", " 60 -1 ")]
    trace = load_trace(write(tmp_path / "a.swf", "\n".join(lines)), TraceFormat())

    assert (len(trace.jobs), trace.left_out) == (1, 2)


def test_any_swf_field_can_be_mapped(tmp_path: Path) -> None:
    mapped = csv_format("share=queue,size=req_procs,duration=req_time")
    trace = load_trace(write(tmp_path / "a.swf", SWF_LINE), mapped)

    assert [(job.share, job.demand, job.run_time) for job in trace.jobs] == [("queue2", 12, 900_000)]


@pytest.mark.parametrize(
    ("written", "shares"),
    [
        (("12", "7", "12"), ["team12", "team7", "team12"]),
        (("12", "-1", ""), ["team12", "none", "none"]),
        (("103959", "11cb48", "b436b2"), ["103959", "11cb48", "b436b2"]),
        (("nlp", "", "7"), ["nlp", "none", "7"]),
    ],
)
def test_shares_are_named_after_their_column_where_all_are_bare_numbers(
    tmp_path: Path, written: tuple[str, ...], shares: list[str]
) -> None:
    rows = "".join(f"{at},60,1,{share}\n" for at, share in enumerate(written))
    mapped = csv_format("submit=when,duration=secs,size=gpus,share=team")
    trace = load_trace(write(tmp_path / "a.csv", f"when,secs,gpus,team\n{rows}"), mapped)

    assert [job.share for job in trace.jobs] == shares


def test_gzipped_traces_read_like_others(tmp_path: Path) -> None:
    path = tmp_path / "a.swf.gz"
    path.write_bytes(gzip.compress(SWF_LINE.encode()))

    assert len(load_trace(path, TraceFormat()).jobs) == 1


def test_csv_columns_by_name_with_dates(tmp_path: Path) -> None:
    text = "when,secs,gpus,team\n2026-12-01 08:01:00,90.5,3,vision\n2026-12-01T09:00:00+01:00,60,1,nlp\n"
    mapped = csv_format("submit=when,duration=secs,size=gpus,share=team")
    trace = load_trace(write(tmp_path / "a.csv", text), mapped)

    assert [tuple(job)[:5] for job in trace.jobs] == [("2", 0, 60_000, 1, "nlp"), ("1", 60_000, 90_500, 3, "vision")]


def test_csv_without_a_header_by_number(tmp_path: Path) -> None:
    trace = load_trace(write(tmp_path / "a.csv", "5,10,2\n6,10,2\n"), csv_format("submit=#1,duration=#2,size=#3"))

    assert [job.submit_at for job in trace.jobs] == [0, 1000]
    assert {job.share for job in trace.jobs} == {"all"}


def test_columns_can_be_calculated_with(tmp_path: Path) -> None:
    text = "start_time,end_time,inst_num,plan_gpu,prio\n100,160,4,50,2\n200,,4,50,3\n"
    mapped = csv_format(
        "submit=start_time,duration=end_time-start_time,size=inst_num*plan_gpu/100,priority=prio,time=ms"
    )
    trace = load_trace(write(tmp_path / "a.csv", text), mapped)

    assert [(job.run_time, job.demand, job.priority) for job in trace.jobs] == [(60, 2, 2)]
    assert trace.left_out == 1


def test_dates_can_be_subtracted(tmp_path: Path) -> None:
    text = "submit,begin,end,n\n2026-12-01 08:00,2026-12-01 08:10,2026-12-01 09:10,1\n"
    trace = load_trace(write(tmp_path / "a.csv", text), csv_format("submit=submit,duration=end-begin,size=n,time=ms"))

    assert trace.jobs[0].run_time == 3_600_000


def test_malformed_lines_are_told_with_their_numbers(tmp_path: Path) -> None:
    text = "at,run,n\n1,2,1\n1,soon,1\n1,2\n,2,1\n1,2,1\ninf,2,1\n"

    with pytest.raises(InvalidFileError) as refused:
        load_trace(write(tmp_path / "a.csv", text), csv_format("submit=at,duration=run,size=n"))

    assert [(p.line, p.message) for p in refused.value.problems] == [
        (3, "'soon' is neither a number nor a time such as 2026-12-01 08:00:00"),
        (4, "has 2 fields, not 3"),
        (5, "a job that ran has no time of submission"),
        (7, "'inf' is not a number"),
    ]
    assert f"{tmp_path / 'a.csv'}:3:1: error: 'soon' is neither" in str(refused.value)


def test_a_malformed_swf_line_names_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"a\.swf:2:1: error: has 3 fields, not 18"):
        load_trace(write(tmp_path / "a.swf", f"{SWF_LINE}\n1 2 3\n"), TraceFormat())


def test_many_problems_end_early(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError) as refused:
        load_trace(write(tmp_path / "a.swf", "1 2 3\n" * 1000), TraceFormat())

    assert len(refused.value.problems) == 21
    assert refused.value.problems[-1].message == "more problems follow"


@pytest.mark.parametrize(
    ("mapped", "message", "hint"),
    [
        ("submit=at,duration=rnu,size=n", "--map: there is no column rnu", "did you mean run? (columns: at, run, n)"),
        ("submit=at", "no column is mapped to duration, size (columns: at, run, n)", "--map submit=submit_time"),
        ("sbmit=at", "--map: there is no sbmit", "did you mean submit?"),
        ("submit", "--map: 'submit' maps nothing", "write --map submit=submit_time"),
        ("submit=at,time=days", "--map: time=days is no unit", "write one of us, ms, s, m, h"),
        ("submit=at,duration=run,size=n-m", "--map: there is no column m", "columns: at, run, n"),
    ],
)
def test_wrong_maps(tmp_path: Path, mapped: str, message: str, hint: str) -> None:
    path = write(tmp_path / "a.csv", "at,run,n\n1,2,1\n")

    with pytest.raises(UsageError) as refused:
        load_trace(path, csv_format(mapped))

    assert message in refused.value.message
    assert hint in (refused.value.hint or "")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "cut.swf.gz").write_bytes(gzip.compress(SWF_LINE.encode() * 50)[:-20])
    (tmp_path / "latin.swf").write_bytes(b"; M\xfcnchen\n")

    with pytest.raises(InvalidFileError, match=r"cut\.swf\.gz: error: is not a whole gzip file"):
        load_trace(tmp_path / "cut.swf.gz", TraceFormat())
    with pytest.raises(InvalidFileError, match=r"latin\.swf: error: is not UTF-8 text"):
        load_trace(tmp_path / "latin.swf", TraceFormat())
    with pytest.raises(InvalidFileError, match=r"none\.swf: error: cannot be read: no such file or directory"):
        load_trace(tmp_path / "none.swf", TraceFormat())
    with pytest.raises(UsageError, match=r"trace\.txt: is it CSV or SWF\?"):
        load_trace(write(tmp_path / "trace.txt", SWF_LINE), TraceFormat())


def test_names_that_are_traces() -> None:
    assert [is_trace(Path(name)) for name in ("a.swf", "a.SWF.gz", "a.csv", "a.csv.gz", "a.yaml", "a.gz")] == [
        *(True, True, True, True),
        *(False, False),
    ]


def test_workloads_merged_begin_together_and_keep_their_jobs_apart(tmp_path: Path) -> None:
    one = load_trace(write(tmp_path / "a.swf", SWF_LINE), TraceFormat())
    other = load_trace(write(tmp_path / "b.swf", f"{SWF_LINE}\n{SWF_LINE.replace('7 100', '8 160')}"), TraceFormat())
    both = merge([one, other])

    assert both.name == "a.swf + b.swf"
    assert [(job.id, job.submit_at) for job in both.jobs] == [("1:7", 0), ("2:7", 0), ("2:8", 60_000)]
    assert merge([one]) is one


def test_a_column_can_tell_the_instance_type(tmp_path: Path) -> None:
    text = "submit,run,gpus,team,model\n0,60,1,a,ml.g5.xlarge\n1,60,2,b, ml.p4d.24xlarge\n"
    trace = load_trace(
        write(tmp_path / "a.csv", text), csv_format("submit=submit,duration=run,size=gpus,share=team,type=model")
    )
    assert [job.instance_type for job in trace.jobs] == ["ml.g5.xlarge", "ml.p4d.24xlarge"]
