"""``fairshare demo``: the whole tour on this machine, against a private AWS that ends with it.

Everything goes the way of the ordinary commands: the same plan, the same submission, the same boto3 calls. Only the
state directory and the AWS are the demo's own.
"""

from __future__ import annotations

import io
import json
import signal
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from fairshare.cli.command import command, new_app
from fairshare.cli.context import AppContext, Options
from fairshare.cli.render import Column, table
from fairshare.model import TERMINAL_STATUSES, FairshareError, JobSummary, PartialError

if TYPE_CHECKING:
    from fairshare.cli.demo_view import DemoView
    from fairshare.submit.dispatch import RunResult
    from fairshare.submit.events import Event
    from fairshare.submit.requests import PlannedJob

app = new_app()

_PACKAGED: Final = Path(__file__).parent / "demo_files"
_IN_THE_TREE: Final = Path(__file__).parents[2] / "examples" / "digits"
"""The example, in an installed wheel and in an editable installation."""

_LOOK_MS: Final = 300
_MEASURED_EVERY: Final = 1
"""Seconds; SageMaker publishes each minute, which is longer than a job of the demo takes."""


@dataclass(frozen=True)
class TrainedModel:
    """One job of the demo at its end. ``accuracy`` and ``artifact`` are None when it made no model."""

    planned: PlannedJob
    job: JobSummary
    accuracy: float | None
    artifact: str | None

    def to_json(self) -> dict[str, Any]:
        """Return its row of the ``Demo`` document."""
        return {
            "job_name": self.job.job_name,
            "share_identifier": self.job.share_identifier,
            "scheduling_priority": self.planned.request.scheduling_priority,
            "wave": self.planned.wave,
            "status": self.job.status,
            "accuracy": self.accuracy,
            "artifact": self.artifact,
        }


@command(
    app, examples=("fairshare demo", "fairshare demo -o json", "fairshare demo --keep models"), exit_codes=(3, 130, 143)
)
def demo(
    context: AppContext,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Copy each model.tar.gz to DIR/<job>.tar.gz.")
    ] = None,
) -> None:
    """Train twelve models in three waves over three shares, on this machine, and stop everything again."""
    from fairshare.cli.demo_view import DemoView

    with _private_aws(context) as private:
        _set_up(private, context)
        with DemoView(context.out) as view:
            result, jobs = _train(private, view)
        models = [_model_of(private, planned, jobs[ref.job_id], keep) for planned, ref in result.sent]
        shares = _share_rows(private, models, _cpu_use(private, models))
    _show(context, models, shares)


@contextmanager
def _private_aws(context: AppContext) -> Iterator[AppContext]:
    """Yield the context of an AWS that exists only inside; nothing of it is left afterwards, whatever happened.

    It is found as ``--local`` finds one: by the ready file in the state directory, which is a temporary one here.
    """
    from fairshare.config.paths import local_ready_file
    from fairshare.local.server import LocalServer

    example = _PACKAGED if _PACKAGED.is_dir() else _IN_THE_TREE
    with tempfile.TemporaryDirectory(prefix="fairshare-demo-") as folder:
        environ = {**context.environ, "FAIRSHARE_STATE_DIR": folder}
        options = Options(file=example / "fairshare.yaml", local=True, output=context.options.output)
        ready, local = local_ready_file(environ), Path(folder) / "local"
        server = LocalServer(launcher="process", state_dir=local, ready_file=ready, metrics_period=_MEASURED_EVERY)
        try:
            context.out.talk("$ fairshare local start")
            context.out.talk(f"AWS on this machine: {server.start().endpoint_url}, for this demo only\n")
            yield AppContext(options, environ, example)
        finally:
            with _signals_ignored():
                server.stop()


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Tidying up takes a moment; a second Ctrl-C must not leave processes behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _set_up(private: AppContext, context: AppContext) -> None:
    from fairshare.cli.plan_view import plan_text
    from fairshare.provision.apply import apply
    from fairshare.provision.desired import desired_state
    from fairshare.provision.plan import plan_setup

    desired = desired_state(private.require_project(), private.aws_place)
    observed = private.stack_provisioner.observe(desired.names, desired.stack)
    plan = plan_setup(desired, observed, region=private.region, account_id=private.session.account_id)
    context.out.talk(f"$ fairshare setup\n{plan_text(plan, private.place, context.out.width)}\n")
    apply(plan, private.stack_provisioner, lambda change: None)


def _train(private: AppContext, view: DemoView) -> tuple[RunResult, Mapping[str, JobSummary]]:
    """Submit the example's job file and watch it to the end; return what was sent and how each job ended, by id."""
    from fairshare.cli.submission import prepare_run, send_run
    from fairshare.config.job_file import load_job_file
    from fairshare.submit.prepare import SubmitOptions

    file = load_job_file(private.cwd / "jobs.yaml")
    run = prepare_run(private, file.jobs, SubmitOptions(waves=file.waves))
    view.begin(run.plan, run.rate)
    queue = run.plan.jobs[0].request.job_queue

    jobs: dict[str, JobSummary] = {}

    def look(event: Event | None = None) -> None:
        jobs.update((job.job_id, job) for job in private.jobs.list(queue))
        view.show(jobs, private.clock.now(), event)

    result = send_run(private, run, look)
    if failure := result.error():
        raise failure
    look()
    while not all(job.status in TERMINAL_STATUSES for job in jobs.values()):
        private.clock.sleep_until(private.clock.now() + _LOOK_MS)
        look()
    return result, jobs


