"""Computes all the time, in as many processes as there are processors."""

import argparse
import multiprocessing
import os
import time


def compute(until: float) -> None:
    while time.monotonic() < until:
        sum(range(100_000))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    until = time.monotonic() + parser.parse_args().seconds
    processes = [multiprocessing.Process(target=compute, args=(until,)) for _ in range(int(os.environ["SM_NUM_CPUS"]))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
