"""Other numbers, flags and options: special ones, those of another kind, and those of other cases
of the same operator."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ...core.model import Case
from ...core.recipe import TensorRecipe

FRACTIONS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0)
WHOLE = (0, 1, -1, 2)
MOST_OTHERS = 40  # cases whose options are tried
INSTEAD = (2, 1, 0.5, -1.5)  # numbers that stand for a tensor; 1 changes many calls not at all
DIMS = frozenset({"dim", "dims", "axis"})
SIZES = frozenset({"size", "output_size"})  # of results
LARGE_RESULT = 17


def of(case: Case, others: Sequence[Case]) -> Iterator[Case]:
    """Every number and flag in turn changed, then options of other cases, one and two at a time."""
    for position, value in enumerate(case.args):
        for other in _instead(value) if position else ():
            args = (*case.args[:position], other, *case.args[position + 1 :])
            yield replace(case, args=args)
    for name, value in case.kwargs.items():
        for other in (*_instead(value), *(_dims(case, value) if name in DIMS else ())):
            yield replace(case, kwargs={**case.kwargs, name: other})
        if name in SIZES and isinstance(value, list):
            yield replace(case, kwargs={**case.kwargs, name: [LARGE_RESULT] * len(value)})
    yield from _crossed(case, others)


def dims(case: Case) -> Iterator[Case]:
    """Every other dimension, and every list of them that :func:`of` tries."""
    for name, value in case.kwargs.items():
        for other in _dims(case, value) if name in DIMS else ():
            yield replace(case, kwargs={**case.kwargs, name: other})


def _dims(case: Case, value: Any) -> Iterator[Any]:
    """Every dimension of the first tensor, and of lists none, all, all but one, the outer two."""
    first = next((t for t in case.tensors if isinstance(t, TensorRecipe) and not t.view), None)
    rank = len(first.base) if first is not None else 0
    if type(value) is int:
        yield from (*range(rank), *range(-rank, 0))
    elif isinstance(value, (tuple, list)) and rank > 1:
        every = tuple(range(rank))
        yield from ((), every)
        yield from (tuple(d for d in every if d != left) for left in every)
        yield (0, rank - 1)


def _instead(value: Any) -> Iterator[Any]:
    """Other values of the same kind, and numbers of the other kind. Floats are told apart by their
    sign, too."""
    match value:
        case bool():
            yield not value
        case float():
            yield from (x for x in FRACTIONS if repr(x) != repr(value))
            if math.isfinite(value):
                yield int(value) or 1
        case int():
            yield from (x for x in WHOLE if x != value)
            yield value + 0.5
            yield float(value)
        case TensorRecipe():
            yield from INSTEAD


def _crossed(case: Case, others: Sequence[Case]) -> Iterator[Case]:
    """The case with options of others: each alone, and all of them."""
    found: set[str] = set()
    for other in others[:MOST_OTHERS]:
        options = {k: v for k, v in other.kwargs.items() if _is_option(v)}
        for chosen in ({name: value} for name, value in options.items()):
            if repr(chosen) not in found:
                found.add(repr(chosen))
                yield replace(case, kwargs={**case.kwargs, **chosen})
        if repr(options) not in found:
            found.add(repr(options))
            yield replace(case, kwargs={**case.kwargs, **options})


def _is_option(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return bool(value) and all(isinstance(item, (int, float)) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))