def _model_of(private: AppContext, planned: PlannedJob, job: JobSummary, keep: Path | None) -> TrainedModel:
    """Read the accuracy of a job's model from its artefact in S3."""
    from fairshare.aws.training import TrainingJobs

    artifact = None
    if job.training_job_name is not None:
        artifact = TrainingJobs(private.session).model_artifact(job.training_job_name)
    if artifact is None:
        return TrainedModel(planned, job, None, None)
    body = private.objects.read(artifact)
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        (keep / f"{job.job_name}.tar.gz").write_bytes(body)
    return TrainedModel(planned, job, _accuracy_in(body), artifact)


def _accuracy_in(archive: bytes) -> float:
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
        member = tar.extractfile("metrics.json")
        if member is None:
            raise FairshareError("the model's archive holds no metrics.json")
        return float(json.load(member)["accuracy"])


def _cpu_use(private: AppContext, models: Sequence[TrainedModel]) -> Mapping[str | None, float]:
    """Return the mean CPU use of each share's jobs in per cent, as CloudWatch has it."""
    from fairshare.cli.measuring import describe, read
    from fairshare.metrics.series import Sample, summarise
    from fairshare.metrics.training import TrainingMetric

    samples: defaultdict[str | None, list[Sample]] = defaultdict(list)
    for measured in read(private, describe(private, [model.job.job_id for model in models])).jobs:
        samples[measured.job.share_identifier] += measured.samples(TrainingMetric.CPU)
    uses = {share: summarise(found) for share, found in samples.items()}
    return {share: use.mean for share, use in uses.items() if use is not None}


def _share_rows(
    private: AppContext, models: Sequence[TrainedModel], cpu_use: Mapping[str | None, float]
) -> list[dict[str, Any]]:
    """Return, for each share, what it is due and what its jobs got."""
    from fairshare.scheduler.policy import share_fractions

    queue = private.choose_queue(None).config
    weights = queue.fairshare.shares if queue and queue.fairshare else {}
    rows = []
    for share, fraction in share_fractions(weights).items():
        jobs = [model.job for model in models if model.job.share_identifier == share]
        waits = [job.scheduled_at - job.created_at for job in jobs if job.scheduled_at is not None]
        runs = [(job.stopped_at or 0) - job.scheduled_at for job in jobs if job.scheduled_at is not None]
        rows.append(
            {
                "share_identifier": share,
                "weight_factor": float(weights[share]),
                "target_percent": round(float(fraction * 100), 1),
                "jobs": len(jobs),
                "mean_wait_seconds": round(sum(waits) / len(waits) / 1000, 1) if waits else None,
                "overtook": sum(_overtook(job, model.job) for job in jobs for model in models),
                "instance_seconds": round(sum(runs) / 1000, 1),
                "cpu_mean_percent": round(cpu_use[share], 1) if share in cpu_use else None,
            }
        )
    return rows


def _overtook(job: JobSummary, other: JobSummary) -> bool:
    """Whether a job was sent after another one and placed before it."""
    if job.scheduled_at is None or other.scheduled_at is None:
        return False
    return job.created_at > other.created_at and job.scheduled_at < other.scheduled_at


def _show(context: AppContext, models: Sequence[TrainedModel], shares: list[dict[str, Any]]) -> None:
    failed = [model for model in models if model.accuracy is None]
    context.out.show(
        "Demo",
        {"jobs": [model.to_json() for model in models], "shares": shares},
        text=lambda width: f"{_models_text(models, width)}\n\n{_shares_text(shares, width)}",
        rows="jobs",
        name="job_name",
    )
    if failed:
        reasons = [f"{model.job.job_name}: {model.job.status_reason}" for model in failed]
        context.out.talk("\n".join([f"error: {len(failed)} of {len(models)} jobs made no model", *reasons]))
        raise typer.Exit(PartialError.exit_code)
    context.out.suggest("fairshare local start, then `fairshare setup` and `fairshare submit` with --local")


def _models_text(models: Sequence[TrainedModel], width: int | None) -> str:
    columns = [Column("MODEL", shrinks=True), Column("SHARE"), Column("PRI", right=True), Column("WAVE", right=True)]
    columns += [Column("STATE"), Column("ACCURACY", right=True)]
    rows = []
    for model in models:
        row = model.to_json()
        accuracy = "-" if model.accuracy is None else f"{model.accuracy:.4f}"
        texts = [row["job_name"], row["share_identifier"], str(row["scheduling_priority"]), str(row["wave"])]
        rows.append([*texts, row["status"], accuracy])
    return table(columns, rows, width)


def _shares_text(shares: Sequence[Mapping[str, Any]], width: int | None) -> str:
    titles = ("WEIGHT", "DUE", "JOBS", "INSTANCE TIME", "CPU USE", "MEAN WAIT", "OVERTOOK")
    columns = [Column("SHARE"), *(Column(title, right=True) for title in titles)]
    rows = [
        [
            share["share_identifier"],
            f"{share['weight_factor']:g}",
            f"{share['target_percent']} %",
            str(share["jobs"]),
            f"{share['instance_seconds']} s",
            "-" if share["cpu_mean_percent"] is None else f"{share['cpu_mean_percent']} %",
            "-" if share["mean_wait_seconds"] is None else f"{share['mean_wait_seconds']} s",
            f"{share['overtook']} earlier",
        ]
        for share in shares
    ]
    return table(columns, rows, width)
