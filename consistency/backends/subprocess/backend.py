"""A backend in a worker process: cases are sent ahead, outcomes return in order, and a crash costs
one case."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.model import Case, Outcome
from ...core.verdict import OutcomeStatus
from ...errors import RecipeError, UsageError
from ...generate.materialize import Adjust, Materials
from ...operators.declare import Operator
from ..base import Backend
from .memory_growth import GrowthMeter
from .process import LostError
from .requests import CaseRequest, Limits, by_its_case, elements, known_there
from .supervised_worker import SupervisedWorker

AHEAD = 16  # requests in flight, so that the worker never waits
AHEAD_ELEMENTS = 1 << 22  # of their tensors together
LEAST_SECONDS = 1.0  # for one case, when a time limit is shortened


class SubprocessBackend(SupervisedWorker):
    """``spec`` in its own process: of this interpreter or of ``python``, with ``environment``
    variables set."""

    def __init__(
        self,
        name: str,
        spec: str,
        python: str = "",
        environment: Mapping[str, str] | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(name, spec, python, environment, limits)
        self._growth = GrowthMeter(self._memory)
        self._refusals: dict[tuple[str, ...], str | None] = {}

    # Interface to the run.

    def why_unavailable(self) -> str | None:
        try:
            reason = self._open()["reason"]
        except LostError as lost:
            what = (
                "did not start in time"
                if lost.status == "timeout"
                else f"could not be used: {lost}"
            )
            return f"its worker process {what}"
        except OSError as error:
            return (
                f"its worker process could not be started: {error.strerror or error}: "
                f"{self.python or sys.executable}"
            )
        return None if reason is None else str(reason)

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if not known_there(operator):
            return "a worker process knows registered operators only, and this is one of your own"
        if by_its_case(operator):  # and refused there
            return None
        key = (operator.name, dtype, direction)
        if key not in self._refusals:
            header = dict(zip(("operator", "dtype", "direction"), key, strict=True))
            self._refusals[key] = self._exchange({"kind": "refusal", **header}).get("reason")
        return self._refusals[key]

    def has_float64(self) -> bool | None:
        answer = self._open().get("float64")
        return None if answer is None else bool(answer)

    def environment(self) -> dict[str, str]:
        if self.why_unavailable():
            return {"device": ""}
        identity = {str(key): str(value) for key, value in self._open().get("identity", {}).items()}
        extra = {"python": self.python} if self.python else {}
        return identity | extra | {f"env {key}": value for key, value in self.variables.items()}

    def variants(self) -> Mapping[str, Backend]:
        return {
            str(words): _SubprocessVariant(self, variant=str(words))
            for words in self._open().get("variants", ())
        }

    def with_decomposition(self, words: str, how: Callable[..., Any]) -> Backend:
        return _SubprocessVariant(self, formulation=words)

    def call(self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        raise UsageError(
            f"backend {self.name!r} runs in a process of its own, where a function of yours "
            f"cannot be called"
        )

    # Running.

    def prefetch(self, coming: Iterable[tuple[Operator, Case, str]]) -> None:
        """Send the next requests, so that the worker computes while this process judges."""
        self._will_run()
        if self._opened is None and self._spawned is None:
            with contextlib.suppress(OSError):  # reported by why_unavailable()
                self._spawned = self._spawn()
        if len(self._keys) > AHEAD // 2:  # in batches: each message wakes two threads
            return
        for operator, case, direction in coming:
            if len(self._keys) >= AHEAD or self.quarantined(operator.name):
                return
            key = (case.digest, direction, "", "", "")
            if key in self._keys:
                continue
            if elements(case) * (len(self._pending) + 1) > AHEAD_ELEMENTS:
                return
            self._submit(case, direction, key)

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        return self.run_otherwise(operator, materials, direction, dtype)

    def run_otherwise(
        self,
        operator: Operator,
        materials: Materials,
        direction: str,
        dtype: str | None,
        variant: str = "",
        formulation: str = "",
    ) -> Outcome:
        """As run, on a variant of the backend or with a decomposition."""
        self._will_run()
        reason = self.quarantined(operator.name) or self.why_unavailable()
        if reason:
            return Outcome(OutcomeStatus.UNAVAILABLE, message=reason)
        if not known_there(operator):
            return Outcome(
                OutcomeStatus.UNSUPPORTED,
                message=(
                    "a worker process knows registered operators only, and this is one of your own"
                ),
            )
        key = (materials.case.digest, direction, dtype or "", variant, formulation)
        if key not in self._keys:
            self._submit(materials.case, direction, key)
        while key not in self._done:
            if not self._pending:  # dropped with its operator's quarantine
                self._keys.discard(key)
                return Outcome(OutcomeStatus.UNAVAILABLE, message=self.quarantined(operator.name))
            self._pump()
        outcome = self._done.pop(key)
        self._keys.discard(key)
        if outcome.state_changes:  # a new worker tells again what an earlier one has told
            self.state_changes.add(outcome.state_changes)
            outcome = replace(outcome, state_changes=())
        if outcome.status == OutcomeStatus.UNBUILT:
            raise RecipeError(outcome.message)
        return outcome

    @contextlib.contextmanager
    def retry_scope(self, case_seconds: float | None = None) -> Iterator[float | None]:
        before, deaths = self.limits, self._in_a_row
        self._in_a_row, self._patient = Counter(), True
        if case_seconds is not None:
            self.limits = replace(
                before, seconds=min(max(round(case_seconds, 1), LEAST_SECONDS), before.seconds)
            )
        try:
            yield None if case_seconds is None else self.limits.seconds
        finally:
            self.limits, self._in_a_row, self._patient = before, deaths, False

    def discard_prefetched(self) -> None:
        """Drop requests that were sent ahead and not used."""
        while self._pending:
            self._pump()
        self._done.clear()
        self._keys.clear()

    # Memory.

    def memory_growth(self) -> tuple[str, float] | None:
        """What the last case leaks on every call, in bytes."""
        request = self._worked if self._worker is not None else None
        growth = self._growth.per_call(
            functools.partial(self._repeat, request) if request is not None else None
        )
        return (request.operator, growth) if request is not None and growth is not None else None

    def _repeat(self, request: CaseRequest) -> None:
        key = (*request.key[:-1], "again")
        self._number += 1
        self._since = time.monotonic()
        self._pending[self._number] = replace(request, key=key)
        if self._worker is not None:
            self._worker.send({**request.header, "n": self._number}, request.blobs)
        while key not in self._done:
            self._pump()
        del self._done[key]

    def _memory(self) -> tuple[int, int]:
        """How often the worker was replaced, and the bytes it holds now: resident and on the
        device."""
        if self._worker is None:
            return self.restarts, 0
        device = (
            self._exchange({"kind": "grow"}).get("bytes", 0)
            if self.device.startswith("cuda")
            else 0
        )
        return self.restarts, (self._worker.memory() if self._worker is not None else 0) + int(
            device
        )


class _SubprocessVariant(Backend):
    """A variant of an isolated backend, or a decomposition on it."""

    def __init__(self, inner: SubprocessBackend, variant: str = "", formulation: str = "") -> None:
        self.inner, self.variant, self.formulation = inner, variant, formulation
        self.name = inner.name

    def run(
        self,
        operator: Operator,
        materials: Materials,
        direction: str = "forward",
        dtype: str | None = None,
        adjust: Adjust | None = None,
    ) -> Outcome:
        return self.inner.run_otherwise(
            operator, materials, direction, dtype, self.variant, self.formulation
        )
