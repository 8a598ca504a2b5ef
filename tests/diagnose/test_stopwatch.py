"""The clock of experiments: waiting counts in full only where a backend is waited for."""

from __future__ import annotations

import time

import pytest

from consistency.backends import resolve
from consistency.backends.base import Backend
from consistency.diagnose.stopwatch import clock_of

WAIT = 0.3  # seconds


def counted(backend: Backend) -> float:
    clock = clock_of(backend)
    began = clock()
    time.sleep(WAIT)
    return clock() - began


class Elsewhere(Backend):
    device = "device:0"


@pytest.mark.parametrize("spec", ["cpu", "numpy"])
def test_what_runs_here_is_not_slower_on_a_loaded_machine(spec: str) -> None:
    assert counted(resolve(spec)) < 0.5 * WAIT
    clock = clock_of(resolve(spec))
    began, busy = clock(), time.thread_time()
    while time.thread_time() - busy < WAIT:
        pass
    assert clock() - began >= 0.99 * WAIT


def test_devices_and_other_processes_are_waited_for() -> None:
    worker = resolve("cpu+env:ATEN_CPU_CAPABILITY=default")
    try:
        for backend in (Elsewhere(), worker):
            assert counted(backend) >= 0.99 * WAIT
    finally:
        worker.close()
