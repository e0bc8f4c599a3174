from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from fairshare.aws.phases import TrainingPhases
from fairshare.metrics.ports import Phase
from fairshare.model import CredentialsError

AT = 1_796_061_600


class FakeSageMaker:
    def __init__(self, refusal: Any) -> None:
        self._refusal = refusal

    def describe_training_job(self, *, TrainingJobName: str) -> dict[str, Any]:
        if TrainingJobName == "secret":
            raise self._refusal("not authorized", "AccessDeniedException", 403)
        if TrainingJobName != "bert":
            raise self._refusal("Requested resource not found.", "ValidationException")
        return {
            "SecondaryStatusTransitions": [
                {"Status": "Training", "StartTime": datetime.fromtimestamp(AT + 60, UTC)},
                {
                    "Status": "Downloading",
                    "StartTime": datetime.fromtimestamp(AT, UTC),
                    "EndTime": datetime.fromtimestamp(AT + 60, UTC),
                },
            ]
        }


@pytest.fixture
def phases(session_of, refusal) -> TrainingPhases:
    return TrainingPhases(session_of(sagemaker=FakeSageMaker(refusal)))


def test_phases_come_in_order_and_the_last_one_may_last(phases):
    assert phases.phases("bert") == (
        Phase("Downloading", AT * 1000, AT * 1000 + 60_000),
        Phase("Training", AT * 1000 + 60_000, None),
    )


def test_a_job_that_sagemaker_does_not_know_has_no_phases(phases):
    assert phases.phases("gone") == ()


def test_a_missing_permission_is_told(phases):
    with pytest.raises(CredentialsError, match="Cannot describe training job secret"):
        phases.phases("secret")
