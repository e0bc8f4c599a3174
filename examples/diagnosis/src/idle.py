"""Waits for something that never comes."""

import argparse
import threading

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, required=True)
    threading.Event().wait(parser.parse_args().seconds)
