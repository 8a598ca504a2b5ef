"""What every process that judges is started with; imports neither torch nor NumPy."""

from __future__ import annotations

import os

PROGRAM = "from consistency.engine.executors.workers.judging_process import main\nmain()\n"
# The same, forked by a process that has loaded what it needs.
FORK_SERVER = (
    "from consistency.core.forkserver import serve\n"
    "from consistency.engine.executors.workers.judging_process import load, main\n"
    "serve(int(sys.argv[2]), load, main)\n"
)
MEMORY_OF_ONE = 2 << 30  # bytes, for the worst small case in a process
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


# What a run of many operators keeps otherwise: oneDNN's code for 1,024 shapes, of which few come
# again, in its own cache and in the one that torch keeps of it (measured over all matrix products:
# 100 MB of 199), and freed blocks that glibc puts between others, because it raises the size of
# those that it gives back.
_MEMORY = {
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "16",
    "LRU_CACHE_CAPACITY": "16",
    "MALLOC_MMAP_THRESHOLD_": str(2 << 20),
}


def process_variables(threads: int) -> dict[str, str]:
    """The variables with which every library of a process computes with so many threads, and keeps
    little memory where the user has not said how much."""
    memory = {name: os.environ.get(name, value) for name, value in _MEMORY.items()}
    return dict.fromkeys(_THREADS, str(threads)) | memory


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
