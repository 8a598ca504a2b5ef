"""Interpolation along grids, and moving pixels between channels and space."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import per_dimension
from consistency.backends.numpy.dtypes import INDEX, Array, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.pooling import adaptive_average

_LINEAR = {"linear": 1, "bilinear": 2, "trilinear": 3}


def _cubic_weights(t: Array) -> list[Array]:
    """Keys' cubic convolution with a = −¾, at distances 1 + t, t, 1 − t and 2 − t."""
    a = -0.75

    def near(d: Array) -> Array:
        return np.asarray(((a + 2) * d - (a + 3)) * d * d + 1)

    def far(d: Array) -> Array:
        return np.asarray(((a * d - 5 * a) * d + 8 * a) * d - 4 * a)

    return [far(1 + t), near(t), near(1 - t), far(2 - t)]


def _weighted(x: Array, dim: int, indices: Sequence[Array], weights: Sequence[Array]) -> Array:
    """Σ wᵢ · x[indicesᵢ] along `dim`; indices beyond the ends mean the ends."""
    shape = [1] * x.ndim
    shape[dim] = -1
    parts = [
        np.take(x, np.clip(index, 0, x.shape[dim] - 1), dim) * weight.astype(x.dtype).reshape(shape)
        for index, weight in zip(indices, weights, strict=True)
    ]
    return reduce(np.add, parts)


def _along(
    x: Array, dim: int, count: int, factor: float | None, mode: str, align_corners: bool
) -> Array:
    """One dimension resampled to `count`. Coordinates are worked out in float64 at least, weights
    in the dtype of x."""
    size = x.shape[dim]
    outputs = np.arange(count).astype(np.promote_types(x.dtype, np.float64))
    scale = constant(size, outputs) / count if factor is None else constant(1, outputs) / factor
    if (
        mode == "nearest"
    ):  # in integers where possible: i · scale may end up just below the integer it should be
        chosen = (
            np.arange(count) * size // count
            if factor is None
            else np.floor(outputs * scale).astype(INDEX)
        )
        return np.asarray(np.take(x, np.minimum(chosen, size - 1), dim))
    if mode == "nearest-exact":
        return np.asarray(
            np.take(x, np.minimum(np.floor((outputs + 0.5) * scale).astype(INDEX), size - 1), dim)
        )
    corners = constant(size - 1, outputs) / max(count - 1, 1)
    position = outputs * corners if align_corners else (outputs + 0.5) * scale - 0.5
    if mode == "bicubic":
        first = np.floor(position)
        indices = [first.astype(INDEX) + offset for offset in (-1, 0, 1, 2)]
        return _weighted(x, dim, indices, _cubic_weights(position - first))
    if count == size and (position == outputs).all():
        return x  # no neighbor counts, not even one that is NaN
    position = np.maximum(position, 0)
    first = np.minimum(np.floor(position), size - 1)
    share = np.clip(position - first, 0, 1)
    index = first.astype(INDEX)
    return _weighted(x, dim, [index, index + 1], [1 - share, share])


@implements("nn.functional.interpolate", wide=True, integers=False)
def interpolate(
    input: Array,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Array:
    """One dimension after the other: every mode is separable."""
    spatial = input.shape[2:]
    n = len(spatial)
    if antialias:
        raise NotImplementedError("antialias")
    if mode not in ("nearest", "nearest-exact", "area", "bicubic", *_LINEAR):
        raise NotImplementedError(f"mode {mode!r}")
    if _LINEAR.get(mode, n) != n or (mode == "bicubic" and n != 2):
        raise NotImplementedError(f"mode {mode!r} of {input.ndim} dimensions")
    factors: list[float | None] = [None] * n
    if size is not None:
        counts = per_dimension(size, n)
    elif scale_factor is not None:
        scales = (
            [float(scale_factor)] * n
            if isinstance(scale_factor, (int, float))
            else list(scale_factor)
        )
        scales = scales * n if len(scales) == 1 else scales
        counts = tuple(int(np.floor(one * f)) for one, f in zip(spatial, scales, strict=True))
        if not recompute_scale_factor:
            factors = list(scales)
    else:
        raise ValueError("either size or scale_factor should be defined")
    if mode == "area":
        return adaptive_average(input, counts, n)
    result = input
    for i, (count, factor) in enumerate(zip(counts, factors, strict=True)):
        result = _along(result, 2 + i, count, factor, mode, bool(align_corners))
    return result


def _offer_upsample(name: str, choose: Callable[[Array], dict[str, Any]]) -> None:
    @implements(f"nn.functional.upsample_{name}", wide=True, integers=False)
    def call(
        input: Array,
        size: int | Sequence[int] | None = None,
        scale_factor: float | Sequence[float] | None = None,
    ) -> Array:
        return interpolate(input, size, scale_factor, **choose(input))


_offer_upsample("nearest", lambda x: {"mode": "nearest"})
_offer_upsample("bilinear", lambda x: {"mode": "bilinear", "align_corners": True})


# --- pixels and channels


@implements("nn.functional.pixel_shuffle", wide=True, complex=True)
def pixel_shuffle(input: Array, upscale_factor: int) -> Array:
    r = upscale_factor
    *lead, channels, rows, columns = input.shape
    blocks = np.moveaxis(
        input.reshape(*lead, channels // (r * r), r, r, rows, columns), (-4, -3), (-3, -1)
    )
    return blocks.reshape(*lead, channels // (r * r), rows * r, columns * r)


@implements("nn.functional.pixel_unshuffle", wide=True, complex=True)
def pixel_unshuffle(input: Array, downscale_factor: int) -> Array:
    r = downscale_factor
    *lead, channels, rows, columns = input.shape
    blocks = np.moveaxis(
        input.reshape(*lead, channels, rows // r, r, columns // r, r), (-3, -1), (-4, -3)
    )
    return blocks.reshape(*lead, channels * r * r, rows // r, columns // r)


@implements("nn.functional.channel_shuffle", wide=True, complex=True)
def channel_shuffle(input: Array, groups: int) -> Array:
    batch, channels = input.shape[:2]
    return (
        input.reshape(batch, groups, channels // groups, *input.shape[2:])
        .swapaxes(1, 2)
        .reshape(input.shape)
    )
