"""``fairshare simulate``."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

STREAMS = """\
duration: 12h
seed: 5
streams:
  HIGHPRI: {arrivals: {fixed: {every: 30m}}, size: 4, run_time: 50m}
  LOWPRI: {arrivals: {bursts: {every: 6h, jobs: 30, over: 1m}}, size: {uniform: [1, 2]}, run_time: 2h}
"""

LOWPRI = "queues.gpu.fairshare.shares.LOWPRI.weight_factor"


@pytest.fixture
def monday(cli) -> str:
    path = cli.cwd / "monday.yaml"
    path.write_text(STREAMS)
    return str(path)


def document(cli) -> dict:
    return json.loads(cli.out)


def test_policies_shares_and_the_largest_jobs_as_tables(cli, monday):
    assert cli("simulate", monday) == 0
    head, policies, shares, largest, notes = cli.out.split("\n\n")

    assert head == "monday: 84 jobs, 2 shares, on 16 instances of gpu"
    assert policies.splitlines()[0].split("  ")[0] == "POLICY"
    assert [line.split()[0] for line in policies.splitlines()[1:3]] == ["fifo", "fairshare"]
    assert "fifo: longest time without any instance while waiting: 5 h 10 min (HIGHPRI)" in policies
    assert [line.split()[0] for line in shares.splitlines()] == ["SHARE", "LOWPRI", "fairshare", "HIGHPRI", "fairshare"]
    assert largest.splitlines()[1].split()[:4] == ["4", "instances", "fifo", "24"]
    assert notes.startswith("Model 1.0, not AWS itself: history_weight 0.9, blocking queue, capacity_backoff_ms 0")
    assert "monday.yaml: drawn with seed 5." in notes
    assert "Next: the same with --html report.html, for charts" in cli.err


def test_a_narrow_terminal_is_kept_to(cli, monday):
    cli.width = 80
    cli("simulate", monday, "--set", f"{LOWPRI}=8")

    assert max(map(len, cli.out.split("\n\n")[1].splitlines()[:4])) <= 80


def test_the_document_is_the_contract(cli, monday):
    assert cli("simulate", monday, "-o", "json", "--starts") == 0
    found = document(cli)
    policy = found["policies"][1]

    assert (found["kind"], found["model_version"]) == ("Simulation", "1.0")
    assert isinstance(found["simulated_jobs_per_second"], int)
    assert (policy["name"], policy["jobs"], policy["preemptions"]) == ("fairshare", 84, 0)
    assert set(policy["shares"]) == {"HIGHPRI", "LOWPRI"}
    assert {"wait_p50_seconds", "wait_p95_seconds", "wait_max_seconds", "capacity_fraction"} <= set(
        policy["shares"]["HIGHPRI"]
    )
    assert len(policy["starts"]) == 84
    assert [start["start_seconds"] for start in policy["starts"]] == sorted(
        s["start_seconds"] for s in policy["starts"]
    )
    assert "timeline" not in policy


def test_the_same_seed_gives_the_same_document_and_another_one_another(cli, monday):
    Path(monday).write_text(STREAMS.replace("fixed", "poisson"))
    answers = []
    for seed in ("1", "1", "2"):
        cli("simulate", monday, "--seed", seed, "-o", "json", "--starts", "--timeline")
        answers.append(cli.out)

    assert answers[0] == answers[1] != answers[2]


def test_csv_has_a_row_for_each_policy_and_each_share(cli, monday):
    cli("simulate", monday, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(cli.out)))

    assert [(row["name"], row["share"]) for row in rows] == [
        (policy, share) for policy in ("fifo", "fairshare") for share in ("", "HIGHPRI", "LOWPRI")
    ]
    assert float(rows[0]["utilization"]) > 0.5
    assert float(rows[1]["capacity_fraction"]) + float(rows[2]["capacity_fraction"]) == pytest.approx(1, abs=1e-5)


def test_variants_of_weights_capacity_and_blocking(cli, monday):
    flags = (
        "--policy",
        "fifo",
        "--set",
        f"{LOWPRI}=8",
        "--capacity",
        "12",
        "--blocking",
        "queue",
        "--blocking",
        "share",
    )
    cli("simulate", monday, *flags, "-o", "json")
    policies = document(cli)["policies"]

    assert [policy["name"] for policy in policies] == [
        "fifo blocking=queue",
        "fifo blocking=share",
        "fairshare LOWPRI.weight_factor=8 blocking=queue",
        "fairshare LOWPRI.weight_factor=8 blocking=share",
    ]
    assert {policy["capacity"]["gpu"] for policy in policies} == {12}
    assert [policy["options"]["blocking"] for policy in policies] == ["queue", "share"] * 2


def test_a_trace_without_any_project(cli, tmp_path):
    (cli.cwd / "fairshare.yaml").unlink()
    trace = tmp_path / "a.csv"
    trace.write_text("at,run,n\n0,10,3\n0,10,2\n")
    flags = ("--trace", str(trace), "--map", "submit=at,duration=run,size=n", "--capacity", "4")

    assert cli("simulate", *flags, "-o", "json") == 0
    (policy,) = document(cli)["policies"]
    assert (policy["name"], policy["mean_wait_seconds"], policy["makespan_seconds"]) == ("fifo", 5.0, 20.0)


def test_ranges_that_are_kept_and_ranges_that_are_not(cli, monday, tmp_path):
    ranges = tmp_path / "ranges.yaml"
    ranges.write_text("fifo.utilization: {min: 0.1}\nfairshare.max_wait_seconds: {max: 1s}\n")

    assert cli("simulate", monday, "--expect", str(ranges), "-o", "json") == 5
    (violation,) = document(cli)["violations"]
    assert violation.startswith(f"{ranges}:2:1: fairshare.max_wait_seconds is ")
    assert violation in cli.err
    assert "1 of 2 ranges not kept" in cli.err

    ranges.write_text("fifo.utilization: {min: 0.1}\n")
    assert cli("simulate", monday, "--expect", str(ranges), "-o", "json") == 0
    assert document(cli)["violations"] == []


def test_the_page_is_written_and_named(cli, monday, tmp_path):
    report = tmp_path / "report.html"

    assert cli("simulate", monday, "--html", str(report)) == 0
    assert report.read_text().startswith("<!doctype html>")
    assert cli.err == f"Report: {report}\n"


def test_a_page_that_cannot_be_written(cli, monday, tmp_path):
    assert cli("simulate", monday, "--html", str(tmp_path / "none" / "r.html")) == 2
    assert "r.html cannot be written: No such file or directory" in cli.err


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (["--capacity", "gpu=x"], 2, "--capacity gpu=x: this is no number of instances"),
        (["--capacity", "2"], 5, "24 of 84 jobs of monday need up to 4 instances; gpu has 2"),
        (["--blocking", "shares"], 2, "did you mean share?"),
        (["--format", "cvs"], 2, "did you mean csv?"),
        (["--seed", "x"], 2, "should be a valid integer"),
        (["--policy", "nowhere.yaml"], 2, "--policy nowhere.yaml: there is no such file"),
        (["--set", "LOWPRI"], 2, "this is no KEY=VALUE"),
        (["--file", "nowhere.yaml"], 2, "there is no file nowhere.yaml"),
        (["--expect", "nowhere.yaml"], 2, "nowhere.yaml: error: cannot be read"),
        (["-q", "gup"], 2, "did you mean gpu?"),
        (["-o", "csv", "--trace", "nowhere.swf"], 2, "nowhere.swf: error: cannot be read"),
    ],
)
def test_what_cannot_be(cli, monday, flags, code, message):
    assert cli("simulate", monday, *flags) == code
    assert message in cli.err
    assert cli.out == ""


def test_nothing_to_simulate(cli):
    assert cli("simulate") == 2
    assert "there is nothing to simulate" in cli.err


QUOTA = """\
version: 1
stack: s
service_environments: {sweep: {capacity_limits: {ml.c5.xlarge: 4}}}
queues:
  sweep:
    service_environment: sweep
    quota_shares:
      TEAMA: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND_AND_BORROW, in_share_preemption: true}
      TEAMB: {capacity_limits: {ml.c5.xlarge: 2}, sharing: LEND}
    time_limits: {misconfiguration: 10m}
