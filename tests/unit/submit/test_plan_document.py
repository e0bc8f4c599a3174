from __future__ import annotations

import json
from collections.abc import Callable

from fairshare.model import Problem
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.ports import Upload
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import plan_waves

T0 = 1_764_500_000_000


def test_the_plan_as_json(make_planned: Callable[..., PlannedJob]) -> None:
    warning = Problem("jobs.yaml", 3, 5, 'job "digits": look out', severity="warning")
    waves = plan_waves(3, 2, 90, T0)
    jobs = tuple(make_planned(i, wave.number) for wave in waves for i in range(wave.first, wave.first + wave.count))
    uploads = (Upload("s3://bucket/a", b"12345", "source of digits"),)
    run = RunIdentity("lunar-otter-3f2a", T0, "us-west-2", "111122223333")
    plan = SubmitPlan(run, waves, jobs, uploads, warnings=(warning,))

    document = plan.to_json()

    assert json.loads(json.dumps(document)) == document
    assert document["api_version"] == "fairshare/v1"
    assert document["kind"] == "SubmitPlan"
    assert document["waves"] == [
        {"number": 1, "starts_at": "2025-11-30T10:53:20.000Z", "jobs": 2},
        {"number": 2, "starts_at": "2025-11-30T10:54:50.000Z", "jobs": 1},
    ]
    assert document["uploads"] == [{"s3_uri": "s3://bucket/a", "bytes": 5, "label": "source of digits"}]
    assert document["warnings"] == ['jobs.yaml:3:5: warning: job "digits": look out']
    assert document["requests"][2] == {
        "job_name": "job-2",
        "job_queue": "search-ml-gpu",
        "wave": 2,
        "after": [],
        "share_identifier": "LOWPRI",
        "quota_share": None,
        "preemption_retries": None,
        "scheduling_priority": 20,
        "attempt_duration_seconds": None,
        "retry_strategy": None,
        "client_token": plan.jobs[2].request.client_token,
        "tags": {"fairshare:run": "lunar-otter-3f2a"},
        "payload": {"TrainingJobName": "job-2"},
        "alternatives": [],
        "fallback_after": None,
    }
    nothing = dict.fromkeys(("concurrent_launches", "image_pulls", "read_bandwidth", "memory"))
    assert document["rules"] == {"max_in_flight": None, "auto": None, "limits": nothing}
    assert plan.upload_bytes == 5
    assert plan.largest_payload_bytes == len('{"TrainingJobName":"job-0"}')
