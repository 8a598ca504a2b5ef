"""Triangles, diagonals and margins of a tensor."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from consistency.backends.numpy.dtypes import Array, Scalar
from consistency.backends.numpy.implementations import implements


@implements("tril", wide=True, complex=True)
def tril(input: Array, diagonal: int = 0) -> Array:
    return np.tril(input, diagonal)


@implements("triu", wide=True, complex=True)
def triu(input: Array, diagonal: int = 0) -> Array:
    return np.triu(input, diagonal)


@implements("diag", wide=True, complex=True)
def diag(input: Array, diagonal: int = 0) -> Array:
    return np.diag(input, diagonal)


@implements("diagflat", wide=True, complex=True)
def diagflat(input: Array, offset: int = 0) -> Array:
    return np.diagflat(input, offset)


@implements("diagonal", wide=True, complex=True)
def diagonal(input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return np.diagonal(input, offset, dim1, dim2)


@implements("linalg.diagonal", wide=True, complex=True)
def linalg_diagonal(input: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    return np.diagonal(input, offset, dim1, dim2)


@implements("diag_embed", wide=True, complex=True)
def diag_embed(input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    length = input.shape[-1] + abs(offset)
    result = np.zeros((*input.shape[:-1], length, length), input.dtype)
    first = np.arange(input.shape[-1]) + max(-offset, 0)
    result[..., first, first + offset] = input
    return np.moveaxis(result, (-2, -1), (dim1, dim2))


_PADDING: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


@implements("nn.functional.pad", wide=True, complex=True)
def pad(
    input: Array, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None
) -> Array:
    """Pairs of widths from the last dimension backwards; negative ones cut off."""
    n = len(pad) // 2
    widths = [(0, 0)] * (input.ndim - n) + [
        (pad[2 * i], pad[2 * i + 1]) for i in reversed(range(n))
    ]
    grown = [(max(before, 0), max(after, 0)) for before, after in widths]
    if mode == "constant":
        return _cropped(
            np.pad(input, grown, constant_values=input.dtype.type(0 if value is None else value)),
            widths,
        )
    if mode not in _PADDING:
        raise NotImplementedError(f"mode {mode!r}")
    if (
        mode == "circular"
    ):  # goes round what is left; the others reflect and repeat also what is then cut off
        return np.pad(_cropped(input, widths), grown, mode="wrap")
    return _cropped(np.pad(input, grown, mode=_PADDING[mode]), widths)


def _cropped(x: Array, widths: Sequence[tuple[int, int]]) -> Array:
    """`x` without what the negative widths cut off."""
    inside = (
        slice(max(-before, 0), size - max(-after, 0))
        for (before, after), size in zip(widths, x.shape, strict=True)
    )
    return x[tuple(inside)]
