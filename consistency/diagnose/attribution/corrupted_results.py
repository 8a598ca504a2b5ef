"""A right result spoiled afterwards: all zeros, off by a factor, moved, another tensor's."""

from __future__ import annotations

import functools

import numpy as np
import torch

from .context import AttributionContext, FaultHypothesis, Hypotheses, Predicted

_LARGE = 100.0  # units: smaller errors leave everything in nearly the same order
_FEW = 1e-3  # relative: factors closer to 1 are named by their distance from it


def plain(context: AttributionContext) -> Hypotheses:
    """Nothing but zeros, or the other sign: asked first, because zeros have many other
    explanations."""
    r = context.expected
    yield FaultHypothesis(
        "zero", _noun(context) + " all zeros", functools.partial(context.outputs, np.zeros_like(r))
    )
    yield FaultHypothesis(
        "negated", _noun(context) + " with the other sign", functools.partial(context.outputs, -r)
    )


def narrowed(context: AttributionContext) -> Hypotheses:
    """A result of int64 in 32 bits."""
    if context.raw is not None and context.raw.dtype == torch.int64:
        cut = context.expected.astype(np.int64).astype(np.int32).astype(np.float64)
        yield FaultHypothesis(
            "int64-truncated", "int64 cut to int32", functools.partial(context.outputs, cut)
        )


def hypotheses(context: AttributionContext) -> Hypotheses:
    yield from _moved(context)
    yield from _others(context)


def fitted(context: AttributionContext) -> Hypotheses:
    """What has a number of its own, taken from the result: asked last, because it explains much
    that has a better name."""
    yield from _spoiled(context)
    yield from _out_of_range(context)
    yield FaultHypothesis(
        "shifted", f"{_noun(context)} in another order", functools.partial(_permuted, context)
    )


def _noun(context: AttributionContext) -> str:
    return "a gradient" if context.backward else "a result"


def _spoiled(context: AttributionContext) -> Hypotheses:
    """A constant factor or summand, fitted over the elements to explain."""
    a, r = context.actual[context.failing], context.expected[context.failing]
    if a.size < 2 or context.special:
        return
    with np.errstate(all="ignore"):
        weight = 1.0 / np.square(context.unit[context.failing])
        factor = float(np.sum(weight * a * r) / np.sum(weight * r * r))
        summand = float(np.sum(weight * (a - r)) / np.sum(weight))
    if np.isfinite(factor) and factor != 0.0:
        words = (
            f"a factor of {factor:.6g}"
            if abs(factor - 1.0) > _FEW
            else f"a factor of 1 {factor - 1.0:+.2g}"
        )
        yield FaultHypothesis(
            "scaled", words, functools.partial(context.outputs, factor * context.expected), 1
        )
    if np.isfinite(summand) and np.ptp(r) > 0.0:
        yield FaultHypothesis(
            "offset-added",
            f"an added {summand:.4g}",
            functools.partial(context.outputs, context.expected + summand),
            1,
        )


