from __future__ import annotations

import random
import re

import pytest

from fairshare.model import UsageError
from fairshare.submit.naming import (
    MAX_NAME,
    SURVIVING,
    assign_names,
    check_run_id,
    clean_label,
    name_problem,
    new_run_id,
    unique,
)

BATCH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
TRAINING_JOB_NAME = re.compile(r"[a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}")


def test_run_ids_come_from_the_given_randomness_only() -> None:
    first, again = new_run_id(random.Random(7)), new_run_id(random.Random(7))

    assert first == again
    assert re.fullmatch(r"[a-z]+-[a-z]+-[0-9a-f]{4}", first)
    assert new_run_id(random.Random(8)) != first


def test_a_thousand_run_ids_are_legal_and_hardly_repeat() -> None:
    rng = random.Random(1)
    run_ids = [new_run_id(rng) for _ in range(1000)]

    for run_id in run_ids:
        check_run_id(run_id)
    assert len(set(run_ids)) == 1000


@pytest.mark.parametrize("run_id", ["", "../etc/passwd", "a/b", ".hidden", "-x", "a b", "é", "x" * 65, "a\n"])
def test_a_run_id_must_be_a_file_name(run_id: str) -> None:
    with pytest.raises(UsageError, match="cannot be a run id") as caught:
        check_run_id(run_id)
    assert caught.value.hint == "use 1 to 64 letters, digits, - and _, the first one a letter or a digit"


@pytest.mark.parametrize("name", ["digits", "bert-large_7", "7b", "a" * MAX_NAME, "a" * 120, "x-", "x_"])
def test_c12_good_names(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("exp_αβ/llama.7b:run#1", "its name has 'α' at position 5: use letters a-z, digits, - and _"),
        ("llama.7b", "its name has '.' at position 6: use letters a-z, digits, - and _"),
        ("a\x1b[2J", r"its name has '\x1b' at position 2: use letters a-z, digits, - and _"),
        ("name\n", r"its name has '\n' at position 5: use letters a-z, digits, - and _"),
        ("_warmup", "its name begins with '_': the first character must be a letter or a digit"),
        ("--help", "its name begins with '-': the first character must be a letter or a digit"),
        (
            "a" * 200,
            "its name has 200 characters, at most 121 are allowed (Batch takes 128, the run's token 7 of them)",
        ),
        ("", "its name is empty"),
    ],
)
def test_c12_a_name_a_user_wrote_is_refused_with_the_character(name: str, problem: str) -> None:
    assert name_problem(name) == problem


def test_c12_labels_are_cleaned() -> None:
    assert clean_label("exp_αβ/llama.7b:run#1") == "exp_-llama-7b-run-1"
    assert clean_label("_warmup") == "warmup"
    assert clean_label("--help") == "help"
    assert clean_label("αβ") == ""
    assert clean_label("good_name-1") == "good_name-1"


def test_repeated_names_are_numbered_without_taking_a_written_one() -> None:
    assert unique(["a", "b", "a", "a-2", "A", "a"]) == ["a", "b", "a-3", "a-2", "A-4", "a-5"]


def test_job_names_end_in_the_run_and_begin_with_the_label() -> None:
    names = assign_names("lunar-otter-3f2a", ["digits-lr0-1-seed3", "digits-lr0-1-seed4"])

    token = names[0].job_name.rsplit("-", 1)[1]
    assert re.fullmatch(r"[0-9a-f]{6}", token)
    assert [each.job_name for each in names] == [f"digits-lr0-1-seed3-{token}", f"digits-lr0-1-seed4-{token}"]
    assert names[0].training_job_name == names[0].job_name


def test_c12_sagemaker_gets_no_underscore_and_the_names_still_differ() -> None:
    names = assign_names("r", ["a_b", "a-b", "a__b", "x_"])

    assert [each.job_name[:-7] for each in names] == ["a_b", "a-b", "a__b", "x_"]
    assert [each.training_job_name[:-7] for each in names] == ["a-b", "a-b-2", "a-b-3", "x"]


def test_a_label_too_long_for_sagemaker_keeps_its_beginning_and_its_end() -> None:
    labels = [f"bert-large-pretraining-lr0-1-seed{seed}" for seed in range(3)]
    survivors = [each.training_job_name[:SURVIVING] for each in assign_names("r", labels)]

    assert [survivor[:20] for survivor in survivors] == [f"bert-lar-lr0-1-seed{seed}" for seed in range(3)]


def test_long_equal_names_fit_and_differ_where_it_counts() -> None:
    names = assign_names("r", ["a" * 200] * 12)

    assert len({each.job_name for each in names}) == 12
    assert len({each.training_job_name[:SURVIVING].rstrip("-") for each in names}) == 12
    for each in names:
        assert BATCH_NAME.fullmatch(each.job_name)
        assert TRAINING_JOB_NAME.fullmatch(each.training_job_name)


def test_names_that_differ_in_case_only_are_told_apart() -> None:
    """Batch's JOB_NAME filter ignores case, and recovery looks jobs up by name."""
    first, second = assign_names("r", ["Digits", "digits"])

    assert first.job_name.lower() != second.job_name.lower()
    assert first.training_job_name.lower() != second.training_job_name.lower()


def test_two_runs_share_no_name() -> None:
    labels = ["digits", "digits-seed1"]
    one, other = assign_names("lunar-otter-3f2a", labels), assign_names("lunar-otter-3f2b", labels)

    assert not {each.job_name for each in one} & {each.job_name for each in other}
    assert not {each.training_job_name for each in one} & {each.training_job_name for each in other}


def test_c12_todays_names_differ_from_yesterdays() -> None:
    """The same file, sent by one run after the other: the token of the run tells all names apart."""
    rng = random.Random(30)
    labels = ["digits", "digits", *(f"bert-large-pretraining-lr0-1-seed{seed}" for seed in range(20))]
    days = [assign_names(new_run_id(rng), labels) for _ in range(50)]

    job_names = [each.job_name.lower() for names in days for each in names]
    training_job_names = [each.training_job_name.lower() for names in days for each in names]

    assert len(set(job_names)) == len(set(training_job_names)) == 50 * len(labels)


def test_ten_thousand_equal_labels_take_linear_time() -> None:
    names = assign_names("r", ["digits"] * 10_000)

    assert names[-1].job_name.startswith("digits-10000-")
    assert len({each.training_job_name[:SURVIVING] for each in names}) == 10_000
