from __future__ import annotations

import pytest

from fairshare.model import OWNER_TAG
from fairshare.provision.tags import RECORD_TAG, keys_set_by_us, own_tags


def test_the_list_of_keys_is_sorted_so_that_the_order_of_the_file_is_no_change() -> None:
    assert own_tags({"team": "a", "Cost": "b"}, "ml") == own_tags({"Cost": "b", "team": "a"}, "ml")
    assert own_tags({"team": "a", "Cost": "b"}, "ml")[RECORD_TAG] == "Cost team"


def test_without_tags_in_the_file_there_is_no_list() -> None:
    assert own_tags({}, "ml") == {OWNER_TAG: "ml"}


def test_a_key_with_a_blank_is_set_but_not_listed() -> None:
    tags = own_tags({"cost center": "7", "team": "a"}, "ml")

    assert tags["cost center"] == "7"
    assert keys_set_by_us(tags) == {OWNER_TAG, RECORD_TAG, "team"}


def test_the_list_never_exceeds_what_aws_takes() -> None:
    keys = [f"{number:02}-{'x' * 50}" for number in range(10)]

    tags = own_tags(dict.fromkeys(keys, "v") | {"z": "v"}, "ml")

    assert len(tags[RECORD_TAG]) <= 256
    assert keys_set_by_us(tags) - {OWNER_TAG, RECORD_TAG} == {*keys[:4], "z"}
    assert set(keys) < set(tags)


@pytest.mark.parametrize("listed", ["aws:createdBy", "team  aws:createdBy "])
def test_a_tag_of_aws_is_never_ours_whatever_the_list_says(listed: str) -> None:
    assert "aws:createdBy" not in keys_set_by_us({RECORD_TAG: listed, "aws:createdBy": "x"})
