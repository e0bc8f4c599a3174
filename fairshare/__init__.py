"""fairshare: fair-share queues and staggered waves of SageMaker training jobs on a fixed pool of accelerators.

Six ideas hold the program together.

1. **One scheduler core.** `fairshare.scheduler` is a pure engine: AWS Batch's service queues as a state machine with an
   event heap. The local AWS runs on it, and whatever predicts or explains a queue asks it.
2. **Time and I/O are arguments.** The core reads no clock, draws no random number and opens no socket. An engine is
   moved by a driver on whatever clock it is given: virtual, the machine's, or the instant an API call arrives.
3. **A plan is data.** `setup` computes a `Plan` from desired and observed state; printing and applying read the same
   object. Tags on the resources are the only state.
4. **Write the intent first.** A job is journaled, with its frozen payload and client token, before it is sent, and
   settled after. Sending it again can neither lose it nor run it twice.
5. **AWS on this machine, not a second backend.** Local running is the Batch, SageMaker, S3, Logs, IAM and STS API on
   a loopback port, served by moto and our extension. The command line has one code path, boto3; only the endpoint
   differs.
6. **AWS's words.** Python and JSON use AWS's names in snake_case; only the files a user writes have shorter ones.

Packages, lowest first. Imports point downwards only, and import-linter holds that::

    version     the version of the package
    model       vocabulary: statuses, resources, jobs, the camelCase codec, the exception tree
    scheduler   policy (share arithmetic), queues, engine, driver, clock. Pure
    config      fairshare.yaml and job files -> validated models; every error has file:line:column
    provision   desired x observed -> Plan -> apply, over a port
    submit      checks, sweeps, waves, dependencies, fallback, journal, rate, dispatch (a map in its docstring)
    insight     queue state, shares, finding and waiting for jobs: questions about a queue
    trainer     a job or a user's own ModelTrainer -> frozen payload; source bundle      } edges: each adapts a
    aws         sessions, provisioner, job back end, logs, objects: every boto3 call     } library to the ports
    local       AWS on this machine: moto extension, server, launchers                   } below, and never
                                                                                         } imports another edge
    cli         parse -> one call -> render; joins the edges; the only place that prints or exits

A port lives with its consumer: `submit.ports.JobBackend` and `Payloads`, `provision.ports.Provisioner`,
`local.launcher.Launcher`, `scheduler.clock.Clock`, `scheduler.driver.Executor`. boto3, botocore, sagemaker, moto and
subprocess are imported by edges only, and there only when needed, so that `--help` stays fast.

The way of a job: `cli.submit_targets` reads what to send; `submit.prepare` expands sweeps, fills in defaults and checks
everything that can be known before the first write; `trainer.payload` has the SageMaker SDK's ModelTrainer build the
training request through a session that only records its uploads; `submit.dispatch` uploads what is missing, then
journals and sends wave by wave through `aws.jobs`. On the other side of the wire `local.moto_responses` hands it to the
engine, whose transitions start and stop attempts in a launcher: a simulated run, or a process under SageMaker's
container contract.

For users' own tests there is `LocalAWS`, imported when it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fairshare.version import __version__

if TYPE_CHECKING:
    from fairshare.local.testkit import LocalAWS

__all__ = ["LocalAWS", "__version__"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is used first (PEP 562): ``import fairshare`` stays light."""
    if name == "LocalAWS":
        from fairshare.local.testkit import LocalAWS

        return LocalAWS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
