"""What runs in a Dask worker: it keeps the process that judges, passes on what that says, and finds
out which case ended it.

Needs neither torch nor NumPy: Dask's own process stays small, and answers the scheduler whatever a
case does.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psutil

from ....backends.subprocess.framing import Frame, Header
from ....backends.subprocess.process import START_SECONDS, LostError, Program, Worker

PROGRAM = "from consistency.engine.executors.dask.child import main\nmain()\n"
# seconds without a word from the process, or ten times a case's limit, before it is ended
SILENCE = 300.0
SEND_SECONDS, SEND_BYTES = 0.3, 1 << 16  # events travel together, but not for long
LOOK_SECONDS = 0.5
TRIES = 2  # at one place, before a case that ends the process only in company of others is given up
_THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)

Send = Callable[[int, list[bytes]], None]
Judges = Callable[[], Any]  # a process that judges: a workers.process.Worker, or what acts like one


class CancelledError(Exception):
    """Nobody waits for this group any more."""


def describe(orders: str) -> str:
    """A task: what this worker is, as JSON text."""
    with _held() as held:
        return json.dumps(
            held.ask({"kind": "describe", "orders": json.loads(orders)}, (), START_SECONDS)
        )


def fingerprint(orders: str, names: Sequence[str]) -> str:
    """A task: how some backends of this worker compute, as JSON text."""
    with _held() as held:
        asked = {"kind": "fingerprint", "orders": json.loads(orders), "only": list(names)}
        return json.dumps(held.ask(asked, (), START_SECONDS))


def judge(text: str, blobs: list[bytes], topic: str, token: str) -> str:
    """A task: judge a group. Its events go out under ``topic`` as they come; what is returned says
    how many messages these were."""
    from distributed import get_worker

    dask = get_worker()

    def send(number: int, events: list[bytes]) -> None:
        dask.log_event(topic, {"token": token, "n": number, "events": events, "from": dask.address})

    with _held() as held:
        return json.dumps(judged(json.loads(text), blobs, held, send, _cancelled(dask)))


def _cancelled(dask: Any) -> Callable[[], None]:
    """A function that raises Cancelled once nobody waits for the task that this thread works on."""
    key, looked = dask.get_current_task(), [time.monotonic()]

    def look() -> None:
        now = time.monotonic()
        if now - looked[0] < LOOK_SECONDS:
            return
        looked[0] = now
        task = dask.state.tasks.get(key)
        if task is None or task.state in ("cancelled", "released", "forgotten"):
            raise CancelledError

    return look


class Held:
    """The process that judges for one Dask worker, made when it is needed and again where it
    ended."""

    def __init__(self, start: Judges) -> None:
        self.start = start
        self.turn = threading.Lock()
        self._process: Any = None

    def process(self) -> Any:
        if self._process is None:
            self._process = self.start()
        return self._process

    def drop(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None

    def ask(
        self,
        request: Header,
        blobs: Sequence[bytes],
        seconds: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> Header:
        """One request with one reply. Raises LostError."""
        self.process().send(request, blobs)
        try:
            return self.hear(seconds, meanwhile)[0]
        except BaseException:
            self.drop()
            raise

    def hear(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> Frame:
        found: Frame = self.process().reply(time.monotonic() + seconds, meanwhile)
        return found


_HELD: dict[str, Held] = {}
_FIRST = threading.Lock()


@contextlib.contextmanager
def _held() -> Iterator[Held]:
    """This worker's process, for one group at a time: the threads of a worker are those that the
    numbers are computed with."""
    from distributed import get_worker

    dask = get_worker()
    threads = str(dask.state.nthreads)
    with _FIRST:
        held = _HELD.setdefault(dask.address, Held(lambda: _start(threads)))
    with held.turn:
        yield held


def _start(threads: str) -> Worker:
    return Worker(
        Program(sys.executable, dict.fromkeys(_THREADS, threads), PROGRAM),
        psutil.virtual_memory().total * 3 // 4,
    )


class _Mail:
    """Events on their way to the front, some at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[bytes] = []
        self._bytes, self._since, self.sent = 0, time.monotonic(), 0

    def add(self, event: bytes) -> None:
        self._waiting.append(event)
        self._bytes += len(event)
        self.look()

    def look(self) -> None:
        if self._waiting and (
            self._bytes >= SEND_BYTES or time.monotonic() - self._since > SEND_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._send(self.sent, self._waiting)
            self.sent += 1
        self._waiting, self._bytes, self._since = [], 0, time.monotonic()


def judged(
    header: Header, blobs: Sequence[bytes], held: Held, send: Send, cancelled: Callable[[], None]
) -> Header:
    """Have a group judged, however often the process ends over it: a case that ends it again and
    again is a ``crash``.

    The group is judged from its beginning each time, as what is found about a failure depends on
    those before it.
    """
    mail = _Mail(send)
    crashed: list[list[str]] = []
    tries: Counter[str] = Counter()
    plain, quiet = header["plain"], max(SILENCE, 10.0 * header["orders"]["case_timeout"])
    while True:
        judged: set[str] = set()
        held.process().send({**header, "crashed": crashed, "plain": plain}, blobs)
        try:
            end = _follow(held, mail, judged, quiet, cancelled)
            mail.flush()
            return {**end, "messages": mail.sent, "crashed": len(crashed)}
        except LostError as lost:
            held.drop()
            place = next((case for case in header["ids"] if case not in judged), None)
            if place is None:  # while something was repeated, scaled or made smaller
                if plain:
                    return {
                        "kind": "wrong",
                        "text": f"it ended when all cases were judged: {lost}",
                        "messages": mail.sent,
                    }
                plain = True
                continue
            tries[place] += 1
            found = _killers(header, blobs, held, place, quiet, cancelled)
            if not found and tries[place] >= TRIES:
                found = [
                    [place, b, d, lost.status, f"{lost}, {TRIES} times"]
                    for b in header["only"]
                    for d in header["towards"]
                ]
            crashed += [item for item in found if item not in crashed]
        except BaseException:
            held.drop()  # it is in the middle of a group
            raise


def _follow(
    held: Held, mail: _Mail, judged: set[str], quiet: float, cancelled: Callable[[], None]
) -> Header:
    """Pass on events until the group is done."""

    def meanwhile() -> None:
        mail.look()
        cancelled()

    while True:
        reply, blobs = held.hear(quiet, meanwhile)
        cancelled()
        if reply["kind"] != "event":
            return reply
        judged.update(reply["judged"])
        mail.add(blobs[0])


def _killers(
    header: Header,
    blobs: Sequence[bytes],
    held: Held,
    case: str,
    quiet: float,
    cancelled: Callable[[], None],
) -> list[list[str]]:
    """On which backends, each by itself, a case ends the process, and how."""
    found = []
    for direction in header["towards"]:
        for backend in header["only"]:
            probe = {
                **header,
                "kind": "probe",
                "only": [backend],
                "case": case,
                "direction": direction,
            }
            try:
                held.ask(probe, blobs, quiet, cancelled)
            except LostError as lost:
                found.append(
                    [
                        case,
                        backend,
                        direction,
                        lost.status,
                        f"{lost}, again when the case was tried by itself",
                    ]
                )
    return found
