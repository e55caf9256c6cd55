"""Serve a sandbox in a separate process, until its standard input ends.

    python -m benchmarks.serve DIRECTORY [--latency-ms 15]

It prints its address in one line.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from lakegc_dagster.sandbox import Sandbox


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--latency-ms", type=float, default=0.0, help="delay before each answer")
    asked = parser.parse_args()
    with Sandbox(asked.directory) as sandbox:
        if asked.latency_ms:
            sandbox.observe(lambda _name: time.sleep(asked.latency_ms / 1000))
        sys.stdout.write(f"{sandbox.endpoint}\n")
        sys.stdout.flush()
        sys.stdin.read()


if __name__ == "__main__":
    main()
