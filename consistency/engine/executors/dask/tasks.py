"""The tasks of a Dask worker: each is passed to the process that judges for this worker.

Needs neither torch nor NumPy: Dask's own process stays small and answers the scheduler whatever a
case does.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..workers.crashing_cases import CancelledError, RestartableProcess, judge_with_restarts
from ..workers.start import start_process

CHECK_SECONDS = 0.5  # between checks whether a task was cancelled


def describe(config_json: str) -> str:
    """Task: the description of this worker, as JSON text."""
    with _process() as process:
        return process.describe(config_json)


def fingerprint(config_json: str, names: Sequence[str]) -> str:
    """Task: the fingerprints of some backends of this worker, as JSON text."""
    with _process() as process:
        return process.fingerprint(config_json, names)


def judge(config_json: str, text: str, blobs: list[bytes], topic: str, token: str) -> str:
    """Task: judge a work unit. Its events are sent under ``topic`` as they come; the return value
    states the number of batches."""
    from distributed import get_worker

    dask = get_worker()

    def send(number: int, events: list[bytes]) -> None:
        dask.log_event(topic, {"token": token, "n": number, "events": events, "from": dask.address})

    with _process() as process:
        process.configure(config_json)
        end = judge_with_restarts(json.loads(text), blobs, process, send, _cancellation(dask))
    return json.dumps(end)


def _cancellation(dask: Any) -> Callable[[], None]:
    """A function that raises CancelledError once this thread's task is cancelled."""
    key, checked = dask.get_current_task(), [time.monotonic()]

    def check() -> None:
        now = time.monotonic()
        if now - checked[0] < CHECK_SECONDS:
            return
        checked[0] = now
        task = dask.state.tasks.get(key)
        if task is None or task.state in ("cancelled", "released", "forgotten"):
            raise CancelledError

    return check


_PROCESSES: dict[str, RestartableProcess] = {}  # by the address of the worker
_CREATION = threading.Lock()


@contextlib.contextmanager
def _process() -> Iterator[RestartableProcess]:
    """This worker's process, for one work unit at a time. It computes with the worker's number of
    threads."""
    from distributed import get_worker

    dask = get_worker()
    threads = int(dask.state.nthreads)
    with _CREATION:
        process = _PROCESSES.setdefault(
            dask.address, RestartableProcess(lambda: start_process(threads))
        )
    with process.lock:
        yield process
