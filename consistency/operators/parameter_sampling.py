"""Helpers of the families of neural networks and linear algebra: drawing sizes, options and
factors."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import PARTS
from ..core.recipe import Literal
from .declare import ADDED, Domain, Drawing

PLAIN = Domain()  # for tensors whose values are given: no special ones among them


def summed(d: Drawing, terms: int) -> Domain:
    """The domain for sums of so many products; in float16 mostly narrow enough that they stay
    finite, one time in sixteen with products of either sign that do not. Shrinks to the former."""
    if d.dtype != "float16":
        return ADDED
    if d.integer(0, 15) == 15:
        return Domain(-256.0, 256.0, wide=(4, 7), propagates=())
    return Domain(wide=(-8, 2), sums=terms <= 32)


def extent(d: Drawing, most: int = 64) -> int:
    """A size of at least 1, rarely 0."""
    return 0 if d.integer(0, 39) == 39 else d.size(1, most)


def channels(d: Drawing) -> int:
    """Few, one time in four up to 17: kernels take four, eight or sixteen of them at once, and what
    is left over."""
    return d.size(1, 17) if d.integer(0, 3) == 3 else d.size(1, 5)


def per_dim(d: Drawing, rank: int, low: int, high: int) -> int | list[int]:
    """One integer for all dimensions, or a list with one for each. Shrinks towards ``low``."""
    return [d.integer(low, high) for _ in range(rank)] if d.flag() else d.integer(low, high)


def spread(value: int | Sequence[int], rank: int) -> list[int]:
    """``value`` for each of ``rank`` dimensions."""
    return (
        [value] * rank if isinstance(value, int) else [*value, *[value[-1]] * (rank - len(value))]
    )


def given_numbers(d: Drawing, numbers: Sequence[float], shape: tuple[int, ...]) -> Literal:
    """These numbers, which the format holds, in the real format of the case."""
    dtype = PARTS.get(d.dtype, d.dtype)
    code = {"float64": "d", "float16": "e"}.get(dtype, "f")
    whole = [struct.pack(f"<{code}", number) for number in numbers]
    data = b"".join(n[2:] if dtype == "bfloat16" else n for n in whole)  # its upper half
    strides = tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))
    return Literal(data, dtype, shape, strides)


def optional_arguments(d: Drawing, **options: tuple[Any, ...]) -> dict[str, Any]:
    """Keyword arguments: half of the time none; else each is left out or one of its options.
    Shrinks towards none."""
    if not d.flag():
        return {}
    chosen = {name: d.choice(None, *values) for name, values in options.items()}
    return {name: value for name, value in chosen.items() if value is not None}


def scaling(d: Drawing) -> dict[str, Any]:
    """``alpha`` and ``beta`` of ``addmm`` and its kin, half of the time; with beta 0 the added
    tensor does not count, not even its NaN."""
    if not d.flag():
        return {}
    draw: Callable[[], Any] = (
        (lambda: d.number(-2.0, 2.0)) if d.floating else (lambda: d.integer(-2, 2))
    )
    # Where beta is 0, the input is ignored, NaN and infinities in it as well.
    return {"beta": draw() if d.choice(True, True, True, False) else 0, "alpha": draw()}
