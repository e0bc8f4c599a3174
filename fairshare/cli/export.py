"""``fairshare export``: the stack of fairshare.yaml as documents, for people who deploy another way. Calls nothing.

The same file gives the same documents everywhere: region and account come from the file or the flags, never from the
environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from fairshare.cli.command import FlagGroup, command, new_app
from fairshare.cli.context import AppContext
from fairshare.cli.output import OutputFormat, yaml_text
from fairshare.cli.render import safe
from fairshare.model import MAX_PRIORITY, FairshareError, NotFoundError, UsageError

if TYPE_CHECKING:
    from fairshare.provision.export.access import Access
    from fairshare.provision.place import Place

app = new_app("Write the stack of fairshare.yaml as documents: CloudFormation, IAM policies, a dashboard.")

Out = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write files there, instead of printing.")]


@dataclass(frozen=True)
class AccessFlags(FlagGroup):
    """What policies need to know beyond fairshare.yaml."""

    heading: ClassVar = "Policies"

    max_priority: Annotated[
        int, typer.Option("--max-priority", min=0, max=MAX_PRIORITY, help="Highest priority for submitters.")
    ] = MAX_PRIORITY
    read_from: Annotated[
        list[str] | None,
        typer.Option("--read-from", metavar="S3_URI", help="Where else jobs find their data; repeatable."),
    ] = None
    write_to: Annotated[
        list[str] | None,
        typer.Option("--write-to", metavar="S3_URI", help="Where else jobs leave checkpoints and output; repeatable."),
    ] = None
    kms_key: Annotated[
        str | None, typer.Option("--kms-key", metavar="ARN", help="Key that encrypts sources and output.")
    ] = None


@command(
    app,
    examples=("fairshare export cloudformation > stack.yaml", "fairshare export cloudformation --out infra -o json"),
)
def cloudformation(context: AppContext, access: AccessFlags, out: Out = None) -> None:
    """One template for all that setup makes, with roles, policies, events, alarms, dashboard and collector.

    It holds no account and no region. YAML, or JSON with -o json.
    """
    from fairshare.provision.desired import desired_state
    from fairshare.provision.export.cloudformation import template
    from fairshare.provision.place import PSEUDO

    document = template(desired_state(context.require_project(), PSEUDO), _access(context, PSEUDO, access))
    is_json = context.out.format is OutputFormat.JSON
    text = _json(document) if is_json else yaml_text(document)
    _deliver(context, {f"cloudformation.{'json' if is_json else 'yaml'}": text}, out)


@command(
    app,
    examples=("fairshare export iam --out infra", "fairshare export iam --max-priority 50 --read-from s3://data/"),
)
def iam(context: AppContext, access: AccessFlags, out: Out = None) -> None:
    """The policies of admins, submitters (one for each share), viewers, the collector and the execution role.

    Region and account are those of fairshare.yaml or --region; what is not known matches everything.
    """
    from fairshare.provision.export.iam import policies_of
    from fairshare.provision.place import place_of

    project = context.require_project()
    place = place_of(context.options.region or project.region, project.account)
    documents = policies_of(_access(context, place, access))
    for name in ("region", "account"):
        if getattr(place, name) == "*":
            context.out.talk(f"warning: the ARNs match any {name}: write `{name}:` in {project.file.name}")
    if out is None:
        _deliver(context, {"iam.json": _json(documents)}, None)
    else:
        _deliver(context, {f"iam/{name}.json": _json(document) for name, document in documents.items()}, out)


@command(app, examples=("fairshare export dashboard > body.json", "fairshare export dashboard --out infra"))
def dashboard(context: AppContext, out: Out = None) -> None:
    """The body of the stack's CloudWatch dashboard, as PutDashboard takes it.

    A dashboard names its region: that of fairshare.yaml, of --region, or of the environment. Its list of alarms needs
    the account, too.
    """
    from fairshare.provision.desired import desired_state
    from fairshare.provision.place import place_of

    project = context.require_project()
    place = place_of(context.region, project.account)
    found = desired_state(project, place).dashboards
    if not found:
        raise NotFoundError(
            f"{project.file.name} has no dashboard", hint="it is switched off there: remove `dashboard` from `alarms`"
        )
    if place.account == "*":
        context.out.talk(f"warning: the alarms are left out: write `account:` in {project.file.name}")
    _deliver(context, {"dashboard.json": _json(json.loads(found[0].body))}, out)


def _access(context: AppContext, place: Place, flags: AccessFlags) -> Access:
    from fairshare.provision.desired import desired_state
    from fairshare.provision.export.access import Options, access_of

    options = Options(
        priority_ceiling=flags.max_priority,
        read_from=tuple(flags.read_from or ()),
        write_to=tuple(flags.write_to or ()),
        kms_key=flags.kms_key,
    )
    project = context.require_project()
    return access_of(project, desired_state(project), place, options)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2) + "\n"


def _deliver(context: AppContext, files: Mapping[str, str], out: Path | None) -> None:
    """Print the one document, or write all files and print their paths.

    Raises:
        UsageError: a document is wanted in a format for lists.
        FairshareError: a file cannot be written.
    """
    if out is None:
        if context.out.format in (OutputFormat.CSV, OutputFormat.NAME):
            raise UsageError(f"a document cannot be printed as {context.out.format}", hint="use -o json or -o yaml")
        (text,) = files.values()
        context.out.write(text)
        return
    for name, text in files.items():
        path = out / name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            hint = "choose another place with --out"
            raise FairshareError(f"cannot write {path}: {error.strerror}", hint=hint) from error
    paths = [str(out / name) for name in files]
    data = {"files": [{"path": path} for path in paths]}
    context.out.show("Export", data, text=lambda width: "\n".join(map(safe, paths)), rows="files", name="path")
