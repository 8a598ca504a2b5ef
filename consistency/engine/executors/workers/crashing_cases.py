"""Judge a work unit in a process that may end over it, and find out which case ended it.

Needs neither torch nor NumPy, as it is also used in a Dask worker's own process.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ....backends.subprocess.framing import Frame, Header
from ....backends.subprocess.process import START_SECONDS, LostError

# seconds without a reply from the process, or ten times a case's limit, before it is ended
SILENCE_SECONDS = 300.0
SEND_SECONDS, SEND_BYTES = 0.3, 1 << 16  # events travel together, but not for long
# crashes at one case, before a case that ends the process only together with others is given up
TRIES = 2

Send = Callable[[int, list[bytes]], None]  # the number of a batch, and its events
Start = Callable[[], Any]  # of a backends.subprocess.process.Worker, or what acts like one


class CancelledError(Exception):
    """Nobody waits for this work unit any more."""


class RestartableProcess:
    """A process that judges for one worker: started when it is needed, and again where it ended."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.lock = threading.Lock()
        self._process: Any = None

    def connection(self) -> Any:
        if self._process is None:
            self._process = self.start()
        return self._process

    def drop(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process = None

    def request(
        self,
        header: Header,
        blobs: Sequence[bytes],
        seconds: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> Header:
        """One request with one reply. Raises LostError."""
        self.connection().send(header, blobs)
        try:
            return self.receive(seconds, meanwhile)[0]
        except BaseException:
            self.drop()
            raise

    def receive(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> Frame:
        frame: Frame = self.connection().reply(time.monotonic() + seconds, meanwhile)
        return frame

    def describe(self, config_json: str) -> str:
        """What the machine and its backends are, as JSON text. Raises LostError."""
        header = {"kind": "describe", "config": json.loads(config_json)}
        return json.dumps(self.request(header, (), START_SECONDS))

    def fingerprint(self, config_json: str, names: Sequence[str]) -> str:
        """How some backends compute, as JSON text. Raises LostError."""
        header = {
            "kind": "fingerprint", "config": json.loads(config_json), "backends": list(names)
        }  # fmt: skip
        return json.dumps(self.request(header, (), START_SECONDS))


class _EventBatches:
    """Events on their way to the coordinator, some at a time."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: list[bytes] = []
        self._bytes, self._since, self.sent = 0, time.monotonic(), 0

    def add(self, event: bytes) -> None:
        self._waiting.append(event)
        self._bytes += len(event)
        self.flush_if_due()

    def flush_if_due(self) -> None:
        if self._waiting and (
            self._bytes >= SEND_BYTES or time.monotonic() - self._since > SEND_SECONDS
        ):
            self.flush()

    def flush(self) -> None:
        if self._waiting:
            self._send(self.sent, self._waiting)
            self.sent += 1
        self._waiting, self._bytes, self._since = [], 0, time.monotonic()


def judge_with_restarts(
    header: Header,
    blobs: Sequence[bytes],
    process: RestartableProcess,
    send: Send,
    cancelled: Callable[[], None],
) -> Header:
    """Have a work unit judged, however often the process ends over it: a case that ends it again
    and again is a ``crash``.

    The unit is judged from its beginning each time, as what is found about a failure depends on
    those before it.
    """
    batches = _EventBatches(send)
    crashed: list[list[str]] = []
    tries: Counter[str] = Counter()
    plain, quiet = header["plain"], max(SILENCE_SECONDS, 10.0 * header["config"]["case_timeout"])
    while True:
        judged: set[str] = set()
        process.connection().send({**header, "crashed": crashed, "plain": plain}, blobs)
        try:
            end = _follow(process, batches, judged, quiet, cancelled)
            batches.flush()
            return {**end, "messages": batches.sent, "crashed": len(crashed)}
        except LostError as lost:
            process.drop()
            case = next((case for case in header["ids"] if case not in judged), None)
            if case is None:  # while something was repeated, scaled or made smaller
                if plain:
                    return {
                        "kind": "wrong",
                        "text": f"it ended when all cases were judged: {lost}",
                        "messages": batches.sent,
                    }
                plain = True
                continue
            tries[case] += 1
            crashes = _crashes_alone(header, blobs, process, case, quiet, cancelled)
            if not crashes and tries[case] >= TRIES:
                crashes = [
                    [case, b, d, lost.status, f"{lost}, {TRIES} times"]
                    for b in header["backends"]
                    for d in header["directions"]
                ]
            crashed += [item for item in crashes if item not in crashed]
        except BaseException:
            process.drop()  # it is in the middle of a unit
            raise


def _follow(
    process: RestartableProcess,
    batches: _EventBatches,
    judged: set[str],
    quiet: float,
    cancelled: Callable[[], None],
) -> Header:
    """Pass on events until the unit is done."""

    def meanwhile() -> None:
        batches.flush_if_due()
        cancelled()

    while True:
        reply, blobs = process.receive(quiet, meanwhile)
        cancelled()
        if reply["kind"] != "event":
            return reply
        judged.update(reply["judged"])
        batches.add(blobs[0])


def _crashes_alone(
    header: Header,
    blobs: Sequence[bytes],
    process: RestartableProcess,
    case: str,
    quiet: float,
    cancelled: Callable[[], None],
) -> list[list[str]]:
    """On which backends, each by itself, a case ends the process, and how."""
    crashes = []
    for direction in header["directions"]:
        for backend in header["backends"]:
            probe = {
                **header,
                "kind": "probe",
                "backends": [backend],
                "case": case,
                "direction": direction,
            }
            try:
                process.request(probe, blobs, quiet, cancelled)
            except LostError as lost:
                crashes.append(
                    [
                        case,
                        backend,
                        direction,
                        lost.status,
                        f"{lost}, again when the case was tried by itself",
                    ]
                )
    return crashes
