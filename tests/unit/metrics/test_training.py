from dataclasses import replace

import pytest

from fairshare.metrics.ports import Point
from fairshare.metrics.training import TrainingMetric, hosts_of, queries_of, series_of
from fairshare.model import JobAttempt

GPU = TrainingMetric.GPU


def host_of(query):
    return dict(query.dimensions)["Host"]


def test_every_host_and_attempt_is_asked_for_by_its_exact_name(job):
    attempts = (JobAttempt("AWSBatchbert0"), JobAttempt("AWSBatchbert1"))
    asked = [host_of(query) for query in queries_of(job(count=2, attempts=attempts), 60) if query.name == GPU]

    assert asked == ["AWSBatchbert0/algo-1", "AWSBatchbert1/algo-1", "AWSBatchbert0/algo-2", "AWSBatchbert1/algo-2"]


def test_hosts_from_ten_on_are_hosts_of_their_own(job):
    names = [host.name for host in hosts_of(job(count=11).payload)]

    assert names[0] == "algo-1"
    assert names[9:] == ["algo-10", "algo-11"]


def test_hosts_without_gpus_are_not_asked_about_gpus(job):
    names = {query.name for query in queries_of(job(instance_type="ml.c5.xlarge"), 60)}

    assert names == {"CPUUtilization", "MemoryUtilization", "DiskUtilization"}


def test_a_job_that_never_started_is_not_asked_about(job):
    assert queries_of(job(training_job_name=None, attempts=()), 60) == ()


def test_c35_use_is_per_device_and_memory_per_host(measured):
    found = measured(gpu=[80], cpu=[25], memory=[44], gpu_memory=[61])

    values = {metric.value: hosts[0].latest for metric, hosts in found.series.items()}
    assert values == {
        "GPUUtilization": 80,
        "GPUMemoryUtilization": 61,
        "CPUUtilization": 25,
        "MemoryUtilization": 44,
        "DiskUtilization": None,
    }


@pytest.mark.parametrize(
    ("instance_type", "published", "shown"), [("ml.p4d.24xlarge", 640.0, 80), ("ml.g6.xlarge", 40.0, 40)]
)
def test_c35_a_sum_over_gpus_is_neither_shown_nor_cut_off(job, instance_type, published, shown):
    host = job(instance_type=instance_type)
    answers = {query: (Point(0, published),) for query in queries_of(host, 60) if query.name == GPU}

    assert series_of(host, answers, 60).series[GPU][0].latest == shown


def test_c35_a_fleet_is_averaged_by_device():
    from fairshare.metrics.series import Series
    from fairshare.metrics.training import join_series

    eight = Series(GPU, "algo-1", "Percent", True, (Point(0, 80.0),), 60)
    one = Series(GPU, "algo-2", "Percent", True, (Point(0, 40.0),), 60)

    assert join_series(GPU, [(eight, 8), (one, 1)]).latest == pytest.approx(75.56, abs=0.005)
    assert join_series(GPU, [(eight, 1), (one, 1)]).latest == 60


def test_c35_an_unknown_instance_type_leaves_the_value_raw_and_marked(job):
    unknown = job(instance_type="ml.p6e-gb200.36xlarge")
    answers = {query: (Point(0, 340.0),) for query in queries_of(unknown, 60)}
    found = series_of(unknown, answers, 60)

    assert (found.series[GPU][0].latest, found.series[GPU][0].normalised) == (340, False)
    assert found.use(GPU) is None
    assert found.together(GPU) is None
    assert found.series[TrainingMetric.MEMORY][0].normalised


def test_a_cluster_of_several_types_is_unknown_host_by_host(job):
    groups = [
        {"InstanceType": "ml.g6.12xlarge", "InstanceCount": 2, "InstanceGroupName": "gpu"},
        {"InstanceType": "ml.c5.xlarge", "InstanceCount": 1, "InstanceGroupName": "cpu"},
    ]
    hosts = hosts_of(job(payload={"ResourceConfig": {"InstanceGroups": groups}}).payload)

    assert [(host.name, host.spec) for host in hosts] == [("algo-1", None), ("algo-2", None), ("algo-3", None)]


def test_attempts_are_joined_to_one_series_of_a_host(job):
    twice = replace(job(), attempts=(JobAttempt("AWSBatchbert0"), JobAttempt("AWSBatchbert1")))
    answers = {
        query: (Point(60_000 if "bert1" in host_of(query) else 0, 4 * (90 if "bert1" in host_of(query) else 10)),)
        for query in queries_of(twice, 60)
        if query.name == GPU
    }

    assert series_of(twice, answers, 60).series[GPU][0].points == ((0, 10), (60_000, 90))


def test_all_hosts_together_skip_a_host_that_has_no_value_there(job, measured):
    found = measured(job(count=2), gpu=[[90, 90, 90], [30, None, 30]])

    assert [point.value for point in found.together(GPU).points] == [60, 90, 60]
    assert found.use(GPU).points == 5
