"""Judge a work unit in a process that may crash, and find the case that crashed it.

Needs neither torch nor NumPy, because a Dask worker's own process uses it.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from ....backends.subprocess.framing import Frame, Header
from ....backends.subprocess.process import START_SECONDS, LostError, TimeWatch
from ....core.foreign import Bounds

# seconds without a reply (or ten times a case's limit) after which the process is ended
SILENCE_SECONDS = 300.0
SEND_SECONDS, SEND_BYTES = 0.3, 1 << 16  # events are batched for at most this time
# crashes at one case, before a case that ends the process only together with others is given up
TRIES = 2
# Before a work unit a process that holds this much is replaced, unless it was started a short time
# ago: a run whose cases need as much from the beginning would do nothing but start processes.
KEPT_BYTES, KEPT_SECONDS = 540 << 20, 120.0

Send = Callable[[int, list[bytes]], None]  # the number of a batch, and its events
Start = Callable[[], Any]  # a backends.subprocess.process.Worker or an equivalent


REFERENCE_ENDED = "the CPU's own call, with which it would be compared, ended the process"


class CancelledError(Exception):
    """The work unit was cancelled."""


class RestartableProcess:
    """A process that judges for one worker, started on demand and restarted after it ended. It gets
    the configuration of a run once, with the first request."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self.lock = threading.Lock()
        self._process: Any = None
        self._config_json = ""
        self._sent_config = ""  # the process has this one
        self.case_timeout = 0.0  # seconds that a case of this run may take
        self._since = 0.0

    def configure(self, config_json: str) -> None:
        """Further requests belong to the run with this configuration."""
        if config_json != self._config_json:  # which is long, and the same for all units of a run
            self.case_timeout = float(json.loads(config_json)["case_timeout"])
            self._config_json = config_json

    def connection(self) -> Any:
        if self._process is None:
            self._process, self._since = self.start(), time.monotonic()
        return self._process

    def renew_if_large(self) -> None:
        """End the process, which does nothing now, if it holds much memory: freed blocks between
        others, and what libraries keep of shapes that do not come again."""
        if (
            self._process is not None
            and time.monotonic() - self._since > KEPT_SECONDS
            and self._process.memory() > KEPT_BYTES
        ):
            self.drop()

    def drop(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._process, self._sent_config = None, ""

    def send(self, header: Header, blobs: Sequence[bytes]) -> None:
        """Send a request, with the configuration if the process does not have it. Raises
        LostError."""
        connection = self.connection()
        if self._sent_config != self._config_json:
            header = {**header, "config": json.loads(self._config_json)}
        connection.send(header, blobs)
        self._sent_config = self._config_json

    def request(
        self,
        header: Header,
        blobs: Sequence[bytes],
        seconds: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> Header:
        """Send one request and return its reply. Raises LostError."""
        self.send(header, blobs)
        try:
            return self.receive(seconds, meanwhile)[0]
        except BaseException:
            self.drop()
            raise

    def receive(self, seconds: float, meanwhile: Callable[[], None] | None = None) -> Frame:
        frame: Frame = self.connection().reply(time.monotonic() + seconds, meanwhile)
        return frame

    def describe(self, config_json: str) -> str:
        """The description of the machine and its backends, as JSON text. Raises LostError."""
        self.configure(config_json)
        return json.dumps(self.request({"kind": "describe"}, (), START_SECONDS))

    def fingerprint(self, config_json: str, names: Sequence[str]) -> str:
        """The fingerprints of some backends, as JSON text. Raises LostError."""
        self.configure(config_json)
        header = {"kind": "fingerprint", "backends": list(names)}
        return json.dumps(self.request(header, (), START_SECONDS))


class _EventBatches:
    """Events for the coordinator, sent in batches."""

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
    bounds: Bounds | None = None,
) -> Header:
    """Judge a work unit even if its process ends repeatedly: a case that keeps ending it is a
    ``crash``, one that takes longer than ``bounds`` allow a ``timeout``.

    Each attempt starts from the unit's beginning, because the diagnosis of a failure depends on
    earlier cases.
    """
    process.renew_if_large()
    batches = _EventBatches(send)
    crashed: list[list[str]] = []
    tries: Counter[str] = Counter()
    plain, quiet = header["plain"], max(SILENCE_SECONDS, 10.0 * process.case_timeout)
    ids: list[str] = [] if header["fresh"] else header["ids"]
    while True:
        judged: set[str] = set()
        process.send({**header, "crashed": crashed, "plain": plain}, blobs)
        try:
            end = _forward_events(process, batches, ids, judged, quiet, cancelled, bounds)
            batches.flush()
            return {**end, "messages": batches.sent, "crashed": len(crashed)}
        except LostError as lost:
            process.drop()
            if not ids:
                text = f"it ended while cases were drawn: {lost}"
                return {"kind": "wrong", "text": text, "messages": batches.sent}
            case = next((case for case in ids if case not in judged), None)
            if case is None:  # during a repetition, scaling or minimization
                if plain:
                    return {
                        "kind": "wrong",
                        "text": f"it ended when all cases were judged: {lost}",
                        "messages": batches.sent,
                    }
                plain = True
                continue
            tries[case] += 1
            if bounds is not None and lost.status == "timeout":
                crashed += _everywhere(header, case, lost.status, f"{lost}; {bounds.sentence}")
                continue
            crashes = _single_backend_crashes(header, blobs, process, case, quiet, cancelled)
            if not crashes and tries[case] >= TRIES:
                crashes = _everywhere(header, case, lost.status, f"{lost}, {TRIES} times")
            crashed += [item for item in crashes if item not in crashed]
        except BaseException:
            process.drop()  # it is in the middle of a unit
            raise


def _everywhere(header: Header, case: str, status: str, text: str) -> list[list[str]]:
    """What is known of a case on every backend in every direction."""
    return [
        [case, backend, direction, status, text]
        for backend in header["backends"]
        for direction in header["directions"]
    ]


def _forward_events(
    process: RestartableProcess,
    batches: _EventBatches,
    ids: list[str],
    judged: set[str],
    quiet: float,
    cancelled: Callable[[], None],
    bounds: Bounds | None,
) -> Header:
    """Forward events until the unit is done; what the process draws becomes its ``ids``."""
    watch = None if bounds is None else TimeWatch(process.connection(), bounds.seconds)

    def meanwhile() -> None:
        batches.flush_if_due()
        cancelled()
        if watch is not None:
            watch()

    while True:
        reply, blobs = process.receive(quiet, meanwhile)
        cancelled()
        if watch is not None:
            watch.restart()
        if reply["kind"] != "event":
            return reply
        judged.update(reply["judged"])
        ids[:] = reply.get("ids", ids)
        batches.add(blobs[0])


def _single_backend_crashes(
    header: Header,
    blobs: Sequence[bytes],
    process: RestartableProcess,
    case: str,
    quiet: float,
    cancelled: Callable[[], None],
) -> list[list[str]]:
    """What is known of a case on every backend that ends the process, with what it is compared with
    and alone: a backend that survives alone is not to blame for the reference."""
    crashes = []
    for direction in header["directions"]:
        for backend in header["backends"]:
            about = {"backends": [backend], "case": case, "direction": direction}
            probe = {**header, "kind": "probe", **about}
            try:
                process.request({**probe, "alone": False}, blobs, quiet, cancelled)
                continue
            except LostError as lost:
                status, text = lost.status, f"{lost}, again when the case was tried by itself"
                compared = str(lost)
            try:
                reply = process.request({**probe, "alone": True}, blobs, quiet, cancelled)
            except LostError:
                pass
            else:
                if reply["status"] == status:  # in a process of the backend's own
                    text = str(reply["text"])
                else:
                    status, text = "inconclusive", f"{REFERENCE_ENDED}: {compared}"
            crashes.append([case, backend, direction, status, text])
    return crashes