def _moved(context: AttributionContext) -> Hypotheses:
    tensor = torch.from_numpy(context.expected)
    if tensor.numel() != int(np.prod(context.shape)):  # complex numbers, as pairs
        return
    tensor = tensor.reshape(context.shape)
    noun = _noun(context)
    for dim, size in enumerate(context.shape):
        if size < 2:
            continue
        for step in (1, -1, 2, -2):
            words = f"{noun} shifted by {abs(step)} along dimension {dim}"
            yield FaultHypothesis(
                "shifted", words, functools.partial(context.outputs, tensor.roll(step, dim))
            )
        yield FaultHypothesis(
            "flipped",
            f"{noun} flipped along dimension {dim}",
            functools.partial(context.outputs, tensor.flip(dim)),
        )
        for step in (1, -1):
            moved = tensor.roll(step, dim).clone()
            moved[(slice(None),) * dim + (0 if step > 0 else -1,)] = 0.0
            words = f"{noun} shifted by 1 along dimension {dim}, zero at the end"
            yield FaultHypothesis("shifted", words, functools.partial(context.outputs, moved))
        for k in (1, 2, 3, size % 4, size % 8, size % 16, size % 32):
            if 0 < k < size:
                blank = tensor.clone()
                blank[(slice(None),) * dim + (slice(size - k, size),)] = 0.0
                words = f"the last {k} of {size} along dimension {dim} not written"
                yield FaultHypothesis(
                    "terms-dropped", words, functools.partial(context.outputs, blank)
                )
    size = tensor.numel()
    for k in {1, 2, 3, 4, size % 4, size % 8, size % 16, size % 32}:
        if 0 < k < size and tensor.ndim > 1:
            blank = tensor.clone().reshape(-1)
            blank[size - k :] = 0.0
            words = f"the last {k} of {size} elements not written"
            yield FaultHypothesis(
                "terms-dropped",
                words,
                functools.partial(context.outputs, blank.reshape(context.shape)),
            )
    if tensor.ndim >= 2 and context.shape[-1] == context.shape[-2] > 1:
        yield FaultHypothesis(
            "transposed", f"{noun} transposed", functools.partial(context.outputs, tensor.mT)
        )
    elif tensor.ndim >= 2 and min(context.shape[-2:]) > 1:
        read = tensor.mT.reshape(context.shape)
        yield FaultHypothesis(
            "transposed", f"{noun} transposed", functools.partial(context.outputs, read)
        )
        back = tensor.reshape(*context.shape[:-2], context.shape[-1], context.shape[-2]).mT
        yield FaultHypothesis(
            "transposed", f"{noun} transposed", functools.partial(context.outputs, back)
        )


def _permuted(context: AttributionContext) -> Predicted:
    """The right numbers at the wrong places: explains everything if both, sorted, agree."""
    a, r = np.sort(context.actual), np.sort(context.expected)
    unit = context.unit[np.argsort(context.expected, kind="stable")]
    if r.size < 4 or float(np.median(np.diff(r))) < 10.0 * float(np.median(unit)):
        return []  # neighbors cannot be told apart
    if context.size < _LARGE or np.unique(r).size < 4 or not np.all(np.abs(a - r) <= 4.0 * unit):
        return []
    return context.outputs(context.actual)


def _others(context: AttributionContext) -> Hypotheses:
    """An input returned as it is, or left as it was."""
    for i, base in enumerate(context.reference.arguments.bases):
        for tensor, words in (
            (base.reshape(-1), f"argument {i} left unchanged"),
            (context.reference.arguments.tensors[i], f"argument {i} returned as it is"),
        ):
            if tensor.numel() == context.expected.size:
                yield FaultHypothesis(
                    "stale",
                    words,
                    functools.partial(
                        context.outputs, tensor.detach().to(torch.float64).reshape(context.shape)
                    ),
                )


def _out_of_range(context: AttributionContext) -> Hypotheses:
    """Infinity, or a bound, from some magnitude on."""
    a, r = context.actual, context.expected
    with np.errstate(all="ignore"):
        infinite = np.isinf(a) & np.isfinite(r)
        if infinite.any():
            threshold = float(np.min(np.abs(r[infinite])))
            early = np.where(np.abs(r) >= threshold, np.copysign(np.inf, r), r)
            yield FaultHypothesis(
                "early-overflow",
                f"overflow already at {threshold:.4g}",
                functools.partial(context.outputs, early),
            )
        wrong = context.failing & np.isfinite(a)
        if np.count_nonzero(wrong) >= 2:
            top = float(np.max(np.abs(a[wrong])))
            saturated = np.clip(r, -top, top)
            yield FaultHypothesis(
                "saturated",
                f"values beyond {top:.4g} cut off",
                functools.partial(context.outputs, saturated),
                1,
            )
        nan = np.isnan(r) & ~np.isnan(a)
        if nan.any():
            yield FaultHypothesis(
                "nan-dropped",
                "NaN dropped",
                functools.partial(context.outputs, np.where(nan & ~np.isnan(a), a, r)),
                1,
            )
