"""The course of SageMaker training jobs: the adapter of `fairshare.metrics.ports.PhaseSource`."""

from __future__ import annotations

from datetime import datetime

from fairshare.aws.errors import translated
from fairshare.aws.session import AwsSession
from fairshare.metrics.ports import Phase, PhaseSource
from fairshare.model import NotFoundError


class TrainingPhases(PhaseSource):
    """Reads ``SecondaryStatusTransitions`` of training jobs of one account and region."""

    def __init__(self, session: AwsSession) -> None:
        self._session = session

    def phases(self, training_job_name: str) -> tuple[Phase, ...]:
        """Return the phases in order of time, with one call; () when SageMaker does not know the job.

        Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html.
        """
        try:
            with translated(f"describe training job {training_job_name}", self._session.caller):
                answer = self._session.client("sagemaker").describe_training_job(TrainingJobName=training_job_name)
        except NotFoundError:
            return ()
        entries = answer.get("SecondaryStatusTransitions", [])
        phases = (Phase(entry["Status"], _time(entry["StartTime"]), _end(entry.get("EndTime"))) for entry in entries)
        return tuple(sorted(phases, key=lambda phase: phase.begin))


def _time(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _end(moment: datetime | None) -> int | None:
    return None if moment is None else _time(moment)
