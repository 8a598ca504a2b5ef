"""Edits of the tensors of a case: literal bits, elements, strided layouts."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core import bits, dtypes
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...generate.fill import rounded_to_dtype
from ...generate.materialize import Arguments, Materials, literal, prepare

Raw = npt.NDArray[Any]
Tensor = TensorRecipe | Literal
_CACHED_BYTES = 1 << 14  # bytes


def tensors_of(case: Case) -> list[Tensor]:
    """Every tensor, in the order of :meth:`Case.tensors`, then the literal cotangents."""
    return [*case.tensors, *(c for c in case.cotangents if c is not None)]


def with_tensors(case: Case, tensors: Sequence[Tensor]) -> Case:
    """The case with other tensors (ordered as by :func:`tensors_of`)."""
    source = iter(tensors)
    changed = case.with_tensors(itertools.islice(source, len(case.tensors)))
    cotangents = tuple([None if c is None else next(source) for c in case.cotangents])
    return replace(changed, cotangents=cotangents)  # type: ignore[arg-type]


def size_of(tensor: Tensor) -> int:
    """The number of elements in the tensor's storage."""
    if isinstance(tensor, TensorRecipe):
        return math.prod(tensor.base)
    return len(tensor.data) // np.dtype(bits.array_dtype(tensor.dtype)).itemsize


def numbers_in(case: Case) -> int:
    """The number of elements in the storages of all arguments, without cotangents: those of the
    bitstream have no size."""
    return sum(map(size_of, case.tensors))


def bits_of(tensor: Literal) -> Raw:
    """A literal tensor's storage as a fresh flat array."""
    return bits.array_of_bytes(tensor.data, tensor.dtype)


def with_bits(tensor: Literal, storage: Raw) -> Literal:
    """The tensor over another storage of the same size."""
    return replace(tensor, data=bits.bytes_of_array(storage))


def with_literals(case: Case, *, chains: bool = False) -> Case:
    """The case with every tensor as a literal; with ``chains`` the chain of views is kept.

    Raises RecipeError for an invalid recipe.
    """
    materials = prepare(case)
    arguments = materials.build()
    literals = [
        _literal(materials, arguments, i, tensor, chains) for i, tensor in enumerate(case.tensors)
    ]
    case = replace(case, tiling=None)
    return with_tensors(case, [*literals, *(c for c in case.cotangents if c is not None)])


