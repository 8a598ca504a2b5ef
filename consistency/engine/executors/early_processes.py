"""Judging processes that are started before this process has loaded torch, so that they load it
meanwhile. Imports neither torch nor NumPy.

Where processes can be forked, it is the one that forks them. How many there will be is known only
when torch is loaded; so these are a guess, and what it gets wrong is ended: a process whose
variables are not those asked for, and every process left over.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ...core import forkserver, interpreter
from ...core.kept_forkservers import KeptForkServers
from ...core.text import pluralize
from ...errors import UsageError
from .judging_program import FORK_SERVER, MEMORY_OF_ONE, PROGRAM, process_variables, usable_cores

MOST, MOST_PER_CORE = 32, 4
FORKED = KeptForkServers(FORK_SERVER)


class EarlyProcesses:
    """``count`` processes that compute with ``threads`` threads each."""

    def __init__(self, count: int, threads: int) -> None:
        self._environment = interpreter.changed_environment(process_variables(threads))
        self._waiting: list[Any] = []
        with contextlib.suppress(OSError):  # the executor will meet it again, and tell it
            if forkserver.USABLE and count:
                FORKED.prepare(sys.executable, self._environment)
                return
            self._waiting = [
                interpreter.start(sys.executable, interpreter.LOAD + PROGRAM, self._environment)
                for _ in range(count)
            ]

    def take(self, python: str, environment: Mapping[str, str]) -> Any | None:
        """One that runs ``python`` with ``environment``, if there is one left."""
        if python != sys.executable or environment != self._environment:
            return None
        while self._waiting:
            process = self._waiting.pop()
            if process.poll() is None:
                return process
        return None

    def close(self) -> None:
        """End those that nobody took."""
        while self._waiting:
            process = self._waiting.pop()
            process.kill()
            process.communicate()


def check_processes(jobs: int | None) -> None:
    """Raises UsageError for more processes than a machine like this can start: far more than are of
    use, and so many that it would run out of memory."""
    most = max(MOST, MOST_PER_CORE * usable_cores())
    if jobs is None or 1 <= jobs <= most:
        return
    raise UsageError(
        f"{jobs:,} jobs: 1 to {most} are possible here ({pluralize(usable_cores(), 'core')}); "
        "leave it out for as many as are of use"
    )


def likely_processes(jobs: int | None, *, everything: bool) -> int:
    """How many processes to start early: one less than a run will judge in, as far as can be told
    without torch, because this process loads torch on a core of its own meanwhile.

    ``everything``: it tests all operators, on all backends that are here, in small cases. With an
    accelerator it would judge in one process, and of few operators nobody knows how many cases
    there are.
    """
    if jobs is not None:
        return max(jobs - 1, 1)
    if not everything or _has_accelerator():
        return 0
    count = min(usable_cores(), psutil.virtual_memory().available // MEMORY_OF_ONE)
    return count - 1 if count > 1 else 0


def likely_threads() -> int:
    """The number of threads that torch will compute with."""
    for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        if os.environ.get(variable, "").isdigit():
            return max(int(os.environ[variable]), 1)
    return min(usable_cores(), psutil.cpu_count(logical=False) or usable_cores())


def _has_accelerator() -> bool:
    return (
        sys.platform == "darwin"
        or shutil.which("nvidia-smi") is not None
        or Path("/dev/kfd").exists()
        or Path("/dev/dri/renderD128").exists()
        or importlib.util.find_spec("torch_directml") is not None
    )
