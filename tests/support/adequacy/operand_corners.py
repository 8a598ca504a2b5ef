"""The same corners for the tensors behind the first (weights, biases, masks, indices, other
operands): numbers at which each hides something, and layouts that each may have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from consistency.core.dtypes import PARTS, floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.variations import with_tensor
from consistency.generate.varied import values
from consistency.operators.declare import Operator

from .corners import BASES, LEFT_OUT, elements, expanded, is_callable, is_plain, transposed

MOST_TENSORS = 5  # statistics and weights of normalizations
FEW = 4  # elements, of which a single one is hardly another case than all of them
TOKENS = ("nan", "inf", "-inf")
EVERYWHERE = ("0", "nan", "inf", "-inf")
LAYOUTS = {"transpose": "transposed", "permute": "transposed", "expand": "expanded"}

Change = Callable[[TensorRecipe], Iterator[TensorRecipe]]


def operand_corners(operator: Operator, cases: list[Case]) -> Iterator[Case]:
    """For each tensor behind the first, and each corner of it that none of ``cases`` reaches, the
    first of these cases that can be called."""
    if operator.family in LEFT_OUT or ".squares" in operator.name:
        return
    reached = {told for case in cases for told in told_by(case)}
    plain = [case for case in cases if is_plain(case)]
    plain.sort(key=lambda case: (_smallest(case) < FEW, len(case.args), elements(case)))
    for number in range(1, MOST_TENSORS):
        behind = [case for case in plain if len(case.tensors) > number][:BASES]
        for corner, change in OPERAND_CORNERS.items():
            if (number, corner) in reached:
                continue
            changed = (
                with_tensor(case, number, other)
                for case in behind
                for other in change(_recipe(case, number))
            )
            found = next((case for case in changed if is_callable(operator, case)), None)
            if found is not None:
                reached |= told_by(found)
                yield found


def told_by(case: Case) -> set[tuple[int, str]]:
    """The corners that each of a case's tensors reaches."""
    return {
        (number, corner)
        for number, tensor in enumerate(case.tensors[:MOST_TENSORS])
        if isinstance(tensor, TensorRecipe)
        for corner in _corners_of(tensor)
    }


def _corners_of(tensor: TensorRecipe) -> Iterator[str]:
    size = math.prod(tensor.base)
    if not size:
        return
    kind = tensor.values[0]
    if kind == "constant" or (kind == "integers" and tensor.values[1] == tensor.values[2]):
        yield f"{tensor.values[1]} everywhere"
    elif kind == "wide" and tensor.values[1] > 0:
        yield "overflowing squares"
    elif kind == "wide" and tensor.values[2] < 0:
        yield "vanishing squares"
    places = dict(tensor.special)
    for end, place in (("first", 0), ("last", size - 1)):
        if places.get(place) in TOKENS:
            yield f"{places[place]} {end}"
    yield from (LAYOUTS[step[0]] for step in tensor.view if step[0] in LAYOUTS)


def _recipe(case: Case, number: int) -> TensorRecipe:
    tensor = case.tensors[number]
    assert isinstance(tensor, TensorRecipe)  # as those of plain cases are
    return tensor


def _smallest(case: Case) -> int:
    return min(math.prod(_recipe(case, number).base) for number in range(len(case.tensors)))


def _is_float(tensor: TensorRecipe) -> bool:
    return floats(tensor.dtype) and tensor.dtype not in PARTS


def _constant(name: str) -> Change:
    def change(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
        if _is_float(tensor):
            yield replace(tensor, special=(), values=("constant", name))
        elif name == "0" and tensor.values[0] == "integers":
            yield replace(tensor, special=(), values=("integers", 0, 0))

    return change


def _at(end: int, token: str) -> Change:
    def change(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
        if _is_float(tensor) and math.prod(tensor.base) > 1:
            place = end % math.prod(tensor.base)
            yield replace(tensor, special=((place, token),))

    return change


def _of_magnitude(shares: tuple[float, float]) -> Change:
    def change(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
        if _is_float(tensor):
            numbers = values.magnitude(tensor.dtype, shares)
            yield replace(tensor, special=(), values=numbers)

    return change


def _laid_out(layout: Callable[[TensorRecipe], TensorRecipe], fewest: int) -> Change:
    def change(tensor: TensorRecipe) -> Iterator[TensorRecipe]:
        if len(tensor.base) >= fewest and min(tensor.base[-2:]) > 1:
            yield layout(tensor)

    return change


OPERAND_CORNERS: dict[str, Change] = {
    **{f"{name} everywhere": _constant(name) for name in EVERYWHERE},
    **{f"{token} first": _at(0, token) for token in TOKENS},
    **{f"{token} last": _at(-1, token) for token in TOKENS},
    "overflowing squares": _of_magnitude(values.OVERFLOWING),
    "vanishing squares": _of_magnitude(values.VANISHING),
    "transposed": _laid_out(transposed, 2),
    "expanded": _laid_out(expanded, 1),
}
