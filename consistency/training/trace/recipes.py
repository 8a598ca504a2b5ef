"""A tensor of a running program as a recipe: its shape and strides, and other numbers on the same
scale.

What an operator does with a large weight hardly depends on which numbers it holds, so a corpus can
keep twenty numbers in place of twenty million. It does depend on their signs, their range, and
whether many are zero: these are measured and kept. Where the numbers of two arguments belong
together (what attention has saved beside its gradient), or make sense only as they are (a matrix to
be factored), no recipe stands in for them
(:func:`consistency.operators.catalog.aten.has_coupled_arguments`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...core import dtypes
from ...core.recipe import Step, TensorRecipe

SAMPLE = 1 << 16  # elements that are looked at, besides the smallest and the largest


def recipe_like(tensor: torch.Tensor, stop: int, before: int = 0) -> TensorRecipe | None:
    """A recipe with the shape, strides and range of ``tensor``, read from the bitstream behind
    position ``stop``.

    None where no value class stands for its numbers (NaN or infinities among them, a dtype that
    cannot be drawn) or where there is nothing in it. At most ``before`` elements lie before its
    first one.
    """
    name = dtypes.name_of(tensor.dtype)
    kind = _values(tensor, name)
    if kind is None or not tensor.numel():
        return None
    base, view = _layout(tensor, before)
    # No blanks: a window that began before the bitstream would hold zeros.
    return TensorRecipe(base, name, kind, stop + math.prod(base), view)


def _layout(tensor: torch.Tensor, before: int) -> tuple[tuple[int, ...], tuple[Step, ...]]:
    """A base and the views that lead from it to the same strides: none, a permutation, or whatever
    else by as_strided."""
    shape, strides = tuple(tensor.shape), tensor.stride()
    offset = min(int(tensor.storage_offset()), before)
    if not offset:
        if tensor.is_contiguous():
            return shape, ()
        order = sorted(range(tensor.ndim), key=lambda dim: (-strides[dim], dim))
        if tensor.permute(order).is_contiguous():
            base = tuple(shape[dim] for dim in order)
            back = tuple(order.index(dim) for dim in range(tensor.ndim))
            if torch.empty(base, device="meta").permute(back).stride() == strides:
                return base, (("permute", *back),)
    extent = 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    return (offset + extent,), (("as_strided", *shape, *strides, offset),)


def _values(tensor: torch.Tensor, name: str) -> tuple[Any, ...] | None:
    """The value class whose numbers are most like the tensor's."""
    plain = tensor.detach()
    if name in ("int64", "int32", "int16", "int8", "uint8", "bool"):
        plain = plain.to(torch.uint8) if name == "bool" else plain
        return ("integers", int(plain.min()), int(plain.max())) if plain.numel() else None
    if name not in dtypes.FORMATS or not plain.numel():
        return None
    low, high = (
        float(value)
        for value in torch.aminmax(plain.float() if plain.element_size() < 4 else plain)
    )
    if not (math.isfinite(low) and math.isfinite(high)):
        return None
    if low == high:
        return ("uniform", low, high)
    sample = _sample(plain)
    nonzero = sample[sample != 0].abs()
    if nonzero.numel() < 0.875 * sample.numel():
        return ("tokens", low, high, "0")
    largest = max(-low, high)
    if float(nonzero.median()) < largest / 64 and (low >= 0 or high > 0):
        few = float(nonzero.kthvalue(1 + nonzero.numel() // 20).values)
        top = (
            math.floor(math.log2(largest)) - 1
        )  # below the largest: it may be where the operator's domain ends
        return ("wide", min(max(math.floor(math.log2(few)), top - 40), top), top, int(low < 0))
    mean, deviation = float(sample.mean()), float(sample.std())
    reach = 2 * math.sqrt(3.0) * deviation  # of the class "normal", a sum of four even numbers
    if low < mean - reach and mean + reach < high:
        return ("normal", mean, deviation)
    return ("uniform", low, high)


def _sample(plain: torch.Tensor) -> torch.Tensor:
    """Some of the elements, evenly spread, in float64. A view is not copied as a whole."""
    step = max(1, plain.numel() // SAMPLE)
    if plain.is_contiguous():
        return plain.view(-1)[::step].double()
    places = torch.arange(0, plain.numel(), step)
    index, rest = [], places
    for size in reversed(plain.shape):
        index.append(rest % size)
        rest = rest // size
    return plain[tuple(reversed(index))].double()


def range_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What tensors of about the same numbers have in common: the power of two of the largest, and
    which signs there are."""
    if (
        not (tensor.is_floating_point() and tensor.numel())
        or dtypes.name_of(tensor.dtype) not in dtypes.FORMATS
    ):
        return ()
    low, high = (
        float(value)
        for value in torch.aminmax(
            tensor.detach().float() if tensor.element_size() < 4 else tensor.detach()
        )
    )
    if not (math.isfinite(low) and math.isfinite(high)):
        return ("not finite",)
    return (math.frexp(max(-low, high))[1] if low or high else "zeros", low < 0, high > 0)
