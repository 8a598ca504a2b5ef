"""``with consistency.watch(backends=[…]) as w:`` around a model or a script: which of its calls
goes wrong first, and where."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from ... import backends as _backends
from ...backends.base import Backend
from ...backends.subprocess.backend import AHEAD
from ...backends.subprocess.requests import CASE_SECONDS, Limits
from ...core.model import Outcome, Result
from ...core.verdict import OutcomeStatus
from ...engine import engine
from ...engine.config import _resolve
from ...engine.judge_recordings import Recorded
from ...errors import UsageError
from ...generate.calls.case_operator import operator_of
from ...judge import tolerances
from ...judge.tolerances import Tolerances
from ...report import repro_script
from ...storage.bundle import failure_id
from ...storage.recording.header import CORPUS, RECORDING, Header
from . import corpus, text
from .capture import CallCapture, CapturedCall, CaptureLimits, CaptureMode

WHEN = ("after", "now")
KEPT = 2  # calls of one kind
SAVED = 2  # failures of one operator on one backend
LARGEST = 64 << 20  # bytes of one tensor
MEMORY = 1 << 30  # bytes of all of them
_OWN_NAMES = {"privateuseone": "directml"}


class WatchSession:
    """What :func:`watch` returns: a context manager, and afterwards what was found.

    ``results`` are the judged calls on every backend, in the order of the calls; ``failures`` those
    that fail; ``first`` is the first of them, or None. ``calls`` are records of all calls (of the
    first 100,000, and of all that are judged), each with the module that it belongs to and, where
    it was left out, the reason. ``print(w)`` says it in words.
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
        self._calls = CallCapture(bounds, self._now if when == "now" else lambda call: None)
        self._judged: dict[int, tuple[Result, ...]] = {}
        self._own: dict[str, Recorded] = {}
        self._kept: dict[tuple[str, str, str], Result] = {}
        self._diagnosis_budget = engine.DiagnosisBudget()
        self._mode: CaptureMode | None = None
        self._stop = threading.Event()
        self._turn = threading.Lock()

    # Watching.

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
        """Judge what has been captured and not judged yet. A block that raised leaves that to you;
        one that ended has done it."""
        waiting = [
            call
            for call in self._calls.records
            if call.case is not None and call.number not in self._judged
        ]
        self._stop.clear()
        try:
            run_in_thread(lambda: self._judge_all(waiting), self._stop)
        finally:
            for backend in self.backends:
                backend.close()

    def _now(self, call: CapturedCall) -> None:
        with self._turn:
            run_in_thread(lambda: self._judge(call), self._stop)

    def _judge_all(self, waiting: list[CapturedCall]) -> None:
        for position, call in enumerate(waiting):
            if self._stop.is_set():
                return
            for backend in self._present():
                backend.prefetch(
                    (operator_of(c.case), c.case, "forward")
                    for c in waiting[position : position + AHEAD]
                    if c.case
                )
            self._judge(call)

    def _judge(self, call: CapturedCall) -> None:
        assert call.case is not None
        present = self._present()
        if call.own is not None:
            present.append(self._recorded(call.device, call.own))
        operator = operator_of(call.case)
        results = engine.judge_case(
            call.case,
            operator,
            present,
            self._rules,
            ("forward",),
            diagnosis_budget=self._diagnosis_budget,
        )
        self._judged[call.number] = tuple(results)
        for result in results:
            if result.verdict.fails and self._out is not None:
                self._keep(self._out, result)

    def _keep(self, out: Path, result: Result) -> None:
        """A folder for the first failures of each operator and backend: nobody reads every one."""
        alike = sum(
            key[1] == result.backend and known.case.operator == result.operator
            for key, known in self._kept.items()
        )
        if result.key in self._kept or alike >= SAVED:
            return
        self._kept[result.key] = result
        self.saved[result.key] = repro_script.keep(
            out / failure_id(result), result, spec=self.specs.get(result.backend)
        )

    def _present(self) -> list[Backend]:
        return [backend for backend in self.backends if backend.name not in self.absent]

    def _recorded(self, device: str, own: Outcome) -> Recorded:
        """The program's own device as a backend whose outcome is there already."""
        if device not in self._own:
            kind, _, index = device.partition(":")
            spec = _OWN_NAMES.get(kind, kind) + (f":{index}" if index not in ("", "0") else "")
            made = Recorded(f"{spec} (this process)", text.environment(device), Path())
            made.tolerance_key = spec
            self._own[device] = made
            self.specs[made.name] = spec
        self._own[device].hand = own
        return self._own[device]

    # What was found.

    @property
    def calls(self) -> tuple[CapturedCall, ...]:
        return tuple(sorted(self._calls.records, key=lambda call: call.number))

    @property
    def count(self) -> int:
        """How many calls the program made."""
        return self._calls.count

    @property
    def held(self) -> int:
        """Bytes of tensors that are kept."""
        return self._calls.held

    @property
    def left_out(self) -> dict[str, int]:
        """How many calls were not judged, by the reason, the most frequent first."""
        return dict(self._calls.left_out.most_common())

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(result for number in sorted(self._judged) for result in self._judged[number])

    @property
    def failures(self) -> tuple[Result, ...]:
        return tuple(result for result in self.results if result.verdict.fails)

    @property
    def first(self) -> Result | None:
        """The first result that fails, in the order of the program's calls."""
        return next(iter(self.failures), None)

    def call_of(self, result: Result) -> CapturedCall:
        """The call that a result is about. Raises UsageError for a result of something else."""
        for number, results in self._judged.items():
            if any(result is one for one in results):
                return next(call for call in self._calls.records if call.number == number)
        raise UsageError(f"{result.case.id} is not a result of this watch")

    def __str__(self) -> str:
        return text.session_text(self)

    def save(self, folder: str | Path) -> int:
        """Write the captured cases as a corpus, for ``consistency record --corpus``; returns how
        many there are.

        Where what the program itself computed was kept, it is written beside them, and
        ``consistency judge`` takes the folder. Raises BundleError where the folder holds something
        already.
        """
        kept = [call for call in self.calls if call.case is not None]
        own = {call.device for call in kept if call.own is not None}
        if len(own) > 1:
            raise UsageError(
                f"the program computed on {', '.join(sorted(own))}; a recording is of one "
                f"device: watch them apart"
            )
        settings = {"source": "watched", "calls": self.count}
        header = Header(CORPUS, settings=settings)
        if own:
            device = own.pop()
            header = Header(
                RECORDING,
                self._recorded(device, Outcome(OutcomeStatus.OK)).tolerance_key,
                text.environment(device),
                settings,
            )
        return corpus.write(kept, Path(folder), header)


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
    resolved, specs = _resolve(backends, Limits(case_timeout))
    bounds = CaptureLimits(0 if all else keep, largest, memory, own)
    return WatchSession(
        bounds, resolved, specs, _loaded(tolerances), when, Path(out) if out is not None else None
    )


def _loaded(given: str | Path | Tolerances | None) -> Tolerances:
    return given if isinstance(given, Tolerances) else tolerances.load(given)


def run_in_thread(work: Callable[[], None], stop: threading.Event) -> None:
    """Do ``work`` in a thread of its own and wait: the modes that the program is in (autocast,
    no_grad, devices) do not hold there.

    An interruption reaches it between two cases.
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
