"""``fairshare submit --export-triggers``: uploads the source, then writes the run as a script instead of sending it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fairshare.cli.context import AppContext
from fairshare.cli.render import count, safe
from fairshare.model import FairshareError, UsageError

if TYPE_CHECKING:
    from fairshare.cli.submission import PreparedRun
    from fairshare.submit.triggers import ScriptKind


def script_kind(text: str | None, out: str | None) -> ScriptKind | None:
    """Return the kind of script that ``--export-triggers`` names; None without that flag.

    Raises:
        UsageError: there is no such kind, or ``--out`` was given alone.
    """
    from fairshare.submit.triggers import ScriptKind

    if text is None:
        if out is not None:
            raise UsageError("--out needs --export-triggers", hint="for example --export-triggers sh")
        return None
    try:
        return ScriptKind(text)
    except ValueError:
        raise UsageError(
            f"--export-triggers {text}: there is no such script", hint="write sh, or bat for Windows"
        ) from None


def export_run(context: AppContext, run: PreparedRun, kind: ScriptKind, out: str | None) -> None:
    """Upload what the run needs, write the script and its requests, and say where.

    The upload is the only write outside the folder: the script can send jobs, it cannot pack their source. Nothing is
    sent, and the journal does not know the run.

    Args:
        context: of the command.
        run: as it would be sent.
        kind: of the script.
        out: folder to write to; None = ``triggers-RUN`` in the working directory.

    Raises:
        UsageError: the run cannot be a script, or the folder is not empty.
        FairshareError: the folder cannot be written.
    """
    from fairshare.aws.jobs import submit_request
    from fairshare.submit.triggers import export_triggers, script_name

    folder = context.cwd / (out or f"triggers-{run.plan.identity.run_id}")
    files = export_triggers(run.plan, kind, submit_request, endpoint_url=context.session.endpoint_url)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder", hint="name another one with --out")
    uploaded = _upload(run)
    _write(folder, files)
    _show(context, run, folder / script_name(kind), uploaded)


def _upload(run: PreparedRun) -> int:
    """Upload what the run needs and is not in S3 yet; return how many objects that were."""
    from fairshare.submit.dispatch import upload
    from fairshare.submit.events import Event, UploadsDone

    events: list[Event] = []
    upload(run.plan, run.payloads, events.append)
    return sum(event.sent for event in events if isinstance(event, UploadsDone))


def _show(context: AppContext, run: PreparedRun, script: Path, uploaded: int) -> None:
    jobs, waves = len(run.plan.jobs), len(run.plan.waves)
    context.out.show(
        "TriggerExport",
        {
            "run_id": run.plan.identity.run_id,
            "script": str(script),
            "jobs": jobs,
            "waves": waves,
            "uploaded_objects": uploaded,
        },
        text=lambda width: (
            f"{safe(str(script))}: {count(jobs, 'job')} in {count(waves, 'wave')}; "
            f"{count(uploaded, 'object')} uploaded, nothing sent"
        ),
    )
    context.out.talk(
        "The script needs the AWS CLI and credentials, not fairshare. It may be run again after anything; "
        "`fairshare runs` does not know what it sends."
    )


def _write(folder: Path, files: dict[str, bytes]) -> None:
    """Write the files, the script last, for the user's eyes only: requests hold the jobs' environment."""
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.touch(mode=0o700 if path.parent == folder else 0o600)
            path.write_bytes(content)
    except OSError as error:
        raise FairshareError(
            f"{folder} cannot be written: {error.strerror}", hint="name another folder with --out"
        ) from error
