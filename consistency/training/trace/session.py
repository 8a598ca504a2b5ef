"""``with consistency.watch(backends=[…]) as w:`` around a model or a script: finds the first
call that goes wrong, and its module."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from ... import backends as _backends
from ...backends.base import Backend
from ...backends.origins import origin_of
from ...backends.subprocess.backend import AHEAD
from ...backends.subprocess.requests import CASE_SECONDS, Limits
from ...core.model import Outcome, Result
from ...core.verdict import OutcomeStatus
from ...engine import engine
from ...engine.config import resolved_backends
from ...engine.judge_recordings import Recorded
from ...errors import UsageError
from ...generate.calls.case_operator import operator_of
from ...judge import tolerances as _tolerances
from ...judge.tolerances import Tolerances
from ...report import repro_script
from ...storage.bundle import failure_id
from ...storage.recording.header import CORPUS, RECORDING, Header, RecordingSettings
from . import corpus, text
from .capture import CallCapture, CapturedCall, CaptureLimits, CaptureMode

WHEN = ("after", "now")
KEPT = 2  # calls of one kind
SAVED = 2  # failures of one operator on one backend
LARGEST = 64 << 20  # bytes of one tensor
MEMORY = 1 << 30  # bytes of all of them
_OWN_NAMES = {"privateuseone": "directml"}


class WatchSession:
    """The return value of :func:`watch`: a context manager with the results.

    ``results`` are the judged calls on every backend, in call order; ``failures`` those that fail;
    ``first`` is the first failure, or None. ``calls`` are records of all calls (the first 100,000,
    and all that are judged), each with its module and, if it was left out, the reason. ``print(w)``
    shows a summary.
    """

    def __init__(
        self,
        bounds: CaptureLimits,
        backends: tuple[Backend, ...],
        specs: dict[str, str],
        rules: Tolerances,
        when: str,
        out: Path | None,
    ) -> None:
        self.backends, self.specs, self._out = backends, specs, out
        self.saved: dict[tuple[str, str, str], Path] = {}  # folders of failures, by Result.key
        self.absent: dict[str, str] = {}
        self._rules, self._when, self._bounds = rules, when, bounds
        self._calls = CallCapture(bounds, self._judge_now if when == "now" else lambda call: None)
        self._judged: dict[int, tuple[Result, ...]] = {}
        self._own_backends: dict[str, Recorded] = {}
        self._saved_results: dict[tuple[str, str, str], Result] = {}
        self._diagnosis_budget = engine.DiagnosisBudget()
        self._mode: CaptureMode | None = None
        # Called in the program's thread with the first failing result of a call, where calls are
        # judged as it goes; what it raises ends the program.
        self.on_failure: Callable[[CapturedCall, Result], None] | None = None
        self._stop = threading.Event()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._mode is not None:
            raise UsageError(
                "this watch is being used already; make another one with consistency.watch(…)"
            )
        self.absent = {
            b.name: reason for b in self.backends if (reason := _backends.availability(b))
        }
        self._calls.modules.__enter__()
        self._mode = CaptureMode(self._calls)
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._mode is not None
        self._mode.__exit__(kind, error, trace)  # type: ignore[no-untyped-call]
        self._calls.modules.__exit__()
        self._mode = None
        if kind is None:
            self.judge()

    def judge(self) -> None:
        """Judge captured calls that are not judged yet. Called at the end of the block unless it
        raised."""
        pending = [
            call
            for call in self._calls.records
            if call.case is not None and call.number not in self._judged
        ]
        self._stop.clear()
        try:
            run_in_thread(lambda: self._judge_all(pending), self._stop)
        finally:
            for backend in self.backends:
                backend.close()

    def _judge_now(self, call: CapturedCall) -> None:
        with self._lock:
            run_in_thread(lambda: self._judge(call), self._stop)
        failing = [r for r in self._judged.get(call.number, ()) if r.verdict.fails]
        if failing and self.on_failure is not None:
            self.on_failure(call, failing[0])

    def _judge_all(self, pending: list[CapturedCall]) -> None:
        for position, call in enumerate(pending):
            if self._stop.is_set():
                return
            for backend in self._available_backends():
                backend.prefetch(
                    (operator_of(c.case), c.case, "forward")
                    for c in pending[position : position + AHEAD]
                    if c.case
                )
            self._judge(call)

    def _judge(self, call: CapturedCall) -> None:
        assert call.case is not None
        backends = self._available_backends()
        if call.own is not None:
            backends.append(self._own_backend(call.device, call.own))
        operator = operator_of(call.case)
        results = engine.judge_case(
            call.case,
            operator,
            backends,
            self._rules,
            ("forward",),
            diagnosis_budget=self._diagnosis_budget,
        )
        self._judged[call.number] = tuple(results)
        for result in results:
            if result.verdict.fails and self._out is not None:
                self._save_failure(self._out, result)

    def _save_failure(self, out: Path, result: Result) -> None:
        """Save the first failures of each operator and backend in folders."""
        similar = sum(
            key[1] == result.backend and saved.case.operator == result.operator
            for key, saved in self._saved_results.items()
        )
        if result.key in self._saved_results or similar >= SAVED:
            return
        self._saved_results[result.key] = result
        self.saved[result.key] = repro_script.keep(
            out / failure_id(result), result, spec=self.specs.get(result.backend)
        )

    def _available_backends(self) -> list[Backend]:
        return [backend for backend in self.backends if backend.name not in self.absent]

    def _own_backend(self, device: str, own: Outcome) -> Recorded:
        """The program's own device as a backend with recorded outcomes."""
        if device not in self._own_backends:
            kind, _, index = device.partition(":")
            # which of DirectML's adapters is the default one is not known here
            plain = ("", "0") if kind not in _OWN_NAMES else ("",)
            spec = _OWN_NAMES.get(kind, kind) + (f":{index}" if index not in plain else "")
            backend = Recorded(f"{spec} (this process)", text.environment(device), Path())
            backend.tolerance_key = spec
            self._own_backends[device] = backend
            self.specs[backend.name] = spec
        self._own_backends[device].hand = own
        return self._own_backends[device]

    @property
    def calls(self) -> tuple[CapturedCall, ...]:
        return tuple(sorted(self._calls.records, key=lambda call: call.number))

    @property
    def count(self) -> int:
        """The number of calls the program made."""
        return self._calls.count

    @property
    def held(self) -> int:
        """Bytes of tensors kept in memory."""
        return self._calls.held

    @property
    def left_out(self) -> dict[str, int]:
        """The number of calls not judged by reason, the most frequent first."""
        return dict(self._calls.left_out.most_common())

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for number in sorted(self._judged) for result in self._judged[number])

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.verdict.fails)

    @property
    def first(self) -> Result | None:
        """The first failing result, in call order."""
        return next(iter(self.failures), None)

    def call_of(self, result: Result) -> CapturedCall:
        """The call of a result. Raises UsageError if it does not belong to this session."""
        for number, results in self._judged.items():
            if any(result is other for other in results):
                return next(call for call in self._calls.records if call.number == number)
        raise UsageError(f"{result.case.id} is not a result of this watch")

    def __str__(self) -> str:
        return text.session_text(self)

    def save(self, folder: str | Path) -> int:
        """Write the captured cases as a corpus, for ``consistency record --corpus``; returns their
        number.

        If the program's own results were kept, they are included, and ``consistency judge`` accepts
        the folder. Raises BundleError if the folder is not empty.
        """
        captured = [call for call in self.calls if call.case is not None]
        devices = {call.device for call in captured if call.own is not None}
        if len(devices) > 1:
            raise UsageError(
                f"the program computed on {', '.join(sorted(devices))}; a recording is of one "
                f"device: watch them apart"
            )
        settings: RecordingSettings = {"source": "watched", "calls": self.count}
        header = Header(CORPUS, settings=settings)
        if devices:
            device = devices.pop()
            header = Header(
                RECORDING,
                self._own_backend(device, Outcome(OutcomeStatus.OK)).tolerance_key,
                text.environment(device),
                settings,
            )
        return corpus.write(captured, Path(folder), header)


