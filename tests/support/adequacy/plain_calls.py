"""Plain calls: contiguous tensors of ordinary numbers, and few options, of every combination that
occurs.

What programs call most is drawn rarely where an operator has many options, each of which is given
half of the time: a bilinear image by a fraction, and nothing else said, one time in a hundred.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from consistency.core import recipe
from consistency.core.dtypes import FORMATS, floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.odd_options import NEEDED
from consistency.generate.variations import with_sizes, with_tensor
from consistency.judge.known.case_facts import Facts
from consistency.operators.declare import Operator

FEWEST = 24  # elements: fewer are less than a vector
MOST_OPTIONS = 3  # that are named; a call with more of them is not plain
TOGETHER = 2  # options that are kept of a call with more of them
FULL = 3  # in place of sizes of 1
ORDINARY = frozenset({"uniform", "normal", "wide", "integers", "cancelling", "diagonal"})
PLAIN, CHANNELS, ALONE = "a plain call", "an image beside", "alone in a plain call:"
TOKENS = ("nan", "inf", "-inf")  # each of which stands alone in one tensor
# What infinity minus infinity is there depends on the order, and no factorization is defined.
NAN_ONLY = frozenset({"fft", "linalg"})
WEIGHTS = (3.0, 2.5, 1.5, 1.0)  # of a call with as many options
IMAGE = (2, 3, 4, 5)
ORDERS = ((0, 2, 3, 1), (0, 1, 3, 2))  # channels last, columns of rows
FACTORS = ((1, 3, 1, 1), (3, 1, 1), (2, 1, 4, 5), (2, 3, 1, 1), (5,))
MOST_TENSORS, MOST_KINDS = 3, 2


def kind(value: Any) -> str:
    """What a number or an option is, as far as kernels tell its values apart; nothing of a
    tensor."""
    match value:
        case bool() | None | str() | recipe.DType() | recipe.MemoryFormat():
            return str(value)
        case int():
            return "0" if value == 0 else "1" if value == 1 else "less" if value < 0 else "more"
        case float() if value == 0.0 or not math.isfinite(value):
            return repr(value)
        case float():
            return "a fraction" if value != int(value) else "less" if value < 0 else "more"
        case list() | tuple() if all(isinstance(item, int) for item in value) and value:
            largest = max(value)
            told = "ones" if largest == 1 else "zeros" if not largest else "more"
            return f"{len(value)} of {told}"
    return ""


def is_ordinary(case: Case, shapes: Sequence[tuple[int, ...] | None]) -> bool:
    """Whether no tensor is degenerate: sizes of 1 and extreme numbers hide what else is wrong."""
    plain = all(
        isinstance(t, TensorRecipe) and t.values[0] in ORDINARY and not t.special
        for t in case.tensors
        if isinstance(t, TensorRecipe) and floats(t.dtype)
    )
    return plain and all(shape is not None and min(shape, default=0) > 1 for shape in shapes)


def conditions(case: Case, shapes: Sequence[tuple[int, ...] | None]) -> Iterator[tuple[str, float]]:
    """That it is a plain call, with which options, and of which rank; or would be one without a
    single special number."""
    yield from _with_one(case, shapes)
    views = any(isinstance(t, TensorRecipe) and t.view for t in case.tensors)
    if len(case.kwargs) > MOST_OPTIONS or views or not is_ordinary(case, shapes[:2]):
        return
    rank = len(shapes[0]) if shapes and shapes[0] is not None else 0
    if shapes and math.prod(shapes[0] or ()) < FEWEST:
        return
    told = [f"{name} = {kind(value) or 'a tensor'}" for name, value in sorted(case.kwargs.items())]
    told += [f"{n} = {kind(arg)}" for n, arg in enumerate(case.args) if kind(arg)]
    weight = WEIGHTS[len(case.kwargs)]
    yield f"{PLAIN} with {', '.join(told) or 'nothing'}", weight - (rank < 2) / 4
    if len(told) < len(WEIGHTS) and rank:
        yield f"{PLAIN} of rank {rank} with {', '.join(told) or 'nothing'}", weight / 4


def _with_one(case: Case, shapes: Sequence[tuple[int, ...] | None]) -> Iterator[tuple[str, float]]:
    """The special number that is the only one of a call with one option at most."""
    tensors = [t for t in case.tensors if isinstance(t, TensorRecipe)]
    found = [(n, t.special[0][1]) for n, t in enumerate(tensors) if t.special]
    if len(found) != 1 or len(case.kwargs) > 1 or len(tensors) != len(case.tensors):
        return
    (place, token), without = found[0], [replace(t, special=()) for t in tensors]
    if len(tensors[place].special) != 1 or any(t.view for t in tensors):
        return
    if is_ordinary(case.with_tensors(without), shapes[:2]):
        names = ", ".join(case.kwargs) or "nothing"
        yield f"{ALONE} {token} in tensor {place} with {names}", 2.5 - len(case.kwargs)


def alone(operator: Operator, drawn: Sequence[Case]) -> Iterator[Case]:
    """Plain calls with one option at most, one number of one tensor NaN or infinite: what a kernel
    that leaves such numbers out must see where nothing else is special. None of elementwise
    operators, which draw them anyhow."""
    if "elementwise" in operator.traits:
        return
    for case in of(operator, drawn):
        if len(case.kwargs) > 1:
            continue
        for place, tensor in enumerate(case.tensors):
            if isinstance(tensor, TensorRecipe) and tensor.dtype in FORMATS and tensor.base:
                middle = math.prod(tensor.base) // 2
                for token in TOKENS[: 1 if operator.family in NAN_ONLY else None]:
                    one = replace(tensor, special=((middle, token),))
                    yield with_tensor(case, place, one)


def of(operator: Operator, drawn: Sequence[Case]) -> Iterator[Case]:
    """The drawn cases as plain calls; where options do not belong to the numbers of tensors, with
    one or two of their options, too."""
    # Factors are chosen so that their product stays in range.
    ordinary = {} if "prod" in operator.name else _ordinary_values(drawn)
    seen: set[str] = set()
    for case in drawn:
        plain = _plain(case, ordinary)
        if plain is None:
            continue
        for options in _kept(operator, plain):
            other = replace(plain, kwargs=options)
            # Weights of gates have four times the size of a state, which torch does not check.
            sizes = {} if operator.family in NEEDED else {1: FULL}
            for sized in (other, with_sizes(other, sizes)):
                told = repr((sized.args, sized.kwargs))
                if told not in seen:
                    seen.add(told)
                    yield sized


def images(operator: Operator, drawn: Sequence[Case]) -> Iterator[Case]:
    """Of elementwise operators of two tensors and more: one is an image, with channels last or
    rows in columns, another has a number for each channel, pixel or image."""
    if "elementwise" not in operator.traits:
        return
    several = [c for c in drawn if len(c.tensors) > 1 and len(c.kwargs) <= 1]
    ordinary = _ordinary_values(drawn)
    kinds = {tuple(sorted(case.kwargs)): case for case in reversed(several)}
    for case in list(kinds.values())[-MOST_KINDS:]:
        plain = _plain(case, ordinary)
        if plain is None or any(not isinstance(t, TensorRecipe) for t in plain.tensors):
            continue
        recipes = [t for t in plain.tensors if isinstance(t, TensorRecipe)]
        for image, other in itertools.permutations(range(min(len(recipes), MOST_TENSORS)), 2):
            for order, shape in itertools.product(ORDERS, FACTORS):
                wide = [replace(t, base=IMAGE) for t in recipes]
                wide[image] = _permuted(wide[image], order)
                wide[other] = replace(recipes[other], base=shape)
                yield plain.with_tensors(wide)


def _permuted(tensor: TensorRecipe, order: tuple[int, ...]) -> TensorRecipe:
    """The same shape, whose dimensions lie in memory in this order."""
    back = tuple(order.index(dim) for dim in range(len(order)))
    base = tuple(tensor.base[dim] for dim in order)
    return replace(tensor, base=base, view=(("permute", *back),))


def _kept(operator: Operator, case: Case) -> Iterator[dict[str, Any]]:
    yield dict(case.kwargs)
    if operator.family in NEEDED or "prod" in operator.name:
        return
    for count in range(TOGETHER + 1):
        for names in itertools.combinations(case.kwargs, count):
            yield {name: case.kwargs[name] for name in names}


def _ordinary_values(drawn: Sequence[Case]) -> dict[tuple[int, str], tuple[Any, ...]]:
    """For each tensor, by its place and its dtype, what ordinary numbers it is filled with in some
    case."""
    found: dict[tuple[int, str], tuple[Any, ...]] = {}
    for case in drawn:
        for place, tensor in enumerate(case.tensors):
            if isinstance(tensor, TensorRecipe) and tensor.values[0] in ORDINARY:
                found.setdefault((place, tensor.dtype), tensor.values)
    return found


def _plain(case: Case, ordinary: dict[tuple[int, str], tuple[Any, ...]]) -> Case | None:
    facts = Facts(case)
    tensors: list[TensorRecipe] = []
    for place, tensor in enumerate(case.tensors):
        shape = facts.described("shape", tensor)
        if not isinstance(tensor, TensorRecipe) or not isinstance(shape, tuple):
            return None
        values = tensor.values
        if floats(tensor.dtype) and values[0] not in ORDINARY:
            values = ordinary.get((place, tensor.dtype), values)
        tensors.append(replace(tensor, base=shape, view=(), special=(), values=values))
    return replace(case.with_tensors(tensors), cotangent_layout="")
