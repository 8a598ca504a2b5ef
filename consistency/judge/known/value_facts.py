"""Facts of a tensor's values, read from its recipe: the special values in it, and how large its
numbers can be. No tensor is made; bit patterns and literal data are looked through."""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ...core import dtypes
from ...core.recipe import Literal, TensorRecipe
from ...generate.value_classes import CLASSES, PATTERN_CLASSES, SPECIAL

MOST_PATTERNS: Final = 1 << 22  # looked through; in more there are some of each
# Classes whose numbers lie between their first two parameters.
_INTERVALS: Final = frozenset({"uniform", "integers", "near", "tokens", "ascending", "leading"})

# Classes whose parameters name special values.
_NAMING: Final = (("tokens",), ("ascending",), ("constant",), ("leading",))
# Classes of whose numbers some are zero.
_WITH_ZEROS: Final = tuple(
    (name,)
    for name in ("integers", "unsigned", "sparse", "diagonal", "exchanged", "every", "landmarks")
)


class Words(frozenset[str]):
    """Several words that apply to one tensor; it equals each of them."""


def bound_of(tensor: TensorRecipe | Literal) -> float | None:
    """A number that no magnitude in the tensor exceeds but by rounding to the dtype: the end of
    the interval its class draws from, or a larger special value; of literal data the largest
    magnitude. None where the class has no end (normal numbers) or is made of bit patterns, and
    for tensors without numbers."""
    if isinstance(tensor, Literal):
        numbers = _numbers(tensor.data, tensor.dtype)
        kept = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers
        return _number(max(abs(kept.min().item()), abs(kept.max().item()))) if kept.size else None
    name, *parameters = tensor.values or ("",)
    try:
        ends = _ends(str(name), parameters, math.prod(tensor.base))
    except (TypeError, ValueError, OverflowError):  # a recipe that cannot be made
        return None
    if ends is None:
        return None
    form = dtypes.FORMATS.get(dtypes.PARTS.get(tensor.dtype, tensor.dtype))
    special = [SPECIAL[word](form) for word in specials_of(tensor) if word in SPECIAL and form]
    return max([ends, *(abs(number) for number in special if not math.isnan(number))])


def _number(value: Any) -> float:
    """A number as it is: whole numbers beyond 2**53 stay exact."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r:.40} is no number")
    return value


def _ends(name: str, parameters: list[Any], count: int) -> float | None:
    if name in _INTERVALS:
        return max(abs(_number(parameters[0])), abs(_number(parameters[1])))
    match name:
        case "powers":
            return 1 << (int(parameters[0]) - 1)
        case "sparse" | "balanced":
            return 1
        case "constant":
            return 0  # its value is a special one
        case "permutation":
            return count
        case "distinct":
            return count / 2
        case "wide":
            return math.ldexp(1.0, int(parameters[1]) + 1)
        case "offset":
            return abs(_number(parameters[0])) + abs(_number(parameters[1]))
        case "diagonal" | "exchanged":
            return math.ldexp(1 + abs(_number(parameters[1])), int((*parameters, 0)[2]))
    return None


def specials_of(tensor: TensorRecipe | Literal) -> Words:
    """Special values by name: those of a recipe, or NaN and infinities of a literal tensor and
    among bit patterns."""
    if (
        isinstance(tensor, TensorRecipe)
        and tensor.values[:1]
        and tensor.values[0] in PATTERN_CLASSES
    ):
        return _pattern_specials(tensor.dtype, math.prod(tensor.base), tensor.values)
    if isinstance(tensor, TensorRecipe):
        named = tensor.values[:1] in _NAMING
        tokens = tensor.values[1:] if named else ()
        return Words(
            [
                *(token for _, token in tensor.special),
                *(token for token in tokens if isinstance(token, str)),
            ]
        )
    return _literal_specials(tensor.data, tensor.dtype)


def has_zero(tensor: TensorRecipe | Literal) -> bool:
    """Whether a zero of either sign can be among the numbers: a special value, one of a class that
    has some, one before the beginning of the bitstream (of which either part of a complex number
    has its own), or one among literal data."""
    if isinstance(tensor, Literal):
        return not bool(_numbers(tensor.data, tensor.dtype).all())
    drawn = math.prod(tensor.base) * (2 if tensor.dtype in dtypes.PARTS else 1)
    among = tensor.values[:1] in _WITH_ZEROS or not specials_of(tensor).isdisjoint(("0", "-0"))
    return among or drawn > tensor.stop


@functools.lru_cache(maxsize=256)
def _pattern_specials(dtype: str, count: int, values: tuple[Any, ...]) -> Words:
    if count > MOST_PATTERNS:
        return Words(("nan", "inf", "-inf"))
    try:
        form = dtypes.FORMATS[dtype]
        patterns = CLASSES[values[0]](np.empty(0, np.uint64), count, 0, form, *values[1:])
    except (KeyError, TypeError, ValueError, OverflowError):  # it cannot be made
        return Words()
    return _literal_specials(patterns.astype(patterns.dtype.newbyteorder("<")).tobytes(), dtype)


@functools.lru_cache(maxsize=256)
def _literal_specials(data: bytes, dtype: str) -> Words:
    numbers = _numbers(data, dtype)
    if numbers.dtype.kind != "f":
        return Words()
    masks = {"nan": np.isnan(numbers), "inf": np.isposinf(numbers), "-inf": np.isneginf(numbers)}
    return Words(token for token, mask in masks.items() if bool(mask.any()))


def _numbers(data: bytes, dtype: str) -> npt.NDArray[Any]:
    """The numbers of literal data, those of a complex one part by part; none of a dtype that
    NumPy cannot read."""
    real = dtypes.PARTS.get(dtype, dtype)
    if real == "bfloat16":
        words = np.frombuffer(data[: len(data) // 2 * 2], "<u2").astype(np.uint32)
        return (words << 16).view(np.float32)
    try:
        numbers = np.dtype("uint8" if real == "bool" else real).newbyteorder("<")
    except TypeError:
        return np.empty(0)
    return np.frombuffer(data[: len(data) // numbers.itemsize * numbers.itemsize], numbers)
