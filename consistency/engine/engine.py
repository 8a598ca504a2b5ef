"""The engine: evaluate the cases of a plan, and yield events. Every writer is a handler of these
events."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from .. import backends as _backends
from ..backends.base import Backend
from ..backends.subprocess.backend import AHEAD
from ..core.model import DIRECTIONS, Case, Result, kind
from ..diagnose import determinism, evaluation, precision_scaling
from ..diagnose.case_runner import JUDGING_FAILED, judge_case
from ..diagnose.diagnosis import Looks
from ..errors import RecipeError
from ..operators.declare import Operator
from ..reference.high_precision import EACH
from .config import Settings, directions_of, examples_of, groups, settings
from .events import (
    Earlier,
    Event,
    Finished,
    GroupDone,
    Grown,
    Handler,
    Judged,
    Repeated,
    Scaled,
    Shrunk,
    Started,
)
from .plan import Group, draw, plan
from .result_collector import Collect, Run
from .smallest_case import SHRINK_SECONDS, shrunk

SHRINK_AT_LEAST = 1.0  # even when the time budget is used up: a failure is worth it
SHRUNK_PER_GROUP = 2
# of a run, or a tenth of its time budget: where everything fails, nobody reads every small case
SHRINK_IN_ALL = 120.0
SCALED = 12  # cases of an operator whose errors are measured in float64 as well


def run(chosen: Settings, earlier: Earlier | None = None) -> Iterator[Event]:
    """The events of one run. ``earlier`` is what an interrupted one left; it is not judged
    again."""
    try:
        yield from _run(chosen, earlier)
    finally:
        for backend in chosen.backends:
            backend.close()


def _run(chosen: Settings, earlier: Earlier | None) -> Iterator[Event]:
    started = time.monotonic()
    for backend in chosen.backends:
        backend.ahead(())  # processes of their own load torch meanwhile
    reasons = {b.name: _backends.availability(b) for b in chosen.backends}
    state = State(
        {name: reason for name, reason in reasons.items() if reason},
        earlier or Earlier(),
        deadline=math.inf
        if chosen.time_budget is None
        else started + chosen.time_budget - chosen.used,
        effort=shrinking(chosen),
    )
    yield begun(chosen, state.absent)
    for group in plan(chosen, lambda: state.out_of_time):
        yield from judge_group(chosen, group, state)
    yield Finished(time.monotonic() - started, state.out_of_time)


def begun(chosen: Settings, absent: dict[str, str]) -> Started:
    """The first event of a run."""
    pairs = groups(chosen)
    expected = sum(examples_of(chosen, dtype) for _, dtype in pairs)
    if chosen.corpus is not None:
        expected = len(chosen.corpus.cases) + expected * chosen.explore
    return Started(chosen, absent, len(pairs), expected)


def shrinking(chosen: Settings) -> float:
    """How many seconds a run may spend on making failures smaller."""
    return max(SHRINK_IN_ALL, (chosen.time_budget or 0.0) / 10)


@dataclass
class State:
    """What the groups of a run share. ``absent`` are the backends that cannot run here, with the
    reason; ``deadline`` is in seconds of ``time.monotonic``; ``effort`` is the time (seconds) that
    is left for making failures smaller. ``cases_only``: nothing is told about a group but the
    results of its cases.
    """

    absent: dict[str, str]
    earlier: Earlier
    deadline: float = math.inf
    effort: float = SHRINK_IN_ALL
    looks: Looks = field(default_factory=Looks)
    searched: set[tuple[str, ...]] = field(default_factory=set)  # kinds of failure
    cases_only: bool = False

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline


def judge_group(chosen: Settings, group: Group, state: State) -> Iterator[Event]:
    """The events of one operator × dtype: its cases on every backend, and what is told about all of
    them together."""
    operator, dtype, cases = group.operator, group.dtype, group.cases
    present = [b for b in chosen.backends if b.name not in state.absent]
    suspects: dict[tuple[str, ...], Result] = {}
    if group.first:
        first = cases[0] if cases else Case(operator.name, dtype)
        yield from not_run(chosen, operator, first, state.absent, present, group)
    directions = directions_of(chosen, operator, dtype)
    offered = {
        d: [b for b in present if not _backends.refusal(b, operator, dtype, d)] for d in directions
    }
    judged, pool = (
        0,
        _pool(chosen, operator, dtype, present)
        if group.measured and not state.cases_only
        else None,
    )
    for position, case in enumerate(cases):
        if state.out_of_time:
            break
        twins = SCALED - position if pool is not None else 0
        _announce(operator, cases[position : position + AHEAD], offered, state.earlier, twins)
        keys = [(case.id, b.name, d) for d in directions for b in offered[d]]
        known = tuple(state.earlier.results[key] for key in keys if key in state.earlier.results)
        if known:
            yield Judged(case, known, fresh=False, origin=group.origin)
        done = frozenset(result.key for result in known)
        fresh: list[Result] = []
        for direction in filter(offered.__getitem__, directions):
            fresh += judge_case(
                case,
                operator,
                offered[direction],
                chosen.tolerances,
                (direction,),
                done,
                state.looks,
                chosen.reference,
            )
        if fresh:
            yield Judged(case, tuple(fresh), origin=group.origin)
        for result in (*known, *fresh):
            if result.verdict.fails and kind(result) not in state.searched:
                suspects.setdefault(kind(result), result)
        if pool is not None and judged < SCALED:
            pool.add([*known, *fresh])
        judged += 1
    for backend in present:
        backend.rest()
        grown = backend.growth()
        if grown is not None:
            yield Grown(grown[0], backend.name, grown[1])
    if chosen.repeat and group.measured and not state.cases_only:
        yield from _repeated(
            chosen, operator, cases[: determinism.LOOKED_AT], offered, state, group.origin
        )
    if pool is not None and cases:
        yield from _scaled(pool, cases[0], chosen, group.origin)
    if chosen.shrink and not state.cases_only:
        yield from _shrink(
            chosen, operator, group.seed, present, list(suspects.values())[:SHRUNK_PER_GROUP], state
        )
    yield GroupDone(operator.name, dtype, judged)


def _announce(
    operator: Operator,
    cases: Sequence[Case],
    offered: dict[str, list[Backend]],
    earlier: Earlier,
    twins: int,
) -> None:
    """Tell each backend which cases come next, in the order in which they will be asked for; the
    first few with float64 twins."""
    for backend in {b.name: b for backends in offered.values() for b in backends}.values():
        backend.ahead(_coming(operator, cases, backend, offered, earlier, twins))


def _coming(
    operator: Operator,
    cases: Sequence[Case],
    backend: Backend,
    offered: dict[str, list[Backend]],
    earlier: Earlier,
    twins: int,
) -> Iterator[tuple[Operator, Case, str]]:
    for position, case in enumerate(cases):
        for direction, backends in offered.items():
            if backend in backends and (case.id, backend.name, direction) not in earlier.results:
                yield operator, case, direction
        twin = precision_scaling.twin(case) if position < twins else None
        if twin is not None:  # both are run, one after the other, to measure how errors shrink
            yield operator, case, "forward"
            yield operator, twin, "forward"


def _pool(
    chosen: Settings, operator: Operator, dtype: str, backends: Sequence[Backend]
) -> precision_scaling.Pool | None:
    """Where precision scaling is measured: float32, going forward, once a run, if float64 is to be
    tested, too."""
    both = "float64" in operator.dtypes and (chosen.dtypes is None or "float64" in chosen.dtypes)
    if (
        dtype != "float32"
        or not both
        or "forward" not in chosen.directions
        or not precision_scaling.applies(operator)
    ):
        return None
    return precision_scaling.Pool(operator, {b.name: b for b in backends})


def _scaled(
    pool: precision_scaling.Pool, case: Case, chosen: Settings, origin: str
) -> Iterator[Event]:
    found = pool.scalings()
    if found:
        yield Scaled(found)
    family = pool.operator.family
    backends = {backend.name: backend for backend in chosen.backends}
    for result in [precision_scaling.failure(s, case, family) for s in found if s.problem]:
        yield Judged(
            result.case,
            (evaluation.expected(result, chosen.tolerances, backends[result.backend]),),
            fresh=False,
            origin=origin,
        )


def _repeated(
    chosen: Settings, operator: Operator, cases: Sequence[Case], offered: dict[str, list[Backend]],
    state: State,
    origin: str,
) -> Iterator[Event]:  # fmt: skip
    """Some cases again, on the same backend, with other threads, and a row alone; what must not
    differ is a result."""
    watch = determinism.Watch(operator, chosen.repeat)
    if not watch.applies:
        return
    for case in cases:
        for direction, backends in offered.items():
            if not state.out_of_time:
                try:
                    watch.add(case, direction, backends)
                except RecipeError:  # its own verdict says so
                    continue
    found = watch.found()
    if not found:
        return
    yield Repeated(found)
    for item in found:
        backend = next(b for b in chosen.backends if b.name == item.backend)
        policy = evaluation.policy_of(operator, backend, item.dtype, chosen.tolerances)
        result = determinism.failure(item, operator, policy.nondeterminism)
        if result is not None:
            yield Judged(
                result.case,
                (evaluation.expected(result, chosen.tolerances, backend),),
                fresh=False,
                origin=origin,
            )


def not_run(
    chosen: Settings,
    operator: Operator,
    case: Case,
    absent: dict[str, str],
    present: Sequence[Backend],
    group: Group,
) -> Iterator[Event]:
    """One result per backend and direction that this operator × dtype cannot be tested on, so that
    it is counted and shown."""
    rows = []
    for direction in directions_of(chosen, operator, case.dtype):
        rows += [
            evaluation.unavailable(case, operator, b, direction, absent[b.name])
            for b in chosen.backends
            if b.name in absent
        ]
        for backend in present:
            reason = _backends.refusal(backend, operator, case.dtype, direction)
            if reason:
                rows.append(
                    evaluation.unavailable(
                        case, operator, backend, direction, reason, "unsupported"
                    )
                )
            elif group.problem:
                rows.append(
                    evaluation.unavailable(
                        case, operator, backend, direction, group.problem, "inconclusive"
                    )
                )
    if rows:
        yield Judged(case, tuple(rows), fresh=False, origin=group.origin)


def _shrink(
    chosen: Settings,
    operator: Operator,
    seed: int,
    backends: Sequence[Backend],
    suspects: Sequence[Result],
    state: State,
) -> Iterator[Event]:
    for suspect in suspects:
        state.searched.add(kind(suspect))
        small = state.earlier.shrunk.get(kind(suspect))
        if small is None and state.effort > 0.0:
            began = time.monotonic()
            seconds = max(
                min(SHRINK_SECONDS, state.deadline - began), SHRINK_AT_LEAST / len(suspects)
            )
            small = shrunk(
                suspect,
                operator,
                [b for b in backends if b.name == suspect.backend],
                chosen,
                seed,
                seconds,
            )
            state.effort -= time.monotonic() - began
        if small is not None and small.case.digest != suspect.case.digest:
            yield Shrunk(suspect, small)


def drive(chosen: Settings, handlers: Sequence[Handler], earlier: Earlier | None = None) -> None:
    """Run to the end, handing every event to every handler."""
    for event in run(chosen, earlier):
        for handler in handlers:
            handler(event)


# The engine is the door that fronts come in by: what they need of its neighbours is here too.
__all__ = [
    "AHEAD",
    "DIRECTIONS",
    "EACH",
    "JUDGING_FAILED",
    "Collect",
    "Group",
    "Looks",
    "Run",
    "Settings",
    "draw",
    "drive",
    "groups",
    "judge_case",
    "judge_group",
    "plan",
    "run",
    "settings",
    "shrunk",
]
