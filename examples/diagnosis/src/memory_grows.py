"""Keeps every step's result, as a script does that adds losses to a list with their graph."""

import argparse
import time

STEP_SECONDS = 0.25

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--megabytes", type=int, required=True)
    arguments = parser.parse_args()
    steps = int(arguments.seconds / STEP_SECONDS)
    kept = []
    for _ in range(steps):
        kept.append(b"x" * (arguments.megabytes * 1_000_000 // steps))
        time.sleep(STEP_SECONDS)
