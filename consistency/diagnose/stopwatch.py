"""The clock by which experiments on a backend are limited."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..backends.base import Backend
from ..backends.subprocess.supervised_worker import SupervisedWorker

WAITING = 0.25  # share of the time in which this thread waits that is counted


def clock_of(backend: Backend) -> Callable[[], float]:
    """A clock in seconds for calls of a backend.

    What runs in this process takes this thread's processor time, so that a loaded machine makes as
    many experiments as an idle one; of the time besides a quarter is counted, since a user's
    backend may wait for something. A device, or a process of its own, is always waited for: there
    it is the clock on the wall.
    """
    if backend.device != "cpu" or isinstance(backend, SupervisedWorker):
        return time.monotonic

    def clock() -> float:
        busy = time.thread_time()
        return busy + WAITING * (time.monotonic() - busy)

    return clock
