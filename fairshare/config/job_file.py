"""Reads job files: from their written shape (`fairshare.config.job_sections`) to `fairshare.config.jobs.JobSpec`.

What depends on the project, the queue or SageMaker (share exists, script exists, names and sizes) is checked when jobs
are prepared for submission, not here: a job file alone is complete without them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairshare.config.job_sections import JobFileSection, JobSection, NetworkSection
from fairshare.config.jobs import Dependency, JobFile, JobSpec, Origin, RetrySpec, SecretRef
from fairshare.config.sections import read_section, unwrap
from fairshare.config.yaml_source import Document, Steps, parse_yaml, read_text


def load_job_file(path: Path) -> JobFile:
    """Read and check a job file.

    Relative paths in it (source directories, local inputs, files of secrets) are relative to the file.

    Raises:
        InvalidFileError: with every problem of the file.
    """
    return parse_job_file(read_text(path), path)


def parse_job_file(text: str, path: Path, *, folder: Path | None = None) -> JobFile:
    """Check the text of a job file as `load_job_file` does.

    Args:
        text: content of the file.
        path: its name in messages.
        folder: what relative paths in it are relative to; None = the directory of ``path``.
    """
    document = parse_yaml(text, str(path))
    read, problems = read_section(JobFileSection, document)
    written = unwrap(read, document, problems)
    folder = path.absolute().parent if folder is None else folder
    jobs = (_job_spec(job, folder, _origin(document, ("jobs", i))) for i, job in enumerate(written.jobs))
    waves = None if written.waves is None else written.waves.to_waves()
    return JobFile(tuple(jobs), waves, written.limits.to_limits(), written.max_in_flight)


def _job_spec(job: JobSection, folder: Path, origin: Origin) -> JobSpec:
    source = job.source
    queues = job.queues or ()
    return JobSpec(
        name=job.name,
        origin=origin,
        source_dir=None if source is None else _local_path(folder, source.dir),
        entry=None if source is None else source.entry,
        requirements=None if source is None else source.requirements,
        instance_type=job.compute.instance_type,
        instance_count=job.compute.instance_count,
        volume_size_gb=job.compute.volume_size_gb,
        launcher=job.launcher,
        queue=queues[0] if queues else job.queue,
        queues=queues if len(queues) > 1 else (),
        fallback_after=job.fallback_after,
        share=job.share,
        quota_share=job.quota_share,
        priority=job.priority,
        role=job.role,
        image=job.image,
        max_runtime=job.max_runtime,
        inputs={channel: _input(folder, source) for channel, source in job.inputs.items()},
        output=job.output,
        checkpoint=job.checkpoint,
        network=None if job.network is None else _network(job.network),
        hyperparameters=job.hyperparameters,
        environment={name: _environment_value(folder, value) for name, value in job.environment.items()},
        metrics=job.metrics,
        tags=job.tags,
        sweep=job.sweep,
        array=job.array,
        after=tuple(Dependency(each.job, each.when) for each in job.after),
        retry=None
        if job.retry is None
        else RetrySpec(job.retry.attempts, job.retry.on or (), job.retry.preemption_retries),
        resources=job.resources.to_resources(),
        training_job=job.training_job,
    )


def _network(network: NetworkSection) -> dict[str, Any]:
    """Return what was written, lists as lists."""
    lists = {"subnets": list(network.subnets), "security_groups": list(network.security_groups)}
    return {key: value for key, value in (lists | {"kms_key": network.kms_key}).items() if value}


def _local_path(folder: Path, text: str) -> Path:
    path = Path(text).expanduser() if text.startswith("~/") else Path(text)
    return (folder / path).resolve()


def _input(folder: Path, text: str) -> str:
    """Return a channel's source: a URI as it is, a local path absolute."""
    return text if "://" in text else str(_local_path(folder, text))


def _environment_value(folder: Path, value: str | SecretRef) -> str | SecretRef:
    if isinstance(value, SecretRef) and value.from_file is not None:
        return SecretRef(from_file=str(_local_path(folder, value.from_file)))
    return value


def _origin(document: Document, steps: Steps) -> Origin:
    """Return where a job was written, with the places of its values, two levels deep."""

    def place(below: Steps) -> Origin:
        line, column = document.position((*steps, *below))
        return Origin(document.file, line, column, document.source_line(line))

    keys: dict[tuple[str, ...], Origin] = {}
    for key in document.keys(*steps):
        keys[(key,)] = place((key,))
        for inner in document.below(*steps, key):
            keys[(key, str(inner))] = place((key, inner))
    line, column = document.position(steps)
    return Origin(document.file, line, column, document.source_line(line), keys)
