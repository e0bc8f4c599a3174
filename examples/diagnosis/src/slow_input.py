"""Computes for a moment, then waits for the next batch to arrive, again and again."""

import argparse
import time

COMPUTING, WAITING = 1.0, 2.6  # seconds


def compute_batch() -> None:
    begin = time.process_time()
    while time.process_time() - begin < COMPUTING:
        sum(range(100_000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    until = time.monotonic() + parser.parse_args().seconds
    compute_batch()
    while time.monotonic() + WAITING + COMPUTING < until:
        time.sleep(WAITING)
        compute_batch()
