from __future__ import annotations

import pytest

from fairshare.provision.compare import name_of, weight_text


@pytest.mark.parametrize(
    ("observed", "text"),
    [
        (0.10000000149011612, "0.1"),
        (0.699999988079071, "0.7"),
        (9.999999747378752e-05, "0.0001"),
        (999.9998779296875, "999.9999"),
        (1, "1"),
        (1.0, "1"),
        (100.0, "100"),
        (0.3333333432674408, "0.33333334"),
    ],
)
def test_c02_a_32_bit_float_is_shown_as_the_shortest_decimal(observed: float, text: str) -> None:
    assert weight_text(observed) == text


@pytest.mark.parametrize(
    ("written", "read_back", "equal"),
    [
        ("0.1", 0.10000000149011612, True),
        ("0.10", 0.10000000149011612, True),
        ("0.7", 0.699999988079071, True),
        ("0.0001", 9.999999747378752e-05, True),
        ("0.3333333333333333", 0.3333333432674408, True),
        ("0.1", 0.10001000016927719, False),
    ],
)
def test_c02_weights_are_equal_when_their_32_bit_floats_are(written: str, read_back: float, equal: bool) -> None:
    assert (weight_text(written) == weight_text(read_back)) is equal


def test_the_name_is_at_the_end_of_an_arn_of_any_partition() -> None:
    assert name_of("arn:aws-us-gov:batch:us-gov-west-1:111122223333:scheduling-policy/ml-gpu") == "ml-gpu"
    assert name_of("ml-gpu") == "ml-gpu"
