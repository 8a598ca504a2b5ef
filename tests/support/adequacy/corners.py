"""What few draws hold and every operator may be called with: no elements, one element, no
dimensions; six dimensions, other layouts and lengths, NaN at either end; one extreme everywhere;
whole numbers of the whole range, alone and beside a plain number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from consistency.core.dtypes import INTEGER_RANGE, PARTS, floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.memory_safety import is_unsafe
from consistency.generate.variations import is_possible, with_sizes, with_tensor
from consistency.generate.varied import values
from consistency.judge.known.value_facts import bound_of
from consistency.operators.declare import Operator

BASES = 8  # plain cases that are tried
DEEP = (2, 1, 3, 1, 2, 1)  # sizes before those of a tensor, as many as six dimensions lack
LONG = (1027, 4099)  # lengths beyond a block and beyond a page, with something left over
MOST_ELEMENTS = 1 << 15
# Whose numbers would no longer be those that the operator is defined for, or that cost much.
LEFT_OUT = frozenset({"creation", "derivatives", "foreach", "forms", "formulas", "optimizers",
                      "programs", "random", "rnn", "sequences", "signal"})  # fmt: skip
# Whose numbers may be of any size, and whose second operand may be a plain number.
OF_ANY_SIZE = frozenset(
    {"activation", "binary", "comparison", "cumulative", "inplace", "ternary", "unary"}
)
# That look for extrema, sort or accumulate: where one extreme everywhere is another case.
OF_EXTREMES = frozenset({"cumulative", "masked", "pooling", "reduction", "softmax", "sorting"})

Change = Callable[[TensorRecipe], TensorRecipe]


def corners(operator: Operator, cases: list[Case]) -> Iterator[Case]:
    """For each corner that none of ``cases`` reaches the first of its cases that can be called."""
    if operator.family in LEFT_OUT or ".squares" in operator.name:
        return
    reached = {told for case in cases for told in told_by(case)}
    plain = [case for case in cases if is_plain(case)]
    plain.sort(key=lambda case: (len(case.args) + len(case.kwargs), elements(case)))
    for number in range(len(CORNERS)):
        if CORNERS[number][0] not in reached:
            tried = (case for base in plain[:BASES] for case in CORNERS[number][1](base))
            found = next((case for case in tried if is_callable(operator, case)), None)
            if found is not None:
                reached |= told_by(found)
                yield found
    for beside in (False, True) if operator.family in OF_ANY_SIZE else ():
        alike = [case for case in cases if _has_a_number(case) == beside]
        if not any(map(_is_large, alike)):
            tried = (other for case in alike if is_plain(case) for other in _large(case))
            yield from itertools.islice((c for c in tried if is_callable(operator, c)), 1)
    if operator.family in OF_EXTREMES:
        for base in plain[:2]:
            yield from (case for case in _extremes(base) if is_callable(operator, case))


def told_by(case: Case) -> set[str]:
    """The corners that a case reaches, by its first tensor; that it is empty, by any."""
    bases = [t.base for t in case.tensors if isinstance(t, TensorRecipe)]
    if not bases or not isinstance(case.tensors[0], TensorRecipe):
        return set()
    first, size = case.tensors[0], math.prod(bases[0])
    steps = {step[0] for step in first.view}
    places = {place for place, token in first.special if token == "nan"}
    return {
        *(["empty"] if any(0 in base for base in bases) else []),
        *(["0-d"] if not bases[0] else ["one element"] if size == 1 else []),
        *(["six dimensions"] if len(bases[0]) >= len(DEEP) else []),
        *({"transpose": ["transposed"], "expand": ["expanded"]}.get(s, [""])[0] for s in steps),
        *(f"longer than {n - 3}" for n in LONG if max(bases[0], default=0) >= n - 3),
        *(["NaN first"] if 0 in places else []),
        *(["NaN last"] if size - 1 in places else []),
    }


def _resized(case: Case) -> Iterator[Case]:
    """One of its sizes 0, in turn: rather where the result has numbers (a product of no terms)."""
    sizes = {size for t in case.tensors if isinstance(t, TensorRecipe) for size in t.base}
    yield from (with_sizes(case, {size: 0}) for size in sorted(sizes - {0}, reverse=True))


def _single(case: Case) -> Iterator[Case]:
    sizes = {size for t in case.tensors if isinstance(t, TensorRecipe) for size in t.base}
    yield with_sizes(case, dict.fromkeys(sizes, 1))


def _scalars(case: Case) -> Iterator[Case]:
    yield case.with_tensors(
        replace(t, base=()) if isinstance(t, TensorRecipe) else t for t in case.tensors
    )


def _lengthened(length: int) -> Callable[[Case], Iterator[Case]]:
    def longer(case: Case) -> Iterator[Case]:
        sizes = {size for t in case.tensors if isinstance(t, TensorRecipe) for size in t.base}
        if sizes:
            yield with_sizes(case, {max(sizes): length})

    return longer


def _first(change: Change, fewest: int = 0) -> Callable[[Case], Iterator[Case]]:
    """The first tensor changed, if it has so many dimensions."""

    def changed(case: Case) -> Iterator[Case]:
        first = case.tensors[0]
        if isinstance(first, TensorRecipe) and len(first.base) >= fewest:
            yield with_tensor(case, 0, change(first))

    return changed


def _deepened(case: Case) -> Iterator[Case]:
    """All tensors of the first one's shape with six dimensions, in the opposite order in memory."""
    first = case.tensors[0]
    if isinstance(first, TensorRecipe):
        base = (*DEEP[: max(len(DEEP) - len(first.base), 0)], *first.base)
        view = (("permute", *range(len(base))[::-1]),)
        deep = {"base": base[::-1], "view": view}
        yield case.with_tensors(
            replace(t, **deep) if isinstance(t, TensorRecipe) and t.base == first.base else t
            for t in case.tensors
        )