def watch(
    backends: Iterable[str | Backend] | None = None,
    *,
    when: str = "after",
    all: bool = False,
    keep: int = KEPT,
    largest: int = LARGEST,
    memory: int = MEMORY,
    own: bool | None = None,
    out: str | Path | None = None,
    tolerances: str | Path | Tolerances | None = None,
    case_timeout: float = CASE_SECONDS,
) -> WatchSession:
    """Capture the calls that a program makes of torch's operators, and judge each on ``backends``
    against float64.

    ``backends``: specs or Backend objects; None for every one available here. ``when``: judge after
    the block (``"after"``) or each call as it goes (``"now"``). Of calls with the same operator,
    shapes, dtypes, layouts and arguments the first ``keep`` are judged, or ``all``. Tensors of more
    than ``largest`` bytes, and what goes beyond ``memory`` bytes in all, are left out, counted and
    told. ``own``: judge also what the program itself computed; None does so where it computes on an
    accelerator. ``out``: a folder in which failures are kept, each in one of its own, as by
    :func:`consistency.save`. ``tolerances``: a tolerances.yaml. ``case_timeout``: seconds that a
    case may take on a backend in a process of its own.

    Raises UsageError or ConfigurationError with one clear line.
    """
    if when not in WHEN:
        raise UsageError(f"when = {when!r:.40}; judge 'after' the block, or 'now', as it goes")
    for what, value in (("keep", keep), ("largest", largest), ("memory", memory)):
        if type(value) is not int or value < 1:
            raise UsageError(
                f"{what} = {value!r:.40}; give a whole number of at least "
                f"1{'' if what == 'keep' else ' (bytes)'}"
            )
    resolved, specs = resolved_backends(backends, Limits(case_timeout))
    origins = {one.name: origin_of(one) for one in resolved if one.name not in specs}
    specs = {name: spec for name, spec in origins.items() if spec} | specs
    bounds = CaptureLimits(0 if all else keep, largest, memory, own)
    return WatchSession(
        bounds,
        resolved,
        specs,
        _tolerances.load(tolerances),
        when,
        Path(out) if out is not None else None,
    )


def run_in_thread(work: Callable[[], None], stop: threading.Event) -> None:
    """Run ``work`` in its own thread and wait, so that the program's modes (autocast, no_grad,
    devices) do not apply.

    An interrupt takes effect between two cases.
    """
    answer: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            work()
        except BaseException as error:
            answer.put(error)
        else:
            answer.put(None)

    thread = threading.Thread(target=run, name="consistency.watch", daemon=True)
    thread.start()
    try:
        error = answer.get()
    except BaseException:
        stop.set()
        thread.join()
        raise
    thread.join()
    if error is not None:
        raise error
