"""Start a process that judges (:mod:`.judging_process`)."""

from __future__ import annotations

import sys

import psutil

from ....backends.subprocess.process import ProgramSource, Worker
from ....core.foreign import Bounds

_PROGRAM = "from consistency.engine.executors.workers.judging_process import main\nmain()\n"
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def start_process(
    threads: int, share: int = 1, *, bounds: Bounds | None = None, program: str = _PROGRAM
) -> Worker:
    """Start a process that computes with ``threads`` threads and may use three quarters of the
    machine's memory, or the ``share``-th part of that; for cases from elsewhere, what their
    ``bounds`` say."""
    memory = psutil.virtual_memory().total * 3 // 4 // share
    variables = dict.fromkeys(_THREADS, str(threads))
    if bounds is not None:
        memory, variables = min(memory, bounds.bytes), variables | bounds.variable
    return Worker(ProgramSource(sys.executable, variables, program), memory)
