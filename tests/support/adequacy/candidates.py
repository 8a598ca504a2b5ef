"""Candidates for the shipped cases: drawn ones, variations of small ones in every way
(:mod:`consistency.generate.variations`), and ordinary calls, about which nothing is degenerate."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.unit_cases import draw
from consistency.generate.variations import variations, with_sizes
from consistency.generate.varied import (
    arguments,
    by_kind,
    cotangents,
    layouts,
    shapes,
    values,
    wider,
)
from consistency.operators.declare import Operator

from .plain_calls import FULL
from .selection import MOST_ELEMENTS, elements

MANY = 2  # tensors that decide whether a case is ordinary; others are biases, say
# Here all sound ways to compute with an infinity agree, unless products are chained: in another
# order it may meet a zero. A compensated sum of it is NaN, and so is a convolution by transforms.
INFINITE = frozenset({"matmul", "pooling", "softmax"})
# Numbers that an infinity may stand among; a matrix that is to be solved is none of these.
PLAIN = frozenset({"uniform", "normal", "wide", "integers", "cancelling", "sparse", "offset"})
SEEDS, COUNT = (201,), 40  # drawn candidates
# Cases from which others are derived: the smallest, and the smallest of each list of arguments.
FEWEST_OF, MOST_TYPES, FEW_ELEMENTS = 3, 8, 24
COUNTING = frozenset({"cumulative", "reduction", "sorting"})  # a count may leave the format
COTANGENT = 1 << 20  # where cotangents lie in the bitstream, beyond all numbers
ORDINARY = 2  # further ones, about which nothing is degenerate
EVEN = frozenset({"uniform", "normal", "wide", "integers"})
BASES, COMBINED = 5, 80  # cases that are varied in every way, and combinations of two ways
MOST_OF_ALL = 3 << 16  # elements of a varied case: two sizes of 2, one beyond 2^16


def candidates(operator: Operator, dtype: str) -> list[Case]:
    """Drawn cases, and derived ones, all of moderate size."""
    drawn = [case for seed in SEEDS for case in draw(operator, dtype, COUNT, seed)[0]]
    small = sorted(drawn, key=lambda case: (_is_special(case), abs(elements(case) - FEW_ELEMENTS)))
    first = {_types(case): case for case in reversed(small)}  # the smallest with such arguments
    found = {case.id: case for case in drawn}
    for case in [*small[:FEWEST_OF], *list(first.values())[-MOST_TYPES:]]:
        found |= {other.id: other for other in variations(operator, case)}
        if operator.family in INFINITE and "chained" not in operator.traits:
            found |= {other.id: other for other in _with_infinities(case)}
    kept = [case for case in found.values() if elements(case) <= MOST_ELEMENTS]
    return [*kept, *(case for case in _wider(operator, small) if case.id not in found)]


def _wider(operator: Operator, small: list[Case]) -> Iterator[Case]:
    """Variations in every way of the smallest cases with other arguments, and combinations of
    two."""
    kinds: dict[tuple[str, ...], Case] = {}
    for case in small:
        rank = len(case.tensors[0].base) if _is_plain(case) else 0
        kinds.setdefault((str(rank), *_types(case)), case)
    ordered = sorted(kinds.values(), key=lambda case: not _is_plain(case))
    bases = random.Random(operator.name).sample(ordered[: 2 * BASES], min(BASES, len(ordered)))
    bases += sorted(filter(_is_plain, small), key=_oddity)[:ORDINARY]
    chance = random.Random(operator.name)
    singles = [other for base in bases for other in wider(operator, base, small)]
    yield from (case for case in singles if elements(case) <= MOST_OF_ALL)
    for _ in range(COMBINED if singles else 0):
        kind = chance.choice(by_kind(operator, chance.choice(singles), small))
        two = list(kind)
        case = chance.choice(two) if two else singles[0]
        if elements(case) <= MOST_OF_ALL:
            yield case


def _with_infinities(case: Case) -> Iterator[Case]:
    """The case with one infinity in the middle of each of its tensors in turn."""
    for number, tensor in enumerate(case.tensors):
        if isinstance(tensor, TensorRecipe) and floats(tensor.dtype) and tensor.values[0] in PLAIN:
            other = replace(tensor, special=((math.prod(tensor.base) // 2, "inf"),))
            yield case.with_tensors(other if n == number else t for n, t in enumerate(case.tensors))


def _is_plain(case: Case) -> bool:
    """Whether the case has tensors, and none is a view or holds special values."""
    return bool(case.tensors) and all(
        isinstance(t, TensorRecipe) and not t.view and not t.special for t in case.tensors
    )


def _oddity(case: Case) -> tuple[int, int]:
    """How much about a plain case is degenerate, then its elements: a fault that depends on one
    condition shows in a variation of an ordinary case that meets this one."""
    tensors = [t for t in case.tensors[:MANY] if isinstance(t, TensorRecipe)]
    ones = sum(t.base.count(1) + 3 * t.base.count(0) + 3 * (not t.base) for t in tensors)
    odd = sum(floats(t.dtype) and t.values[0] not in EVEN for t in tensors)
    return ones + odd, elements(case)


def _types(case: Case) -> tuple[str, ...]:
    return (*(type(arg).__name__ for arg in case.args), *case.kwargs)


def _is_special(case: Case) -> bool:
    return any(t.special or t.view for t in case.tensors if isinstance(t, TensorRecipe))


def differentiated(operator: Operator, case: Case) -> Case:
    """The case with a cotangent, so that its gradients are compared, too."""
    return replace(case, cotangent=COTANGENT if operator.differentiable else 0)


def least_odd(drawn: Iterable[Case]) -> list[Case]:
    """The most ordinary ones of drawn cases, of other arguments each, those with the fewest options
    first: where no call is written down, variations of these take its place."""
    plain = sorted(filter(_is_plain, drawn), key=lambda case: (len(case.kwargs), *_oddity(case)))
    found = list({_types(case): case for case in reversed(plain)}.values())[-ORDINARY:]
    return [*found, *(with_sizes(case, {1: FULL}) for case in found if _oddity(case)[0])]


def crossed(operator: Operator, case: Case, others: Sequence[Case]) -> Iterator[Case]:
    """Layouts beside every other value of an argument, and long tensors of one value: pairs of
    conditions that reports name, which single variations do not join."""
    written = bool(operator.mutates or operator.leading or operator.name.endswith("_"))
    if not list(wider(operator, case, others)):
        return
    for other in arguments.of(case, others):
        yield from layouts.of(operator, other, overlap=not written)
        yield from cotangents.of(operator, other)
    for other in shapes.broadcast(case):
        yield from layouts.of(operator, other, overlap=not written)
    most = MOST_OF_ALL if operator.family in COUNTING else MOST_OF_ALL // 8
    for other in shapes.thresholds(case):
        if elements(other) <= most:
            yield from _constant(other)


def _constant(case: Case) -> Iterator[Case]:
    """The case with one value everywhere in each of its tensors of floating-point numbers."""
    for number, tensor in enumerate(case.tensors[:MANY]):
        plain = isinstance(tensor, TensorRecipe) and tensor.values[0] in PLAIN
        if plain and isinstance(tensor, TensorRecipe) and floats(tensor.dtype):
            for other in values.constants(tensor):
                yield case.with_tensors(
                    other if n == number else t for n, t in enumerate(case.tensors)
                )


def vanishing(case: Case) -> Iterator[Case]:
    """The case with zeros in each of its tensors in turn that has a gradient: everywhere, and in
    its first row."""
    for number, tensor in enumerate(case.tensors[:MANY]):
        if isinstance(tensor, TensorRecipe) and tensor.leaf and floats(tensor.dtype):
            for other in values.constants(tensor):
                if other.values[-1] == "0":
                    yield case.with_tensors(
                        other if n == number else t for n, t in enumerate(case.tensors)
                    )
