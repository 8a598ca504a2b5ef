"""Comparable quantities of outputs that are not unique: values at indices, tie-free sums,
admissible neighbors.

Nothing here may raise on a faulty backend's outputs: invalid positions read as NaN.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .hooks import Args, Kwargs, Tensors

_FLOAT64 = 2.0**-50  # beyond this unit inputs are those of float64 itself
_GRID = 2.0**26  # per 1: sums of 2²⁷ of its multiples are exact in float64


def gather_or_nan(values: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    """``values`` at ``index`` along ``dim``, in float64; NaN for invalid positions or if the shapes
    do not fit."""
    values, shape = values.detach().to(torch.float64), index.shape
    if values.ndim == 0:
        values, index = values.reshape(1), index.reshape(1) if index.numel() == 1 else index
    fits = index.ndim == values.ndim and not index.dtype.is_floating_point
    dim = dim % max(values.ndim, 1)
    if not fits or any(
        n > m
        for axis, (n, m) in enumerate(zip(index.shape, values.shape, strict=True))
        if axis != dim
    ):
        return torch.full(shape, math.nan, dtype=torch.float64)
    size = values.shape[dim]
    if not size or not index.numel():
        return torch.full(shape, math.nan, dtype=torch.float64)
    index = index.to(torch.int64)
    gathered = values.gather(dim, index.clamp(0, size - 1))
    return torch.where((index >= 0) & (index < size), gathered, math.nan).reshape(shape)


def plain_zeros(tensor: torch.Tensor) -> torch.Tensor:
    """-0.0 as 0.0: the order of zeros of either sign is undefined."""
    return tensor + 0.0 if tensor.dtype.is_floating_point else tensor


def argument(name: str, position: int, default: Any, args: Args, kwargs: Kwargs) -> Any:
    """An argument given by position or by name."""
    return kwargs.get(name, args[position] if len(args) > position else default)


def zeros_aside(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """The outputs, with zeros of either sign taken as equal."""
    return tuple(plain_zeros(output) for output in outputs)


def zeros_aside_at_a_zero_bound(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """hardtanh: either zero is the larger or smaller one where a bound is zero (IEEE 754-2008);
    between other bounds a zero keeps its sign."""
    at_bound = kwargs.get("min_val", -1.0) == 0 or kwargs.get("max_val", 1.0) == 0
    return zeros_aside(args, kwargs, outputs) if at_bound else outputs


def of_memory_too(observe: Any) -> Any:
    """An operator's hook, if it also applies to the memory that a form of it writes to; or None."""
    return observe if observe in (zeros_aside, zeros_aside_at_a_zero_bound) else None


