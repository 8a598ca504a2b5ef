"""Properties of a case that a defect may depend on: everything is wrong where a case has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from consistency.core import recipe
from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.judge.known.case_facts import Facts

LENGTHS = (8, 16, 32, 64, 128, 256, 1024)
ELEMENTS = (1024, 8192)
_COARSE = frozenset({"uniform", "literal"})


def properties(case: Case) -> frozenset[str]:
    """The properties of one case, as text."""
    return frozenset(_found(case))


def _found(case: Case) -> Iterator[str]:
    facts = Facts(case)
    shapes = []
    for number, tensor in enumerate(case.tensors[:4]):
        shape = facts.described("shape", tensor)
        if not isinstance(shape, tuple):
            continue
        shapes.append(shape)
        place = "first" if number == 0 else "another"
        yield f"{place} tensor has rank {min(len(shape), 6)}"
        yield from (f"{place} tensor is {word}" for word in facts.described("layout", tensor))
        yield from (f"a dimension beyond {n}" for n in LENGTHS if max(shape, default=0) > n)
        count = facts.described("numel", tensor)
        yield from (f"more than {n} elements" for n in ELEMENTS if count > n)
        yield from (f"not a multiple of {n}" for n in (4, 8, 32) if shape and shape[-1] % n)
        if len(shape) > 1 and shape[-1] == shape[-2] > 1:
            yield "square"
        if shape and 1 in shape:
            yield f"{place} tensor has a dimension of 1"
        yield f"{place} tensor of {tensor.dtype}"
        if isinstance(tensor, TensorRecipe):
            yield f"{place} tensor holds {tensor.values[0]}"
            yield from (f"{place} tensor holds {token}" for _, token in tensor.special)
            yield from (f"view {step[0]}" for step in tensor.view)
        if floats(tensor.dtype) and not tensor.leaf:
            yield f"no gradient of tensor {number}"
    if len(set(shapes)) > 1:
        yield "tensors of several shapes"
    yield f"{len(case.tensors)} tensors"
    if case.cotangent_layout:
        yield f"cotangent {case.cotangent_layout}"
    for number, value in enumerate(case.args):
        yield from _argument(f"argument {number}", value)
    for name, value in case.kwargs.items():
        yield from _argument(name, value)


def _argument(name: str, value: Any) -> Iterator[str]:
    match value:
        case recipe.TensorRecipe() | recipe.Literal():
            yield f"{name} given as tensor"
        case bool() | None | str() | recipe.DType() | recipe.MemoryFormat():
            yield f"{name} = {value}"
        case int() | float():
            kind = "0" if value == 0 else "negative" if value < 0 else "positive"
            whole = "whole" if float(value).is_integer() else "fraction"
            yield f"{name} {kind}"
            yield f"{name} {whole}"
        case list() | tuple():
            yield f"{name} of {min(len(value), 5)}"
            if any(isinstance(item, int) and item < 0 for item in value):
                yield f"{name} with a negative"
        case _:
            yield f"{name} given"
