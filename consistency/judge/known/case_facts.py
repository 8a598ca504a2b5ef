"""What a predicate can ask of a case: everything that its recipe says, without making a tensor.

Shapes, strides and offsets are those of torch's own views of a tensor without data (device
``meta``), remembered by recipe.
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
from ...generate.value_classes import CLASSES, SPECIAL
from .argument_names import position_of
from .dimensions import dimensions_of

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
# Functions of an argument, and of which vocabulary their answers are: words of these may stand
# beside them without quotes.
FUNCTIONS: Final[Mapping[str, str]] = {
    "layout": "layout", "values": "value class", "dtype": "dtype", "special": "special value",
    "shape": "", "stride": "", "dim": "",
    "numel": "", "offset": "", "has_nan": "", "has_inf": "",
}  # fmt: skip
VOCABULARY: Final[Mapping[str, tuple[str, ...]]] = {
    "layout": LAYOUTS, "value class": (*CLASSES, "literal"), "dtype": tuple(dtypes.TORCH),
    "special value": tuple(SPECIAL),
}  # fmt: skip
_OF_SPECIALS = {"has_nan": {"nan", "-nan"}, "has_inf": {"inf", "-inf"}}


class _Unknown:
    """What does not apply to a case: neither true nor false."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Words(frozenset[str]):
    """Several words that are true of one tensor; it equals each of them."""


class Facts:
    """A case as predicates see it."""

    def __init__(self, case: Case) -> None:
        self.case = case

    def named(self, name: str) -> Any:
        """The argument or the dimension of that name; UNKNOWN where the case has none."""
        if name.startswith("arg") and name[3:].isdecimal():
            return self._position(int(name[3:5]) if len(name) < 6 else -1)
        if name in self.case.kwargs:
            return _plain(self.case.kwargs[name])
        position = position_of(self.case, name)
        if position is not None:
            return self._position(position)
        found = dimensions_of(self.case.operator, self).get(name)
        return UNKNOWN if found is None else found

    def _position(self, place: int) -> Any:
        return _plain(self.case.args[place]) if 0 <= place < len(self.case.args) else UNKNOWN

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a tensor argument, None where there is none."""
        found = self.described("shape", self.named(name))
        return found if isinstance(found, tuple) else None

    def described(self, function: str, tensor: Any) -> Any:
        """What one of :data:`FUNCTIONS` says of an argument; UNKNOWN where it is no tensor, or its
        recipe cannot be built."""
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
                found = _specials(tensor)
                return (
                    found if function == "special" else not found.isdisjoint(_OF_SPECIALS[function])
                )
        form = (
            _form(tensor.base, tensor.view)
            if isinstance(tensor, TensorRecipe)
            else _form_of(*tensor.strided)
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


def _plain(value: Any) -> Any:
    """An argument as it can be compared: lists are tuples, dtypes and memory formats their
    names."""
    match value:
        case list() | tuple():
            return tuple(_plain(item) for item in value)
        case recipe.DType(name) | recipe.MemoryFormat(name):
            return name
        case complex() | recipe.Index():
            return UNKNOWN
    return UNKNOWN if value is Ellipsis else value


Form = tuple[tuple[int, ...], tuple[int, ...], int, Words]


@functools.lru_cache(maxsize=65536)
def _form(base: tuple[int, ...], view: tuple[recipe.Step, ...]) -> Form | None:
    try:
        made = view_of(
            torch.empty(math.prod(base), device="meta"), TensorRecipe(base, "float32", view=view)
        )
    except RecipeError:
        return None
    return _form_of(tuple(made.shape), made.stride(), made.storage_offset())


@functools.lru_cache(maxsize=65536)
def _form_of(shape: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Form | None:
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
    """The words for how a tensor lies in memory; it can have several."""
    found = {"offset"} if offset else set()
    if tensor.ndim == 0 or not tensor.numel():
        return found | {"contiguous", "scalar" if tensor.ndim == 0 else "empty"}
    if tensor.is_contiguous():
        return found | {"contiguous"}
    dims = sorted(
        (stride, size)
        for stride, size in zip(tensor.stride(), tensor.shape, strict=True)
        if size > 1
    )
    if dims[0][0] == 0:
        found.add("expanded")
    reach, dense = 0, True
    for stride, size in dims:
        if stride <= reach:
            return found | {"overlapping"}
        dense, reach = dense and stride == reach + 1, reach + stride * (size - 1)
    if not dense:
        return found | {"strided"}
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.ndim)
    return (
        found
        | {"transposed"}
        | ({"channels_last"} if last and tensor.is_contiguous(memory_format=last) else set())
    )


def _specials(tensor: TensorRecipe | Literal) -> Words:
    """Special values by name: those that a recipe puts somewhere, NaN and infinities among the
    numbers of a literal tensor."""
    if isinstance(tensor, TensorRecipe):
        drawn = tensor.values[1:] if tensor.values[:1] == ("tokens",) else ()
        return Words(
            [
                *(token for _, token in tensor.special),
                *(token for token in drawn if isinstance(token, str)),
            ]
        )
    return _of_literal(tensor.data, tensor.dtype)


@functools.lru_cache(maxsize=256)
def _of_literal(data: bytes, dtype: str) -> Words:
    real = dtypes.PARTS.get(dtype, dtype)
    if real == "bfloat16":
        numbers = (np.frombuffer(data[: len(data) // 2 * 2], "<u2").astype(np.uint32) << 16).view(
            np.float32
        )
    elif real in dtypes.FORMATS:
        kind = np.dtype(real).newbyteorder("<")
        numbers = np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
    else:
        return Words()
    where = {"nan": np.isnan(numbers), "inf": np.isposinf(numbers), "-inf": np.isneginf(numbers)}
    return Words(token for token, there in where.items() if bool(there.any()))
