"""A tensor of a running program as a recipe: its shape and strides, with other numbers on the same
scale.

The behavior of an operator hardly depends on the individual numbers of a large weight, so a corpus
can keep twenty numbers instead of twenty million. It does depend on their signs, their range, and
the share of zeros: these are measured and kept. Where the numbers of two arguments are related
(what attention saved for its gradient), or matter individually (a matrix to be factored), no recipe
is used (:func:`consistency.operators.catalog.aten.has_coupled_arguments`).
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...core import dtypes
from ...core.recipe import Step, TensorRecipe

SAMPLE = 1 << 16  # elements that are sampled, besides the smallest and the largest


def recipe_like(tensor: torch.Tensor, stop: int, before: int = 0) -> TensorRecipe | None:
    """A recipe with the shape, strides and range of ``tensor``, read from the bitstream after
    position ``stop``.

    None if no value class fits its numbers (NaN or infinities, an unsupported dtype) or it is
    empty. At most ``before`` elements precede its first one.
    """
    name = dtypes.name_of(tensor.dtype)
    kind = _values(tensor, name)
    if kind is None or not tensor.numel():
        return None
    base, view = _layout(tensor, before)
    # A window that began before the bitstream would contain zeros.
    return TensorRecipe(base, name, kind, stop + math.prod(base), view)


def _layout(tensor: torch.Tensor, before: int) -> tuple[tuple[int, ...], tuple[Step, ...]]:
    """A base and views that lead to the same strides: none, a permutation, or as_strided."""
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
    """The value class closest to the tensor's numbers."""
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
        small = float(nonzero.kthvalue(1 + nonzero.numel() // 20).values)
        # below the largest, where the operator's domain may end
        top_exponent = math.floor(math.log2(largest)) - 1
        return (
            "wide",
            min(max(math.floor(math.log2(small)), top_exponent - 40), top_exponent),
            top_exponent,
            int(low < 0),
        )
    mean, deviation = float(sample.mean()), float(sample.std())
    half_range = 2 * math.sqrt(3.0) * deviation  # of the class "normal", a sum of four even numbers
    if low < mean - half_range and mean + half_range < high:
        return ("normal", mean, deviation)
    return ("uniform", low, high)


def _sample(plain: torch.Tensor) -> torch.Tensor:
    """Evenly spaced elements in float64, without copying all of a view."""
    step = max(1, plain.numel() // SAMPLE)
    if plain.is_contiguous():
        return plain.view(-1)[::step].double()
    positions = torch.arange(0, plain.numel(), step)
    index, remaining = [], positions
    for size in reversed(plain.shape):
        index.append(remaining % size)
        remaining = remaining // size
    return plain[tuple(reversed(index))].double()


def range_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    """The range of a tensor: the power of two of the largest number, and the signs."""
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
