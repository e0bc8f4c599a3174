"""A run as a script of its own: waves at their times, for machines that have the AWS CLI and no fairshare.

The script lies beside its requests, one file each, complete but for credentials. Client tokens are frozen in them and
what was sent is noted in ``sent/``, so the script may be run again after anything. It keeps the distances between waves
as `fairshare.submit.waves.Timetable` does: measured from start to start, lateness carried on, with the clock asked
again and again. What needs to look at jobs (``after``, ``waves: auto``, fallback, a limit of jobs in flight) cannot be
exported, and secret values must not be.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from string import Template
from typing import Any, Final

from fairshare.model import JobRequest, UsageError
from fairshare.submit.dispatch import SubmitPlan
from fairshare.submit.requests import PlannedJob
from fairshare.submit.secrets import secret_keys
from fairshare.submit.waves import Wave
from fairshare.submit.windows import closes_at

REQUESTS: Final = "requests"
"""Folder of the requests, beside the script."""

_NAMED: Final = 5
"""Jobs that a refusal names."""


class ScriptKind(StrEnum):
    """What runs the script: a POSIX shell, or the command prompt of Windows."""

    SH = "sh"
    BAT = "bat"


@dataclass(frozen=True)
class Trigger:
    """A wave of a script. Times are whole seconds."""

    number: int
    gap: int
    """From the start of the wave before."""
    opens: int
    """Since the epoch; not before. 0 = at any time."""
    closes: int
    """Since the epoch; not from then on. 0 = at any time."""
    requests: tuple[str, ...]
    """Names of the files, without ``.json``."""


def script_name(kind: ScriptKind) -> str:
    """Return the file name of a script."""
    return f"submit.{kind}"


def export_triggers(
    plan: SubmitPlan,
    kind: ScriptKind,
    body_of: Callable[[JobRequest], Mapping[str, Any]],
    *,
    endpoint_url: str | None = None,
) -> dict[str, bytes]:
    """Return the files of an export by their path; the script is the last of them.

    Args:
        plan: of the run; its uploads must be in S3 before the script runs.
        kind: of the script.
        body_of: makes the body of a SubmitServiceJob call.
        endpoint_url: of AWS Batch when it is not AWS's own.

    Raises:
        UsageError: a request holds a secret value, or the run has to be watched while it is sent.
    """
    check_exportable(plan)
    names = {job.index: _file_name(job) for job in plan.jobs}
    files = {
        f"{REQUESTS}/{names[job.index]}.json": _ascii_json(body_of(job.request))  # ASCII: Windows guesses encodings
        for job in plan.jobs
    }
    triggers = _triggers(plan, names)
    make = _shell_script if kind is ScriptKind.SH else _batch_file
    return {**files, script_name(kind): make(plan, triggers, endpoint_url or "").encode()}


def check_exportable(plan: SubmitPlan) -> None:
    """Refuse what a script must not or cannot do.

    Raises:
        UsageError: a request holds a secret value, or the run has to be watched while it is sent.
    """
    if not plan.jobs:
        raise UsageError("there are no jobs to export", hint="name a script, a job file or module.py:name")
    secret = {job.request.job_name: key for job in plan.jobs for key in secret_keys(job.request.payload, job.secrets)}
    if secret:
        raise UsageError(
            "\n".join(f"job {name}: {key} is secret, and would stand in a file" for name, key in _first(secret)),
            hint="let the job fetch it, for instance from AWS Secrets Manager, or send the run with `fairshare submit`",
        )
    rules = plan.rules
    if rules.auto is not None or rules.max_in_flight is not None:
        what = "waves: auto" if rules.auto is not None else "a limit of jobs in flight"
        raise UsageError(
            f"{what} cannot be exported: a script does not look at jobs",
            hint="give fixed waves, for example --wave-size 8 --interval 90s, or send the run with `fairshare submit`",
        )
    watched = {job.request.job_name: why for job in plan.jobs if (why := _why_watched(job))}
    if watched:
        raise UsageError(
            "\n".join(f"job {name} {why}, and a script does not look at jobs" for name, why in _first(watched)),
            hint="send the run with `fairshare submit`",
        )


def _why_watched(job: PlannedJob) -> str:
    if job.after:
        return "comes after others"
    return "may move to another queue" if job.alternatives else ""


def _first(found: Mapping[str, str]) -> list[tuple[str, str]]:
    return list(found.items())[:_NAMED]


def _file_name(job: PlannedJob) -> str:
    """A name that needs no quoting anywhere, in sending order."""
    return f"{job.index + 1:05}-{re.sub('[^A-Za-z0-9_-]', '_', job.request.job_name)}"


def _ascii_json(body: Mapping[str, Any]) -> bytes:
    return (json.dumps(body, indent=2, allow_nan=False) + "\n").encode()


def _triggers(plan: SubmitPlan, names: Mapping[int, str]) -> list[Trigger]:
    window = plan.rules.gate.window
    triggers: list[Trigger] = []
    last: Wave | None = None
    for wave in plan.waves:
        distance = wave.starts_at - (last or wave).starts_at if wave.gap is None else wave.gap
        triggers.append(
            Trigger(
                number=wave.number,
                gap=_seconds(distance),
                opens=0 if wave.gap is None else _seconds(wave.starts_at),
                closes=0 if window is None else closes_at(window, wave.starts_at) // 1000,
                requests=tuple(names[job.index] for job in plan.jobs_of(wave)),
            )
        )
        last = wave
    return triggers


def _seconds(milliseconds: int) -> int:
    return -(-milliseconds // 1000)


def _title(plan: SubmitPlan) -> str:
    """What a script is about, on one line of visible ASCII."""
    queues = ", ".join(sorted({job.request.job_queue for job in plan.jobs}))
    title = f"run {plan.identity.run_id}: {len(plan.jobs)} jobs in {len(plan.waves)} waves to {queues}"
    return re.sub(r"[^\x20-\x7e]", "?", f"{title}, account {plan.identity.account_id}, {plan.identity.region}")


# ---------------------------------------------------------------------------------------------------------------------
# POSIX shell

_SHELL: Final = Template(r"""#!/bin/sh
# $title
#
# Written by fairshare, which is not needed here. Needed: the AWS CLI (aws) and credentials of the account. The source
# is in S3 already. After a failure or Ctrl-C run this again: what was sent is not sent again.
set -u
cd "$$(dirname "$$0")" || exit 1
total=$total
sent=0
last=0
AWS_REGION=$region AWS_DEFAULT_REGION=$region AWS_PAGER=
AWS_RETRY_MODE=standard AWS_MAX_ATTEMPTS=8 AWS_DEFAULT_OUTPUT=json
export AWS_REGION AWS_DEFAULT_REGION AWS_PAGER AWS_DEFAULT_OUTPUT AWS_RETRY_MODE AWS_MAX_ATTEMPTS
$endpoint
fail() {
    printf 'stopped: %s\n%s of %s jobs are sent; run %s again for the rest\n' "$$1" "$$sent" "$$total" "$$0" >&2
    exit 1
}

