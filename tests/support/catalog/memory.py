"""Planters about memory and state: misread views, buffers that are not waited for, inputs that are
written, integers cut."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

import consistency

from .model import Call, Deed, deep, one_of, straight


def offset_ignored(positions: Sequence[int] | None = None) -> Deed:
    """A view is read from the beginning of its storage."""
    return lambda call: call.where(lambda x: x.as_strided(x.shape, x.stride(), 0), positions).run()


def as_contiguous(x: Tensor) -> Tensor:
    """The view's numbers read one after another from its offset, whatever its strides; around the
    end of the storage if need be."""
    storage = x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    if not storage.numel() or not x.numel():
        return x
    where = (torch.arange(x.numel()) + x.storage_offset()) % storage.numel()
    return straight(x, storage[where].reshape(x.shape))


def strides_ignored(positions: Sequence[int] | None = None) -> Deed:
    """A view is read as if it were contiguous."""
    return lambda call: call.where(as_contiguous, positions).run()


def permuted_as_contiguous(positions: Sequence[int] | None = None) -> Deed:
    """Only dense permuted tensors (channels_last, transposed) are misread; slices are copied first,
    as they should."""

    def read(x: Tensor) -> Tensor:
        dense = sorted(zip(x.stride(), x.shape, strict=True), reverse=True)
        expected, fits = 1, True
        for stride, size in reversed(dense):
            fits &= size == 1 or stride == expected
            expected *= size
        return as_contiguous(x) if fits and not x.is_contiguous() else x

    return lambda call: call.where(read, positions).run()


def scalar_offset_ignored(call: Call) -> Any:
    """A tensor without dimensions is read from the beginning of its storage."""
    return call.each(lambda x: x.as_strided((), (), 0) if x.ndim == 0 else x).run()


def last_stride_assumed(positions: Sequence[int] | None = None) -> Deed:
    """Rows are found by their stride, but within a row elements are taken to lie side by side."""

    def read(x: Tensor) -> Tensor:
        if x.ndim == 0 or not x.numel() or x.stride(-1) == 1:
            return x
        storage = x.detach().as_strided(
            (x.untyped_storage().nbytes() // x.element_size(),), (1,), 0
        )
        where = torch.full((), x.storage_offset())
        for size, stride in zip(x.shape, (*x.stride()[:-1], 1), strict=True):
            where = where.unsqueeze(-1) + torch.arange(size) * stride
        return straight(x, storage[where % storage.numel()])

    return lambda call: call.where(read, positions).run()


def strided_refused(call: Call) -> Any:
    """Raises for an input that is not contiguous."""

    def check(x: Tensor) -> Tensor:
        if not x.is_contiguous():
            raise RuntimeError("view size is not compatible with input tensor's size and stride")
        return x

    return call.each(check).run()


def float64_refused(call: Call) -> Any:
    """Raises for float64, without saying that it is not supported."""

    def check(x: Tensor) -> Tensor:
        if x.dtype == torch.float64:
            raise RuntimeError("DmlDevice::CreateOperator failed: HRESULT 80070057")
        return x

    return call.each(check).run()


def refused(call: Call) -> Any:
    """Says that the operator is not offered."""
    raise consistency.Unsupported(f"{call.operator.name} has no kernel here")


def write_lost(call: Call) -> Any:
    """An operator in place works on a copy where its target is a view with a storage offset."""
    target = call.args[0]
    return call.with_arg(0, target.clone()).run() if target.storage_offset() else call.run()


def strided_write_lost(call: Call) -> Any:
    """As :func:`write_lost`, for targets that are not contiguous."""
    target = call.args[0]
    return call.run() if target.is_contiguous() else call.with_arg(0, target.clone()).run()


def write_beside(call: Call) -> Any:
    """Also overwrites the element before the target, where there is one."""
    result, target = call.run(), call.args[0]
    if target.numel() and target.storage_offset():
        target.as_strided((1,), (1,), target.storage_offset() - 1).fill_(
            True if target.dtype == torch.bool else 77
        )
    return result


def input_modified(call: Call) -> Any:
    """The first input's first element is overwritten after the result was computed."""
    result = deep(call.run(), torch.clone)
    x = next((a for a in call.args if isinstance(a, Tensor)), None)
    if x is not None and x.numel() and not x.requires_grad:
        first = x.as_strided((1,), (1,), x.storage_offset())
        first.copy_(~first if x.dtype == torch.bool else torch.where(first == 7, 8, 7).to(x.dtype))
    return result


def stale() -> Deed:
    """A result that fits in the buffer of the one before is that buffer's beginning: the kernel had
    not run yet."""
    buffers: dict[torch.dtype, Tensor] = {}

    def change(result: Tensor) -> Tensor:
        flat = result.detach().reshape(-1).clone()
        old = buffers.get(result.dtype)
        buffers[result.dtype] = flat
        return (
            straight(result, old[: flat.numel()].reshape(result.shape))
            if old is not None and old.numel() >= flat.numel()
            else result
        )

    return lambda call: one_of(call.run(), change)


def once_in(times: int) -> Deed:
    """Every so many calls the second half of the result is what lay in memory before: zeros."""
    count = itertools.count(1)

    def change(result: Tensor) -> Tensor:
        if next(count) % times or not result.numel():
            return result
        flat = result.detach().reshape(-1).clone()
        flat[flat.numel() // 2 :] = 0
        return straight(result, flat.reshape(result.shape))

    return lambda call: one_of(call.run(), change)


def removed_after(times: int) -> Deed:
    """After so many calls the device is gone, and every later call fails."""
    count = itertools.count(1)

    def deed(call: Call) -> Any:
        if next(count) > times:
            raise RuntimeError(
                "the GPU device instance has been suspended. Use GetDeviceRemovedReason to "
                "determine the action"
            )
        return call.run()

    return deed


def integers_cut(call: Call) -> Any:
    """Int64 inputs and results are reduced to their lower 32 bits."""
    return deep(call.each(_cut).run(), _cut)


def _cut(x: Tensor) -> Tensor:
    return x.to(torch.int32).to(torch.int64) if x.dtype == torch.int64 else x


def integers_through(dtype: torch.dtype) -> Deed:
    """Int64 inputs pass through a floating format that does not hold all of them."""
    return lambda call: call.each(
        lambda x: x.to(dtype).to(torch.int64) if x.dtype == torch.int64 else x
    ).run()


def index_cut(bits: int) -> Deed:
    """Positions (int64 tensors) wrap at so many bits."""
    return lambda call: call.each(
        lambda x: torch.where(x >= 0, x % (1 << bits), x) if x.dtype == torch.int64 else x
    ).run()


FALLBACK = (
    "The operator 'aten::{}' is not currently supported on this backend and will fall "
    "back to run on the CPU."
)


def fell_back(call: Call) -> Any:
    """Right values, and a warning that they were computed on the CPU."""
    warnings.warn(FALLBACK.format(call.operator.name), UserWarning, stacklevel=2)
    return call.run()


def fell_back_empty(call: Call) -> Any:
    """The same warning, and then an empty tensor."""
    return one_of(fell_back(call), lambda result: result.new_empty((0,)))


def empty(call: Call) -> Any:
    """An empty tensor, without a word."""
    return one_of(call.run(), lambda result: result.new_empty((0,)))
