"""Judge one work unit: its cases on every backend, and what is measured on all of them together."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from .. import backends as _backends
from ..backends.base import Backend
from ..backends.subprocess.backend import AHEAD
from ..core.detail import NotBegun, StateChanged
from ..core.model import Case, Result, kind
from ..diagnose import determinism, evaluation, precision_scaling
from ..diagnose.backend_rules import policy_of
from ..diagnose.case_runner import judge_case
from ..diagnose.cause_vote import representative
from ..diagnose.diagnosis_budget import DiagnosisBudget
from ..diagnose.known_results import expected
from ..errors import RecipeError
from ..generate.exhaustive import is_exhaustive
from ..operators.declare import Operator
from .config import RunConfig, directions_of, examples_of, operator_dtypes
from .events import (
    DeterminismChecked,
    Event,
    Judged,
    MemoryGrowth,
    Minimized,
    PrecisionScalingMeasured,
    ResumeState,
    Started,
    UnitDone,
)
from .smallest_case import SHRINK_SECONDS, smallest_failure
from .unit_cases import exhaustive_cases, shipped_count
from .work_unit import NOT_BEGUN, WorkUnit

LEAST_MINIMIZATION_SECONDS = 1.0  # even if the time budget is used up
MINIMIZED_PER_UNIT = 2
STAGE_CASES = 8  # large cases of an operator × dtype, roughly
# per run, or a tenth of its time budget: nobody reads every small case if everything fails
MINIMIZATION_SECONDS = 120.0
SCALING_CASES = 12  # cases of an operator whose errors are measured in float64 as well


def started_event(config: RunConfig, absent: dict[str, str]) -> Started:
    """The first event of a run."""
    pairs = operator_dtypes(config)
    expected = sum(examples_of(config, dtype) for _, dtype in pairs)
    further = sum(len(exhaustive_cases(config, operator, dtype)) for operator, dtype in pairs)
    begin = sum(shipped_count(config, operator, dtype) for operator, dtype in pairs)
    expected = (expected + begin) * config.fills
    if config.corpus is not None:
        expected = len(config.corpus.cases) + expected * config.explore
        further *= config.explore
    large = config.memory > 0 and not config.examples
    expected += len(pairs) * STAGE_CASES if large else 0
    return Started(
        config, absent, len(pairs), expected + further, exhaustive=further, shipped=begin
    )


def minimization_seconds(config: RunConfig) -> float:
    """How many seconds a run may spend on minimizing failures."""
    return max(MINIMIZATION_SECONDS, (config.time_budget or 0.0) / 10)


@dataclass
class RunState:
    """The state that work units of a run share. ``absent`` maps backends that cannot run to the
    reason; ``deadline`` is in seconds of ``time.monotonic``; ``effort`` are the seconds left for
    minimizing failures. ``cases_only``: only the results of cases are reported, no measurements of
    the unit."""

    absent: dict[str, str]
    earlier: ResumeState
    deadline: float = math.inf
    effort: float = MINIMIZATION_SECONDS
    diagnosis_budget: DiagnosisBudget = field(default_factory=DiagnosisBudget)
    searched: set[tuple[str, ...]] = field(default_factory=set)  # kinds of failure
    cases_only: bool = False

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() >= self.deadline


def judge_unit(config: RunConfig, unit: WorkUnit, state: RunState) -> Iterator[Event]:
    """The events of one operator × dtype: its cases on every backend, and the measurements on all
    of them together."""
    operator, dtype, cases = unit.operator, unit.dtype, unit.cases
    present = [b for b in config.backends if b.name not in state.absent]
    suspects: dict[tuple[str, ...], list[Result]] = {}
    if unit.first:
        first = cases[0] if cases else Case(operator.name, dtype)
        yield from untested_results(config, operator, first, state.absent, present, unit)
    directions = directions_of(config, operator, dtype)
    offered = {
        d: [b for b in present if not _backends.refusal(b, operator, dtype, d)] for d in directions
    }
    judged, pool = (
        0,
        _scaling_pool(config, operator, dtype, present)
        if unit.measured and not state.cases_only
        else None,
    )
    for position, case in enumerate(cases):
        if state.out_of_time:
            if unit.first and not position:
                unbegun = replace(unit, problem=NOT_BEGUN)
                yield from untested_results(config, operator, case, {}, present, unbegun)
            break
        drawn = not is_exhaustive(case) and case.tiling is None
        counterparts = SCALING_CASES - position if pool is not None and drawn else 0
        _prefetch(
            operator, cases[position : position + AHEAD], offered, state.earlier, counterparts
        )
        keys = [(case.id, b.name, d) for d in directions for b in offered[d]]
        resumed = tuple(state.earlier.results[key] for key in keys if key in state.earlier.results)
        if resumed:
            yield Judged(case, resumed, fresh=False, origin=unit.origin)
        done = frozenset(result.key for result in resumed)
        fresh: list[Result] = []
        for direction in filter(offered.__getitem__, directions):
            fresh += judge_case(
                case,
                operator,
                offered[direction],
                config.tolerances,
                (direction,),
                done,
                state.diagnosis_budget,
                config.reference,
            )
        if fresh:
            yield Judged(case, tuple(fresh), origin=unit.origin)
        for result in (*resumed, *fresh):
            told_once = isinstance(result.detail, StateChanged)  # no other case would show it
            if result.verdict.fails and kind(result) not in state.searched and not told_once:
                suspects.setdefault(kind(result), []).append(result)
        if pool is not None and drawn and judged < SCALING_CASES:
            pool.add([*resumed, *fresh])
        judged += drawn
    for backend in present:
        backend.discard_prefetched()
        grown = backend.memory_growth()
        if grown is not None:
            yield MemoryGrowth(grown[0], backend.name, grown[1])
    if config.repeat and unit.measured and not state.cases_only:
        small = [case for case in cases if case.tiling is None][: determinism.LOOKED_AT]
        yield from _determinism(config, operator, small, offered, state, unit.origin)
    if pool is not None and cases:
        yield from _precision_scaling(pool, cases[0], config, unit.origin)
    if config.shrink and not state.cases_only:
        yield from _minimize(
            config,
            operator,
            unit.seed,
            present,
            [representative(alike) for alike in list(suspects.values())[:MINIMIZED_PER_UNIT]],
            state,
        )
    yield from _changed_state(operator, cases[0] if cases else None, dtype, present, unit.origin)
    yield UnitDone(operator.name, dtype, judged)


def _changed_state(
    operator: Operator, case: Case | None, dtype: str, backends: Sequence[Backend], origin: str
) -> Iterator[Event]:
    """Changes to global state that no case has told: those of measurements and of refusals."""
    for backend in backends:
        changes = backend.state_changes.take()
        if changes:
            result = evaluation.changed_state(
                case or Case(operator.name, dtype), operator, backend, changes
            )
            yield Judged(result.case, (result,), fresh=False, origin=origin)


def _prefetch(
    operator: Operator,
    cases: Sequence[Case],
    offered: dict[str, list[Backend]],
    earlier: ResumeState,
    counterparts: int,
) -> None:
    """Announce the next cases to each backend, in order; the first few with their float64
    counterparts."""
    for backend in {b.name: b for backends in offered.values() for b in backends}.values():
        backend.prefetch(_upcoming(operator, cases, backend, offered, earlier, counterparts))


def _upcoming(
    operator: Operator,
    cases: Sequence[Case],
    backend: Backend,
    offered: dict[str, list[Backend]],
    earlier: ResumeState,
    counterparts: int,
) -> Iterator[tuple[Operator, Case, str]]:
    for position, case in enumerate(cases):
        for direction, backends in offered.items():
            if backend in backends and (case.id, backend.name, direction) not in earlier.results:
                yield operator, case, direction
        counterpart = (
            precision_scaling.float64_counterpart(case) if position < counterparts else None
        )
        if counterpart is not None:  # both dtypes are run in turn to measure how errors shrink
            yield operator, case, "forward"
            yield operator, counterpart, "forward"


def _scaling_pool(
    config: RunConfig, operator: Operator, dtype: str, backends: Sequence[Backend]
) -> precision_scaling.ScalingPool | None:
    """Collects errors for precision scaling: float32 forward, once per run, if float64 is tested
    too."""
    both = "float64" in operator.dtypes and (config.dtypes is None or "float64" in config.dtypes)
    if (
        dtype != "float32"
        or not both
        or "forward" not in config.directions
        or not precision_scaling.applies(operator)
    ):
        return None
    return precision_scaling.ScalingPool(operator, {b.name: b for b in backends})


def _precision_scaling(
    pool: precision_scaling.ScalingPool, case: Case, config: RunConfig, origin: str
) -> Iterator[Event]:
    scalings = pool.scalings()
    if scalings:
        yield PrecisionScalingMeasured(scalings)
    family = pool.operator.family
    backends = {backend.name: backend for backend in config.backends}
    for result in [precision_scaling.failure(s, case, family) for s in scalings if s.problem]:
        yield Judged(
            result.case,
            (expected(result, config.tolerances, backends[result.backend]),),
            fresh=False,
            origin=origin,
        )


def _determinism(
    config: RunConfig, operator: Operator, cases: Sequence[Case], offered: dict[str, list[Backend]],
    state: RunState,
    origin: str,
) -> Iterator[Event]:  # fmt: skip
    """Repeat some cases: on the same backend, with other threads, and one row alone; a forbidden
    difference is a result."""
    watch = determinism.RepeatCheck(operator, config.repeat)
    if not watch.applies:
        return
    for case in cases:
        for direction, backends in offered.items():
            if not state.out_of_time:
                try:
                    watch.add(case, direction, backends)
                except RecipeError:  # its own verdict says so
                    continue
    repeatabilities = watch.found()
    if not repeatabilities:
        return
    yield DeterminismChecked(repeatabilities)
    for item in repeatabilities:
        backend = next(b for b in config.backends if b.name == item.backend)
        policy = policy_of(operator, backend, item.dtype, config.tolerances)
        result = determinism.failure(item, operator, policy.nondeterminism)
        if result is not None:
            yield Judged(
                result.case,
                (expected(result, config.tolerances, backend),),
                fresh=False,
                origin=origin,
            )


def untested_results(
    config: RunConfig,
    operator: Operator,
    case: Case,
    absent: dict[str, str],
    present: Sequence[Backend],
    unit: WorkUnit,
) -> Iterator[Event]:
    """One result per backend and direction that cannot test this operator × dtype, so that it is
    counted and shown."""
    rows = []
    for direction in directions_of(config, operator, case.dtype):
        rows += [
            evaluation.unavailable(case, operator, b, direction, absent[b.name])
            for b in config.backends
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
            elif unit.problem:
                row = evaluation.unavailable(
                    case, operator, backend, direction, unit.problem, "inconclusive"
                )
                rows.append(replace(row, detail=NotBegun()) if unit.problem == NOT_BEGUN else row)
    if rows:
        yield Judged(case, tuple(rows), fresh=False, origin=unit.origin)


def _minimize(
    config: RunConfig,
    operator: Operator,
    seed: int,
    backends: Sequence[Backend],
    suspects: Sequence[Result],
    state: RunState,
) -> Iterator[Event]:
    for suspect in suspects:
        state.searched.add(kind(suspect))
        small = state.earlier.shrunk.get(kind(suspect))
        if small is None and state.effort > 0.0:
            began = time.monotonic()
            seconds = max(
                min(SHRINK_SECONDS, state.deadline - began),
                LEAST_MINIMIZATION_SECONDS / len(suspects),
            )
            small = smallest_failure(
                suspect,
                operator,
                [b for b in backends if b.name == suspect.backend],
                config,
                seed,
                seconds,
            )
            state.effort -= time.monotonic() - began
        if small is not None and small.case.digest != suspect.case.digest:
            yield Minimized(suspect, small)