"""

TEAMS = """\
duration: 2h
seed: 5
streams:
  TEAMA: {arrivals: {fixed: {every: 10m}}, run_time: 50m, priority: 1}
  urgent: {share: TEAMA, arrivals: {fixed: {every: 2h, start: 90m}}, run_time: 10m, priority: 5}
  TEAMB: {arrivals: {fixed: {every: 1h, start: 45m}}, size: 2, run_time: 1h}
  large: {share: TEAMB, arrivals: {fixed: {every: 1h, start: 1h}}, size: 3, run_time: 1h}
"""


@pytest.fixture
def teams(cli) -> str:
    (cli.cwd / "fairshare.yaml").write_text(QUOTA)
    path = cli.cwd / "teams.yaml"
    path.write_text(TEAMS)
    return str(path)


def test_who_was_preempted_and_who_was_given_up(cli, teams):
    assert cli("simulate", teams) == 0
    _, policies, _, preempted, _, notes = cli.out.split("\n\n")

    heads, line = (row.split() for row in preempted.splitlines())
    assert heads == ["PREEMPTED", "POLICY", "CROSS-SHARE", "IN-SHARE", "TIME", "LOST"]
    assert line[:4] == ["TEAMA", "fairshare", "2", "1"]
    assert f"fairshare: 3 preemptions, {' '.join(line[4:])} of instance time lost" in policies
    assert (
        "fairshare: 1 job was ended by a time limit (MISCONFIGURATION:QUOTA_MANAGEMENT_LIMIT_EXCEEDED) "
        "and never started; no wait counts them." in notes
    )
    assert "never ended" not in cli.out


def test_preemptions_by_kind_in_documents_tables_and_ranges(cli, teams, tmp_path):
    ranges = tmp_path / "ranges.yaml"
    ranges.write_text("fairshare.shares.TEAMA.preemptions_by_kind.IN_SHARE: {max: 0}\n")
    assert cli("simulate", teams, "--expect", str(ranges), "-o", "json") == 5
    found = document(cli)
    fifo, policy = found["policies"]
    assert found["violations"] == [
        f"{ranges}:1:1: fairshare.shares.TEAMA.preemptions_by_kind.IN_SHARE is 1, more than 0"
    ]
    assert (fifo["preemptions_by_kind"], fifo["time_limited_jobs"]) == ({"CROSS_SHARE": 0, "IN_SHARE": 0}, 0)
    assert (policy["preemptions_by_kind"], policy["time_limited_jobs"]) == ({"CROSS_SHARE": 2, "IN_SHARE": 1}, 1)

    assert cli("simulate", teams, "-o", "csv") == 0
    rows = {(row["name"], row["share"]): row for row in csv.DictReader(io.StringIO(cli.out))}
    team_a = rows["fairshare", "TEAMA"]
    assert (team_a["preemptions_cross_share"], team_a["preemptions_in_share"]) == ("2", "1")
    assert float(team_a["lost_instance_seconds"]) == policy["lost_instance_seconds"] > 0
    assert rows["fairshare", "TEAMB"]["time_limited_jobs"] == "1"


def test_the_limit_of_one_instance_type_is_set_by_its_whole_name(cli, teams):
    key = "queues.sweep.quota_shares.TEAMB.capacity_limits.ml.c5.xlarge"
    assert cli("simulate", teams, "--set", f"{key}=3", "-o", "json") == 0
    _, before, after = document(cli)["policies"]

    assert after["name"] == "fairshare TEAMB.ml.c5.xlarge=3"
    assert (before["time_limited_jobs"], after["time_limited_jobs"]) == (1, 0)
    assert cli("simulate", teams, "--set", "queues.sweep.quota_shares.TEAMB.borow_limit=3") == 2
    assert 'unknown key "borow_limit" in queues.sweep.quota_shares.TEAMB' in cli.err
