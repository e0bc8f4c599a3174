"""Wrong project files: every message has its place, and nothing stops at the first problem."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fairshare.config.project import parse_project
from fairshare.model import InvalidFileError

Problems = Callable[[str], list[str]]
Vary = Callable[..., str]
Shares = Callable[[str], str]


def test_all_problems_come_at_once_in_file_order(project_problems: Problems, vary: Vary) -> None:
    text = vary(
        ("region: us-west-2", "region: us-west-2a"),
        ("capacity: 16", "capcity: 16"),
        ("  cpu: {capacity: 8", "  cpu: {capacity: 0"),
        ("    priority: 10\n", "    priority: 10\n    priority: 11\n"),
        ("MIDPRI: {weight_factor: 3}", "MIDPRI: {weight_factor: 0}"),
        ("service_environment: cpu", "service_environment: cqu"),
        ("share: LOWPRI", "share: LOWPRIO"),
    )
    assert project_problems(text) == [
        '3:9 region: "us-west-2a" is not a region | us-west-2 is the region of that zone',
        '5:9 unknown key "capcity" in service_environments.gpu | '
        "did you mean capacity? (keys here: capacity, instance_types, capacity_limits)",
        "6:19 service_environments.cpu.capacity: must be at least 1, not 0",
        '11:5 duplicate key "priority": it is already on line 10 | remove one of the two',
        "17:33 queues.gpu.fairshare.shares.MIDPRI.weight_factor: must be between 0.0001 and 999.9999, not 0 | "
        "lower = more; 1 is usual",
        '19:32 unknown service environment "cqu" in queue batch | did you mean cpu? (service environments: gpu, cpu)',
        '20:31 unknown share "LOWPRIO" in queue gpu | did you mean LOWPRI? (shares: HIGHPRI, MIDPRI, LOWPRI)',
    ]


def test_a_problem_carries_what_a_screen_needs(vary: Vary) -> None:
    with pytest.raises(InvalidFileError) as refused:
        parse_project(vary(("share: LOWPRI", "share: LOWPRIO")), Path("conf/fairshare.yaml"))
    (problem,) = refused.value.problems
    assert (problem.file, problem.line, problem.column) == ("conf/fairshare.yaml", 19, 31)
    assert problem.key == "defaults.share"
    assert problem.source_line.startswith("defaults: {queue: gpu, share: LOWPRIO")
    assert problem.source_line[problem.column - 1 :].startswith("LOWPRIO")
    assert str(refused.value).startswith('conf/fairshare.yaml:19:31: error: unknown share "LOWPRIO" in queue gpu (did')
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("priority", ["-1", "100", "2.5", "true", "high", '"5"', "010", ""])
def test_c08_bad_default_priorities(project_problems: Problems, vary: Vary, priority: str) -> None:
    expected = {
        "-1": "must be at least 0, not -1",
        "100": "must be at most 99, not 100",
        "2.5": "must be a whole number, not 2.5",
        "true": "must be a whole number, not true",
        "high": 'must be a whole number, not "high"',
        '"5"': "must be a whole number, not text | remove the quotes",
        "010": "010 has a leading zero, which some programs read as octal | write 10",
        "": "has no value | write a whole number, or remove the key",
    }
    (problem,) = project_problems(vary(("priority: 10,", f"priority: {priority},")))
    assert problem.split(" ", 1)[1] == f"defaults.priority: {expected[priority]}"


@pytest.mark.parametrize(
    ("account", "message"),
    [
        ("1402433619", '"1402433619" is not an account id: those have 12 digits, this has 10 | leading zeros count'),
        ("1234-5678-9012", '"1234-5678-9012" is not an account id: those have 12 digits | leading zeros count'),
        ("1e11", '"1e11" is not an account id: those have 12 digits | leading zeros count'),
    ],
)
def test_c06_other_accounts_are_refused_as_written(project_problems: Problems, account: str, message: str) -> None:
    assert project_problems(f"version: 1\nstack: s\naccount: {account}\n") == [f"3:10 account: {message}"]


@pytest.mark.parametrize(
    ("shares", "expected"),
    [
        (
            "{HIGH*: {weight_factor: 0.1}, HIGHPRI: {weight_factor: 0.2}}",
            "7:31 share identifiers HIGH* and HIGHPRI overlap in queue gpu | "
            "HIGH* already covers HIGHPRI; AWS refuses both in one policy",
        ),
        (
            "{TEAMA*: {weight_factor: 2}, TEAM*: {weight_factor: 1}}",
            "7:2 share identifiers TEAM* and TEAMA* overlap in queue gpu | "
            "TEAM* already covers TEAMA*; AWS refuses both in one policy",
        ),
        (
            "{A*: {weight_factor: 2}, A: {weight_factor: 1}}",
            "7:26 share identifiers A* and A overlap in queue gpu | "
            "A* already covers A; AWS refuses both in one policy",
        ),
        (
            '{"team a": {weight_factor: 1}}',
            '7:2 queues.gpu.fairshare.shares.team a: "team a" is not a share identifier: letters and digits only | '
            "a * may stand at the end, for every identifier that begins so",
        ),
        (
            "{A*B: {weight_factor: 1}}",
            '7:2 queues.gpu.fairshare.shares.A*B: "A*B" is not a share identifier: letters and digits only | '
            "a * may stand at the end, for every identifier that begins so",
        ),
        (
            "{HIGHPRI: {weight_factor: 1}, HIGHPRI: {weight_factor: 2}}",
            '7:31 duplicate key "HIGHPRI": it is already on line 7 | remove one of the two',
        ),
    ],
)
def test_c03_share_identifiers(project_problems: Problems, with_shares: Shares, shares: str, expected: str) -> None:
    assert project_problems(with_shares(shares)) == [expected]


def test_c03_identifiers_are_at_most_255_characters(project_problems: Problems, with_shares: Shares) -> None:
    assert project_problems(with_shares(f"{{{'A' * 255}: {{weight_factor: 1}}}}")) == []
    (problem,) = project_problems(with_shares(f"{{{'A' * 256}: {{weight_factor: 1}}}}"))
    assert problem.endswith("a share identifier has at most 255 characters, this one has 256")


def test_c11_a_bare_number_as_share_names_the_key(project_problems: Problems, with_shares: Shares) -> None:
    assert project_problems(with_shares("{LOWPRI: 1e0}")) == [
        "7:10 queues.gpu.fairshare.shares.LOWPRI: must be a mapping, not 1e0 | "
        "write {weight_factor: 1} or {target: 60%}"
    ]


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ("0", "must be between 0.0001 and 999.9999, not 0 | lower = more; 1 is usual"),
        ("-1", "must be between 0.0001 and 999.9999, not -1 | lower = more; 1 is usual"),
        ("0.00009", "must be between 0.0001 and 999.9999, not 0.00009 | lower = more; 1 is usual"),
        ("0.00009999999999", "must be between 0.0001 and 999.9999, not 0.00009999999999 | lower = more; 1 is usual"),
        ("999.99991", "must be between 0.0001 and 999.9999, not 999.99991 | lower = more; 1 is usual"),
        ("1000", "must be between 0.0001 and 999.9999, not 1000 | lower = more; 1 is usual"),
        ("1e999999", "must be between 0.0001 and 999.9999, not 1e999999 | lower = more; 1 is usual"),
        (".nan", "must be a number, not .nan"),
        (".inf", "must be a number, not .inf"),
        ("abc", 'must be a number, not "abc"'),
        ('"abc"', 'must be a number, not "abc" | remove the quotes'),
        ('"1"', 'must be a number, not "1" | remove the quotes'),
        ("1_0", 'must be a number, not "1_0"'),
        ("true", "must be a number, not true"),
        ("[1]", "must be a number such as 1 or 0.25, not a list"),
        ("", "has no value | write a number such as 1 or 0.25, or remove the key"),
    ],
)
def test_c32_weights_out_of_range(project_problems: Problems, with_shares: Shares, weight: str, message: str) -> None:
    (problem,) = project_problems(with_shares(f"{{A: {{weight_factor: {weight}}}}}"))
    assert problem.split(" ", 1)[1] == f"queues.gpu.fairshare.shares.A.weight_factor: {message}"


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ("{A: {target: 60%}, B: {target: 39.99%}}", "the targets of the shares add up to 99.99%, not 100%"),
        ("{A: {target: 60%}, B: {target: 60%}}", "the targets of the shares add up to 120%, not 100%"),
        (
            "{A: {target: 100%}, B: {weight_factor: 1}}",
            "shares mix target and weight_factor (B) | use the same for all shares",
        ),
        (
            "{A: {target: 99.99%}, B: {target: 0.01%}}",
            "the target of B is more than 999.9999 times smaller than the largest",
        ),
    ],
)
def test_targets_of_all_shares(project_problems: Problems, with_shares: Shares, shares: str, message: str) -> None:
    assert project_problems(with_shares(shares)) == [f"6:35 queues.gpu.fairshare: {message}"]


@pytest.mark.parametrize(
    ("share", "message"),
    [
        ("{target: 60}", "7:14 queues.gpu.fairshare.shares.A.target: must be per cent, as in 60%, not 60"),
        ("{target: '0%'}", "7:14 queues.gpu.fairshare.shares.A.target: must be more than 0% and at most 100%, not 0%"),
        (
            "{target: 101%}",
            "7:14 queues.gpu.fairshare.shares.A.target: must be more than 0% and at most 100%, not 101%",
        ),
        (
            "{target: 100%, weight_factor: 1}",
            "7:2 queues.gpu.fairshare.shares.A: must have either weight_factor or target | "
            "write {weight_factor: 1} or {target: 60%}",
        ),
        (
            "{}",
            "7:2 queues.gpu.fairshare.shares.A: must have either weight_factor or target | "
            "write {weight_factor: 1} or {target: 60%}",
        ),
        (
            "{weight: 1}",
            '7:6 unknown key "weight" in queues.gpu.fairshare.shares.A | '
            "did you mean weight_factor? (keys here: weight_factor, target)",
        ),
    ],
)
def test_one_share(project_problems: Problems, with_shares: Shares, share: str, message: str) -> None:
    assert project_problems(with_shares(f"{{A: {share}}}")) == [message]


def test_at_most_500_shares(project_problems: Problems, with_shares: Shares) -> None:
    shares = ", ".join(f"S{n}: {{weight_factor: 1}}" for n in range(501))
    assert project_problems(with_shares(f"{{{shares}}}")) == [
        "6:47 queues.gpu.fairshare.shares: has 501 entries; at most 500 are possible"
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("share_decay_seconds: 3600", "share_decay_seconds: 604801", "must be at most 604800, not 604801"),
        ("share_decay_seconds: 3600", "share_decay_seconds: -1", '"-1" is not a duration: it cannot be negative'),
        ("compute_reservation: 0", "compute_reservation: 100", "must be at most 99, not 100"),
        (
            "capacity: 8,",
            "capacity: 2147483648,",
            "service_environments.cpu.capacity: must be at most 2147483647, not 2147483648",
        ),
        ("    priority: 10\n", "    priority: 1001\n", "must be at most 1000, not 1001"),
        ("max_runtime: 24h", "max_runtime: 0", "must be at least 1, not 0"),
        ("fifo: true", "fifo: yes", 'must be true or false, not "yes"'),
        ("version: 1", "version: 2", "this fairshare reads version 1, not 2"),
        ("stack: search-ml", "stack: -x", '"-x" is not a name: letters, digits, - and _ only'),
        ("  batch: {", "  b/2: {", '"b/2" is not a name: letters, digits, - and _ only'),
        ("region: us-west-2", "region: Oregon", '"Oregon" is not a region | as in us-west-2'),
        ("region: us-west-2", "region:", "has no value | write text, or remove the key"),
        ("region: us-west-2", "region: ''", "must not be empty"),
        (
            "[ml.c5.2xlarge]",
            "[c5.2xlarge]",
            '"c5.2xlarge" is not a SageMaker instance type | did you mean ml.c5.2xlarge?',
        ),
        ("[ml.c5.2xlarge]", "[big]", '"big" is not a SageMaker instance type | as in ml.g6.12xlarge'),
        ("[ml.c5.2xlarge]", "[]", "service_environments.cpu.instance_types: must not be empty"),
        ("[ml.c5.2xlarge]", "ml.c5.2xlarge", 'must be a list, not "ml.c5.2xlarge"'),
        ("alarms: {}", "tags: [a]", "tags: must be a mapping, not a list | write key: value lines under it, indented"),
        ("alarms: {}", "tags: {fairshare:stack: x}", "AWS and fairshare keep this prefix for themselves"),
        ("alarms: {}", "tags: {a: [1]}", "tags.a: must be text, not a list"),
    ],
)
def test_values(project_problems: Problems, vary: Vary, old: str, new: str, expected: str) -> None:
    (problem,) = project_problems(vary((old, new)))
    assert expected in problem


def test_c28_a_month_is_not_a_minute(project_problems: Problems, vary: Vary) -> None:
    assert project_problems(vary(("max_runtime: 24h", "max_runtime: P1M"))) == [
        '19:105 defaults.max_runtime: "P1M" is not a duration: '
        "years, months and weeks are not supported; write days, as in 30d, or minutes as PT1M"
    ]


def test_c28_colons_mean_the_same_quoted_and_unquoted(project_problems: Problems, vary: Vary) -> None:
    plain = project_problems(vary(("max_runtime: 24h", "max_runtime: 90:00")))
    quoted = project_problems(vary(("max_runtime: 24h", 'max_runtime: "90:00"')))
    assert plain == quoted
    assert "write 1m30s or 1h30m" in plain[0]


@pytest.mark.parametrize("queue", ["{service_environment: cpu}", "{service_environment: cpu, fifo: false}"])
def test_a_queue_says_what_it_is(project_problems: Problems, vary: Vary, queue: str) -> None:
    assert project_problems(vary(("{service_environment: cpu, fifo: true}", queue))) == [
        "18:3 queues.batch: must have exactly one of fairshare, fifo: true and quota_shares | "
        "AWS can never turn one into the other"
    ]


def test_a_queue_is_not_both(project_problems: Problems, vary: Vary) -> None:
    assert project_problems(vary(("fifo: true", "fifo: true, fairshare: {}"))) == [
        "18:3 queues.batch: must have exactly one of fairshare, fifo: true and quota_shares | "
        "AWS can never turn one into the other"
    ]


def test_a_key_of_another_section_is_merely_unknown(project_problems: Problems, project_text: str) -> None:
    (problem,) = project_problems(project_text + "quota_shares: {}\n")
    assert problem.startswith('21:1 unknown key "quota_shares" | keys here: version, stack,')


def test_a_queue_named_like_a_key_of_a_queue(project_problems: Problems, vary: Vary) -> None:
    text = vary(
        ("  batch: {service_environment: cpu, fifo: true}", "  priority: {service_environment: cpu, fife: true}")
    )
    assert project_problems(text)[0] == (
        '18:40 unknown key "fife" in queues.priority | '
        "did you mean fifo? (keys here: service_environment, priority, fairshare, fifo, quota_shares, time_limits)"
    )


def test_names_of_resources_are_at_most_128_characters(project_problems: Problems, vary: Vary) -> None:
    assert project_problems(vary(("stack: search-ml", f"stack: {'s' * 122}"))) == []
    assert project_problems(vary(("stack: search-ml", f"stack: {'s' * 123}"))) == [
        "18:3 the resource would be named ssssssssssssssssssss... with 129 characters; AWS accepts 128 | "
        "shorten the stack or this key"
    ]


def test_unknown_default_queue(project_problems: Problems, vary: Vary) -> None:
    assert project_problems(vary(("queue: gpu", "queue: gpuu"))) == [
        '19:19 unknown queue "gpuu" | did you mean gpu? (queues: gpu, batch); '
        "a queue that others made is written as its ARN"
    ]


def test_a_prefix_entry_is_not_a_share_of_a_job(project_problems: Problems, with_shares: Shares) -> None:
    text = with_shares("{TEAM*: {weight_factor: 1}}") + "defaults: {share: TEAM*}\n"
    assert project_problems(text) == [
        "8:19 defaults.share: TEAM* is not one share | a * stands for many shares; a job belongs to one"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hello\n", 'the file must be a mapping, not "hello"'),
        ("- 1\n", "the file must be a mapping, not a list"),
        ("null\n", "the file must be a mapping, not nothing"),
    ],
)
def test_files_that_are_no_mapping(project_problems: Problems, text: str, expected: str) -> None:
    (problem,) = project_problems(text)
    assert problem == f"1:1 {expected} | write version: 1 and stack: my-team on lines of their own"


def test_version_and_stack_are_needed(project_problems: Problems) -> None:
    hint = "write version: 1 and stack: my-team on lines of their own"
    assert project_problems("region: us-west-2\n") == [
        f"1:1 stack is missing | {hint}",
        f"1:1 version is missing | {hint}",
    ]


def test_problems_inside_an_alias_are_where_they_were_written(project_problems: Problems, vary: Vary) -> None:
    text = vary(
        (
            "  gpu: {capacity: 16, instance_types: [ml.g6.12xlarge]}",
            "  gpu: &e {capacity: x, instance_types: [ml.g6.large]}",
        ),
        ("  cpu: {capacity: 8, instance_types: [ml.c5.2xlarge]}", "  cpu: *e"),
    )
    assert [problem.split(" ")[:2] for problem in project_problems(text)] == [
        ["5:22", "service_environments.cpu.capacity:"],
        ["5:22", "service_environments.gpu.capacity:"],
    ]
