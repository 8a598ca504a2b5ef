"""What a cluster run costs beside a serial one, in CPU seconds of all processes, and whether it
gives the same results.

    python benchmarks/cluster.py [--examples N] [OPERATOR…]

All of it happens on this machine: a scheduler, workers with one thread each, and the front.
Wall-clock times depend on how busy the machine is; CPU seconds hardly do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    workers = int(sys.argv[1])
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def spent() -> float:
    """CPU seconds of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(arguments: list[str], out: Path) -> None:
    command = [sys.executable, "-m", "consistency", "run", *arguments, "--out", str(out)]
    done = subprocess.run(
        command, env=os.environ | _ONE_THREAD, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode > 1:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")


def results(out: Path) -> list[str]:
    """What was found, in an order that does not depend on who was faster; not what shrinking found
    in the time that it had."""
    rows = [
        json.loads(line)
        for line in (out / "results.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    return sorted(json.dumps(row, sort_keys=True) for row in rows if not row.get("shrunk"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "operators", nargs="*", default=["family:softmax", "family:matmul", "family:reduction"]
    )
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    chosen = parser.parse_args()
    asked = [
        *chosen.operators,
        "-b",
        "cpu",
        "-b",
        "cpu+onednn=off",
        "-b",
        "numpy",
        "--examples",
        str(chosen.examples),
    ]
    with tempfile.TemporaryDirectory() as folder:
        before, began = spent(), time.monotonic()
        run(asked, Path(folder) / "serial")
        alone, wall = spent() - before, time.monotonic() - began
        expected = results(Path(folder) / "serial")
        print(
            f"serial              {alone:7.1f} s CPU   {wall:6.1f} s   {len(expected):,} results",
            flush=True,
        )
        for many in chosen.workers:
            before = spent()
            command = [sys.executable, "-c", _CLUSTER, str(many)]
            cluster = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            assert cluster.stdout is not None
            assert cluster.stdin is not None
            address, out = cluster.stdout.readline().strip(), Path(folder) / str(many)
            first, began = spent(), time.monotonic()
            run([*asked, "--cluster", address, "--workers", str(many)], out)
            front, wall = spent() - first, time.monotonic() - began
            cluster.stdin.close()
            cluster.wait()
            total = spent() - before
            same = results(next(out.glob("*/"))) == expected
            print(
                (
                    f"{many} worker(s)         {total:7.1f} s CPU   {wall:6.1f} s   "
                    f"{total / alone:.2f} × serial"
                ),
                flush=True,
            )
            print(
                (
                    f"                    of which the front {front:.1f} s; the same results: "
                    f"{'yes' if same else 'NO'}"
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
