"""The engine: plan operators × dtypes, draw cases, evaluate them, and yield events. Every writer is a handler of these events."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from . import backends as _backends
from . import dtypes as _dtypes
from . import evaluate, generate, operators, tolerances
from .backends.base import Backend
from .errors import RecipeError, UsageError, did_you_mean
from .model import DIRECTIONS, Case, Result, Verdict
from .operators.declare import Operator
from .tolerances import Tolerances

SHRINK_SECONDS = 4.0
SHRUNK_PER_GROUP = 2
JUDGING_FAILED = "the harness itself failed to judge this case"


@dataclass(frozen=True)
class Settings:
    """What a run does. ``examples`` are cases per operator × dtype; ``time_budget`` is in seconds, None for no limit.

    With a time budget the plan is gone through again with fresh examples until the time is up.
    """

    operators: tuple[Operator, ...]
    backends: tuple[Backend, ...]
    dtypes: tuple[str, ...] | None
    directions: tuple[str, ...] = DIRECTIONS
    examples: int = 50
    seed: int = 0
    time_budget: float | None = None
    shrink: bool = True
    tolerances: Tolerances = field(default_factory=tolerances.load)
    tolerances_path: Path | None = None

    def describe(self) -> dict[str, Any]:
        """As JSON data for a bundle."""
        return {
            "operators": [o.name for o in self.operators], "backends": [b.name for b in self.backends],
            "dtypes": list(self.dtypes) if self.dtypes else None, "directions": list(self.directions),
            "examples": self.examples, "seed": self.seed, "time_budget": self.time_budget, "shrink": self.shrink,
            "tolerances": self.tolerances.digest,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Started:
    """First event. ``unavailable`` maps the names of backends that cannot run here to the reason; ``cases`` is an estimate."""

    settings: Settings
    unavailable: dict[str, str]
    groups: int
    cases: int


@dataclass(frozen=True, slots=True)
class Judged:
    """One case has been judged on every backend. ``fresh`` is False for results taken over from an interrupted run."""

    case: Case
    results: tuple[Result, ...]
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Shrunk:
    """A smaller case with the same backend, direction and verdict as ``original`` was found."""

    original: Result
    result: Result


@dataclass(frozen=True, slots=True)
class GroupDone:
    """All cases of one operator × dtype are through; ``cases`` were distinct."""

    operator: str
    dtype: str
    cases: int


@dataclass(frozen=True, slots=True)
class Finished:
    """Last event: wall-clock seconds, and whether the time budget ended the run."""

    seconds: float
    out_of_time: bool


Event = Started | Judged | Shrunk | GroupDone | Finished
Handler = Callable[[Event], None]


def settings(
    operators: Iterable[str | Operator] | None = None,
    backends: Iterable[str | Backend] | None = None,
    dtypes: Iterable[str] | None = None,
    directions: Iterable[str] = DIRECTIONS,
    examples: int = 50,
    seed: int = 0,
    time_budget: float | None = None,
    tolerances: str | Path | Tolerances | None = None,
    shrink: bool = True,
) -> Settings:
    """Settings from what a user wrote. Raises UsageError or ConfigurationError with one clear line."""
    from .tolerances import load

    chosen = tuple(_select(operators))
    loaded = tolerances if isinstance(tolerances, Tolerances) else load(tolerances)
    path = Path(tolerances) if isinstance(tolerances, (str, Path)) else None
    return Settings(
        chosen, tuple(_resolve(backends)), _names(dtypes, "dtype", _dtypes.ALL),
        _names(directions, "direction", DIRECTIONS) or DIRECTIONS, _positive(examples), seed, time_budget, shrink, loaded, path,
    )  # fmt: skip


def _select(patterns: Iterable[str | Operator] | None) -> list[Operator]:
    if isinstance(patterns, (str, Operator)):
        patterns = [patterns]
    return operators.select(patterns)


def _resolve(specs: Iterable[str | Backend] | None) -> Sequence[Backend]:
    if isinstance(specs, (str, Backend)):
        specs = [specs]
    return _backends.default_backends() if specs is None else _backends.resolve_all(list(specs))


def _names(chosen: Iterable[str] | None, what: str, known: Sequence[str]) -> tuple[str, ...] | None:
    if chosen is None:
        return None
    names = (chosen,) if isinstance(chosen, str) else tuple(chosen)
    for name in names:
        if name not in known:
            raise UsageError(f"unknown {what} {name!r}{did_you_mean(name, known) or '; known: ' + ', '.join(known)}")
    return names


def _positive(examples: int) -> int:
    if examples < 1:
        raise UsageError(f"examples = {examples}; at least 1 case per operator and dtype is needed")
    return examples


def groups(chosen: Settings) -> list[tuple[Operator, str]]:
    """The operator × dtype pairs of a run, in registry order."""
    return [
        (operator, dtype)
        for operator in chosen.operators
        for dtype in (operator.dtypes if chosen.dtypes is None else chosen.dtypes)
        if dtype in operator.dtypes
    ]


def run(chosen: Settings, earlier: dict[tuple[str, str, str], Result] | None = None) -> Iterator[Event]:
    """The events of one run. ``earlier`` holds results of an interrupted one by Result.key; they are not judged again."""
    started = time.monotonic()
    deadline = None if chosen.time_budget is None else started + chosen.time_budget
    earlier = earlier or {}
    reasons = {b.name: b.why_unavailable() for b in chosen.backends}
    absent = {name: reason for name, reason in reasons.items() if reason}
    pairs = groups(chosen)
    yield Started(chosen, absent, len(pairs), len(pairs) * chosen.examples)
    out_of_time, turn = False, 0
    while not out_of_time:
        for operator, dtype in pairs:
            yield from _group(chosen, operator, dtype, turn, absent, earlier, deadline)
            if deadline is not None and time.monotonic() >= deadline:
                out_of_time = True
                break
        turn += 1
        if deadline is None:
            break
    yield Finished(time.monotonic() - started, out_of_time)


def _group(
    chosen: Settings, operator: Operator, dtype: str, turn: int,
    absent: dict[str, str], earlier: dict[tuple[str, str, str], Result], deadline: float | None,
) -> Iterator[Event]:  # fmt: skip
    cases = generate.batch(operator, dtype, chosen.examples, chosen.seed + turn)
    present = [b for b in chosen.backends if b.name not in absent]
    suspects: dict[tuple[str, str, str], Result] = {}
    if cases and turn == 0:
        yield from _not_run(chosen, operator, cases[0], absent, present)
    judged = 0
    for case in cases:
        if deadline is not None and time.monotonic() >= deadline:
            break
        directions = _directions(chosen, operator, dtype)
        offered = {d: [b for b in present if not b.unsupported(operator, dtype, d)] for d in directions}
        known = tuple(earlier[key] for d in directions for b in offered[d] if (key := (case.id, b.name, d)) in earlier)
        if known:
            yield Judged(case, known, fresh=False)
        done = frozenset(result.key for result in known)
        fresh: list[Result] = []
        for direction in directions:
            fresh += judge_case(case, operator, offered[direction], chosen.tolerances, (direction,), done)
        if fresh:
            yield Judged(case, tuple(fresh))
        for result in (*known, *fresh):
            if result.verdict.fails:
                suspects.setdefault((result.backend, result.direction, result.verdict.value), result)
        judged += 1
    if chosen.shrink:
        yield from _shrink(chosen, operator, dtype, turn, present, list(suspects.values())[:SHRUNK_PER_GROUP])
    yield GroupDone(operator.name, dtype, judged)


def _directions(chosen: Settings, operator: Operator, dtype: str) -> tuple[str, ...]:
    return tuple(d for d in chosen.directions if d == "forward" or evaluate.differentiates(operator, dtype))


def _not_run(
    chosen: Settings, operator: Operator, case: Case, absent: dict[str, str], present: Sequence[Backend]
) -> Iterator[Event]:
    """One result per backend and direction that does not offer this operator × dtype at all, so that it is counted and shown."""
    rows = []
    for direction in _directions(chosen, operator, case.dtype):
        rows += [
            evaluate.unavailable(case, operator, b, direction, absent[b.name]) for b in chosen.backends if b.name in absent
        ]
        for backend in present:
            reason = backend.unsupported(operator, case.dtype, direction)
            if reason:
                rows.append(evaluate.unavailable(case, operator, backend, direction, reason, "unsupported"))
    if rows:
        yield Judged(case, tuple(rows), fresh=False)


def judge_case(
    case: Case, operator: Operator, backends: Sequence[Backend], rules: Tolerances,
    directions: Sequence[str] = DIRECTIONS, done: frozenset[tuple[str, str, str]] = frozenset(),
) -> list[Result]:  # fmt: skip
    """Results of one case. A case that cannot be built or judged is that case's own verdict, never the end of the run."""
    try:
        return evaluate.evaluate(case, backends, rules, directions=directions, operator=operator, done=done)
    except RecipeError as error:
        text = f"the case cannot be built: {error}"
    except Exception as error:
        text = f"{JUDGING_FAILED} ({type(error).__name__}: {str(error)[:200]}); please report it with this case"
    verdict = Verdict("undecidable")
    return [Result(case, b.name, d, verdict, text, family=operator.family) for d in directions for b in backends]