def transposed(t: TensorRecipe) -> TensorRecipe:
    *others, rows, columns = t.base
    n = len(t.base)
    return replace(t, base=(*others, columns, rows), view=(("transpose", n - 2, n - 1),))


def expanded(t: TensorRecipe) -> TensorRecipe:
    return replace(t, base=(1, *t.base[1:]), view=(("expand", *t.base),))


def _nan_at(end: int) -> Change:
    return lambda t: replace(t, special=((end % max(math.prod(t.base), 1), "nan"),))


CORNERS: tuple[tuple[str, Callable[[Case], Iterator[Case]]], ...] = (
    ("empty", _resized), ("one element", _single), ("0-d", _scalars),
    ("six dimensions", _deepened), ("transposed", _first(transposed, 2)),
    ("expanded", _first(expanded, 2)),
    *((f"longer than {n - 3}", _lengthened(n)) for n in LONG),
    ("NaN first", _first(_nan_at(0), 1)), ("NaN last", _first(_nan_at(-1), 1)),
)  # fmt: skip


def _extremes(case: Case) -> Iterator[Case]:
    """The first tensor with one extreme everywhere."""
    first = case.tensors[0]
    if not isinstance(first, TensorRecipe) or first.dtype in PARTS:
        return
    if floats(first.dtype):
        others: Iterator[TensorRecipe] = (
            t for t in values.constants(first) if t.values[0] == "constant"
            and t.values[1] in ("inf", "-inf", "nan")
        )  # fmt: skip
    else:
        others = values.extremes(first) if first.dtype in values.WIDTHS else iter(())
    yield from (with_tensor(case, 0, other) for other in others)


def _large(case: Case) -> Iterator[Case]:
    """The first tensor with whole numbers up to half of its range: sums with a number fit."""
    first = case.tensors[0]
    if isinstance(first, TensorRecipe) and first.dtype in INTEGER_RANGE:
        low, high = (limit // 2 for limit in INTEGER_RANGE[first.dtype])
        yield with_tensor(case, 0, replace(first, values=("integers", low, high)))


def _is_large(case: Case) -> bool:
    first = case.tensors[0] if case.tensors else None
    if not isinstance(first, TensorRecipe) or first.dtype not in INTEGER_RANGE:
        return False
    bound = bound_of(first)
    return bound is not None and bound >= INTEGER_RANGE[first.dtype][1] // 4


def _has_a_number(case: Case) -> bool:
    numbers = [a for a in case.args[1:] if isinstance(a, (int, float)) and not isinstance(a, bool)]
    return bool(numbers)


def is_plain(case: Case) -> bool:
    tensors = case.tensors
    return bool(tensors) and all(
        isinstance(t, TensorRecipe) and not t.view and not t.special and t.values[0] in values.PLAIN
        for t in tensors
    )


def elements(case: Case) -> int:
    return sum(math.prod(t.base) for t in case.tensors if isinstance(t, TensorRecipe))


def is_callable(operator: Operator, case: Case) -> bool:
    small = elements(case) <= MOST_ELEMENTS
    return small and not is_unsafe(operator, case) and is_possible(operator, case)
