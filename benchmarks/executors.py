"""What several processes and a Dask cluster cost beside one process, in CPU seconds of all
processes, and whether they give the same results.

    python benchmarks/executors.py [--examples N] [--jobs N …] [--workers N …] [OPERATOR…]

All of it happens on this machine; every process computes with one thread. Wall-clock times depend
on how busy the machine is; CPU seconds hardly do. ``start`` is a run of one case: what it costs is
taken away where CPU seconds of judging are compared. ``in process`` is a run that may use one core
only, where the command judges by itself (Linux; elsewhere with one more process). ``dispatch`` is
the CPU time of the command's own process, which hands out the cases and writes the bundle; where it
is a share p of all, 1/p processes could be kept busy. ``page`` is what writing the page takes after
the last case, which is no part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
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
_COMMAND = """
import atexit, os, sys, time
from pathlib import Path
out, alone, *arguments = sys.argv[1:]
if alone == "alone":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
page_seconds = 0.0
atexit.register(lambda: Path(out + ".own").write_text(f"{time.process_time()} {page_seconds}"))
from consistency.report import page
after = page.after
def timed(folder):
    handler = after(folder)
    def handle(event):
        global page_seconds
        began = time.process_time()
        handler(event)
        page_seconds += time.process_time() - began
    return handle
page.after = timed
from consistency.cli.main import main
main(arguments)
"""
_CAN_BE_ALONE = hasattr(os, "sched_setaffinity")
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
_ONE_CASE = ["exp", "-b", "cpu", "--dtype", "float32", "--examples", "1", "--no-shipped",
             "--no-exhaustive"]  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """CPU seconds of all processes of a command, those of its own one, and of its page; seconds."""

    total: float
    own: float
    page: float
    wall: float


def run(arguments: list[str], out: Path, alone: bool = False) -> Cost:
    """Run the command, on one core if ``alone``; Dask's own processes are not among those that are
    counted."""
    if alone and not _CAN_BE_ALONE:
        alone, arguments = False, [*arguments, "--jobs", "1"]
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-c", _COMMAND, str(out), "alone" if alone else "", "run", *arguments,
         "--no-fingerprint", "--out", str(out)],
        env=os.environ | _ONE_THREAD, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode > 1:
        raise SystemExit(f"{' '.join(arguments)} ended with {process.returncode}")
    own, page = map(float, Path(f"{out}.own").read_text(encoding="utf-8").split())
    return Cost(usage.ru_utime + usage.ru_stime, own, page, time.monotonic() - began)


def results(out: Path) -> list[str]:
    """What was found, in an order that does not depend on who was faster; not what shrinking found
    in the time that it had."""
    with (out / "results.jsonl").open(encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    return sorted(json.dumps(row, sort_keys=True) for row in rows if not row.get("shrunk"))


def told(name: str, cost: Cost, start: Cost, count: int, serial: float, same: bool) -> None:
    total = max(cost.total - start.total, 1e-9)
    page = cost.page - start.page
    own = cost.own - start.own - page
    share = f", dispatch {own / total:.1%} of it" if name != "in process" else ""
    share += f", page {page / total:.1%}"
    print(
        f"{name:<14}{cost.total:8.1f} s CPU{cost.wall:8.1f} s; without its start ({start.total:.1f}"
        f" s) {total:.1f} s, {total / (serial or total):.3f} × in process, "
        f"{count / total:,.0f} results a CPU second{share}"
        f"{'' if same else '   OTHER RESULTS'}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "operators", nargs="*", default=["family:softmax", "family:matmul", "family:reduction"]
    )
    parser.add_argument("--examples", type=int, default=20)
    parser.add_argument("--jobs", type=int, nargs="*", default=[2])
    parser.add_argument("--workers", type=int, nargs="*", default=[])
    chosen = parser.parse_args()
    backends = ["-b", "cpu", "-b", "cpu+onednn=off", "-b", "numpy"]
    asked = [*chosen.operators, *backends, "--examples", str(chosen.examples)]
    good = True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = run(_ONE_CASE, folder / "start", alone=True)
        serial = run(asked, folder / "serial", alone=True)
        expected = results(folder / "serial")
        print(f"{len(expected):,} results")
        told("in process", serial, start, len(expected), 0.0, True)
        alone = serial.total - start.total
        for many in chosen.jobs:
            jobs = ["--jobs", str(many)]
            start = run([*_ONE_CASE, *jobs], folder / f"start{many}")
            cost = run([*asked, *jobs], folder / f"jobs{many}")
            same = results(folder / f"jobs{many}") == expected
            told(f"--jobs {many}", cost, start, len(expected), alone, same)
            good = good and same
        for many in chosen.workers:
            cluster = subprocess.Popen(
                [sys.executable, "-c", _CLUSTER, str(many)], env=os.environ | _ONE_THREAD,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            assert cluster.stdout is not None
            assert cluster.stdin is not None
            dask = ["--cluster", cluster.stdout.readline().strip(), "--workers", str(many)]
            cost = run([*asked, *dask], folder / f"dask{many}")
            cluster.stdin.close()
            _, _, usage = os.wait4(cluster.pid, 0)
            same = results(next((folder / f"dask{many}").glob("*/"))) == expected
            print(
                f"dask, {many:<8}{cost.total + usage.ru_utime + usage.ru_stime:8.1f} s CPU"
                f"{cost.wall:8.1f} s, with the start of the cluster; the same results: "
                f"{'yes' if same else 'NO'}",
                flush=True,
            )
            good = good and same
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