def _shrink(
    chosen: Settings, operator: Operator, dtype: str, turn: int, backends: Sequence[Backend], suspects: Sequence[Result]
) -> Iterator[Event]:
    for suspect in suspects:
        small = shrunk(suspect, operator, [b for b in backends if b.name == suspect.backend], chosen, turn)
        if small is not None and small.case.digest != suspect.case.digest:
            yield Shrunk(suspect, small)


def shrunk(suspect: Result, operator: Operator, backends: Sequence[Backend], chosen: Settings, turn: int = 0) -> Result | None:
    """The smallest result with the backend, direction and verdict of ``suspect`` that Hypothesis finds in a few seconds."""
    found: dict[str, Result] = {}

    def same(case: Case) -> bool:
        for result in judge_case(case, operator, backends, chosen.tolerances, (suspect.direction,)):
            if result.verdict == suspect.verdict:
                found[case.digest] = result
                return True
        return False

    small = generate.smallest(
        operator, suspect.dtype, same, examples=chosen.examples, seed=chosen.seed + turn, seconds=SHRINK_SECONDS
    )
    return found.get(small.digest) if small is not None else None


@dataclass(frozen=True)
class Run:
    """All results of one invocation, in order; ``out`` is the bundle's folder, where one was written."""

    results: tuple[Result, ...]
    settings: Settings
    seconds: float
    out: Path | None = None

    @property
    def failures(self) -> tuple[Result, ...]:
        """The results whose verdict fails, the worst × budget first."""
        failing = [r for r in self.results if r.verdict.fails]
        return tuple(sorted(failing, key=lambda r: -r.metrics.get("rho_max", 0.0)))


class Collect:
    """A handler that keeps every result, with the shrunk form of a failure right behind its original."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.seconds = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case Judged():
                self.results += event.results
            case Shrunk():
                self.results.append(event.result)
            case Finished():
                self.seconds = event.seconds


def drive(chosen: Settings, handlers: Sequence[Handler], earlier: dict[tuple[str, str, str], Result] | None = None) -> None:
    """Run to the end, handing every event to every handler."""
    for event in run(chosen, earlier):
        for handler in handlers:
            handler(event)


__all__ = ["DIRECTIONS", "Collect", "Event", "Run", "Settings", "drive", "replace", "run", "settings"]
