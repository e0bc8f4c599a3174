from __future__ import annotations

import json

from fairshare.cli.dry_run import details_text
from fairshare.model import JobRequest
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.ports import Upload
from fairshare.submit.requests import PlannedJob, RunIdentity
from fairshare.submit.waves import plan_waves

PAYLOAD = '{"Environment":{"API_KEY":"planted","MODE":"fast"}}'


def make_plan(count: int, *uploads: Upload) -> SubmitPlan:
    requests = [JobRequest(f"train-{i}", "lab-train", PAYLOAD, f"token-{i}", "HIGHPRI", 0) for i in range(count)]
    jobs = tuple(PlannedJob(i, 1, request) for i, request in enumerate(requests))
    identity = RunIdentity("lunar-otter", 0, "us-west-2", "111122223333")
    return SubmitPlan(identity, plan_waves(count, None, 0, 0), jobs, uploads)


def test_uploads_and_requests_are_listed_and_the_first_request_is_shown_whole() -> None:
    text = details_text(make_plan(2, Upload("s3://bucket/source/train.py", b"x" * 2048, "source train.py")), None)
    uploads, requests, first = text.split("\n\n")
    assert uploads.splitlines() == [
        "UPLOAD            SIZE  TO",
        "source train.py  2 KiB  s3://bucket/source/train.py",
    ]
    assert requests.splitlines() == [
        "REQUEST  QUEUE      SHARE    PRI  WAVE   PAYLOAD",
        "train-0  lab-train  HIGHPRI  0       1  51 bytes",
        "train-1  lab-train  HIGHPRI  0       1  51 bytes",
    ]
    head, _, document = first.partition("\n")
    assert head == "The first request, secrets masked (all 2 of them: -o json)"
    assert json.loads(document)["payload"] == {"Environment": {"API_KEY": "***", "MODE": "fast"}}
    assert "planted" not in text


def test_long_lists_are_cut_and_say_so() -> None:
    uploads = [Upload(f"s3://bucket/{number}", b"", f"file {number}") for number in range(21)]
    lines = details_text(make_plan(1000, *uploads), 100).splitlines()
    assert "... and 1 more upload" in lines
    assert "... and 980 more requests" in lines
    assert not any(line.startswith("train-20") for line in lines)


def test_no_jobs_have_no_details() -> None:
    assert details_text(make_plan(0), None) == ""
