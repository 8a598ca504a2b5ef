"""Cases taken apart: tensors by their bits, dimension by dimension, over a storage that can be laid
out anew."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core import bits, dtypes, recipe
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...generate.fill import rounded_to_dtype
from ...generate.materialize import Arguments, Materials, literal, prepare

Raw = npt.NDArray[Any]
Tensor = TensorRecipe | Literal
_SMALL = 1 << 14  # bytes


def tensors_of(case: Case) -> list[Tensor]:
    """Every tensor, in the order of :meth:`Case.tensors`, then the literal cotangents."""
    return [*case.tensors, *(c for c in case.cotangents if c is not None)]


def with_tensors(case: Case, tensors: Sequence[Tensor]) -> Case:
    """The case with other tensors in their places (as :func:`tensors_of` orders them)."""
    source = iter(tensors)

    def swap(value: recipe.Arg) -> recipe.Arg:
        if isinstance(value, recipe.TENSORS):
            return next(source)
        if isinstance(value, (list, tuple)):
            return type(value)([swap(item) for item in value])
        return value

    args = tuple([swap(a) for a in case.args])
    kwargs = {name: swap(value) for name, value in case.kwargs.items()}
    cotangents = tuple([None if c is None else next(source) for c in case.cotangents])
    return replace(case, args=args, kwargs=kwargs, cotangents=cotangents)  # type: ignore[arg-type]


def size_of(tensor: Tensor) -> int:
    """How many numbers the tensor's storage holds."""
    if isinstance(tensor, TensorRecipe):
        return math.prod(tensor.base)
    return len(tensor.data) // np.dtype(bits.array_dtype(tensor.dtype)).itemsize


def numbers_in(case: Case) -> int:
    """The numbers in the storages of all arguments. Cotangents are not counted: those of the
    bitstream have no size of their own."""
    return sum(map(size_of, case.tensors))


def bits_of(tensor: Literal) -> Raw:
    """A literal tensor's storage as a fresh flat array."""
    return bits.array_of_bytes(tensor.data, tensor.dtype)


def with_bits(tensor: Literal, storage: Raw) -> Literal:
    """The tensor over another storage of the same size."""
    return replace(tensor, data=bits.bytes_of_array(storage))


def with_literals(case: Case, *, chains: bool = False) -> Case:
    """The case with every tensor given by its bits; with ``chains`` the chain of views that led to
    its strides is kept.

    Raises RecipeError for a recipe that makes no sense.
    """
    materials = prepare(case)
    arguments = materials.build()
    found = [
        _literal(materials, arguments, i, tensor, chains) for i, tensor in enumerate(case.tensors)
    ]
    return with_tensors(case, [*found, *(c for c in case.cotangents if c is not None)])


def _literal(
    materials: Materials, arguments: Arguments, i: int, tensor: Tensor, chains: bool
) -> Literal:
    if isinstance(tensor, Literal):
        return tensor if chains else replace(tensor, base=(), view=())
    view = arguments.tensors[i]
    if view.is_conj():
        return literal(view, before=1)
    shape, stride = tuple(view.shape), tuple(view.stride())
    chain = {"base": tensor.base, "view": tensor.view} if chains and tensor.view else {}
    return Literal(
        bits.bytes_of_array(materials.bases[i]),
        tensor.dtype,
        shape,
        stride,
        int(view.storage_offset()),
        **chain,  # type: ignore[arg-type]
    )


@dataclass(frozen=True)
class StridedLayout:
    """How elements lie in memory, for any sizes: dimensions from the outermost to the innermost,
    and what lies between them.

    ``pads``: by how many elements a dimension's stride exceeds what lies inside it. ``expanded``
    ones have stride 0. ``strides`` are given where elements overlap, and then taken as they are.
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
        strides, inside = [0] * len(shape), 1
        for dim in reversed(self.order):
            if dim not in self.expanded:
                strides[dim] = inside + self.pads[dim]
                inside = strides[dim] * max(shape[dim], 1)
        return tuple(strides)

    def without(self, dim: int) -> StridedLayout:
        """The layout of the tensor without a dimension of size 1."""
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
    pads, inside = [0] * len(shape), 1
    for dim in reversed(order):
        pads[dim] = stride[dim] - inside if shape[dim] > 1 else max(stride[dim] - inside, 0)
        if pads[dim] < 0:
            return StridedLayout(
                tuple(range(len(shape))), (0,) * len(shape), expanded, tensor.offset, stride
            )
        inside = (inside + pads[dim]) * max(shape[dim], 1)
    return StridedLayout((*sorted(expanded), *order), tuple(pads), expanded, tensor.offset)


@dataclass(frozen=True, eq=False)
class TensorPiece:
    """One literal tensor taken apart: its elements in its shape, its layout, and what its storage
    holds besides."""

    tensor: Literal
    elements: Raw
    layout: StridedLayout
    hidden: Raw

    def laid(
        self, elements: Raw | None = None, layout: StridedLayout | None = None
    ) -> Literal | None:
        """Such elements in such a layout as a literal tensor; None where overlapping elements would
        have to differ.

        Nor is there one that needs a longer storage than the tensor has (gaps multiply when
        dimensions change places).
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
    """A literal tensor taken apart; its arrays are not to be written to. Small ones are
    remembered."""
    return _remembered(tensor) if len(tensor.data) <= _SMALL else _split(tensor)


@functools.lru_cache(maxsize=256)
def _remembered(tensor: Literal) -> TensorPiece:
    return _split(tensor)


def _split(tensor: Literal) -> TensorPiece:
    storage = bits_of(tensor)
    seen = np.zeros(storage.size, dtype=bool)
    _view(seen, tensor.shape, tensor.stride, tensor.offset)[...] = True
    elements = np.ascontiguousarray(
        _view(storage, tensor.shape, tensor.stride, tensor.offset)
    ).reshape(tensor.shape)
    return TensorPiece(tensor, elements, layout_of(tensor), storage[~seen])


def _view(storage: Raw, shape: Sequence[int], strides: Sequence[int], offset: int) -> Raw:
    if not math.prod(shape):
        return np.zeros(shape, dtype=storage.dtype)
    step = storage.itemsize
    return np.lib.stride_tricks.as_strided(
        storage[offset:], shape, [s * step for s in strides], writeable=True
    )


# Numbers.


def reals_of(storage: Raw, dtype: str) -> npt.NDArray[np.float64]:
    """A storage's numbers in float64 (int64 beyond 2**53 is rounded); complex ones as pairs."""
    if dtype == "bfloat16":
        return (storage.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return dtypes.real_of(storage).astype(np.float64)


def put(storage: Raw, dtype: str, places: Any, numbers: Any) -> Raw:
    """A copy of a storage with float64 ``numbers`` (rounded to its dtype) at ``places``, which
    count the parts of complex ones."""
    copy = storage.copy()
    parts = dtypes.real_of(copy)
    with np.errstate(all="ignore"):
        parts[places] = rounded_to_dtype(
            np.asarray(numbers, dtype=np.float64).reshape(-1), dtypes.PARTS.get(dtype, dtype)
        )
    return copy


def literals_in(case: Case) -> Iterator[tuple[int, Literal]]:
    """The literal tensors with their places among :func:`tensors_of`."""
    return ((i, t) for i, t in enumerate(tensors_of(case)) if isinstance(t, Literal))
