"""A worker process that is replaced where it dies: requests are sent ahead, replies return in their
order, and a crash costs one of them.

The first request without a reply was running when the worker crashed or hung. It gets the verdict;
a new worker gets the others.
"""

from __future__ import annotations

import contextlib
import re
import sys
import time
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence

from ...core.codec import pack_cases
from ...core.model import Case, Outcome
from ...core.verdict import OutcomeStatus
from .. import _directml_adapters
from ..base import Backend
from . import framing
from .codec import unpack_outcome
from .process import START_SECONDS, LostError, Worker, WorkerSource
from .requests import CaseRequest, Limits
from .spare_workers import SpareWorkers

DEATHS_IN_A_ROW = 5  # failures of an operator before it is quarantined; a timeout counts as two
GONE_AFTER = 3  # workers without a device before it is considered lost
_BASE = re.compile("[^:+@]*")  # of a specification: before an adapter's name and switches
FRESH_FAILURES = 3  # first cases of new workers that raise, before the backend is considered broken


class SupervisedWorker(Backend):
    """A backend whose requests are answered by a process of its own."""

    def __init__(
        self,
        name: str,
        spec: str,
        python: str = "",
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.name, self.spec, self.python = name, spec, python
        self.variables = dict(environment or {})
        self.limits = limits or Limits()
        self.restarts = 0
        self._source: WorkerSource | None = None
        self._worker: Worker | None = None
        self._spawned: Worker | None = None  # the next one, loading
        self._spares = SpareWorkers(self._spawn)
        self._adapters: object = None  # found once: by this process, or by the first worker
        self._runs_cases = False  # and not only describes its device
        self._opened: framing.Header | None = None
        self._pending: OrderedDict[int, CaseRequest] = OrderedDict()
        self._done: dict[tuple[str, ...], Outcome] = {}
        self._keys: set[tuple[str, ...]] = set()  # of both
        self._since = 0.0  # when the first of the pending began
        self._number = 0
        self._worked: CaseRequest | None = None  # a case that worked, to check new workers with
        self._fresh = True  # this worker has not replied yet
        self._raising = self._refused = 0
        self._in_a_row: Counter[str] = Counter()
        self._patient = False

    @property
    def origin(self) -> tuple[str, dict[str, str | None]]:
        """The interpreter of its processes, and the changes to their environment (None: none)."""
        strange = {"PYTHONPATH": None, "PYTHONHOME": None} if self.python else {}
        return self.python or sys.executable, {**strange, **self.variables}

    def quarantined(self, operator: str) -> str:
        """Why an operator is no longer tried here; empty if it is."""
        if self._patient or self._in_a_row[operator] < DEATHS_IN_A_ROW:
            return ""
        return (
            f"in quarantine: {operator} ended its process, or had it ended, several times in a row"
        )

    def close(self) -> None:
        for worker in (self._worker, self._spawned):
            if worker is not None:
                worker.kill()
        self._spares.close()
        self._adapters = None
        self._source = self._worker = self._spawned = self._opened = None
        self._runs_cases = False
        self._pending.clear()
        self._done.clear()
        self._keys.clear()

    def _will_run(self) -> None:
        """Cases are coming: spares of a device that is slow to open begin to open now."""
        if self._runs_cases:
            return
        self._runs_cases = True
        if self._worker is not None and self._is_directml:
            self._spares.expect(self._opening())

    @property
    def _is_directml(self) -> bool:
        return _BASE.match(self.spec).group() == "directml"  # type: ignore[union-attr]

    def _submit(self, case: Case, direction: str, key: tuple[str, ...]) -> None:
        packed, blobs = pack_cases([case])
        _, _, dtype, variant, formulation = key
        header = {"kind": "run", **packed, "direction": direction, "dtype": dtype or None}
        header |= {"variant": variant, "formulation": formulation}
        request = CaseRequest(case.operator, header, blobs, key)
        self._number += 1
        if not self._pending:
            self._since = time.monotonic()
        self._pending[self._number] = request
        self._keys.add(key)
        if self._worker is not None:
            self._worker.send({**request.header, "n": self._number}, request.blobs)

    def _pump(self) -> None:
        """Wait for the reply to the first pending request, or establish that there will be none."""
        number, request = next(iter(self._pending.items()))
        try:
            worker = self._started()
            header, blobs = worker.reply(self._since + self.limits.seconds)
            if header.get("n") != number:
                worker.kill()
                raise LostError("crash", f"answered to {header.get('n')!r:.20}, not to {number}")
            if "wrong" in header:
                self._settle(number, self._could_not_build(header))
                return
            outcome = unpack_outcome(header, blobs)
        except LostError as lost:
            self._lost(number, request, lost)
            return
        except (framing.WireError, OSError) as error:
            self._lost(
                number, request, LostError("crash", f"its worker cannot be talked to: {error}")
            )
            return
        if header.get("spoiled") or outcome.status in ("raised", "unavailable"):
            self._after_failure(number, request, outcome, str(header.get("spoiled") or ""))
            return
        self._fresh, self._raising = False, 0
        if outcome.ok:
            self._worked = request
        self._settle(number, outcome)

    def _settle(self, number: int, outcome: Outcome) -> None:
        request = self._pending.pop(number)
        self._done[request.key] = outcome
        self._since = time.monotonic()
        if outcome.status not in ("crash", "timeout"):
            self._in_a_row[request.operator] = 0

    def _lost(self, number: int, request: CaseRequest, lost: LostError) -> None:
        """Handle a lost worker: the request it was processing is the likely cause."""
        timed_out = lost.status == "timeout"
        text = f"no answer within {self.limits.seconds:g} s" if timed_out else str(lost)
        self._in_a_row[request.operator] += 2 if timed_out else 1
        self._settle(
            number,
            Outcome(
                OutcomeStatus(lost.status),
                message=f"{request.operator}: {text}",
                seconds=self.limits.seconds if timed_out else time.monotonic() - self._since,
            ),
        )
        if self.quarantined(request.operator):
            self._pending = OrderedDict(
                (n, r) for n, r in self._pending.items() if r.operator != request.operator
            )
        self._replace()

    def _after_failure(
        self, number: int, request: CaseRequest, outcome: Outcome, spoiled: str
    ) -> None:
        """A case raised. If nothing works since, replace the worker; if an earlier failure may be
        the cause, judge the case again."""
        first_call = self._fresh
        self._fresh = False
        if (
            not spoiled
            and self._worked is None
            and not first_call
            and self._raising < FRESH_FAILURES
        ):
            # Nothing has ever worked here, and this one raised after another: is it the case, or
            # the one before?
            self._raising += 1
            self._replace()
            return
        note = (
            f"; afterwards nothing worked in this process ({spoiled[:120]}), which was replaced"
            if spoiled
            else ""
        )
        message = f"{outcome.message}{note}"
        status = (
            OutcomeStatus.RAISED
            if spoiled and outcome.status == OutcomeStatus.UNAVAILABLE
            else outcome.status
        )
        settled = Outcome(
            status, (), outcome.exception, message, outcome.warnings, (), outcome.seconds
        )
        self._settle(number, settled)
        if spoiled:
            self._replace()

    @staticmethod
    def _could_not_build(header: framing.Header) -> Outcome:
        text = str(header["wrong"])
        if header.get("recipe"):
            return Outcome(OutcomeStatus.UNBUILT, message=text.removeprefix("RecipeError: "))
        return Outcome(
            OutcomeStatus.INCONCLUSIVE, message=f"its worker could not run the case: {text}"
        )

    def _replace(self) -> None:
        """Start a new worker when the next reply is awaited."""
        if self._worker is not None:
            self._worker.kill()
        self._worker = None
        self.restarts += 1
        if self._promoted():
            return
        if self._spawned is None:
            with contextlib.suppress(OSError):
                self._spawned = self._spawn()

    def _promoted(self) -> bool:
        """Whether a spare took the place of a lost worker."""
        spare = self._spares.take()
        if spare is None:
            self._spares.lost(self._opening())
            return False
        worker, reply = spare
        self._worker, self._fresh, self._refused = worker, True, 0
        self.device = str(reply.get("device", "cpu"))
        if self._worked is not None:
            worker.send(
                {"kind": "canary", "n": 0, "canary": self._worked.header}, self._worked.blobs
            )
            try:
                worker.reply(time.monotonic() + self.limits.seconds)
            except LostError:
                self._worker = None
                return False
        for number, request in self._pending.items():
            worker.send({**request.header, "n": number}, request.blobs)
        self._since = time.monotonic()
        self._spares.lost(self._opening())
        return True

    def _opening(self) -> framing.Header:
        """The first message to a worker, which makes it prepare the backend."""
        header: framing.Header = {
            "kind": "open", "n": 0, "spec": self.spec, "limit": self.limits.seconds,
            "adapters": self._adapters,
        }  # fmt: skip
        if not self.python:
            header["path"] = list(sys.path)
        return header

    def _started(self) -> Worker:
        """The worker, with all pending requests sent to it."""
        if self._worker is not None:
            return self._worker
        reason = self._start()["reason"]
        worker: Worker | None = self._worker
        if worker is None or reason:
            raise LostError("unavailable", str(reason))
        for number, request in self._pending.items():
            worker.send({**request.header, "n": number}, request.blobs)
        self._since = time.monotonic()
        return worker

    def _open(self) -> framing.Header:
        """The description that the backend's first worker sent."""
        if self._opened is None:
            self._start()
        assert self._opened is not None
        return self._opened

    def _spawn(self) -> Worker:
        """Start a process that loads torch, without waiting for it. Raises OSError."""
        if self._source is None:
            self._source = WorkerSource(*self.origin)
        return Worker(self._source, self.limits.most_bytes)

    def _start(self) -> framing.Header:
        worker, self._spawned = self._spawned or self._spawn(), None
        if self._adapters is None and not self.python and not self.variables:
            if self._is_directml:
                _directml_adapters.discover()
            self._adapters = _directml_adapters.known()
        header = self._opening()
        blobs: Sequence[bytes] = ()
        if self._worked is not None:
            header["canary"], blobs = self._worked.header, self._worked.blobs
        worker.send(header, blobs)
        if self._runs_cases and self._adapters is not None and self._is_directml:
            self._spares.expect(self._opening())
        try:
            reply, _ = worker.reply(time.monotonic() + START_SECONDS)
        except LostError:
            self._adapters = None  # what was found then may be gone: the next one looks for itself
            _directml_adapters.adopt(None)
            raise
        if "wrong" in reply:
            worker.kill()
            raise LostError("crash", str(reply["wrong"]))
        if reply.get("reason") is not None:
            worker.kill()
            self._spares.close()
            self._refused += 1
        else:
            self._worker, self._fresh, self._refused = worker, True, 0
            self.device = str(reply.get("device", "cpu"))
            self._adapters = reply.get("adapters") or self._adapters
            if self._runs_cases and self._is_directml:
                self._spares.expect(self._opening())
            self._spares.opened(float(reply.get("seconds", 0.0)), self._opening())
        if self._opened is None or self._refused >= GONE_AFTER:
            # do not search for a lost device repeatedly
            self._opened = reply
        return reply

    def _exchange(self, header: framing.Header) -> framing.Header:
        """Send a request that is not a case; it is answered after all pending cases."""
        while self._pending:
            self._pump()
        try:
            worker = self._started()
            worker.send({**header, "n": -1})
            return worker.reply(time.monotonic() + self.limits.seconds)[0]
        except LostError as lost:
            self._replace()
            return {"reason": f"asking its worker ended it: {lost}"}