# wait_until SECONDS-SINCE-1970: looks at the clock once a minute, because it may be set and the machine may sleep.
wait_until() {
    while left=$$(($$1 - $$(date +%s))) && [ "$$left" -gt 0 ]; do
        [ "$$left" -le 60 ] || left=60
        sleep "$$left" || fail 'interrupted'
    done
}

# send REQUEST: the answer of AWS in sent/ is the note that it was sent.
send() {
    if [ ! -e "sent/$$1.json" ]; then
        aws batch submit-service-job --cli-input-json "file://requests/$$1.json" >"sent/$$1.part" ||
            fail "$$1 was not accepted; if AWS says that its token was used before, make the file sent/$$1.json"
        mv "sent/$$1.part" "sent/$$1.json" || fail "sent/$$1.json cannot be written"
    fi
    sent=$$((sent + 1))
    printf '  %s of %s  %s\n' "$$sent" "$$total" "$$1"
}

# wave NUMBER GAP OPENS CLOSES REQUEST...: GAP seconds after the wave before, not before OPENS nor from CLOSES on.
wave() {
    number=$$1 gap=$$2 opens=$$3 closes=$$4
    shift 4
    unsent=0
    for request in "$$@"; do [ -e "sent/$$request.json" ] || unsent=$$((unsent + 1)); done
    if [ "$$unsent" -gt 0 ]; then
        due=$$(date +%s)
        [ "$$last" -eq 0 ] || due=$$((last + gap))
        [ "$$due" -ge "$$opens" ] || due=$$opens
        ahead=$$((due - $$(date +%s)))
        [ "$$ahead" -le 0 ] || printf 'wave %s of $waves in %s s\n' "$$number" "$$ahead"
        wait_until "$$due"
        now=$$(date +%s)
        if [ "$$closes" -ne 0 ] && [ "$$now" -ge "$$closes" ]; then
            fail "the window of wave $$number has closed; export the run again"
        fi
        last=$$due
        [ $$((now - due)) -le 2 ] || last=$$now
        printf 'wave %s of $waves: %s to send\n' "$$number" "$$unsent"
    fi
    for request in "$$@"; do send "$$request"; done
}

command -v aws >/dev/null 2>&1 || fail 'the AWS CLI (aws) is not on the PATH'
mkdir -p sent || fail 'sent/ cannot be made'

$calls

