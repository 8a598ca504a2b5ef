"""Positions of extrema. torch documents which one of several equal elements argmax, argmin, max and
min return: "the indices of the first maximal value". Of several NaN, which equal nothing, any will
do, and so will any position that medians, modes, sorts and cumulative extrema return.

Nothing here may raise on a faulty backend's outputs: positions that are none count as first, since
the values at them are NaN.
"""

from __future__ import annotations

import torch

from .declare import Operator
from .hooks import Args, Kwargs, Tensors
from .nonunique_results import argument, extremum_along, value_at_extremum


def first_extremum(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """argmax, argmin: the input's value at the index, and whether it is the first equal one."""
    index, dim = outputs[0], argument("dim", 1, None, args, kwargs)
    if dim is None:
        first = is_first(args[0].reshape(-1), 0, index.reshape(-1))
    else:
        first = is_first(args[0], dim, _with_dim(args[0], dim, index))
    return *value_at_extremum(args, kwargs, outputs), first.reshape(index.shape)


def first_along(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """max, min: with a ``dim`` also the values at the indices, and whether these are the first
    equal ones."""
    dim = argument("dim", 1, None, args, kwargs)
    observed = extremum_along(args, kwargs, outputs)
    if not isinstance(dim, int) or len(outputs) < 2:
        return observed
    first = is_first(args[0], dim, _with_dim(args[0], dim, outputs[1]))
    return *observed, first.reshape(outputs[1].shape)


def tells_of_equals(operator: Operator, index: int) -> bool:
    """Whether the observed output ``index`` tells whether positions are the first equal ones."""
    return (operator.observe, index) in ((first_extremum, 1), (first_along, 2))


def _with_dim(values: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    missing = values.ndim and index.ndim == values.ndim - 1
    return index.unsqueeze(dim) if missing else index


def is_first(values: torch.Tensor, dim: int, index: torch.Tensor) -> torch.Tensor:
    """1 where no element before ``index`` along ``dim`` equals the one there, else 0; of the shape
    of ``index``, one position along ``dim``."""
    unknown = torch.ones(index.shape, dtype=torch.int64)
    values = values.detach()
    if not values.ndim or not values.numel() or index.ndim != values.ndim:
        return unknown
    dim %= values.ndim
    expected = [1 if axis == dim else size for axis, size in enumerate(values.shape)]
    if list(index.shape) != expected or index.dtype.is_floating_point:
        return unknown
    size = values.shape[dim]
    index = index.to(torch.int64)
    there = values.gather(dim, index.clamp(0, size - 1))
    positions = torch.arange(size).reshape([-1 if axis == dim else 1 for axis in range(index.ndim)])
    earlier = ((values == there) & (positions < index)).any(dim, keepdim=True)
    return (~earlier | (index < 0) | (index >= size)).to(torch.int64)
