"""The composition root: makes, on demand, everything a command works with, from flags, files and the environment.

Region: ``--region``, else ``region`` of the project file, else AWS_REGION, else AWS_DEFAULT_REGION, else that of the
profile, else us-east-1 for an AWS on this machine. Address: ``--endpoint-url``, else AWS_ENDPOINT_URL. ``--local``
takes address and key from the ready file of ``fairshare local start`` and nothing from the environment.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fairshare.cli.output import Output, OutputFormat
from fairshare.cli.render import safe
from fairshare.model import FairshareError, UsageError

if TYPE_CHECKING:
    from fairshare.aws.logs import LogReader
    from fairshare.aws.objects import S3Store
    from fairshare.aws.quotas import TrainingQuotas
    from fairshare.aws.session import AwsSession
    from fairshare.config.project import Project, QueueConfig
    from fairshare.insight.collect import QueueSource
    from fairshare.insight.results import TrainingSource
    from fairshare.insight.wait import Pace
    from fairshare.metrics.ports import AlarmSource, MetricSource, PhaseSource
    from fairshare.metrics.prices import PriceSource
    from fairshare.provision.place import Place
    from fairshare.provision.ports import Provisioner
    from fairshare.scheduler.clock import Clock
    from fairshare.submit.ports import JobBackend

_LOCAL_REGION: Final = "us-east-1"

_COMMAND: Final = re.compile(r"`(fairshare (?!local |help |-)[^`]+)`")
"""A command of ours that goes to AWS, in a text for people."""


@dataclass(frozen=True)
class Options:
    """The flags that every command takes."""

    file: Path | None = None
    profile: str | None = None
    region: str | None = None
    endpoint_url: str | None = None
    local: bool = False
    output: OutputFormat | None = None
    debug: bool = False


@dataclass(frozen=True)
class QueueChoice:
    """The queue that a command is about. ``key`` and ``config`` are None when the project file does not have it."""

    name: str
    """Name or ARN, as AWS is given it."""
    key: str | None = None
    config: QueueConfig | None = None


class AppContext:
    """What one command works with. Properties are made at first use; nothing is read or called before.

    Args:
        options: the common flags.
        environ: environment variables.
        cwd: where the project file is looked for, and upwards from there.
    """

    def __init__(self, options: Options, environ: Mapping[str, str], cwd: Path) -> None:
        if options.local and (options.endpoint_url or options.profile):
            flag = "--endpoint-url" if options.endpoint_url else "--profile"
            raise UsageError(
                f"--local and {flag} exclude each other",
                hint="--local takes address and key from `fairshare local start`",
            )
        self.options = options
        self.environ = environ
        self.cwd = cwd

    @cached_property
    def out(self) -> Output:
        """Where answers and remarks go."""
        from shutil import get_terminal_size

        width = get_terminal_size().columns if sys.stdout.isatty() else None
        return Output(self.options.output or OutputFormat.TABLE, width)

    @cached_property
    def clock(self) -> Clock:
        """The machine's clock."""
        from fairshare.scheduler.clock import SystemClock

        return SystemClock()

    @cached_property
    def project(self) -> Project | None:
        """The project file given with ``--file``, or the nearest one above; None when there is none.

        Raises:
            UsageError: the file given does not exist.
            InvalidFileError: it is wrong.
        """
        from fairshare.config.project import find_project, load_project

        path = self.options.file
        if path is not None and not path.is_file():
            raise UsageError(f"there is no file {path}", hint="give the path of a fairshare.yaml with --file")
        path = path or find_project(self.cwd)
        return None if path is None else load_project(path)

    def require_project(self) -> Project:
        """Return the project.

        Raises:
            UsageError: there is none.
        """
        if self.project is None:
            raise UsageError(
                f"no fairshare.yaml in {self.cwd} or above", hint="change to the project's directory, or give --file"
            )
        return self.project

    @property
    def stack(self) -> str:
        """The project's stack; "" without a project, which no resource of ours carries."""
        return "" if self.project is None else self.project.stack

    @cached_property
    def state_dir(self) -> Path:
        """Where fairshare keeps what it must remember on this machine."""
        from fairshare.config.paths import state_dir

        return state_dir(self.environ)

    @cached_property
    def cache_dir(self) -> Path:
        """Where fairshare keeps what it can ask again."""
        from fairshare.config.paths import cache_dir

        return cache_dir(self.environ)

    @cached_property
    def runs_dir(self) -> Path:
        """Directory of the journals."""
        from fairshare.config.paths import runs_dir

        return runs_dir(self.environ)

    @property
    def endpoint_url(self) -> str | None:
        """Address of every AWS service, when one is given."""
        return self.options.endpoint_url or self.environ.get("AWS_ENDPOINT_URL") or None

    @cached_property
    def profile(self) -> str | None:
        """AWS profile: ``--profile``, else the project's; None leaves it to AWS_PROFILE."""
        return self.options.profile or (self.project.profile if self.project else None)

    @cached_property
    def region(self) -> str:
        """AWS region, by the precedence above.

        Raises:
            UsageError: nothing names one.
        """
        project = self.project.region if self.project else None
        environment = self.environ.get("AWS_REGION") or self.environ.get("AWS_DEFAULT_REGION")
        if region := self.options.region or project or environment:
            return region
        if self.options.local or (self.endpoint_url and _is_loopback(self.endpoint_url)):
            return _LOCAL_REGION
        if region := _region_of_profile(self.profile):
            return region
        raise UsageError("no AWS region is chosen", hint="give --region, set AWS_REGION, or write it in fairshare.yaml")

    @cached_property
    def session(self) -> AwsSession:
        """One region, one account, one address for every call."""
        from fairshare.aws.session import AwsSession

        if self.options.local:
            from fairshare.config.paths import local_ready_file

            return AwsSession.from_ready_file(local_ready_file(self.environ), self.region)
        return AwsSession(
            region=self.region,
            profile=self.profile,
            endpoint_url=self.endpoint_url,
            expected_account=self.project.account if self.project else None,
        )

    @cached_property
    def jobs(self) -> JobBackend:
        """AWS Batch service jobs."""
        from fairshare.aws.jobs import BatchJobs

        return BatchJobs(self.session)

    @cached_property
    def queue_source(self) -> QueueSource:
        """Queues as the collector asks about them."""
        from fairshare.aws.queues import BatchQueues

        return BatchQueues(self.session)

    @cached_property
    def provisioner(self) -> Provisioner:
        """AWS Batch resources."""
        from fairshare.aws.provisioner import BatchProvisioner

        return BatchProvisioner(self.session, self.clock)

    @cached_property
    def stack_provisioner(self) -> Provisioner:
        """Everything that `setup` makes: AWS Batch resources and alarms."""
        from fairshare.aws.stack import StackProvisioner

        return StackProvisioner(self.session, self.clock)

    @cached_property
    def logs(self) -> LogReader:
        """Logs of training jobs."""
        from fairshare.aws.logs import LogReader

        return LogReader(self.session)

    @cached_property
    def training_jobs(self) -> TrainingSource:
        """SageMaker training jobs."""
        from fairshare.aws.training import TrainingJobs

        return TrainingJobs(self.session)

    @cached_property
    def training_quotas(self) -> TrainingQuotas:
        """What the account may run at once."""
        from fairshare.aws.quotas import TrainingQuotas

        return TrainingQuotas(self.session)

    @cached_property
    def metrics(self) -> MetricSource:
        """CloudWatch metrics."""
        from fairshare.aws.metrics import CloudWatch

        return CloudWatch(self.session)

    @cached_property
    def price_source(self) -> PriceSource:
        """AWS's price list, which answers in one region about all of them."""
        from fairshare.aws.pricing import PRICING_REGION, PriceList
        from fairshare.aws.session import AwsSession

        return PriceList(AwsSession(region=PRICING_REGION, profile=self.profile, endpoint_url=self.endpoint_url))

    @cached_property
    def alarms(self) -> AlarmSource:
        """CloudWatch alarms."""
        from fairshare.aws.alarms import CloudWatchAlarms

        return CloudWatchAlarms(self.session)

    @cached_property
    def training_phases(self) -> PhaseSource:
        """The course of SageMaker training jobs."""
        from fairshare.aws.phases import TrainingPhases

        return TrainingPhases(self.session)

    @cached_property
    def objects(self) -> S3Store:
        """S3."""
        from fairshare.aws.objects import S3Store

        return S3Store(self.session)

    @property
    def pace(self) -> Pace:
        """Time between looks while waiting: quick on this machine, sparing on AWS."""
        from fairshare.insight.wait import LOOPBACK_PACE, Pace

        return LOOPBACK_PACE if self.session.is_loopback else Pace()

    @property
    def aws_place(self) -> Place:
        """Where a command acts, for ARNs."""
        from fairshare.provision.place import Place

        return Place(self.session.partition, self.session.region, self.session.account_id)

    @property
    def place(self) -> str:
        """Where a command acts, for people: ``account 111122223333, eu-west-1``, named before anything is ended."""
        where = f"account {self.session.account_id}, {self.session.region}"
        return f"{where}, {self.session.endpoint_url}" if self.session.endpoint_url else where

    def find_queue(self, given: str | None) -> QueueChoice | None:
        """Return the queue that ``-q`` names by key, name or ARN, else the project's default, else its only one.

        None when nothing is given and the project leaves it open. A queue that the project does not have is taken as
        the name or ARN of one that others made.
        """
        project = self.project
        if project is None:
            return QueueChoice(given) if given else None
        wanted = given or project.defaults.queue or (next(iter(project.queues)) if len(project.queues) == 1 else None)
        if wanted is None:
            return None
        ours = project.queue(wanted)
        return QueueChoice(wanted) if ours is None else QueueChoice(project.resource_name(ours[0]), *ours)

    def choose_queue(self, given: str | None) -> QueueChoice:
        """Return the queue as `find_queue` does.

        Raises:
            UsageError: none is chosen.
        """
        choice = self.find_queue(given)
        if choice is not None:
            return choice
        if self.project is None:
            raise UsageError("no queue is chosen, and no fairshare.yaml names one", hint="give -q QUEUE, or --file")
        raise UsageError(
            f"no queue is chosen; the project has {', '.join(self.project.queues) or 'none'}",
            hint="give -q QUEUE, or set defaults: {queue: ...} in fairshare.yaml",
        )

    def capacity_of(self, choice: QueueChoice) -> int | None:
        """Return how many instances the project file gives a queue; None for a queue of others."""
        if self.project is None or choice.config is None:
            return None
        return self.project.service_environments[choice.config.service_environment].instances

    def journaled_priorities(self) -> Mapping[str, int]:
        """Return the scheduling priority of each job that was submitted from this machine, by job id."""
        from fairshare.submit.journal import jobs_by_id

        return jobs_by_id(self.runs_dir)

    def suggest(self, command: str) -> None:
        """End a screen with the next useful command, with the flags that it needs to act on the same place."""
        self.out.suggest(self.with_flags(command))

    def with_flags(self, command: str) -> str:
        """Return a command line with the flags that it needs to act on the same place."""
        options = self.options
        flags = ["--local"] if options.local else []
        given = {"--profile": options.profile, "--region": options.region, "--endpoint-url": options.endpoint_url}
        given["--file"] = None if options.file is None else str(options.file)
        flags += [f"{flag} {shlex.quote(value)}" for flag, value in given.items() if value]
        return " ".join([command, *(flag for flag in flags if flag.split(" ")[0] not in command.split())])

    def here(self, text: str) -> str:
        """Return a text in which every command between backticks acts on the same place as this one."""
        return _COMMAND.sub(lambda match: f"`{self.with_flags(match[1])}`", text)

    def located(self, error: FairshareError) -> FairshareError:
        """Return an error whose hint, should it name a command, names one that acts on the same place."""
        error.hint = error.hint and self.here(error.hint)
        return error

    def confirm(self, question: str) -> None:
        """Ask on stderr and return when the answer is yes.

        Raises:
            UsageError: nobody can be asked, because stdin is not a terminal.
            FairshareError: the answer is no.
        """
        if not sys.stdin.isatty():
            raise UsageError("this needs a yes, and stdin is not a terminal", hint="add --yes if you are sure")
        print(f"{safe(question)} [y/N] ", end="", file=sys.stderr, flush=True)
        if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
            raise FairshareError("not confirmed, nothing was changed")


def _is_loopback(url: str) -> bool:
    from fairshare.aws.errors import is_loopback_url

    return is_loopback_url(url)


def _region_of_profile(profile: str | None) -> str | None:
    """Return the region that the AWS configuration files give a profile; None also when there is no such profile."""
    import botocore.session
    from botocore.exceptions import BotoCoreError

    try:
        region: str | None = botocore.session.Session(profile=profile).get_config_variable("region")
    except BotoCoreError:
        return None
    return region
