"""What every process that judges is started with; imports neither torch nor NumPy."""

from __future__ import annotations

import os

PROGRAM = "from consistency.engine.executors.workers.judging_process import main\nmain()\n"
MEMORY_OF_ONE = 2 << 30  # bytes, for the worst small case in a process
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def thread_variables(threads: int) -> dict[str, str]:
    """The variables with which every library of a process computes with so many threads."""
    return dict.fromkeys(_THREADS, str(threads))


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