printf 'all %s jobs are sent\n' "$$total"
""")


def _shell_script(plan: SubmitPlan, triggers: list[Trigger], endpoint_url: str) -> str:
    endpoint = f"AWS_ENDPOINT_URL_BATCH={shlex.quote(endpoint_url)}\nexport AWS_ENDPOINT_URL_BATCH\n"
    return _SHELL.substitute(
        title=_title(plan),
        total=len(plan.jobs),
        region=shlex.quote(plan.identity.region),
        endpoint=endpoint if endpoint_url else "",
        waves=len(triggers),
        calls="\n".join(_shell_call(each) for each in triggers),
    )


def _shell_call(trigger: Trigger) -> str:
    head = f"wave {trigger.number} {trigger.gap} {trigger.opens} {trigger.closes}"
    return " \\\n    ".join([head, *map(shlex.quote, trigger.requests)])


# ---------------------------------------------------------------------------------------------------------------------
# Windows' command prompt

_BATCH: Final = Template(r"""@echo off
rem $title
rem
rem Written by fairshare, which is not needed here. Needed: the AWS CLI (aws) and credentials of the account. The source
rem is in S3 already. After a failure or Ctrl-C run this again: what was sent is not sent again.
setlocal EnableExtensions DisableDelayedExpansion
cd /d "%~dp0" || exit /b 1
set TOTAL=$total
set SENT=0
set LAST=
set "AWS_REGION=$region"
set "AWS_DEFAULT_REGION=$region"
set AWS_PAGER=
set AWS_DEFAULT_OUTPUT=json
set AWS_RETRY_MODE=standard
set AWS_MAX_ATTEMPTS=8
set AWS_CLI_FILE_ENCODING=UTF-8
$endpoint
set "WHY=the AWS CLI (aws) is not on the PATH"
where aws >nul 2>nul || goto failed
set "WHY=the folder sent cannot be made"
if not exist sent mkdir sent || goto failed

$waves

echo all %TOTAL% jobs are sent
exit /b 0

:failed
echo stopped: %WHY% 1>&2
echo %SENT% of %TOTAL% jobs are sent; run "%~nx0" again for the rest 1>&2
exit /b 1

rem Seconds since this was written, into NOW. cmd counts to 2147483647 only.
:clock
set NOW=
set "ASK=[DateTimeOffset]::UtcNow.ToUnixTimeSeconds() - $origin"
for /f %%t in ('powershell -NoProfile -Command "%ASK%"') do set NOW=%%t
if not defined NOW exit /b 1
exit /b 0

rem call :wave NUMBER GAP OPENS CLOSES: GAP seconds after the wave before, not before OPENS nor from CLOSES on.
:wave
set "WHY=PowerShell does not tell the time"
call :clock || exit /b 1
set DUE=%NOW%
if defined LAST set /a DUE=LAST+%2
if not "%3"=="-" if %DUE% lss %3 set DUE=%3
set /a LEFT=DUE-NOW
if %LEFT% gtr 0 echo wave %1 of $count in %LEFT% s
:waiting
call :clock || exit /b 1
set /a LEFT=DUE-NOW
if %LEFT% leq 0 goto open
if %LEFT% gtr 60 set LEFT=60
rem timeout refuses to work without a console, in the Task Scheduler for instance.
timeout /t %LEFT% /nobreak >nul 2>nul || ping -n 2 127.0.0.1 >nul
goto waiting
:open
set "WHY=the window of wave %1 has closed; export the run again"
if not "%4"=="-" if %NOW% geq %4 exit /b 1
set /a LATE=NOW-DUE
set LAST=%DUE%
if %LATE% gtr 2 set LAST=%NOW%
echo wave %1 of $count
exit /b 0
""")

_BATCH_WAVE: Final = Template(r"""rem Wave $number
set LEFT=
$looks
if not defined LEFT goto send$number
call :wave $number $gap $opens $closes || goto failed
:send$number
$jobs""")

_BATCH_JOB: Final = Template(r"""if not exist "sent\$name.json" (
  set "WHY=$name was not accepted; if AWS says that its token was used before, make the file sent\$name.json"
  call aws batch submit-service-job --cli-input-json "file://requests/$name.json" >"sent\$name.part" || goto failed
  move /y "sent\$name.part" "sent\$name.json" >nul || goto failed
)
set /a SENT+=1
echo   %SENT% of %TOTAL%  $name""")


def _batch_file(plan: SubmitPlan, triggers: list[Trigger], endpoint_url: str) -> str:
    origin = plan.identity.created_at // 1000
    endpoint = f'set "AWS_ENDPOINT_URL_BATCH={_batch_text(endpoint_url)}"\n'
    text = _BATCH.substitute(
        title=_batch_text(_title(plan)),
        total=len(plan.jobs),
        region=_batch_text(plan.identity.region),
        endpoint=endpoint if endpoint_url else "",
        origin=origin,
        count=len(triggers),
        waves="\n\n".join(_batch_wave(each, origin) for each in triggers),
    )
    return text.replace("\n", "\r\n")


def _batch_wave(trigger: Trigger, origin: int) -> str:
    return _BATCH_WAVE.substitute(
        number=trigger.number,
        gap=trigger.gap,
        opens=trigger.opens - origin if trigger.opens else "-",
        closes=trigger.closes - origin if trigger.closes else "-",
        looks="\n".join(f'if not exist "sent\\{name}.json" set LEFT=1' for name in trigger.requests),
        jobs="\n".join(_BATCH_JOB.substitute(name=name) for name in trigger.requests),
    )


def _batch_text(text: str) -> str:
    """Text as it must stand in a batch file, in quotes or after ``rem``: % begins a variable, and " ends the quotes."""
    return text.replace("%", "%%").replace('"', "'")
