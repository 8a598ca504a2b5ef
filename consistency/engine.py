"""The engine: plan operators × dtypes, draw cases, evaluate them, and yield events. Every writer is a handler of these events."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
SHRINK_AT_LEAST = 1.0  # even when the time budget is used up: a failure is worth it
SHRUNK_PER_GROUP = 2
SHRINK_IN_ALL = 120.0  # of a run, or a tenth of its time budget: where everything fails, nobody reads every small case
JUDGING_FAILED = "the harness itself failed to judge this case"
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Settings:
    """What a run does. ``examples`` are cases per operator × dtype; ``time_budget`` is in seconds, None for no limit.

    With a time budget the plan is gone through again with fresh examples until the time is up. ``specs`` holds what the user
    wrote for a backend, by its name, so that a command which repeats a failure can say it again.
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
    specs: Mapping[str, str] = field(default_factory=dict)

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


@dataclass(frozen=True)
class Earlier:
    """What an interrupted run left: results by Result.key, which are not judged again, and shrunk failures by :func:`kind`."""

    results: Mapping[Key, Result] = field(default_factory=dict)
    shrunk: Mapping[tuple[str, ...], Result] = field(default_factory=dict)


def kind(result: Result) -> tuple[str, ...]:
    """What makes failures look alike: one form of each is enough for a person."""
    return (result.operator, result.dtype, result.direction, result.backend, result.verdict.value)


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

    loaded = tolerances if isinstance(tolerances, Tolerances) else load(tolerances)
    path = Path(tolerances) if isinstance(tolerances, (str, Path)) else None
    resolved, specs = _resolve(backends)
    chosen = Settings(
        tuple(_select(operators)), resolved, _names(dtypes, "dtype", _dtypes.ALL),
        _names(directions, "direction", DIRECTIONS) or DIRECTIONS, _positive(examples), seed, _duration(time_budget), shrink,
        loaded, path, specs,
    )  # fmt: skip
    _anything_to_do(chosen)
    return chosen


def _select(patterns: Iterable[str | Operator] | None) -> list[Operator]:
    if isinstance(patterns, (str, Operator)):
        patterns = [patterns]
    return operators.select(patterns)


def _resolve(specs: Iterable[str | Backend] | None) -> tuple[tuple[Backend, ...], dict[str, str]]:
    """The backends, and the spec of each that was given as one."""
    if specs is None:
        return tuple(_backends.default_backends()), {}
    asked = [specs] if isinstance(specs, (str, Backend)) else list(specs)
    found = tuple(_backends.resolve_all(asked))
    return found, {backend.name: spec for backend, spec in zip(found, asked, strict=True) if isinstance(spec, str)}


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


def _duration(seconds: float | None) -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise UsageError(f"time_budget = {seconds}; give a number of seconds above 0, or None for no limit")
    return seconds


def _anything_to_do(chosen: Settings) -> None:
    """A run that has nothing to test must not look like one that found nothing wrong."""
    if not chosen.operators:
        raise UsageError("no operator is chosen; leave operators out for all of them")
    if not chosen.backends:
        raise UsageError("no backend is chosen; leave backends out for every one that is available")
    pairs = groups(chosen)
    first = chosen.operators[0]
    if not pairs:
        wanted, offered = ", ".join(chosen.dtypes or ()), ", ".join(first.dtypes)
        raise UsageError(f"nothing to test: none of the chosen operators takes {wanted}; {first.name} takes {offered}")
    if not any(_directions(chosen, operator, dtype) for operator, dtype in pairs):
        raise UsageError(
            f"nothing to test: {first.name} has no gradients in {pairs[0][1]}; choose direction forward or a floating dtype"
        )


def groups(chosen: Settings) -> list[tuple[Operator, str]]:
    """The operator × dtype pairs of a run, in registry order."""
    return [
        (operator, dtype)
        for operator in chosen.operators
        for dtype in (operator.dtypes if chosen.dtypes is None else chosen.dtypes)
        if dtype in operator.dtypes
    ]


def run(chosen: Settings, earlier: Earlier | None = None) -> Iterator[Event]:
    """The events of one run. ``earlier`` is what an interrupted one left; it is not judged again."""
    started = time.monotonic()
    reasons = {b.name: _backends.availability(b) for b in chosen.backends}
    state = _State(
        {name: reason for name, reason in reasons.items() if reason},
        earlier or Earlier(),
        math.inf if chosen.time_budget is None else started + chosen.time_budget,
        max(SHRINK_IN_ALL, (chosen.time_budget or 0.0) / 10),
    )
    pairs = groups(chosen)
    yield Started(chosen, state.absent, len(pairs), len(pairs) * chosen.examples)
    turn = 0
    while turn == 0 or (chosen.time_budget is not None and not state.out_of_time):
        for operator, dtype in pairs:
            yield from _group(chosen, operator, dtype, turn, state)
            if state.out_of_time:
                break
        turn += 1
    yield Finished(time.monotonic() - started, state.out_of_time)


@dataclass
class _State:
    """What the groups of a run share. ``effort`` is the time (seconds) that is left for making failures smaller."""

    absent: dict[str, str]
    earlier: Earlier
    deadline: float
    effort: float
    seen: set[str] = field(default_factory=set)  # cases: later turns draw some simple ones again
    searched: set[tuple[str, ...]] = field(default_factory=set)  # kinds of failure

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline


