import pytest

from fairshare.cli.errors import error_document, error_text, problem_text
from fairshare.model import FairshareError, InterruptedRunError, InvalidFileError, NotFoundError, Problem

SHARE = Problem(
    "sweep.yaml",
    14,
    12,
    'unknown share "HIGHPRIO" in queue gpu',
    key="HIGHPRIO",
    hint="did you mean HIGHPRI?",
    source_line="    share: HIGHPRIO",
)


def test_a_problem_shows_its_line_and_a_caret_under_the_place():
    assert problem_text(SHARE).splitlines() == [
        'sweep.yaml:14:12: error: unknown share "HIGHPRIO" in queue gpu',
        "   14 |     share: HIGHPRIO",
        "      |            ^^^^^^^^ did you mean HIGHPRI?",
    ]


def test_the_caret_finds_its_place_behind_wide_characters_and_tabs():
    problem = Problem("f.yaml", 1, 5, "wrong", source_line="模\t: [a, b]", hint="")

    assert problem_text(problem).splitlines()[1:] == ["    1 | 模 : [a, b]", "      |      ^"]


def test_quoted_text_is_underlined_as_a_whole():
    problem = Problem("f.yaml", 1, 4, "wrong", source_line='k: "a, b" # c')

    assert problem_text(problem).splitlines()[2] == "      |    ^^^^^^"


def test_c47_a_source_line_cannot_move_the_cursor():
    problem = Problem("f.yaml", 1, 1, "bad \x1b[2J", source_line="\x1b[2J: 1")

    assert "\x1b" not in problem_text(problem)


def test_a_long_line_is_cut_around_the_place():
    line = f"  hyperparameters: {{a: {'x' * 5000}, b: {'y' * 5000}}}"
    problem = Problem("f.yaml", 1, line.index("b:") + 1, "wrong", source_line=line, hint="mend it")

    _, shown, caret = problem_text(problem).splitlines()
    assert shown.startswith("    1 | ...xxx")
    assert shown.endswith("yyy...")
    assert len(shown) < 180
    assert caret.index("^") == shown.index("b:")
    assert caret.endswith("^ mend it")
    assert len(problem_text(Problem("f.yaml", 1, 24, "wrong", source_line=line)).splitlines()[2]) < 180


@pytest.mark.parametrize(
    "line",
    ["  environment: {HF_TOKEN: hf_example, A-B: 1}", "  password: p", "  output: http://me:pw@host/x"],
)
def test_c46_a_line_that_may_hold_a_secret_is_not_shown(line: str) -> None:
    assert problem_text(Problem("f.yaml", 9, 7, "wrong", source_line=line, hint="mend it")) == (
        "f.yaml:9:7: error: wrong\n  mend it"
    )


def test_a_problem_of_the_file_as_a_whole_has_no_line():
    assert problem_text(Problem("f.yaml", 0, 0, "is empty", hint="write one")) == (
        "f.yaml: error: is empty\n  write one"
    )


def test_all_problems_are_told_and_counted():
    warning = Problem("sweep.yaml", 20, 1, "odd", severity="warning")
    text = error_text(InvalidFileError([warning, SHARE]))

    assert text.splitlines()[-1] == "1 problem. Nothing was changed."
    assert "sweep.yaml:20:1: warning: odd" in text


def test_an_error_has_its_hint_on_a_line_of_its_own():
    assert error_text(NotFoundError("no job", hint="look again")) == "error: no job\n  look again"
    assert error_text(FairshareError("no hint")) == "error: no hint"


def test_an_interruption_is_not_called_an_error():
    assert error_text(InterruptedRunError("stopped")) == "stopped"


def test_c47_the_text_of_an_error_is_safe_but_keeps_its_lines():
    assert error_text(FairshareError("one\ntwo\r\x1b[2J")) == "error: one\ntwo\\r\\x1b[2J"


def test_the_document_of_an_error():
    assert error_document(NotFoundError("no job", hint="look again")) == {
        "api_version": "fairshare/v1",
        "kind": "Error",
        "error": {"code": "NotFound", "message": "no job", "hint": "look again"},
    }


def test_the_document_of_an_invalid_file_lists_the_problems():
    (problem,) = error_document(InvalidFileError([SHARE]))["error"]["problems"]

    assert (problem["file"], problem["line"], problem["column"], problem["key"]) == ("sweep.yaml", 14, 12, "HIGHPRIO")
