"""A right result spoiled afterwards: all zeros, off by a factor, moved, another tensor's."""

from __future__ import annotations

import functools

import numpy as np
import torch

from .context import Predicted, Scene, Suspect, Suspects

_LARGE = 100.0  # units: smaller errors leave everything in nearly the same order
_FEW = 1e-3  # relative: factors closer to 1 are named by their distance from it


def plain(scene: Scene) -> Suspects:
    """Nothing but zeros, or the other sign: asked first, because zeros have many other
    explanations."""
    r = scene.expected
    yield Suspect(
        "zero", _noun(scene) + " all zeros", functools.partial(scene.outputs, np.zeros_like(r))
    )
    yield Suspect(
        "negated", _noun(scene) + " with the other sign", functools.partial(scene.outputs, -r)
    )


def narrowed(scene: Scene) -> Suspects:
    """A result of int64 in 32 bits."""
    if scene.raw is not None and scene.raw.dtype == torch.int64:
        cut = scene.expected.astype(np.int64).astype(np.int32).astype(np.float64)
        yield Suspect(
            "int64-truncated", "int64 cut to int32", functools.partial(scene.outputs, cut)
        )


def suspects(scene: Scene) -> Suspects:
    yield from _moved(scene)
    yield from _others(scene)


def fitted(scene: Scene) -> Suspects:
    """What has a number of its own, taken from the result: asked last, because it explains much
    that has a better name."""
    yield from _spoiled(scene)
    yield from _out_of_range(scene)
    yield Suspect(
        "shifted", f"{_noun(scene)} in another order", functools.partial(_permuted, scene)
    )


def _noun(scene: Scene) -> str:
    return "a gradient" if scene.backward else "a result"


def _spoiled(scene: Scene) -> Suspects:
    """A constant factor or summand, fitted over the elements to explain."""
    a, r = scene.actual[scene.guilty], scene.expected[scene.guilty]
    if a.size < 2 or scene.special:
        return
    with np.errstate(all="ignore"):
        weight = 1.0 / np.square(scene.unit[scene.guilty])
        factor = float(np.sum(weight * a * r) / np.sum(weight * r * r))
        summand = float(np.sum(weight * (a - r)) / np.sum(weight))
    if np.isfinite(factor) and factor != 0.0:
        words = (
            f"a factor of {factor:.6g}"
            if abs(factor - 1.0) > _FEW
            else f"a factor of 1 {factor - 1.0:+.2g}"
        )
        yield Suspect("scaled", words, functools.partial(scene.outputs, factor * scene.expected), 1)
    if np.isfinite(summand) and np.ptp(r) > 0.0:
        yield Suspect(
            "offset-added",
            f"an added {summand:.4g}",
            functools.partial(scene.outputs, scene.expected + summand),
            1,
        )


def _moved(scene: Scene) -> Suspects:
    tensor = torch.from_numpy(scene.expected)
    if tensor.numel() != int(np.prod(scene.shape)):  # complex numbers, as pairs
        return
    tensor = tensor.reshape(scene.shape)
    noun = _noun(scene)
    for dim, size in enumerate(scene.shape):
        if size < 2:
            continue
        for step in (1, -1, 2, -2):
            words = f"{noun} shifted by {abs(step)} along dimension {dim}"
            yield Suspect(
                "shifted", words, functools.partial(scene.outputs, tensor.roll(step, dim))
            )
        yield Suspect(
            "flipped",
            f"{noun} flipped along dimension {dim}",
            functools.partial(scene.outputs, tensor.flip(dim)),
        )
        for step in (1, -1):
            moved = tensor.roll(step, dim).clone()
            moved[(slice(None),) * dim + (0 if step > 0 else -1,)] = 0.0
            words = f"{noun} shifted by 1 along dimension {dim}, zero at the end"
            yield Suspect("shifted", words, functools.partial(scene.outputs, moved))
        for k in (1, 2, 3, size % 4, size % 8, size % 16, size % 32):
            if 0 < k < size:
                blank = tensor.clone()
                blank[(slice(None),) * dim + (slice(size - k, size),)] = 0.0
                words = f"the last {k} of {size} along dimension {dim} not written"
                yield Suspect("terms-dropped", words, functools.partial(scene.outputs, blank))
    size = tensor.numel()
    for k in {1, 2, 3, 4, size % 4, size % 8, size % 16, size % 32}:
        if 0 < k < size and tensor.ndim > 1:
            blank = tensor.clone().reshape(-1)
            blank[size - k :] = 0.0
            words = f"the last {k} of {size} elements not written"
            yield Suspect(
                "terms-dropped", words, functools.partial(scene.outputs, blank.reshape(scene.shape))
            )
    if tensor.ndim >= 2 and scene.shape[-1] == scene.shape[-2] > 1:
        yield Suspect(
            "transposed", f"{noun} transposed", functools.partial(scene.outputs, tensor.mT)
        )
    elif tensor.ndim >= 2 and min(scene.shape[-2:]) > 1:
        read = tensor.mT.reshape(scene.shape)
        yield Suspect("transposed", f"{noun} transposed", functools.partial(scene.outputs, read))
        back = tensor.reshape(*scene.shape[:-2], scene.shape[-1], scene.shape[-2]).mT
        yield Suspect("transposed", f"{noun} transposed", functools.partial(scene.outputs, back))


def _permuted(scene: Scene) -> Predicted:
    """The right numbers at the wrong places: explains everything if both, sorted, agree."""
    a, r = np.sort(scene.actual), np.sort(scene.expected)
    unit = scene.unit[np.argsort(scene.expected, kind="stable")]
    if r.size < 4 or float(np.median(np.diff(r))) < 10.0 * float(np.median(unit)):
        return []  # neighbours cannot be told apart
    if scene.size < _LARGE or np.unique(r).size < 4 or not np.all(np.abs(a - r) <= 4.0 * unit):
        return []
    return scene.outputs(scene.actual)


def _others(scene: Scene) -> Suspects:
    """An input returned as it is, or left as it was."""
    for i, base in enumerate(scene.reference.arguments.bases):
        for tensor, words in (
            (base.reshape(-1), f"argument {i} left unchanged"),
            (scene.reference.arguments.tensors[i], f"argument {i} returned as it is"),
        ):
            if tensor.numel() == scene.expected.size:
                yield Suspect(
                    "stale",
                    words,
                    functools.partial(
                        scene.outputs, tensor.detach().to(torch.float64).reshape(scene.shape)
                    ),
                )


def _out_of_range(scene: Scene) -> Suspects:
    """Infinity, or a bound, from some magnitude on."""
    a, r = scene.actual, scene.expected
    with np.errstate(all="ignore"):
        infinite = np.isinf(a) & np.isfinite(r)
        if infinite.any():
            threshold = float(np.min(np.abs(r[infinite])))
            early = np.where(np.abs(r) >= threshold, np.copysign(np.inf, r), r)
            yield Suspect(
                "early-overflow",
                f"overflow already at {threshold:.4g}",
                functools.partial(scene.outputs, early),
            )
        wrong = scene.guilty & np.isfinite(a)
        if np.count_nonzero(wrong) >= 2:
            top = float(np.max(np.abs(a[wrong])))
            saturated = np.clip(r, -top, top)
            yield Suspect(
                "saturated",
                f"values beyond {top:.4g} cut off",
                functools.partial(scene.outputs, saturated),
                1,
            )
        nan = np.isnan(r) & ~np.isnan(a)
        if nan.any():
            yield Suspect(
                "nan-dropped",
                "NaN dropped",
                functools.partial(scene.outputs, np.where(nan & ~np.isnan(a), a, r)),
                1,
            )
