import pytest

from fairshare.metrics.efficiency import by_share, judge
from fairshare.metrics.training import TrainingMetric

GPU = TrainingMetric.GPU


def test_a_mean_and_the_tail_that_it_hides(job, measured, phases):
    found = judge(measured(job(), gpu=[2, 2, *[95] * 42, *[0] * 16]), phases())

    assert found.judged_use.mean == pytest.approx(66.6, abs=0.05)
    assert (found.shape.warm_up_seconds, found.shape.idle_tail_seconds) == (120, 960)


def test_device_hours_are_used_idle_or_not_measured(job, measured, phases):
    found = judge(measured(job(count=2), gpu=[[75] * 60, [25] * 30]), phases())

    assert found.devices == 8
    assert found.hours.allocated == pytest.approx(8 * 61 / 60)
    assert found.hours.used == pytest.approx(4 * 0.75 + 2 * 0.25)
    assert found.hours.idle == pytest.approx(4 * 0.25 + 2 * 0.75)
    assert found.hours.unmeasured == pytest.approx(8 * 61 / 60 - 6)


def test_a_job_without_gpus_is_judged_by_its_processors(job, measured, phases):
    found = judge(measured(job(instance_type="ml.c5.xlarge"), cpu=[80] * 60), phases())

    assert (found.metric, found.device_noun, found.devices) == (TrainingMetric.CPU, "vCPU", 4)
    assert GPU not in found.use


def test_c35_a_job_of_an_unknown_type_is_not_judged(job, measured, phases):
    found = judge(measured(job(instance_type="ml.x9.large"), gpu=[340] * 60, memory=[50] * 60), phases())

    assert (found.judged_use, found.devices, found.hours, found.shape) == (None, None, None, None)
    assert found.use[TrainingMetric.MEMORY].mean == 50


def test_c38_no_data_is_no_use_and_no_waste(job, measured, phases):
    found = judge(measured(job()), phases())

    assert (found.judged_use, found.wasted_ms, found.diagnoses) == (None, 0, ())


def test_what_the_job_could_have_given_back_is_its_idle_part(job, measured, phases):
    found = judge(measured(job(), gpu=[38] * 60), phases(launching=0))

    assert found.wasted_ms == pytest.approx(0.62 * 3_600_000, abs=1)


def test_shares_add_up_their_jobs_and_the_most_idle_is_first(job, measured, phases):
    jobs = [
        judge(measured(job(), gpu=[90] * 60), phases()),
        judge(measured(job(), gpu=[50] * 60), phases()),
        judge(measured(job(share_identifier="HIGHPRI"), gpu=[99] * 60), phases()),
        judge(measured(job(instance_type="ml.x9.large"), gpu=[99] * 60), phases()),
    ]

    low, high = by_share(jobs)

    assert (low.share_identifier, low.jobs, high.share_identifier) == ("LOWPRI", 2, "HIGHPRI")
    assert low.mean_percent == pytest.approx(70)
    assert low.hours.used == pytest.approx(4 * 1.4)
    assert low.hours.allocated == pytest.approx(2 * 4 * 61 / 60)


@pytest.mark.parametrize("mean", [96.3, 95.0, 91.4])
def test_the_figures_of_the_tuned_systems_come_out_as_they_were_published(mean, job, measured, phases):
    values = [mean - 2, mean + 2, mean - 1, mean + 1] * 15

    assert judge(measured(job(), gpu=values), phases()).judged_use.mean == pytest.approx(mean)
