from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairshare.config.yaml_source import MAX_DEPTH, Scalar, dotted, parse_yaml, read_text
from fairshare.model import InvalidFileError


def scalar(text: str) -> Scalar:
    node = parse_yaml(f"key: {text}\n", "f.yaml").node(("key",))
    assert isinstance(node, Scalar)
    return node


def positions(text: str) -> list[tuple[int, int]]:
    """Where the problems of a text are; raises what `parse_yaml` should not raise."""
    try:
        problems = parse_yaml(text, "f.yaml").problems
    except InvalidFileError as refused:
        problems = tuple(refused.problems)
    return [(problem.line, problem.column) for problem in problems]


def failure(text: str) -> str:
    with pytest.raises(InvalidFileError) as refused:
        parse_yaml(text, "f.yaml")
    (problem,) = refused.value.problems
    return f"{problem.line}:{problem.column} {problem.message} | {problem.hint}"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("NO", "NO"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("5", 5),
        ("-5", -5),
        ("0", 0),
        ("010", "010"),
        ("012345670123", "012345670123"),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1e-4", 1e-4),
        ("1e0", 1.0),
        ("3.10", 3.1),
        (".5", 0.5),
        ("1.", 1.0),
        ("1:30", "1:30"),
        ("2026-10-25", "2026-10-25"),
        ("'5'", "5"),
        ('"true"', "true"),
        ("''", ""),
        ("!!str 5", "5"),
        ("9" * 400, "9" * 400),
    ],
)
def test_c11_scalars_by_yaml_1_2_keep_their_text(written: str, value: object) -> None:
    found = scalar(written)
    assert found.value == value
    assert type(found.value) is type(value)
    assert found.text == written.removeprefix("!!str ").strip("'\"")


def test_infinity_and_nan_are_numbers() -> None:
    assert scalar(".inf").value == math.inf
    assert scalar("-.INF").value == -math.inf
    value = scalar(".nan").value
    assert isinstance(value, float)
    assert math.isnan(value)


def test_block_text() -> None:
    assert parse_yaml("key: |\n  a\n  b\n", "f").text("key") == "a\nb\n"


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_c11_byte_order_mark_and_line_ends_change_nothing(start: str, line_end: str) -> None:
    document = parse_yaml(start + line_end.join(["a: 1", "b:", "  c: x", ""]), "f.yaml")
    assert document.text("b", "c") == "x"
    assert document.position(("b", "c")) == (3, 6)
    assert document.source_line(3) == "  c: x"


def test_positions() -> None:
    document = parse_yaml("a: 1\nlist:\n  - x\n  - {k: v}\nempty:\n", "f.yaml")
    assert document.position(("a",)) == (1, 4)
    assert document.position(("a",), at_key=True) == (1, 1)
    assert document.position(("list",)) == (2, 1), "a list is where its key is"
    assert document.position(("list", 0)) == (3, 5)
    assert document.position(("list", 1)) == (4, 5)
    assert document.position(("list", 1, "k")) == (4, 9)
    assert document.position(("empty",)) == (5, 1), "a value that is not there is where its key is"
    assert document.position(("list", 1, "nope", "deeper")) == (4, 5), "the nearest thing around it"
    assert document.position(("nope",)) == (1, 1)


def test_access_by_place() -> None:
    document = parse_yaml("a: {x: 1, y: }\nb: [p, [q], r]\n", "f.yaml")
    assert document.keys("a") == ("x", "y")
    assert document.keys("b") == ()
    assert document.text("a", "x") == "1"
    assert document.text("a", "y") is None
    assert document.text("b") is None
    assert document.texts("b") == ("p", "r")
    assert document.texts("a") == ()
    assert document.node(("b", 9)) is None
    assert document.source_line(99) == ""


def test_dotted() -> None:
    assert dotted(("jobs", 0, "compute", "instance_count")) == "jobs[0].compute.instance_count"


def test_a_problem_knows_its_place_and_its_line() -> None:
    problem = parse_yaml("a:\n  b: wrong\n", "f.yaml").problem(("a", "b"), "is wrong", hint="fix it")
    assert str(problem) == "f.yaml:2:6: error: is wrong"
    assert (problem.key, problem.hint, problem.source_line) == ("a.b", "fix it", "  b: wrong")


def test_every_duplicate_key_is_reported_with_the_line_of_the_first() -> None:
    document = parse_yaml("a: 1\nb: {c: 1, c: 2}\na: 2\n'a': 3\n", "f.yaml")
    assert [f"{p.line}:{p.column} {p.message}" for p in document.problems] == [
        '2:11 duplicate key "c": it is already on line 2',
        '3:1 duplicate key "a": it is already on line 1',
        '4:1 duplicate key "a": it is already on line 1',
    ]
    assert document.text("a") == "1"