def _literal(
    materials: Materials, arguments: Arguments, i: int, tensor: Tensor, chains: bool
) -> Literal:
    if isinstance(tensor, Literal):
        return tensor if chains else replace(tensor, base=(), view=())
    view = arguments.tensors[i]
    if materials.case.tiling is not None:
        return literal(view)
    if view.is_conj():
        return replace(literal(view, before=1), leaf=tensor.leaf)
    shape, stride = tuple(view.shape), tuple(view.stride())
    chain = {"base": tensor.base, "view": tensor.view} if chains and tensor.view else {}
    return Literal(
        bits.bytes_of_array(materials.bases[i]),
        tensor.dtype,
        shape,
        stride,
        int(view.storage_offset()),
        tensor.leaf,
        **chain,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class StridedLayout:
    """A memory layout for any sizes: the order of dimensions from outermost to innermost, and the
    gaps.

    ``pads``: the excess of a dimension's stride over the extent inside it. ``expanded`` dimensions
    have stride 0. ``strides`` are explicit if elements overlap.
    """

    order: tuple[int, ...]
    pads: tuple[int, ...]
    expanded: frozenset[int] = frozenset()
    offset: int = 0
    strides: tuple[int, ...] | None = None

    @property
    def plain(self) -> bool:
        """Contiguous from the beginning of the storage."""
        gaps = self.offset or any(self.pads) or self.expanded or self.strides is not None
        return not gaps and self.order == tuple(range(len(self.order)))

    def strides_for(self, shape: Sequence[int]) -> tuple[int, ...]:
        if self.strides is not None:
            return self.strides
        strides, extent = [0] * len(shape), 1
        for dim in reversed(self.order):
            if dim not in self.expanded:
                strides[dim] = extent + self.pads[dim]
                extent = strides[dim] * max(shape[dim], 1)
        return tuple(strides)

    def without(self, dim: int) -> StridedLayout:
        """The layout without a dimension of size 1."""
        order = tuple(d - (d > dim) for d in self.order if d != dim)
        pads = (*self.pads[:dim], *self.pads[dim + 1 :])
        strides = None if self.strides is None else (*self.strides[:dim], *self.strides[dim + 1 :])
        return StridedLayout(
            order,
            pads,
            frozenset(d - (d > dim) for d in self.expanded if d != dim),
            self.offset,
            strides,
        )


def plain_layout(rank: int) -> StridedLayout:
    return StridedLayout(tuple(range(rank)), (0,) * rank)


def layout_of(tensor: Literal) -> StridedLayout:
    shape, stride = tensor.shape, tensor.stride
    expanded = frozenset(
        d for d, (n, s) in enumerate(zip(shape, stride, strict=True)) if s == 0 and n > 1
    )
    order = sorted(
        (d for d in range(len(shape)) if d not in expanded), key=lambda d: (-stride[d], d)
    )
    pads, extent = [0] * len(shape), 1
    for dim in reversed(order):
        pads[dim] = stride[dim] - extent if shape[dim] > 1 else max(stride[dim] - extent, 0)
        if pads[dim] < 0:
            return StridedLayout(
                tuple(range(len(shape))), (0,) * len(shape), expanded, tensor.offset, stride
            )
        extent = (extent + pads[dim]) * max(shape[dim], 1)
    return StridedLayout((*sorted(expanded), *order), tuple(pads), expanded, tensor.offset)


@dataclass(frozen=True, eq=False)
class TensorPiece:
    """A literal tensor split into its elements, its layout, and the hidden rest of its storage."""

    tensor: Literal
    elements: Raw
    layout: StridedLayout
    hidden: Raw

    def laid(
        self, elements: Raw | None = None, layout: StridedLayout | None = None
    ) -> Literal | None:
        """A literal tensor with these elements and this layout; None if overlapping elements would
        differ.

        Also None if it needs a longer storage (reordering dimensions multiplies gaps).
        """
        elements = self.elements if elements is None else elements
        layout = layout or self.layout
        strides = layout.strides_for(elements.shape)
        extent = (
            sum((n - 1) * s for n, s in zip(elements.shape, strides, strict=True)) + 1
            if elements.size
            else 0
        )
        size = layout.offset + extent if elements.size else 0
        if size > max(size_of(self.tensor), elements.size):
            return None
        fill = self.hidden if self.hidden.size else elements.reshape(-1)[::-1]
        storage = np.resize(fill, size) if fill.size else np.zeros(size, dtype=elements.dtype)
        view = _view(storage, elements.shape, strides, layout.offset if elements.size else 0)
        view[...] = elements
        if (layout.expanded or layout.strides is not None) and view.tobytes() != elements.tobytes():
            return None
        return Literal(
            bits.bytes_of_array(storage),
            self.tensor.dtype,
            elements.shape,
            strides,
            layout.offset if elements.size else 0,
            self.tensor.leaf,
        )


def pieces_of(tensor: Literal) -> TensorPiece:
    """Split a literal tensor. Small results are cached; do not write to the arrays."""
    return _cached_split(tensor) if len(tensor.data) <= _CACHED_BYTES else _split(tensor)


@functools.lru_cache(maxsize=256)
def _cached_split(tensor: Literal) -> TensorPiece:
    return _split(tensor)


def _split(tensor: Literal) -> TensorPiece:
    storage = bits_of(tensor)
    visible = np.zeros(storage.size, dtype=bool)
    _view(visible, tensor.shape, tensor.stride, tensor.offset)[...] = True
    elements = np.ascontiguousarray(
        _view(storage, tensor.shape, tensor.stride, tensor.offset)
    ).reshape(tensor.shape)
    return TensorPiece(tensor, elements, layout_of(tensor), storage[~visible])


def _view(storage: Raw, shape: Sequence[int], strides: Sequence[int], offset: int) -> Raw:
    if not math.prod(shape):
        return np.zeros(shape, dtype=storage.dtype)
    step = storage.itemsize
    return np.lib.stride_tricks.as_strided(
        storage[offset:], shape, [s * step for s in strides], writeable=True
    )


def reals_of(storage: Raw, dtype: str) -> npt.NDArray[np.float64]:
    """A storage's numbers in float64 (int64 beyond 2**53 is rounded); complex ones as pairs."""
    if dtype == "bfloat16":
        return (storage.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return dtypes.real_of(storage).astype(np.float64)


def put(storage: Raw, dtype: str, places: Any, numbers: Any) -> Raw:
    """A copy of a storage with ``numbers`` (float64, rounded to its dtype) at ``places``; parts
    of complex numbers count separately."""
    copy = storage.copy()
    parts = dtypes.real_of(copy)
    with np.errstate(all="ignore"):
        parts[places] = rounded_to_dtype(
            np.asarray(numbers, dtype=np.float64).reshape(-1), dtypes.PARTS.get(dtype, dtype)
        )
    return copy


def literals_in(case: Case) -> Iterator[tuple[int, Literal]]:
    """The literal tensors with their positions in :func:`tensors_of`."""
    return ((i, t) for i, t in enumerate(tensors_of(case)) if isinstance(t, Literal))
