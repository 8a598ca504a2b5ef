"""Facts of a case for predicates, read from its recipe without making a tensor.

Shapes, strides and offsets come from torch's views of a tensor without data (device ``meta``),
cached by recipe.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import torch

from ...core import dtypes, recipe
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...core.views import view_of
from ...errors import RecipeError
from ...generate.value_classes import CLASSES, PATTERN_CLASSES, SPECIAL
from .argument_names import position_of
from .dimensions import dimension_names, dimensions_of

LAYOUTS = (
    "contiguous",
    "transposed",
    "channels_last",
    "strided",
    "expanded",
    "overlapping",
    "offset",
    "scalar",
    "empty",
)
# Functions of an argument, and the vocabulary of their values, whose words need no quotes.
FUNCTIONS: Final[Mapping[str, str]] = {
    "layout": "layout", "values": "value class", "dtype": "dtype", "special": "special value",
    "shape": "", "stride": "", "dim": "",
    "numel": "", "offset": "", "has_nan": "", "has_inf": "",
}  # fmt: skip
VOCABULARY: Final[Mapping[str, tuple[str, ...]]] = {
    "layout": LAYOUTS, "value class": (*CLASSES, "literal"), "dtype": tuple(dtypes.TORCH),
    "special value": tuple(SPECIAL),
}  # fmt: skip
MOST_PATTERNS = 1 << 22  # looked through; in more there are some of each
_SPECIAL_TOKENS = {"has_nan": {"nan", "-nan"}, "has_inf": {"inf", "-inf"}}


class _Unknown:
    """A fact that does not apply to a case: neither true nor false."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Words(frozenset[str]):
    """Several words that apply to one tensor; it equals each of them."""


class Facts:
    """The facts of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def named(self, name: str) -> Any:
        """The argument or dimension of that name; UNKNOWN if the case has none."""
        if name.startswith("arg") and name[3:].isdecimal():
            return self._position(int(name[3:5]) if len(name) < 6 else -1)
        if name in self.case.kwargs:
            return _comparable(self.case.kwargs[name])
        position = position_of(self.case, name)
        if position is not None:
            return self._position(position)
        if name not in dimension_names(self.case.operator):
            return UNKNOWN  # asked first: dimensions are themselves computed from arguments
        return dimensions_of(self.case.operator, self).get(name, UNKNOWN)

    def _position(self, position: int) -> Any:
        return (
            _comparable(self.case.args[position])
            if 0 <= position < len(self.case.args)
            else UNKNOWN
        )

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor argument; None if there is none."""
        shape = self.described("shape", self.named(name))
        return shape if isinstance(shape, tuple) else None

    def described(self, function: str, tensor: Any) -> Any:
        """The value of one of :data:`FUNCTIONS` for an argument; UNKNOWN if it is no tensor or
        its recipe is invalid."""
        if not isinstance(tensor, (TensorRecipe, Literal)):
            return UNKNOWN
        match function:
            case "dtype":
                return tensor.dtype
            case "values":
                return (
                    str(tensor.values[0])
                    if isinstance(tensor, TensorRecipe) and tensor.values
                    else "literal"
                )
            case "special" | "has_nan" | "has_inf":
                specials = _specials(tensor)
                return (
                    specials
                    if function == "special"
                    else not specials.isdisjoint(_SPECIAL_TOKENS[function])
                )
        form = (
            _view_form(tensor.base, tensor.view)
            if isinstance(tensor, TensorRecipe)
            else _memory_form(*tensor.strided)
        )
        if form is None:
            return UNKNOWN
        shape, stride, offset, layout = form
        answers = {"shape": shape, "stride": stride, "offset": offset, "layout": layout}
        return (
            len(shape)
            if function == "dim"
            else math.prod(shape)
            if function == "numel"
            else answers[function]
        )


def _comparable(value: Any) -> Any:
    """An argument in comparable form: lists as tuples, dtypes and memory formats as names."""
    match value:
        case list() | tuple():
            return tuple(_comparable(item) for item in value)
        case recipe.DType(name) | recipe.MemoryFormat(name):
            return name
        case recipe.Index():
            return UNKNOWN
    return UNKNOWN if value is Ellipsis else value


Form = tuple[tuple[int, ...], tuple[int, ...], int, Words]


@functools.lru_cache(maxsize=65536)
def _view_form(base: tuple[int, ...], view: tuple[recipe.Step, ...]) -> Form | None:
    try:
        view_tensor = view_of(
            torch.empty(math.prod(base), device="meta"), TensorRecipe(base, "float32", view=view)
        )
    except RecipeError:
        return None
    return _memory_form(
        tuple(view_tensor.shape), view_tensor.stride(), view_tensor.storage_offset()
    )


@functools.lru_cache(maxsize=65536)
def _memory_form(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Form | None:
    try:
        return (
            shape,
            stride,
            offset,
            Words(_layouts(torch.empty_strided(shape, stride, device="meta"), offset)),
        )
    except (RuntimeError, TypeError, OverflowError):
        return None


def _layouts(tensor: torch.Tensor, offset: int) -> set[str]:
    """The words for a memory layout; there may be several."""
    words = {"offset"} if offset else set()
    if tensor.ndim == 0 or not tensor.numel():
        return words | {"contiguous", "scalar" if tensor.ndim == 0 else "empty"}
    if tensor.is_contiguous():
        return words | {"contiguous"}
    dims = sorted(
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size > 1
    )
    if dims[0][0] == 0:
        words.add("expanded")
    extent, dense = 0, True
    for stride, size in dims:
        if stride <= extent:
            return words | {"overlapping"}
        dense, extent = dense and stride == extent + 1, extent + stride * (size - 1)
    if not dense:
        return words | {"strided"}
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
    return (
        words
        | {"transposed"}
        | ({"channels_last"} if last and tensor.is_contiguous(memory_format=last) else set())
    )


def _specials(tensor: TensorRecipe | Literal) -> Words:
    """Special values by name: those of a recipe, or NaN and infinities of a literal tensor and
    among bit patterns."""
    if (
        isinstance(tensor, TensorRecipe)
        and tensor.values[:1]
        and tensor.values[0] in PATTERN_CLASSES
    ):
        return _pattern_specials(tensor.dtype, math.prod(tensor.base), tensor.values)
    if isinstance(tensor, TensorRecipe):
        named = tensor.values[:1] in (("tokens",), ("ascending",))
        tokens = tensor.values[1:] if named else ()
        return Words(
            [
                *(token for _, token in tensor.special),
                *(token for token in tokens if isinstance(token, str)),
            ]
        )
    return _literal_specials(tensor.data, tensor.dtype)


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
    real = dtypes.PARTS.get(dtype, dtype)
    if real == "bfloat16":
        numbers = (np.frombuffer(data[: len(data) // 2 * 2], "<u2").astype(np.uint32) << 16).view(
            np.float32
        )
    elif real in dtypes.FORMATS:
        dtype_format = np.dtype(real).newbyteorder("<")
        numbers = np.frombuffer(
            data[: len(data) // dtype_format.itemsize * dtype_format.itemsize], dtype_format
        )
    else:
        return Words()
    masks = {"nan": np.isnan(numbers), "inf": np.isposinf(numbers), "-inf": np.isneginf(numbers)}
    return Words(token for token, mask in masks.items() if bool(mask.any()))
