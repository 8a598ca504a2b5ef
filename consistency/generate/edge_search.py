"""Finds the edges of an elementwise operator: the numbers at which its result or its gradient
becomes NaN, infinite, zero, subnormal, constant, or equal to the number itself, or ceases to be so,
and single numbers at which it is zero or not finite.

The operator computes in float64, and what it gives is rounded to the format. A grid of numbers is
divided into stretches of one kind; the ends of those that are kept are found by bisection of the
bit patterns.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..core.dtypes import FORMATS
from ..core.gradients import vector_jacobian_product
from ..core.model import Case
from ..core.recipe import TensorRecipe
from ..operators.declare import Operator
from . import exhaustive
from .materialize import prepare

MOST = 24  # edges of an operator × dtype; those of the largest stretches
FINE, COARSE = 10, 6  # bits of the significand in the grid: 1,024 or 64 numbers of each exponent
FINE_EXPONENTS = 70  # between 2**-70 and 2**70 the grid is fine
CONSTANTS = 24  # values that whole stretches have, those of the longest ones
CONSTANT = 4.0  # binades of such a stretch, at least: 1 + ulp, to which many round, is none
LEAST = 2.0**-8  # binades: a shorter stretch has no edges, …
_NAN, _INF, _MINUS_INF, _ZERO, _SUBNORMAL, _NORMAL, _ITSELF, _CONSTANT = range(8)
_SINGLE = (_NAN, _INF, _MINUS_INF, _ZERO)  # … but for these

Numbers = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Function = Callable[[Numbers], "list[npt.NDArray[Any]]"]


def find(operator: Operator, dtype: str) -> tuple[float, ...]:
    """The edges of an operator in one dtype, in ascending order; none where no case sweeps a single
    tensor of it, or where its results are no floating-point numbers."""
    function = _function(operator, dtype)
    if function is None:
        return ()
    signs = (1.0,) if operator.name in exhaustive.UNSIGNED else (1.0, -1.0)
    found = [edge for sign in signs for edge in _edges_of(function, dtype, sign)]
    best = sorted(found, key=lambda edge: (-edge[0], abs(edge[1]), edge[1]))
    return tuple(sorted(_distinct([number for _, number in best], dtype)[:MOST]))


def _distinct(numbers: list[float], dtype: str) -> list[float]:
    """The numbers without those that are at most four ulp from an earlier one."""
    kept: list[float] = []
    for number in numbers:
        near = abs(number) * 2.0 ** (3 - FORMATS[dtype].precision)
        if all(abs(number - other) > near for other in kept):
            kept.append(number)
    return kept


def _function(operator: Operator, dtype: str) -> Function | None:
    """What gives results and gradients of numbers in the format; None if no case sweeps one
    tensor."""
    if not exhaustive.sweeps_one_tensor(operator, dtype):
        return None
    tensors = Case(operator.name, dtype, operator.sample(exhaustive.FixedCall(dtype, (7,))).args)
    if sum(isinstance(t, TensorRecipe) and t.base == (7,) for t in tensors.tensors) > 1:
        return None  # elements are computed with others of the second tensor
    format_of = np.dtype(dtype)

    def function(numbers: Numbers) -> list[npt.NDArray[Any]]:
        call = operator.sample(exhaustive.FixedCall(dtype, (numbers.size,)))
        case = Case(operator.name, dtype, call.args, call.kwargs)
        arguments = prepare(case).build("float64", gradients=operator.differentiable)
        recipes = case.tensors
        place = next(
            i
            for i, t in enumerate(recipes)
            if isinstance(t, TensorRecipe) and t.values[0] == "every"
        )
        leaf = arguments.tensors[place]
        with torch.no_grad():
            leaf.copy_(torch.from_numpy(numbers))
        args = [leaf.clone() if a is leaf else a for a in arguments.args]  # written in place
        result = operator(*args, **arguments.kwargs)
        outputs = result if isinstance(result, (tuple, list)) else [result]
        output = next((o for o in outputs if o.is_floating_point()), None)
        if output is None or output.shape != leaf.shape:
            return []
        values = [output]
        if output.requires_grad:
            ones = torch.ones_like(output)
            values += filter(
                lambda gradient: gradient is not None,
                vector_jacobian_product([output], [leaf], [ones], allow_unused=True),
            )
        with np.errstate(all="ignore"):
            return [v.detach().double().numpy().astype(format_of) for v in values]

    return function


def _edges_of(function: Function, dtype: str, sign: float) -> list[tuple[float, float]]:
    """Edges among the numbers of one sign, each with the length of the stretch that it ends, in
    binades."""
    patterns = _grid(dtype)
    numbers = _numbers(patterns, dtype, sign)
    place = patterns / 2.0 ** (FORMATS[dtype].precision - 1)
    found = []
    for which, values in enumerate(function(numbers)):
        constants = _constants(values, place)
        codes = _codes(values, numbers, constants, dtype)
        scores = _scores(codes, place)
        kept = np.array(sorted(scores, key=lambda at: (-scores[at], at))[: 2 * MOST], dtype=int)
        low, high, left = patterns[kept], patterns[kept + 1], codes[kept]
        while kept.size and int((high - low).max()) > 1:
            middle = low + (high - low) // 2
            at = _numbers(middle, dtype, sign)
            same = _codes(function(at)[which], at, constants, dtype) == left
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        found += [
            (scores[at], number)
            for at, number in zip(kept.tolist(), _numbers(high, dtype, sign).tolist(), strict=True)
        ]
    return found


def _grid(dtype: str) -> Codes:
    """Patterns of normal numbers in ascending order, and the largest one."""
    form = FORMATS[dtype]
    low = form.precision - 1
    exponents = np.arange(1, 2 * form.max_exponent + 1, dtype=np.int64)
    is_fine = np.abs(exponents - form.max_exponent) <= FINE_EXPONENTS
    parts = [
        (e << low) + (np.arange(1 << bits, dtype=np.int64) << (low - bits))
        for e, bits in zip(exponents, np.where(is_fine, FINE, COARSE).tolist(), strict=True)
    ]
    largest = (((2 * form.max_exponent) << low) | ((1 << low) - 1)) + (0 * exponents[:1])
    return np.concatenate([*parts, largest])


def _numbers(patterns: Codes, dtype: str, sign: float) -> Numbers:
    width = {"float32": np.uint32, "float64": np.uint64}[dtype]
    return patterns.astype(width).view(dtype).astype(np.float64) * sign


def _constants(values: npt.NDArray[Any], place: Numbers) -> npt.NDArray[Any]:
    """Finite values other than 0 that whole stretches of the grid have."""
    starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    lengths = np.diff(np.append(place[starts], place[-1]))
    long = (lengths >= CONSTANT) & np.isfinite(values[starts]) & (values[starts] != 0)
    order = np.argsort(-lengths[long], kind="stable")
    return np.array(list(dict.fromkeys(values[starts][long][order].tolist()))[:CONSTANTS])


def _codes(
    values: npt.NDArray[Any], numbers: Numbers, constants: npt.NDArray[Any], dtype: str
) -> Codes:
    """The kind of each value."""
    codes = np.full(values.shape, _NORMAL)
    with np.errstate(all="ignore"):
        size = np.abs(values).astype(np.float64)
    codes[size < FORMATS[dtype].smallest_normal] = _SUBNORMAL
    for position, constant in enumerate(constants.tolist()):
        codes[values == constant] = _CONSTANT + position
    codes[size == np.abs(numbers)] = _ITSELF
    codes[values == 0] = _ZERO
    codes[np.isneginf(values)] = _MINUS_INF
    codes[np.isposinf(values)] = _INF
    codes[np.isnan(values)] = _NAN
    return codes


def _scores(codes: Codes, place: Numbers) -> dict[int, float]:
    """The last positions of stretches of one kind, with the length up to which shorter stretches
    are given up before this end is, too: the ends of those that are flanked by long ones have the
    largest."""
    ends = np.flatnonzero(codes[1:] != codes[:-1])
    bounds = np.concatenate([[place[0]], place[ends], [place[-1]]])
    lengths = np.diff(bounds).tolist()
    kinds = [*codes[ends].tolist(), int(codes[-1])]
    count = len(kinds)
    before, after = list(range(-1, count - 1)), list(range(1, count + 1))
    alive = [True] * count
    heap = [(length, i) for i, length in enumerate(lengths)]
    heapq.heapify(heap)
    scores: dict[int, float] = {}

    def join(left: int, right: int, length: float, kind: int) -> None:
        """Give up the end between two neighbors; ``left`` goes on."""
        if length >= LEAST or kind in _SINGLE:
            scores[int(ends[right - 1])] = length
        alive[right] = False
        lengths[left] += lengths[right]
        after[left] = after[right]
        if after[right] < count:
            before[after[right]] = left

    while heap:
        length, i = heapq.heappop(heap)
        if not alive[i] or length != lengths[i]:
            continue
        left, right = before[i], after[i]
        if left < 0 and right >= count:
            break
        between, kind = left >= 0 and right < count, kinds[i]
        if between and kinds[left] == kinds[right]:
            join(left, i, length, kind)
            join(left, right, length, kind)
            grown = left
        elif right >= count or (between and lengths[left] >= lengths[right]):
            join(left, i, length, kind)
            grown = left
        else:
            kinds[i] = kinds[right]
            join(i, right, length, kind)
            grown = i
        heapq.heappush(heap, (lengths[grown], grown))
    return scores