def _group(chosen: Settings, operator: Operator, dtype: str, turn: int, state: _State) -> Iterator[Event]:
    present = [b for b in chosen.backends if b.name not in state.absent]
    suspects: dict[tuple[str, ...], Result] = {}
    cases, problem = draw(operator, dtype, chosen.examples, chosen.seed + turn)
    if turn == 0:
        yield from _not_run(chosen, operator, cases[0] if cases else Case(operator.name, dtype), state.absent, present, problem)
    if chosen.time_budget is not None:
        cases = [case for case in cases if case.id not in state.seen]
        state.seen.update(case.id for case in cases)
    directions = _directions(chosen, operator, dtype)
    offered = {d: [b for b in present if not _backends.refusal(b, operator, dtype, d)] for d in directions}
    judged = 0
    for case in cases:
        if state.out_of_time:
            break
        keys = [(case.id, b.name, d) for d in directions for b in offered[d]]
        known = tuple(state.earlier.results[key] for key in keys if key in state.earlier.results)
        if known:
            yield Judged(case, known, fresh=False)
        done = frozenset(result.key for result in known)
        fresh: list[Result] = []
        for direction in filter(offered.__getitem__, directions):
            fresh += judge_case(case, operator, offered[direction], chosen.tolerances, (direction,), done)
        if fresh:
            yield Judged(case, tuple(fresh))
        for result in (*known, *fresh):
            if result.verdict.fails and kind(result) not in state.searched:
                suspects.setdefault(kind(result), result)
        judged += 1
    if chosen.shrink:
        yield from _shrink(chosen, operator, turn, present, list(suspects.values())[:SHRUNK_PER_GROUP], state)
    yield GroupDone(operator.name, dtype, judged)


def draw(operator: Operator, dtype: str, examples: int, seed: int) -> tuple[list[Case], str]:
    """The cases of one operator × dtype, or none and why: a ``sample`` that raises costs its operator only."""
    try:
        cases = generate.batch(operator, dtype, examples, seed)
    except Exception as error:
        return [], f"no case could be drawn ({type(error).__name__}: {str(error)[:200]}); please report it"
    return cases, "" if cases else "no case could be drawn in which anything could be told"


def _directions(chosen: Settings, operator: Operator, dtype: str) -> tuple[str, ...]:
    return tuple(d for d in chosen.directions if d == "forward" or evaluate.differentiates(operator, dtype))


def _not_run(
    chosen: Settings, operator: Operator, case: Case, absent: dict[str, str], present: Sequence[Backend], problem: str
) -> Iterator[Event]:
    """One result per backend and direction that this operator × dtype cannot be tested on, so that it is counted and shown."""
    rows = []
    for direction in _directions(chosen, operator, case.dtype):
        rows += [evaluate.unavailable(case, operator, b, direction, absent[b.name]) for b in chosen.backends if b.name in absent]
        for backend in present:
            reason = _backends.refusal(backend, operator, case.dtype, direction)
            if reason:
                rows.append(evaluate.unavailable(case, operator, backend, direction, reason, "unsupported"))
            elif problem:
                rows.append(evaluate.unavailable(case, operator, backend, direction, problem, "undecidable"))
    if rows:
        yield Judged(case, tuple(rows), fresh=False)


def judge_case(
    case: Case, operator: Operator, backends: Sequence[Backend], rules: Tolerances,
    directions: Sequence[str] = DIRECTIONS, done: frozenset[Key] = frozenset(),
) -> list[Result]:  # fmt: skip
    """Results of one case. A case that cannot be built or judged is that case's own verdict, never the end of the run."""
    try:
        return evaluate.evaluate(case, backends, rules, directions=directions, operator=operator, done=done)
    except RecipeError as error:
        text = f"the case cannot be built: {error}"
    except Exception as error:
        text = f"{JUDGING_FAILED} ({type(error).__name__}: {str(error)[:200]}); please report it with this case"
    verdict = Verdict("undecidable")
    results = [Result(case, b.name, d, verdict, text, family=operator.family) for d in directions for b in backends]
    return [result for result in results if result.key not in done]


def _shrink(
    chosen: Settings, operator: Operator, turn: int, backends: Sequence[Backend], suspects: Sequence[Result], state: _State
) -> Iterator[Event]:
    for suspect in suspects:
        state.searched.add(kind(suspect))
        small = state.earlier.shrunk.get(kind(suspect))
        if small is None and state.effort > 0.0:
            began = time.monotonic()
            seconds = max(min(SHRINK_SECONDS, state.deadline - began), SHRINK_AT_LEAST / len(suspects))
            small = shrunk(suspect, operator, [b for b in backends if b.name == suspect.backend], chosen, turn, seconds)
            state.effort -= time.monotonic() - began
        if small is not None and small.case.digest != suspect.case.digest:
            yield Shrunk(suspect, small)


def shrunk(
    suspect: Result, operator: Operator, backends: Sequence[Backend], chosen: Settings, turn: int = 0,
    seconds: float = SHRINK_SECONDS,
) -> Result | None:  # fmt: skip
    """The smallest result with the backend, direction and verdict of ``suspect`` that Hypothesis finds in ``seconds``."""
    found: dict[str, Result] = {}

    def same(case: Case) -> bool:
        for result in judge_case(case, operator, backends, chosen.tolerances, (suspect.direction,)):
            if result.verdict == suspect.verdict:
                found[case.digest] = result
                return True
        return False

    try:
        small = generate.smallest(operator, suspect.dtype, same, examples=chosen.examples, seed=chosen.seed + turn, seconds=seconds)
    except Exception:  # the case as it was drawn is there already, and the run must go on
        return None
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


def drive(chosen: Settings, handlers: Sequence[Handler], earlier: Earlier | None = None) -> None:
    """Run to the end, handing every event to every handler."""
    for event in run(chosen, earlier):
        for handler in handlers:
            handler(event)


__all__ = ["DIRECTIONS", "Collect", "Earlier", "Event", "Run", "Settings", "drive", "replace", "run", "settings"]
