"""Nodes of the storages of tensors, one element per number in memory (two per complex number), so
that views and writes through them need no entries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from .complex_numbers import Pair, Tensor, neg, pair
from .elementwise import node_of, or_, to_real, truth
from .movement import Overlay, cat, expand, gather, reshape, unsqueeze, view
from .nodes import Constant, Leaf, Node, Unknown
from .rounding import rounded_to, to_whole


class StorageNodes:
    """The node of every storage that was read or written so far."""

    def __init__(self) -> None:
        self._storages: dict[int, Node] = {}
        self._alive: list[torch.Tensor] = []

    def leaf(self, tensor: torch.Tensor) -> Tensor:
        """The node of a tensor with respect to which gradients will be computed; it must be
        contiguous and own its storage."""
        numbers = Leaf(_numbers(tensor))
        self._keep_alive(tensor)
        self._storages[storage_key(tensor)] = numbers
        return self.node(tensor)

    def node(self, tensor: torch.Tensor) -> Tensor:
        """The node of a tensor's present values; a constant if no traced call wrote them."""
        with torch.utils._python_dispatch._disable_current_modes():
            return self._node(tensor)

    def _node(self, tensor: torch.Tensor) -> Tensor:
        dtype = tensor.dtype
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
            return Unknown(tuple(tensor.shape), "a tensor that is not strided")
        key = storage_key(tensor)
        storage = self._storages.get(key)
        if storage is None:
            self._keep_alive(tensor)
            storage = self._storages[key] = Constant(_numbers(whole_storage(tensor)))
        if storage.size != _capacity(tensor) or (storage.kind == "real") != _is_real(dtype):
            return Unknown(tuple(tensor.shape), "bits read as another dtype")
        shape, strides, offset = tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset())
        if not dtype.is_complex:
            real: Tensor = view(storage, shape, strides, offset)
            return neg(real) if tensor.is_neg() else real
        doubled = [2 * s for s in strides]
        re, im = (
            view(storage, shape, doubled, 2 * offset),
            view(storage, shape, doubled, 2 * offset + 1),
        )
        return Pair(re, neg(im)) if tensor.is_conj() else Pair(re, im)

    def _keep_alive(self, tensor: torch.Tensor) -> None:
        self._alive.append(tensor)  # otherwise another storage could reuse its address

    def write(self, tensor: torch.Tensor, made: Any) -> None:
        """Set the node of a tensor to these numbers, rounded to its dtype."""
        with torch.utils._python_dispatch._disable_current_modes():
            self._write(tensor, made)

    def _write(self, tensor: torch.Tensor, value: Any) -> None:
        dtype = tensor.dtype
        value = coerced(value, dtype, tuple(tensor.shape))
        self._keep_alive(tensor)
        key, width = storage_key(tensor), 2 if dtype.is_complex else 1
        capacity = _capacity(tensor)
        flat: Node
        if isinstance(value, Pair):
            flat = reshape(
                cat(
                    [
                        unsqueeze(value.re, -1),
                        unsqueeze(neg(value.im) if tensor.is_conj() else value.im, -1),
                    ],
                    -1,
                ),
                (-1,),
            )
        else:
            flat = reshape(neg(value) if tensor.is_neg() else value, (value.size,))
        fills_storage = (
            tensor.is_contiguous()
            and not tensor.storage_offset()
            and capacity == width * tensor.numel()
        )
        if fills_storage:
            self._storages[key] = flat
            return
        labels = labels_of(tensor)
        if capacity == labels.size and key not in self._storages:
            inverse = np.empty(capacity, dtype=np.int64)
            inverse[labels] = np.arange(capacity)
            self._storages[key] = gather(flat, inverse, (capacity,))
            return
        below = self._storages.get(key)
        if below is None or below.size != capacity:
            below = Constant(_numbers(whole_storage(tensor)))
        if flat.kind != below.kind:
            flat, below = to_real(flat), to_real(below)
        self._storages[key] = Overlay(below, flat, labels)

    def mark_uninitialized(self, tensor: torch.Tensor) -> torch.Tensor:
        """Mark the values of uninitialized memory as unknown."""
        with torch.utils._python_dispatch._disable_current_modes():
            if tensor.layout == torch.strided:
                storage = whole_storage(tensor)
                self._keep_alive(tensor)
                size = storage.numel() * (2 if tensor.dtype.is_complex else 1)
                self._storages[storage_key(tensor)] = Unknown(
                    (size,), "memory that was never written to", kind_of(tensor.dtype)
                )
        return tensor


def _is_real(dtype: torch.dtype) -> bool:
    return dtype.is_floating_point or dtype.is_complex


def kind_of(dtype: torch.dtype) -> str:
    """The kind of the nodes of tensors with this dtype."""
    return "bool" if dtype == torch.bool else "real" if _is_real(dtype) else "int"


def _capacity(tensor: torch.Tensor) -> int:
    """The number of elements of the node of a tensor's storage."""
    width = 2 if tensor.dtype.is_complex else 1
    return tensor.untyped_storage().nbytes() // max(tensor.element_size() // width, 1)


def coerced(made: Any, dtype: torch.dtype, shape: Sequence[int]) -> Any:
    """A node rounded to ``dtype`` and broadcast to ``shape``. Raises Unsure where the shapes do not
    fit."""
    if dtype.is_complex:
        complex_node = pair(made)
        if complex_node.shape != tuple(shape):
            complex_node = Pair(expand(complex_node.re, shape), expand(complex_node.im, shape))
        return Pair(
            rounded_to(complex_node.re, dtype.to_real()),
            rounded_to(complex_node.im, dtype.to_real()),
        )
    if isinstance(made, Pair):
        made = or_(truth(made.re), truth(made.im)) if dtype == torch.bool else made.re
    node = node_of(made)
    if node.shape != tuple(shape):
        node = (
            reshape(node, shape)
            if node.size == int(np.prod(shape)) and node.ndim != len(shape)
            else expand(node, shape)
        )
    if dtype.is_floating_point:
        return rounded_to(to_real(node), dtype)
    return to_whole(node, dtype)


def storage_key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def whole_storage(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.detach()
    if flat.is_conj() or flat.is_neg():
        flat = torch._neg_view(flat) if flat.is_neg() else flat.conj()
    size = tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)
    return flat.as_strided((size,), (1,), 0)


def _numbers(tensor: torch.Tensor) -> Any:
    """The numbers of a contiguous tensor as a flat array: floats as float64, complex numbers as
    two, others as they are."""
    flat = tensor.detach().reshape(-1)
    if flat.dtype.is_complex:
        flat = torch.view_as_real(flat).reshape(-1)
    if flat.dtype.is_floating_point:
        flat = flat.to(torch.float64)
    return flat.numpy().copy()


def labels_of(tensor: torch.Tensor) -> Any:
    """The position of each element in the storage, in row-major order; complex elements take two
    positions."""
    offsets = np.zeros(tuple(tensor.shape), dtype=np.int64) + int(tensor.storage_offset())
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        offsets += (np.arange(size) * stride).reshape(
            [-1 if d == dim else 1 for d in range(tensor.ndim)]
        )
    flat = offsets.reshape(-1)
    return (2 * flat[:, None] + np.arange(2)).reshape(-1) if tensor.dtype.is_complex else flat
