"""The executor that judges in several processes of this machine.

Each process is a worker, so that a case which ends its process costs only that case. Every process
computes with as many threads as this one: another number may sum in another order and change last
bits.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace

from ... import backends as _backends
from ...backends.subprocess.process import LostError
from ...core.foreign import Bounds
from ...errors import UsageError
from ..config import RunConfig
from ..events import ResumeState
from .early_processes import EarlyProcesses
from .protocol import ResumeFrom
from .workers.client import EventBatch, Reply
from .workers.coordinator import Coordinator
from .workers.crashing_cases import CancelledError, RestartableProcess, judge_with_restarts
from .workers.environments import Member, WorkerEnvironment
from .workers.start import start_process
from .workers.untested_units import WorkerEvent

Task = Callable[[RestartableProcess], str]


class ProcessExecutor(Coordinator):
    """Judges in ``processes`` processes of this machine; the other parameters as for
    :class:`Coordinator`. ``bounds``: of the cases, if they are from elsewhere. ``early``:
    processes that are started already; who started them ends those that are left.

    Raises UsageError for backends that are objects of the calling program: another process can
    create a backend from its spec only.
    """

    def __init__(
        self,
        config: RunConfig,
        processes: int,
        *,
        expectations: Sequence[str] = (),
        fingerprints: bool | None = False,
        notify: Callable[[str], None] = lambda text: None,
        bounds: Bounds | None = None,
        early: EarlyProcesses | None = None,
        brief: bool = False,
    ) -> None:
        if processes < 1:
            raise UsageError(f"{processes} processes cannot judge; at least 1 is needed")
        specs = config.specs or {
            backend.name: backend.name
            for backend in config.backends
            if _backends.is_known(backend.name)
        }
        for backend in config.backends:
            if backend.name not in specs:
                raise UsageError(
                    f"backend {backend.name!r} is an object of this program, which other processes "
                    f"cannot make; name it as file.py:attribute, or judge in this process"
                )
        super().__init__(
            config, ProcessPool(processes, bounds, early), wait_for=processes, alike=True,
            expectations=expectations,
            fingerprints=fingerprints, notify=notify, brief=brief,
            labels=dict.fromkeys(specs.values(), ""),  # every process may use every backend
        )  # fmt: skip

    def gather(self) -> list[WorkerEnvironment]:
        """The one environment that all processes form, with the identity of the run."""
        environments = super().gather()
        for environment in environments:
            environment.config = replace(environment.config, identity=self.config.identity)
        return environments

    def run(
        self, resume: ResumeFrom = lambda environment: ResumeState()
    ) -> Generator[WorkerEvent, None, None]:
        try:
            yield from super().run(resume)
        finally:
            self.client.close()


class ProcessPool:
    """A client (:class:`~.workers.client.WorkerClient`) for processes that it starts."""

    def __init__(
        self, processes: int, bounds: Bounds | None = None, early: EarlyProcesses | None = None
    ) -> None:
        """``bounds``: of the cases, if they are from elsewhere. ``early``: started already."""
        self._bounds = bounds
        self._replies: queue.Queue[EventBatch | Reply] = queue.Queue()
        self._workers = {
            address: _Worker(Member(address), processes, self._replies, bounds, early)
            for address in (f"process-{number}" for number in range(1, processes + 1))
        }

    def members(self) -> dict[str, Member]:
        return {address: worker.member for address, worker in self._workers.items()}

    def describe(self, address: str, token: str, config_json: str) -> None:
        self._workers[address].submit(token, lambda process: process.describe(config_json))

    def judge(
        self,
        address: str,
        token: str,
        labels: Iterable[str],
        config_json: str,
        text: str,
        blobs: list[bytes],
    ) -> None:
        worker = self._workers[address]

        def send(number: int, events: list[bytes]) -> None:
            self._replies.put(EventBatch(token, number, tuple(events), address))

        def check() -> None:
            if token in worker.cancelled:
                raise CancelledError

        def task(process: RestartableProcess) -> str:
            process.configure(config_json)
            header = json.loads(text)
            return json.dumps(
                judge_with_restarts(header, blobs, process, send, check, self._bounds)
            )

        worker.submit(token, task)

    def fingerprint(
        self, address: str, token: str, labels: Iterable[str], config_json: str,
        names: Sequence[str],
    ) -> None:  # fmt: skip
        self._workers[address].submit(
            token, lambda process: process.fingerprint(config_json, names)
        )

    def forget(self, token: str) -> None:
        for worker in self._workers.values():
            worker.cancelled.add(token)

    def next(self, seconds: float) -> EventBatch | Reply | None:
        try:
            return self._replies.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return None

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()
        for worker in self._workers.values():
            worker.thread.join(20.0)


@dataclass
class _Worker:
    """One process, and the thread that gives it one task at a time."""

    member: Member
    processes: int  # that share the memory of this machine
    replies: queue.Queue[EventBatch | Reply]
    bounds: Bounds | None = None
    early: EarlyProcesses | None = None
    cancelled: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._tasks: queue.Queue[tuple[str, Task] | None] = queue.Queue()
        self._current = ""
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    def submit(self, token: str, task: Task) -> None:
        self._tasks.put((token, task))

    def close(self) -> None:
        self.cancelled.add(self._current)
        self._tasks.put(None)

    def _work(self) -> None:
        import torch

        threads = torch.get_num_threads()
        process = RestartableProcess(
            lambda: start_process(threads, self.processes, bounds=self.bounds, early=self.early)
        )
        for token, task in iter(self._tasks.get, None):
            self._current = token
            try:
                self.replies.put(Reply(token, text=task(process)))
            except CancelledError:
                continue
            except LostError as lost:
                self.replies.put(Reply(token, failed=str(lost)))
            except Exception as error:
                self.replies.put(Reply(token, failed=f"{type(error).__name__}: {error}"[:300]))
        process.drop()


__all__ = ["ProcessExecutor", "ProcessPool"]
