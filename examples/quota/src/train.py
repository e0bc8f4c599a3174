"""Stands for a script that trains: it counts seconds, and says when it is asked to stop."""

from __future__ import annotations

import signal
import sys
import time

SECONDS = 20


def stop(number: int, frame: object) -> None:
    """SageMaker sends SIGTERM when a job is preempted, and waits 120 s: time to save what is there."""
    print("asked to stop: this is where a checkpoint is written", flush=True)
    sys.exit(143)


def main() -> None:
    signal.signal(signal.SIGTERM, stop)
    for second in range(SECONDS):
        print(f"second {second}", flush=True)
        time.sleep(1)


if __name__ == "__main__":
    main()
