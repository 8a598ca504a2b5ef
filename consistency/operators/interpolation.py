"""Resampling. Source coordinates are rounded, too: S = the interpolated |x| of the neighborhood ×
(1 + input size)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from .declare import (
    FLOAT,
    FLOATS,
    HALF,
    UNIT,
    Call,
    Domain,
    Drawing,
    Operator,
    Terms,
    accumulated,
    call,
    one,
)
from .hooks import Args, Kwargs, Tensors, hook
from .magnitudes import largest
from .parameter_sampling import channels
from .pooling import of_adaptive_window

MOST = {1: 129, 2: 17, 3: 7}
SMOOTH = {1: "linear", 2: "bilinear", 3: "trilinear"}
SCALES = (2.0, 0.5, 1.5, 2.25, 3.0, 120 / 88, 0.7, 1 / 3, 1.1)
# Sizes before and after of which a coordinate lies halfway between two pixels: times the quotient
# of the sizes it does so in float32 and in float64, divided by the float32 inverse it does not.
HALFWAY = ((14, 1), (20, 6), (26, 7), (30, 9), (28, 39), (40, 12), (42, 11), (50, 27), (60, 47))
PIXELS = Domain(wide=(-8, 7), sums=True)


def certain(size: int, wanted: int, scale: float | None, offset: float) -> bool:
    """Whether the same pixels are the nearest ones in float32, in float64 and in exact arithmetic:
    which side the rounding of a coordinate falls on, nothing promises. Where the size stays, torch
    copies, whatever the scale is."""
    exact = Fraction(size, wanted) if scale is None else 1 / Fraction(scale)
    positions = range(wanted)
    truth = [min(math.floor((i + Fraction(offset)) * exact), size - 1) for i in positions]
    if size == wanted and truth != [*positions]:
        return False
    for number in (np.float32, np.float64):
        step = number(size) / number(wanted) if scale is None else number(1.0 / scale)
        rounded = [number(i + offset) * step for i in positions]
        if truth != [min(math.floor(float(at)), size - 1) for at in rounded]:
            return False
    return True


def has_certain_pixels(args: Args, kwargs: Kwargs) -> bool:
    """Whether every nearest pixel of a call is :func:`certain`."""
    return _are_certain(*args, **kwargs)


def _are_certain(
    x: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    **_: Any,
) -> bool:
    if not mode.startswith("nearest"):
        return True
    before = x.shape[2:]
    after = F.interpolate(x, size, scale_factor, mode).shape[2:]
    given = None if recompute_scale_factor else scale_factor
    scales = given if isinstance(given, (list, tuple)) else [given] * len(before)
    offset = 0.5 if mode == "nearest-exact" else 0.0
    return all(certain(n, w, s, offset) for n, w, s in zip(before, after, scales, strict=True))


def uneven(d: Drawing, mode: str, size: list[int]) -> dict[str, Any]:
    """Any scale or size for the nearest pixel of which the coordinates are certain; else nothing.
    In a dimension where they are not, the size stays. Shrinks to a scale of 3."""
    offset = 0.5 if mode == "nearest-exact" else 0.0
    if d.flag():
        wanted = [d.size(1, 2 * n) for n in size]
        if offset and d.flag():  # the middle of an odd number lies between two of an even one
            wanted = [n | 1 for n in wanted]
        sure = [certain(n, w, None, offset) for n, w in zip(size, wanted, strict=True)]
        kept = [w if yes else n for n, w, yes in zip(size, wanted, sure, strict=True)]
        return {"size": kept} if any(sure) else {}
    scale = d.choice(3.0, 1.5, 120 / 88, 0.7, 1 / 3, 1.1, 5.0)
    whole = [math.floor(n * scale) for n in size]
    known = all(w and certain(n, w, scale, offset) for n, w in zip(size, whole, strict=True))
    return {"scale_factor": scale} if known else {}


def interpolate(d: Drawing) -> Call:
    """By size or by scale, a quarter of them in which a row is a single pixel with aligned corners.
    A size may be a single pixel, which smooth modes bring together from others. Where the nearest
    pixel is taken every coordinate is exact: powers of two as sizes or scales, or
    :func:`uneven`. Bytes are drawn from all there are, or such as cubic weights, which are
    negative in part, do not lead out of them."""
    whole = d.dtype == "uint8"
    rank = d.choice(2, 1, 3, 2)
    # A single pixel, aligned: there is no neighbor to align it with.
    lone = d.integer(0, 3) == 3 and not (whole and rank != 2)
    modes = [
        "nearest",
        "nearest",
        *[SMOOTH[rank], "area"] * (not whole),
        "nearest-exact",
        *["bicubic", SMOOTH[2]] * (rank == 2),
    ]
    mode = SMOOTH[rank] if lone else d.choice(*modes)
    least = d.choice(2, 2, 2, 1)  # a single pixel has no distance to the next
    most = MOST[rank] if d.dtype not in HALF else min(MOST[rank], 17)
    size = [d.size(least, most) for _ in range(rank)]
    exact = mode.startswith("nearest")
    # Half of the pixels are read at least, in one dimension any number: those that are not have no
    # gradient.
    min_exponents = [(n // 2).bit_length() if rank > 1 else 0 for n in size]
    options: dict[str, Any] = {"mode": mode} if mode != "nearest" else {}
    if d.flag():
        options["scale_factor"] = (
            d.choice(2.0, 4.0, *[0.5] * (rank == 1)) if exact else d.choice(*SCALES)
        )
        if not exact and d.choice(False, False, True):
            options["recompute_scale_factor"] = True
    else:
        options["size"] = [
            2 ** d.integer(min_exponents[i], 4 if rank < 3 else 3)
            if exact
            else d.size(1, MOST[rank])
            for i in range(rank)
        ]
    if exact and d.flag():
        other = uneven(d, mode, size)
        options = {"mode": mode, **other} if other else options
    if mode == "nearest-exact" and d.choice(False, False, True):
        size[-1], after = d.choice(*HALFWAY)
        options = {"mode": mode, "size": [*size[:-1], after]}
    if options.get("scale_factor", 1.0) < 1.0:
        least = math.ceil(1.0 / options["scale_factor"])
        size = [max(n, least) for n in size]  # a part of a pixel is none
    if lone:
        options["align_corners"] = True
        if options.get("scale_factor", 1.0) >= 1.0:
            size[-1] = 1
    elif not exact and mode != "area":
        smoothed = mode in ("bilinear", "bicubic") and d.dtype not in HALF
        # Bytes have kernels of their own, made for smaller images.
        how = d.choice("", "", "align_corners", *["antialias"] * (smoothed + whole))
        options |= {how: True} if how else {}
        if "size" in options and d.choice(*[False] * 7, True):
            options["size"] = [1] * rank
        elif options.get("scale_factor", 1.0) >= 1.0 and d.integer(0, 7) == 7:
            size = [1] * rank  # every neighbor of a pixel is the pixel itself
    bounds: dict[str, Any] = (
        {"values": ("integers", *d.choice((0, 255), (96, 159)))} if whole else {}
    )
    return call(d.tensor((d.size(1, 3), channels(d), *size), PIXELS, **bounds), **options)


def grid_sample(d: Drawing) -> Call:
    """Sampling points within and a little outside of the image, one time in eight far outside;
    whole pixels, and halves, where the nearest one is taken. NaN is none of them where the gradient
    of torch's CPU would end the process: between the pixels of images, unless padding is zeros
    (docs/coverage.md)."""
    rank = d.choice(2, 3)
    mode = d.choice("bilinear", "nearest", *["bicubic"] * (rank == 2))
    if mode == "nearest":
        # With aligned corners -1, 0 and 1 are pixels of images of odd size; in those of even size 0
        # lies exactly between two. Otherwise -1 and 1 lie halfway between a pixel and none.
        size, options = [d.integer(1, 9) for _ in range(rank)], {"align_corners": d.flag()}
        points: dict[str, Any] = {"values": ("integers", -1, 1)}
    else:
        size, options, points = (
            [d.size(1, 13 if rank < 3 else 7) for _ in range(rank)],
            {"align_corners": d.flag()},
            {},
        )
    batch, output_size = d.size(1, 3), [d.size(1 + n // 2, 13 if rank < 3 else 7) for n in size]
    padding = d.choice("zeros", "border", "reflection")
    if padding == "zeros" and d.choice(*[False] * 5, True):
        points = {"values": ("beyond", 1)}  # no pixel, wherever it is rounded to
    reach = 8.0 if mode != "nearest" and d.integer(0, 7) == 7 else 1.25
    domain = Domain(-reach, reach)
    if (rank, mode) == (2, "bilinear") and padding != "zeros":
        domain = replace(domain, propagates=())
    grid = d.tensor((batch, *output_size, rank), domain, **points)
    return call(
        d.tensor((batch, channels(d), *size), PIXELS),
        grid,
        mode=mode,
        padding_mode=padding,
        **options,
    )


def affine_grid(d: Drawing) -> Call:
    rank = d.choice(2, 3) if d.dtype in FLOAT else 2  # half precision has no volumes on the CPU
    min_size = 1 if d.dtype in FLOAT else 2  # nor a single row
    batch, spatial = d.size(1, 4), [d.size(min_size, 17 if rank < 3 else 7) for _ in range(rank)]
    return call(
        d.tensor((batch, rank, rank + 1), UNIT),
        [batch, d.size(1, 3), *spatial],
        align_corners=d.flag(),
    )


def neighborhood(x: torch.Tensor) -> torch.Tensor:
    """The largest |x| at most two pixels away."""
    pool = getattr(F, f"max_pool{x.ndim - 2}d")
    return pool(x.abs(), 5, stride=1, padding=2)  # type: ignore[no-any-return]


def extents(x: torch.Tensor) -> float:
    return float(1 + sum(x.shape[2:]))


@hook
def of_pixels(
    outputs: Tensors,
    x: torch.Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: Any = None,
    recompute_scale_factor: Any = None,
    antialias: bool = False,
) -> Any:
    """Bicubic weights are negative in part and add up to less than 2 in magnitude."""
    scaling: dict[str, Any] = {
        "size": size,
        "scale_factor": scale_factor,
        "recompute_scale_factor": recompute_scale_factor,
    }
    if mode.startswith("nearest"):
        return outputs[0].abs()
    if mode == "area":
        return F.interpolate(x.abs(), mode="area", **scaling)
    smooth, around = SMOOTH[x.ndim - 2], neighborhood(x)
    if antialias:
        return F.interpolate(around, mode=smooth, antialias=True, **scaling) * 2.0 * extents(x)
    return (
        F.interpolate(around, mode=smooth, align_corners=align_corners, **scaling)
        * 2.0
        * extents(x)
    )


@hook
def of_samples(
    outputs: Tensors,
    x: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    if mode == "nearest":
        return outputs[0].abs()
    # Where the point lies: of what is reflected, that is not at the border.
    within = "reflection" if padding_mode == "reflection" else "border"
    near = F.grid_sample(neighborhood(x), grid, "bilinear", within, align_corners)
    return near * 2.0 * extents(x) * reach(grid, padding_mode).unsqueeze(1)


def reach(grid: torch.Tensor, padding_mode: str) -> torch.Tensor:
    """How many times as far from the first pixel as the last one a sampling point lies before it is
    reflected, at least 1: the coordinate of that place is what is rounded."""
    far = (1.0 + torch.nan_to_num(grid.detach().abs(), 0.0, 0.0, 0.0).amax(-1)) / 2.0
    return far.clamp_min(1.0) if padding_mode == "reflection" else torch.ones_like(far)


@hook
def of_gradients(gradients: Tensors, x: torch.Tensor, *args: Any, **kwargs: Any) -> list[float]:
    """Of the pixels, some cotangents of at most 1; of sampling points, differences of pixels in
    every channel: n / 2 times the slope between pixels, which lie n to the interval [-1, 1]. The
    slope changes with the position, whose rounding is n · u / 2 pixels."""
    half_side = max(max(x.shape[2:]) / 2.0, 1.0)
    sizes = (largest(gradients[0]) + 1.0, largest(x) * x.shape[1] * half_side)
    return [2.0 * size * extents(x) for size, _ in zip(sizes, gradients, strict=False)]


@hook
def of_reflected_gradients(
    gradients: Tensors,
    x: torch.Tensor,
    grid: torch.Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> list[float]:
    """As :func:`of_gradients`, at positions that are rounded before they are reflected."""
    factor = largest(reach(grid, padding_mode))
    return [factor * size for size in of_gradients((x,), {}, gradients)]


@hook
def of_affine(
    outputs: Tensors, theta: torch.Tensor, size: list[int], align_corners: bool
) -> torch.Tensor:
    """Base coordinates lie within [-1, 1]."""
    per_axis = theta.abs().sum(-1)
    return per_axis.reshape(size[0], *[1] * (len(size) - 2), len(size) - 2).expand(outputs[0].shape)


@hook
def of_points(
    gradients: Tensors, theta: torch.Tensor, size: list[int], align_corners: bool
) -> float:
    """Cotangents and base coordinates of at most 1 for every point."""
    return float(math.prod(size[2:]))


@hook
def of_area(outputs: Tensors, x: Any, *_: Any, mode: str = "nearest", **__: Any) -> float:
    """n: the pixels of the largest area that a mean is taken of, as in adaptive pooling."""
    return float(of_adaptive_window(x.ndim - 2)((x,), {}, outputs)) if mode == "area" else 1.0


def op(
    name: str,
    sample: Any,
    size: Any,
    backward: Any,
    dtypes: tuple[str, ...] = FLOATS,
    terms: Terms = one,
    **more: Any,
) -> Operator:
    # torch weighs and adds half-precision pixels in the half format itself.
    error = accumulated(size, terms, backward=backward, wide_accumulation=False)
    return Operator(
        name=f"nn.functional.{name}",
        family="interpolate",
        sample=sample,
        error=error,
        dtypes=dtypes,
        **more,
    )


def resized(
    x: torch.Tensor, size: Any = None, scale_factor: Any = None, *others: Any, **options: Any
) -> torch.Tensor:
    """``interpolate``, transposed where it smooths into a column of one pixel: torch's CPU gives
    every row what the first one has then (docs/findings.md). Of bytes the number nearest to what
    is between the pixels."""
    if not x.is_floating_point():
        exact = resized(x.to(torch.float64), size, scale_factor, *others, **options)
        return exact.clamp(0, 255).round().to(x.dtype)
    whole = F.interpolate(x, size, scale_factor, *others, **options)
    if x.ndim != 4 or whole.shape[-1] != 1 or whole.shape[-2] == 1:
        return whole
    if not (options.get("antialias") or (len(others) > 3 and others[3])):
        return whole
    size, scale_factor = (
        pair[::-1] if isinstance(pair, (list, tuple)) else pair for pair in (size, scale_factor)
    )
    return F.interpolate(x.mT, size, scale_factor, *others, **options).mT


@hook
def of_rounded_weights(
    outputs: Tensors, x: torch.Tensor, *_: Any, mode: str = "nearest", **__: Any
) -> Iterator[Tensors]:
    """Of bytes, whose weights have few bits themselves, also the next number on either side."""
    if not (outputs[0].is_floating_point() or mode.startswith("nearest")):
        for step in (-1, 1):
            yield ((outputs[0].to(torch.int64) + step).clamp(0, 255),)


DISCONTINUOUS: dict[str, Any] = {"traits": frozenset({"discontinuous"})}
OPERATORS = [
    op(
        "interpolate",
        interpolate,
        of_pixels,
        of_gradients,
        (*FLOATS, "uint8"),
        terms=of_area,
        reference=resized,
        alternatives=of_rounded_weights,
        is_defined=has_certain_pixels,
        **DISCONTINUOUS,
    ),
    op(
        "grid_sample",
        grid_sample,
        of_samples,
        of_reflected_gradients,
        edges=(1,),
        **DISCONTINUOUS,
    ),
    op("affine_grid", affine_grid, of_affine, of_points, traits=frozenset({"linear"})),
]
