"""What a fresh process costs: started from nothing against forked from the fork server.

python benchmarks/fork_server.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from harness import processes

REPEATS = 3


def main() -> None:
    """Print seconds for each way."""
    fresh = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", "import harness.preload"], check=True)
        fresh.append(time.perf_counter() - started)
    processes.call(os.getpid)  # starts the fork server
    forked = []
    for _ in range(10 * REPEATS):
        started = time.perf_counter()
        processes.call(os.getpid)
        forked.append(time.perf_counter() - started)
    print(f"a fresh interpreter with everything imported: {statistics.median(fresh):.2f} s")
    print(f"a process of the fork server:                 {statistics.median(forked):.3f} s")


if __name__ == "__main__":
    main()
