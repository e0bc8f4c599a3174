import pytest

from fairshare.metrics.instance_types import instance_types, more_memory, more_vcpus, smaller


@pytest.mark.parametrize(
    ("name", "vcpus", "gpus"),
    [("ml.g6.12xlarge", 48, 4), ("ml.p4d.24xlarge", 96, 8), ("ml.c5.xlarge", 4, 0), ("ml.p3.2xlarge", 8, 1)],
)
def test_devices_of_known_types(name, vcpus, gpus):
    found = instance_types()[name]

    assert (found.vcpus, found.gpus) == (vcpus, gpus)


def test_a_type_whose_sizes_are_not_published_is_not_in_the_table():
    assert "ml.p6e-gb200.36xlarge" not in instance_types()


def test_larger_and_smaller_types_are_of_the_same_family():
    present = instance_types()["ml.g6.12xlarge"]

    assert more_vcpus(present).name == "ml.g6.24xlarge"
    assert more_memory(present).name == "ml.g6.24xlarge"
    assert smaller(present, vcpus=10, gpus=1).name == "ml.g6.4xlarge"
    assert smaller(present, vcpus=2, gpus=3) is None


def test_the_largest_of_a_family_has_no_larger_one():
    assert more_vcpus(instance_types()["ml.p4d.24xlarge"]) is None
