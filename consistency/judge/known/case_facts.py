"""Facts of a case for predicates, read from its recipe without making a tensor.

Shapes, strides and offsets come from torch's views of a tensor without data (device ``meta``),
cached by recipe.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Final

import torch

from ... import operators
from ...core import dtypes, recipe
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...core.views import view_of
from ...errors import RecipeError
from ...generate.value_classes import CLASSES, SPECIAL
from .argument_names import position_of
from .dimensions import dimension_names, dimensions_of
from .value_facts import Words, bound_of, has_zero, specials_of

INPUTS: Final = "inputs"  # the name of all tensors that a call reads
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
    "numel": "", "offset": "", "has_nan": "", "has_inf": "", "has_zero": "", "bound": "",
}  # fmt: skip
VOCABULARY: Final[Mapping[str, tuple[str, ...]]] = {
    "layout": LAYOUTS, "value class": (*CLASSES, "literal"), "dtype": tuple(dtypes.TORCH),
    "special value": tuple(SPECIAL),
}  # fmt: skip
_SPECIAL_TOKENS = {"has_nan": {"nan", "-nan"}, "has_inf": {"inf", "-inf"}}


class _Unknown:
    """A fact that does not apply to a case: neither true nor false."""

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()


class Facts:
    """The facts of one case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self._known: dict[str, Any] = {}  # what predicates asked for, which many do alike

    def named(self, name: str) -> Any:
        """The argument or dimension of that name; UNKNOWN if the case has none."""
        if name not in self._known:
            self._known[name] = self._named(name)
        return self._known[name]

    def _named(self, name: str) -> Any:
        if name.startswith("arg") and name[3:].isdecimal():
            return self._position(int(name[3:5]) if len(name) < 6 else -1)
        if name == INPUTS:
            return self._inputs()
        if name in self.case.kwargs:
            return _comparable(self.case.kwargs[name])
        position = position_of(self.case, name)
        if position is not None:
            return self._position(position)
        if name not in dimension_names(self.case.operator):
            return UNKNOWN  # asked first: dimensions are themselves computed from arguments
        return dimensions_of(self.case.operator, self).get(name, UNKNOWN)

    def _inputs(self) -> tuple[TensorRecipe | Literal, ...]:
        """The tensors of a call in their order, but for those that it only writes."""
        declared = operators.registry().get(self.case.operator)
        written = declared.leading if declared is not None else 0
        named = [value for name, value in self.case.kwargs.items() if name != "out"]
        return tuple(recipe.tensors([self.case.args[written:], named]))

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
        its recipe is invalid. The bound of a list is the largest of its tensors."""
        if function == "bound" and isinstance(tensor, tuple):
            bounds = [self.described(function, item) for item in tensor]
            known = [bound for bound in bounds if bound is not UNKNOWN]
            return max(known) if known else UNKNOWN
        if not isinstance(tensor, (TensorRecipe, Literal)):
            return UNKNOWN
        match function:
            case "bound":
                bound = bound_of(tensor)
                return UNKNOWN if bound is None else bound
            case "dtype":
                return tensor.dtype
            case "values":
                return (
                    str(tensor.values[0])
                    if isinstance(tensor, TensorRecipe) and tensor.values
                    else "literal"
                )
            case "has_zero":
                return has_zero(tensor)
            case "special" | "has_nan" | "has_inf":
                specials = specials_of(tensor)
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


_latest: list[Facts] = []


def facts_of(case: Case) -> Facts:
    """The facts of a case. Many entries are asked about one case after the other: those of the
    last case are kept."""
    facts = _latest[0] if _latest else None
    if facts is None or facts.case is not case:  # another thread may ask of another case meanwhile
        facts = Facts(case)
        _latest[:] = [facts]
    return facts


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
