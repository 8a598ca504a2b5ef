"""Start a process that judges (:mod:`.judging_process`)."""

from __future__ import annotations

import sys

import psutil

from ....backends.subprocess.process import ProgramSource, Worker
from ....core import forkserver
from ....core.foreign import Bounds
from ..early_processes import FORKED, EarlyProcesses
from ..judging_program import PROGRAM, process_variables


def start_process(
    threads: int,
    share: int = 1,
    *,
    bounds: Bounds | None = None,
    program: str = PROGRAM,
    early: EarlyProcesses | None = None,
) -> Worker:
    """Start a process that computes with ``threads`` threads and may use three quarters of the
    machine's memory, or the ``share``-th part of that; for cases from elsewhere, what their
    ``bounds`` say. It is forked where that is possible; elsewhere one of ``early`` is taken if it
    is what would be started."""
    memory = psutil.virtual_memory().total * 3 // 4 // share
    variables = process_variables(threads)
    if bounds is not None:
        memory, variables = min(memory, bounds.bytes), variables | bounds.variable
    # Cases from elsewhere get a process that nothing else was in.
    forks = forkserver.USABLE and program == PROGRAM and bounds is None
    take = FORKED.fork if forks else None if early is None or program != PROGRAM else early.take
    return Worker(ProgramSource(sys.executable, variables, program, take), memory)
