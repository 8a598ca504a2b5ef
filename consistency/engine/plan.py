"""The order of a run: the cases of a corpus, in rounds that reach every operator early; then drawn
ones, in rounds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from .. import operators
from ..core.case_source import ATEN, parse_source
from ..core.model import Case
from ..errors import ConsistencyError
from ..generate.calls.case_operator import operator_of
from ..generate.fills import fills
from ..generate.large import ladder
from ..operators.declare import Operator
from .best_first import best_first
from .config import RunConfig, examples_of, operator_dtypes
from .family_order import by_turns, round_robin
from .unit_cases import (
    NO_LARGE_CASE,
    draw,
    drawn,
    further_cases,
    large_cases,
    shipped_cases,
    undrawn,
)
from .work_unit import WorkUnit

ROUNDS = (
    2,
    10,
    24,
)  # cases of an operator × dtype that are replayed at a time; the last number again and again
# cases that are drawn at a time where a time budget may end the run before every operator has had
# its turn
EXPLORED = 25
REPLAYED, FRESH = "replayed", "explored"


def plan(
    config: RunConfig, out_of_time: Callable[[], bool], testable: bool = True
) -> Iterator[WorkUnit]:
    """The units of a run; with a time budget they are repeated with fresh cases until it is used
    up, with a time limit the best cases come first. Each case is followed by its fills, which share
    a graph with it; those of a corpus stay as they are. ``testable``: whether any backend is there;
    otherwise every operator × dtype has one unit without cases, so that it is counted."""
    for unit in outline(config, out_of_time, testable):
        whole = drawn(unit)
        if whole.cases or whole.problem or whole is unit:
            yield whole


def outline(
    config: RunConfig, out_of_time: Callable[[], bool], testable: bool = True
) -> Iterator[WorkUnit]:
    """The units of :func:`plan`, fresh cases of most still to be drawn: drawing takes longer than
    everything else that a plan does, and may be done where the unit is judged."""
    if not testable:
        for operator, dtype in by_turns(operator_dtypes(config)):
            yield WorkUnit(operator, dtype, (), seed=config.seed)
        return
    for unit in _units(config, out_of_time):
        if config.fills == 1 or unit.origin == REPLAYED:
            yield unit
        else:
            unit = drawn(unit)
            filled = (fills(case, config.fills) for case in unit.cases)
            yield replace(unit, cases=tuple(itertools.chain.from_iterable(filled)))


def _units(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    if not config.examples:
        yield from large(config, out_of_time)
        return
    if config.corpus is None:
        order = in_order if config.seconds == math.inf else best_first
        yield from order(config, out_of_time)
        if config.time_budget is not None:
            yield from again(config, out_of_time)
        return
    replay, drawn_ids, begun = list(replayed(config)), set[str](), set[tuple[str, str]]()
    for unit in replay:
        if out_of_time():
            return
        drawn_ids.update(case.id for case in unit.cases)
        begun.add((unit.operator.name, unit.dtype))
        yield unit
    if config.explore:
        yield from explored(config, out_of_time, drawn_ids, begun)


def in_order(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    """The units of a run that nothing ends: one of each operator × dtype, in registry order."""
    for operator, dtype in operator_dtypes(config):
        yield undrawn(config, operator, dtype)
        if out_of_time():
            return


def again(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    """Fresh cases of every operator × dtype, in turn, until the time budget is used up."""
    pairs = by_turns(operator_dtypes(config))
    # later rounds draw some simple cases again
    drawn_ids: dict[tuple[str, str], set[str]] = {}
    round_number = 1
    while not out_of_time():
        for operator, dtype in pairs:
            key, examples = (operator.name, dtype), examples_of(config, dtype)
            if key not in drawn_ids:
                before, _ = draw(operator, dtype, examples, config.seed)
                drawn_ids[key] = {case.id for case in before}
            seed = config.seed + round_number
            fresh, problem = draw(operator, dtype, examples, seed)
            unseen = tuple(case for case in fresh if case.id not in drawn_ids[key])
            drawn_ids[key].update(case.id for case in unseen)
            yield WorkUnit(operator, dtype, unseen, problem, round_number, seed=seed)
            if out_of_time():
                return
        round_number += 1


def replayed(config: RunConfig) -> Iterator[WorkUnit]:
    """The chosen cases of the corpus: two of every operator × dtype, then more and more of each."""
    assert config.corpus is not None
    cases_by_key: dict[tuple[str, str, str, int], list[Case]] = {}
    matching: dict[tuple[str, str, str], list[Operator]] = {}
    for case in config.corpus.cases:
        named = (case.operator, case.dtype, case.source)
        if named not in matching:
            first = operator_in(config, case)
            matching[named] = [] if first is None else [first]
        kinds = matching[named]
        if not kinds:
            continue
        # What is known of a call of aten's depends on its arguments: a convolution's rank, a number
        # that float32 does not hold.
        operator = operator_in(config, case) if parse_source(case.source).kind == ATEN else kinds[0]
        if operator is None:
            continue
        if operator not in kinds:
            kinds.append(operator)
        cases_by_key.setdefault((*named, kinds.index(operator)), []).append(case)
    places = {operator.name: i for i, operator in enumerate(config.operators)}
    order = sorted(
        cases_by_key, key=lambda key: (places.get(key[0], len(places)), key)
    )  # for a corpus with lines in any order
    if config.seconds < math.inf:
        order = list(round_robin(order, lambda key: matching[key[:3]][key[3]].family))
    begin = part = 0
    while any(begin < len(cases) for cases in cases_by_key.values()):
        end = begin + ROUNDS[min(part, len(ROUNDS) - 1)]
        for key in order:
            cases = tuple(cases_by_key[key][begin:end])
            if cases:
                more = end < len(cases_by_key[key])
                yield WorkUnit(
                    matching[key[:3]][key[3]], key[1], cases, origin=REPLAYED, part=part, more=more
                )
        begin, part = end, part + 1


def operator_in(config: RunConfig, case: Case) -> Operator | None:
    """The operator of a corpus case, if it is known and chosen. All are chosen if every registered
    one is."""
    names = config.operators_by_name
    if config.dtypes is not None and case.dtype not in config.dtypes:
        return None
    if not case.source:
        operator = names.get(case.operator)
        return operator if operator is not None and case.dtype in operator.dtypes else None
    if case.operator not in names and len(names) < len(operators.registry()):
        return None
    try:
        return operator_of(case)
    except ConsistencyError:
        return None


def explored(
    config: RunConfig, out_of_time: Callable[[], bool], seen: set[str], begun: set[tuple[str, str]]
) -> Iterator[WorkUnit]:  # fmt: skip
    """Cases that are not in the corpus; each run starts with another operator, so that none is
    always last."""
    pairs = operator_dtypes(config)
    pairs = by_turns(pairs) if config.seconds < math.inf else pairs
    first = config.seed % len(pairs)
    round_number = 0
    while round_number == 0 or (config.time_budget is not None and not out_of_time()):
        for operator, dtype in [*pairs[first:], *pairs[:first]]:
            if out_of_time():
                return
            examples = examples_of(config, dtype)
            many, seed = (
                min(examples, EXPLORED) if config.time_budget is not None else examples,
                config.seed + round_number,
            )
            cases, problem = draw(operator, dtype, many, seed)
            further: tuple[Case, ...] = ()
            if round_number == 0:
                cases = [*shipped_cases(config, operator, dtype), *cases]
                further = further_cases(config, operator, dtype)
            fresh = tuple({case.id: case for case in cases if case.id not in seen}.values())
            seen.update(case.id for case in fresh)
            before = (operator.name, dtype) in begun
            yield WorkUnit(
                operator,
                dtype,
                (*fresh, *further),
                "" if before else problem,
                round_number + before,
                FRESH,
                seed,
            )
        round_number += 1


def large(config: RunConfig, out_of_time: Callable[[], bool]) -> Iterator[WorkUnit]:
    """Units of large cases only: beyond 2**24 elements of every operator first, in its first dtype,
    then in the others; then the other sizes."""
    pairs = operator_dtypes(config)
    firsts = {pair[0].name: pair for pair in reversed(pairs)}.values()
    ordered = [*firsts][::-1]
    ordered += [pair for pair in pairs if pair not in ordered]
    if config.seconds < math.inf:
        ordered = list(round_robin(ordered, lambda pair: pair[0].family))
    for stage in range(ladder.STAGES):
        for operator, dtype in ordered:
            if out_of_time():
                return
            cases = large_cases(config, operator, dtype, stage)
            later = (large_cases(config, operator, dtype, n) for n in range(1, ladder.STAGES))
            if cases:
                yield WorkUnit(operator, dtype, cases, round=stage)
            elif stage == 0 and not any(later):
                yield WorkUnit(operator, dtype, (), NO_LARGE_CASE)