def value_at_extremum(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """argmax, argmin: the input's value at the index."""
    (index, values), dim = (outputs[0], args[0]), argument("dim", 1, None, args, kwargs)
    if dim is None:
        return (plain_zeros(gather_or_nan(values.reshape(-1), 0, index.reshape(-1))),)
    if not kwargs.get("keepdim", False) and values.ndim and index.ndim == values.ndim - 1:
        return (plain_zeros(gather_or_nan(values, dim, index.unsqueeze(dim)).squeeze(dim)),)
    return (plain_zeros(gather_or_nan(values, dim, index)),)


def values_and_where(args: Args, kwargs: Kwargs, outputs: Tensors, dim: int | None) -> Tensors:
    """(values, the input's values at the returned indices), both free of the sign of zero."""
    if dim is None or len(outputs) < 2:
        return zeros_aside(args, kwargs, outputs)
    values, index = outputs[0], outputs[1]
    missing = args[0].ndim and index.ndim == args[0].ndim - 1
    gathered = gather_or_nan(args[0], dim, index.unsqueeze(dim) if missing else index)
    return plain_zeros(values), plain_zeros(gathered.squeeze(dim) if missing else gathered)


def extremum_along(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """max, min, median, mode, cummax … whose ``dim`` comes second and may be missing."""
    return values_and_where(args, kwargs, outputs, argument("dim", 1, None, args, kwargs))


def value_selected(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """kthvalue: ``dim`` comes third."""
    return values_and_where(args, kwargs, outputs, argument("dim", 2, -1, args, kwargs))


def selection_along(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """topk: ``dim`` comes third and is the last by default; that no position came twice is
    compared, too."""
    dim = argument("dim", 2, -1, args, kwargs)
    values, gathered = values_and_where(args, kwargs, outputs, dim)
    if not kwargs.get("sorted", True):
        values, gathered = values.sort(dim).values, gathered.sort(dim).values
    return values, gathered, distinct(outputs[1], dim)


def distinct(index: torch.Tensor, dim: int) -> torch.Tensor:
    """1 where a position follows another one in ascending order, 0 where it is repeated."""
    if index.ndim == 0:
        return torch.ones_like(index)
    return (index.sort(dim).values.diff(dim=dim) != 0).to(torch.int64)


def sorted_along(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """sort: values, the input at the indices, and the indices in ascending order; the indices
    themselves if stable."""
    dim = argument("dim", 1, -1, args, kwargs)
    if kwargs.get("stable", False):
        return plain_zeros(outputs[0]), outputs[1]
    return (*values_and_where(args, kwargs, outputs, dim), distinct(outputs[1], dim))


def order_along(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """argsort: as sort, without the values."""
    if kwargs.get("stable", False):
        return outputs
    dim = argument("dim", 1, -1, args, kwargs)
    return plain_zeros(gather_or_nan(args[0], dim, outputs[0])), distinct(outputs[0], dim)


def tied_sums(dim: Any) -> Any:
    """Gradients of selections: each is summed over all equal elements in its row, whichever was
    selected.

    ``dim`` finds the dimension from ``(args, kwargs)``; None means all elements.
    """

    def observe(
        args: Args, kwargs: Kwargs, gradients: tuple[torch.Tensor | None, ...]
    ) -> tuple[torch.Tensor | None, ...]:
        first, others = gradients[0], gradients[1:]
        if first is None or first.shape != args[0].shape or not first.numel() or not first.ndim:
            return gradients
        along, shape = dim(args, kwargs), first.shape
        values, gradient = args[0].detach(), first
        if along is None:
            values, gradient, along = values.reshape(-1), gradient.reshape(-1), 0
        values, order = values.sort(along)
        new = (
            values.narrow(along, 1, values.shape[along] - 1)
            != values.narrow(along, 0, values.shape[along] - 1)
        ) & ~(values.narrow(along, 0, values.shape[along] - 1).isnan())
        group = torch.cat([torch.zeros_like(order.narrow(along, 0, 1)), new.cumsum(along)], along)
        sums = torch.zeros_like(gradient)
        for part in _summable(gradient.gather(along, order)):
            sums = sums + torch.zeros_like(gradient).scatter_add(along, group, part)
        sums = sums.gather(along, group)
        return torch.zeros_like(gradient).scatter(along, order, sums).reshape(shape), *others

    return observe


def _summable(terms: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Terms of at most about 1 in parts whose sums are exact, or nearly: the sum is taken by us and
    must not add rounding to that of the operator. Those of narrower formats are exact in one."""
    if terms.dtype != torch.float64:
        return (terms,)
    high = (terms * _GRID).round() / _GRID
    return high, torch.where(terms.isfinite(), terms - high, 0.0)


def of_shares(args: Args, kwargs: Kwargs, gradients: Tensors) -> tuple[float, ...]:
    """S of gradients that choose among cotangents (within ±1) and, where an operand was broadcast,
    add them up."""
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    total = sum(tensors, torch.zeros(())).numel()
    return tuple(float(total // g.numel()) if 0 < g.numel() < total else 0.0 for g in gradients)


def unit_of(args: Args) -> float:
    """Twice the unit roundoff of the narrowest format that holds every argument: a bound for the
    tested dtype's rounding."""
    tensors = [
        arg.detach().double()
        for arg in args
        if isinstance(arg, torch.Tensor) and arg.dtype.is_floating_point
    ]
    for dtype, precision in ((torch.bfloat16, 8), (torch.float16, 11), (torch.float32, 24)):
        if all(
            bool(
                torch.isclose(arg.to(dtype).double(), arg, rtol=0.0, atol=0.0, equal_nan=True).all()
            )
            for arg in tensors
        ):
            return 2.0 ** (1 - precision)
    return 2.0**-52


def beside(exact: torch.Tensor, step: float, unit: float) -> torch.Tensor:
    """Where ``exact`` (before it is rounded to a multiple of 1, shifted by ``step``) is within
    rounding error of a jump."""
    distance = (exact - step - torch.round(exact - step)).abs()
    return distance <= 2.0 * unit * torch.clamp(exact.abs(), min=1.0)


def neighbors(at: torch.Tensor, output: torch.Tensor, step: torch.Tensor | float) -> list[Tensors]:
    """One step below and one above where ``at`` holds."""
    return [(torch.where(at, output - step, output),), (torch.where(at, output + step, output),)]


def quotient_neighbors(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Tensors]:
    """floor_divide, div with a rounding mode: the next integer where the exact quotient is within
    rounding error of one. Quotients by an infinity are not rounded: their sign decides; nor are
    whole ones of two tensors, which float64 tells from others where the inputs are shorter."""
    if not outputs[0].dtype.is_floating_point or kwargs.get("rounding_mode", "floor") is None:
        return []
    quotient = torch.true_divide(args[0], args[1])
    near = beside(quotient, 0.0, unit_of(args)) & ~torch.isinf(torch.as_tensor(args[1]))
    return neighbors(_without_whole(near, quotient, args), outputs[0], 1.0)


def _without_whole(near: torch.Tensor, quotient: torch.Tensor, args: Args) -> torch.Tensor:
    """Those whose quotient is not whole itself, where float64 tells that: two tensors whose format
    is shorter."""
    if not (isinstance(args[0], torch.Tensor) and isinstance(args[1], torch.Tensor)):
        return near
    return near & ((quotient != quotient.round()) | (unit_of(args) <= _FLOAT64))


def remainder_neighbors(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Tensors]:
    """remainder, fmod: shifted by one divisor where the quotient is within rounding error of an
    integer, but is none itself, as :func:`quotient_neighbors` has it."""
    if not outputs[0].dtype.is_floating_point:
        return []
    divisor = abs(1 * args[1])  # of booleans there is no magnitude
    quotient = torch.true_divide(args[0], args[1])
    near = beside(quotient, 0.0, unit_of(args))
    return neighbors(_without_whole(near, quotient, args), outputs[0], divisor)


def decimal_neighbors(args: Args, kwargs: Kwargs, outputs: Tensors) -> list[Tensors]:
    """round with decimals: one unit of the last place off where the scaled number is within
    rounding error of a half."""
    decimals = kwargs.get("decimals", 0)
    if not decimals or not outputs[0].dtype.is_floating_point:
        return []
    return neighbors(
        beside(args[0] * 10.0**decimals, 0.5, unit_of(args)), outputs[0], 10.0**-decimals
    )
