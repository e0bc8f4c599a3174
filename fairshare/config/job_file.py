"""Reads job files: their shape as it is written (DESIGN section 3) and the way to `fairshare.config.jobs.JobSpec`.

What depends on the project, the queue or SageMaker (share exists, script exists, names and sizes) is checked when jobs
are prepared for submission, not here: a job file alone is complete without them.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Final

from pydantic import BeforeValidator, Field, PlainValidator

from fairshare.config.errors import WrongValue, did_you_mean
from fairshare.config.fields import (
    Hyperparameter,
    InstanceType,
    NotEmpty,
    Seconds,
    Tags,
    Text,
    TypedValue,
    Whole,
    kind_of,
    read_hyperparameter,
    read_text_value,
    read_value,
)
from fairshare.config.jobs import JobFile, JobSpec, Origin, SecretRef, WavesSpec
from fairshare.config.sections import Section, read_section, unwrap
from fairshare.config.yaml_source import Document, Scalar, Steps, parse_yaml, read_text
from fairshare.model import MAX_PRIORITY

LAUNCHERS: Final = ("torchrun", "mpi", "ray")


class SourceSection(Section):
    """The code of a job. ``entry`` and ``requirements`` are relative to ``dir``, and ``dir`` to the job file."""

    example: ClassVar = "{dir: src, entry: train.py}"

    dir: Text = "."
    entry: Text
    requirements: Text | None = None


class ComputeSection(Section):
    """The instances of a job."""

    example: ClassVar = "{instance_type: ml.g6.12xlarge, instance_count: 1}"

    instance_type: InstanceType | None = None
    instance_count: Whole = Field(default=1, ge=1)
    volume_size_gb: Whole | None = Field(default=None, ge=1)


class NetworkSection(Section):
    """The network of a job and the key that encrypts its volumes and output."""

    example: ClassVar = "{subnets: [subnet-1], security_groups: [sg-1]}"

    subnets: tuple[Text, ...] = ()
    security_groups: tuple[Text, ...] = ()
    kms_key: Text | None = None


class WavesSection(Section):
    """Fixed waves."""

    example: ClassVar = "{size: 8, interval: 90s}"

    size: Whole = Field(ge=1)
    interval: Seconds = Field(ge=0)


def _script_as_source(value: object) -> object:
    """``src/train.py`` is short for ``{dir: src, entry: train.py}``."""
    if not isinstance(value, Scalar) or value.is_null:
        return value
    script = PurePosixPath(value.text)
    if script.suffix not in (".py", ".sh"):
        raise WrongValue(f"must be a script (.py or .sh), not {value}", hint="or write {dir: src, entry: train.py}")
    return {"dir": str(script.parent), "entry": script.name}


def _read_launcher(value: object) -> dict[str, Any]:
    """``torchrun`` is short for ``{torchrun: {}}``."""
    launchers = {value.text: {}} if isinstance(value, Scalar) and not value.is_null else value
    if not isinstance(launchers, dict) or len(launchers) != 1:
        found = " and ".join(launchers) if isinstance(launchers, dict) and launchers else kind_of(value)
        raise WrongValue(f"must be one of torchrun, mpi or ray, not {found}", hint="write {torchrun: {}}")
    (name, options), *_ = launchers.items()
    if name not in LAUNCHERS:
        raise WrongValue(f'unknown launcher "{name}"', hint=did_you_mean(name, LAUNCHERS, "launchers"))
    plain = read_value(options)
    if not isinstance(plain, dict | None):
        raise WrongValue(f"the options of {name} must be a mapping, not {kind_of(options)}")
    return {name: plain or {}}


def _read_environment_value(value: object) -> str | SecretRef:
    if not isinstance(value, dict):
        return read_text_value(value)
    if len(value) != 1 or not value.keys() <= {"from_env", "from_file"}:
        keys = ", ".join(value) or "nothing"
        raise WrongValue(f"must have either from_env or from_file, not {keys}", hint="write {from_env: HF_TOKEN}")
    ((key, source),) = value.items()
    name = read_text_value(source)
    if not name:
        raise WrongValue(f"{key} must not be empty")
    return SecretRef(**{key: name})


def _read_sweep_values(value: object) -> list[Any] | dict[str, list[int]]:
    """A list of values, or ``{range: [start, stop]}``, ``{range: [start, stop, step]}``: half-open, as in Python."""
    if isinstance(value, list):
        if not value:
            raise WrongValue("must not be empty")
        return [read_hyperparameter(item) for item in value]
    if not isinstance(value, dict) or value.keys() != {"range"}:
        found = f"a mapping with {', '.join(value)}" if isinstance(value, dict) and value else kind_of(value)
        raise WrongValue(f"must be a list of values, not {found}", hint="write [0.1, 0.01] or {range: [0, 8]}")
    bounds = read_value(value["range"])
    whole = isinstance(bounds, list) and all(isinstance(n, int) and not isinstance(n, bool) for n in bounds)
    if not whole or len(bounds) not in (2, 3):
        raise WrongValue("range must be 2 or 3 whole numbers", hint="write [start, stop] or [start, stop, step]")
    if len(bounds) == 3 and bounds[2] == 0:
        raise WrongValue("the step of a range must not be 0")
    if not range(*bounds):
        raise WrongValue(f"range {bounds} is empty", hint="the stop is not part of a range: [0, 8] is 0 to 7")
    return {"range": bounds}


def _check_sweep(value: object) -> object:
    if isinstance(value, list):
        raise WrongValue(
            "not supported yet: a sweep written as a list", hint="write {lr: [0.1, 0.01]}: every combination"
        )
    if isinstance(value, dict) and isinstance(value.get("zip"), dict):
        raise WrongValue("not supported yet: zip", hint="write {lr: [0.1, 0.01]}: every combination")
    return value


def _check_waves(value: object) -> object:
    if isinstance(value, Scalar) and value.text == "auto":
        raise WrongValue("not supported yet: auto", hint=f"write {WavesSection.example}")
    return value


class JobSection(Section):
    """One job, or many while it has a ``sweep``."""

    not_yet: ClassVar = frozenset({"after", "resources", "retry"})
    example: ClassVar = "{name: digits, source: train.py}"

    name: Text
    source: Annotated[SourceSection, BeforeValidator(_script_as_source)] | None = None
    compute: ComputeSection = Field(default_factory=ComputeSection)
    launcher: Annotated[dict[str, Any], PlainValidator(_read_launcher)] | None = None
    queue: Text | None = None
    share: Text | None = None
    priority: Whole | None = Field(default=None, ge=0, le=MAX_PRIORITY)
    role: Text | None = None
    image: Text | None = None
    max_runtime: Seconds | None = Field(default=None, ge=1)
    inputs: dict[Text, Text] = Field(default_factory=dict)
    output: Text | None = None
    checkpoint: Text | None = None
    network: NetworkSection | None = None
    hyperparameters: dict[Text, Hyperparameter] = Field(default_factory=dict)
    environment: dict[Text, Annotated[str | SecretRef, PlainValidator(_read_environment_value)]] = Field(
        default_factory=dict
    )
    tags: Tags = Field(default_factory=dict)
    sweep: (
        Annotated[
            dict[Text, Annotated[Any, PlainValidator(_read_sweep_values)]],
            NotEmpty,
            BeforeValidator(_check_sweep),
        ]
        | None
    ) = None
    training_job: dict[Text, TypedValue] = Field(default_factory=dict)


class JobFileSection(Section):
    """The whole of a job file."""

    example: ClassVar = "jobs: [{name: digits, source: train.py}]"

    jobs: Annotated[tuple[JobSection, ...], NotEmpty]
    waves: Annotated[WavesSection, BeforeValidator(_check_waves)] | None = None


def load_job_file(path: Path) -> JobFile:
    """Read and check a job file.

    Relative paths in it (source directories, local inputs, files of secrets) are relative to the file.

    Raises:
        InvalidFileError: with every problem of the file.
    """
    return parse_job_file(read_text(path), path)


def parse_job_file(text: str, path: Path) -> JobFile:
    """Check the text of a job file as `load_job_file` does; ``path`` is its name in messages and anchors its paths."""
    document = parse_yaml(text, str(path))
    read, problems = read_section(JobFileSection, document)
    written = unwrap(read, document, problems)
    folder = path.absolute().parent
    jobs = (_job_spec(job, folder, _origin(document, ("jobs", i))) for i, job in enumerate(written.jobs))
    waves = None if written.waves is None else WavesSpec(written.waves.size, written.waves.interval)
    return JobFile(tuple(jobs), waves)


def _job_spec(job: JobSection, folder: Path, origin: Origin) -> JobSpec:
    source = job.source
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
        queue=job.queue,
        share=job.share,
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
        tags=job.tags,
        sweep=job.sweep,
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
        for inner in document.keys(*steps, key):
            keys[(key, inner)] = place((key, inner))
    line, column = document.position(steps)
    return Origin(document.file, line, column, document.source_line(line), keys)
