"""The local AWS inside this process: boto3 is patched, nothing listens. For tests and notebooks.

Imports moto and boto3 at the top: import it where it is used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import boto3
from moto import mock_aws

from fairshare.local.call_log import CallLog
from fairshare.local.faults import Faults
from fairshare.local.faulty import FaultyLauncher
from fairshare.local.launcher import Launcher
from fairshare.local.moto_extension import LOCK, installed, publish_training_job
from fairshare.local.moto_hooks import faulty_calls
from fairshare.local.region import NewId
from fairshare.local.runtime import Runtime
from fairshare.local.settling import AT_ONCE, Settling
from fairshare.local.simulated import SimulatedLauncher
from fairshare.scheduler.clock import Clock, SystemClock

DEFAULT_REGION = "us-east-1"


class InProcessAws:
    """What `local_aws` gives: clients, the clock to move, and what was called."""

    def __init__(self, clock: Clock, call_log: CallLog) -> None:
        self.clock = clock
        self.call_log = call_log

    def client(self, service: str, region: str = DEFAULT_REGION) -> Any:
        """Return a boto3 client of the local AWS."""
        return boto3.client(service, region_name=region)


@contextmanager
def local_aws(
    clock: Clock | None = None,
    launcher: Launcher | None = None,
    speed: float = 1.0,
    new_id: NewId = uuid4,
    faults: Faults | None = None,
    settling: Settling = AT_ONCE,
) -> Iterator[InProcessAws]:
    """Serve every boto3 client made inside the block, from empty.

    Time passes when a call is made: with a `VirtualClock` nothing happens between moving the clock and the next call.
    Make sessions and clients inside the block; moto does not reach older ones.

    Args:
        clock: the machine's clock, unless given.
        launcher: simulated, unless given; closed at the end.
        speed: divides run times of the simulated launcher, and the times that faults give to launches.
        new_id: for jobs and training jobs.
        faults: what goes wrong; they can be replaced at any time.
        settling: how long changes of environments and queues take.

    Raises:
        UsageError: this process already has a local AWS.
    """
    clock = clock or SystemClock()
    faults = faults or Faults()
    launcher = FaultyLauncher(launcher or SimulatedLauncher(speed), faults, foresees=True, speed=speed)
    call_log = CallLog()
    runtime = Runtime(launcher, clock, publish_training_job, lock=LOCK, new_id=new_id, settling=settling, faults=faults)
    with installed(runtime, call_log), faulty_calls(faults, clock), mock_aws():
        try:
            yield InProcessAws(clock, call_log)
        finally:
            runtime.close()
            launcher.close()
