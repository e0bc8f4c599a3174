"""The table of instance types against what AWS publishes, as moto and botocore carry it."""

import gzip
import json
from importlib.resources import files

import pytest
from botocore.session import get_session

from fairshare.metrics.instance_types import InstanceType, instance_types

RETIRED = ("ml.p2.", "ml.p3.")
"""No longer in EC2's DescribeInstanceTypes."""


@pytest.fixture(scope="module")
def published():
    text = gzip.decompress(files("moto.ec2").joinpath("resources", "instance_types.json.gz").read_bytes())
    return {f"ml.{name}": sizes for name, sizes in json.loads(text).items()}


def test_every_training_instance_type_with_published_sizes_is_in_the_table(published):
    names = get_session().get_service_model("sagemaker").shape_for("TrainingInstanceType").enum

    assert set(names) & set(published) <= set(instance_types()) <= set(names)


def test_sizes_are_those_that_ec2_publishes(published):
    for name, found in instance_types().items():
        if name.startswith(RETIRED) and name not in published:
            continue
        sizes = published[name]
        gpus = sizes.get("GpuInfo", {}).get("Gpus", [])
        assert found == InstanceType(
            name,
            sizes["VCpuInfo"]["DefaultVCpus"],
            sizes["MemoryInfo"]["SizeInMiB"],
            sum(gpu["LogicalGpuCount"] for gpu in gpus),
            gpus[0]["MemoryInfo"]["SizeInMiB"] if gpus else 0,
        )