def test_aliases_are_followed_and_positions_are_those_of_the_anchor() -> None:
    document = parse_yaml("base: &b {x: 1}\nother: *b\n", "f.yaml")
    assert document.text("other", "x") == "1"
    assert document.position(("other", "x")) == (1, 14)


def test_merge_keys() -> None:
    text = "one: &one {a: 1, b: 1}\ntwo: &two {b: 2, c: 2}\nboth:\n  <<: [*one, *two]\n  a: own\nsingle: {<<: *two}\n"
    document = parse_yaml(text, "f.yaml")
    assert document.data()["both"]["a"].text == "own"
    assert (document.text("both", "b"), document.text("both", "c")) == ("1", "2")
    assert document.keys("single") == ("b", "c")
    assert document.problems == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:\n\t- b: 1\n", "2:1 a tab cannot indent YAML | use spaces"),
        ("a: 1\n b: 2\n", "2:3 a colon is not expected here | quote text that holds a colon, or check the indentation"),
        ("a: [1, 2\nb: 1\n", "2:2 a bracket is not closed, or a comma is missing | check the list or mapping here"),
        ("a: [1,\n", "2:1 a bracket is not closed, or a comma is missing | check the list or mapping here"),
        ("x: 1\na: 'never closed\n", "2:4 this quote is never closed | add the closing quote"),
        ("a: {b: 1}}\n", "1:10 there is no opening bracket for this one | remove it"),
        ("a:\n - b\n- c\n", "3:1 this line does not line up with those above it | give it their indentation"),
        ("a: 1\nkey\nb: 2\n", "2:1 a colon is missing after this key | write key: value"),
        ("a: @x\n", "1:4 @ cannot begin a value | put quotes around the value"),
        ("a: \x07\n", "1:4 the control character U+0007 cannot be in YAML | remove it"),
        ("a: !env X\n", "1:4 tag !env is not supported | remove it; quote the value to make it text"),
        ("a: 1\n---\nb: 2\n", "2:1 a second document begins here | keep one document in a file: remove the ---"),
        ("? [a]\n: 1\n", "1:3 a key must be plain text | "),
        ("", "1:1 the file is empty | "),
        ("# only a comment\n", "1:1 the file is empty | "),
        ('a: "\\q"\n', "1:6 not valid YAML: found unknown escape character 'q' | "),
        ('a: "\\U99999999"\n', "1:1 not valid YAML from here on | check the escapes in double quotes"),
        ('a: "\\ud800"\n', "1:4 holds half of a character (a lone surrogate) | check the escapes in it"),
        ("a: {<<: 5}\n", "1:5 << takes a mapping, or a list of mappings | write <<: *name"),
        (
            "a: *b\n",
            "1:4 *b refers to nothing that is written above it | "
            "put quotes around it to make it text, or mark the value that is meant with &",
        ),
    ],
)
def test_syntax_errors_say_where_what_and_what_to_do(text: str, expected: str) -> None:
    assert failure(text) == expected


def test_a_node_cannot_contain_itself() -> None:
    assert failure("a: &x [*x]\n").startswith("1:8 *x refers to nothing")


def test_nesting_is_bounded() -> None:
    parse_yaml("[" * MAX_DEPTH + "]" * MAX_DEPTH, "f")
    assert "nested more than 60 levels" in failure("[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2))
    assert "nested more than 60 levels" in failure("[" * 5000 + "]" * 5000)


def test_aliases_cannot_exhaust_memory() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    bomb += "".join(f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 10)}]\n" for i in range(9))
    assert "more than 100000 values, aliases included" in failure(bomb)


def test_read_text(tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: \xc3\xa9\r\n")
    assert read_text(path) == "a: é\r\n"


@pytest.mark.parametrize(
    ("content", "expected"),
    [(b"a: 1\nb: \xff\n", "f.yaml:2:4: error: is not UTF-8 text (save the file as UTF-8)"), (None, "no such file")],
)
def test_unreadable_files(tmp_path: Path, content: bytes | None, expected: str) -> None:
    path = tmp_path / "f.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidFileError) as refused:
        read_text(path)
    assert expected in str(refused.value)


def test_a_directory_is_not_a_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="cannot be read: is a directory"):
        read_text(tmp_path)


@given(st.text(alphabet=st.sampled_from(list("ab:{}[]&*!|>'\"%@,-?# \t\n\r01.~<\\\x85\u2028\ufeffé")), max_size=40))
@example("a: &x\nb: *x")
@example("%YAML 1.1\n---\na: no")
@example("!<")
@example("- &a !!str\n- *a")
def test_any_text_is_read_or_refused_with_a_position(text: str) -> None:
    assert all(line >= 1 and column >= 1 for line, column in positions(text))
