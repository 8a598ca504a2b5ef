"""A correct result corrupted afterwards: zeroed, scaled, moved, or replaced by another tensor."""

from __future__ import annotations

import functools

import numpy as np
import torch

from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted

_MIN_ERROR = 100.0  # units: smaller errors hardly change the order
_FLOAT32 = 2.0**-24  # the relative error of a constant in float32
_NEAR_ONE = 1e-3  # closer factors are shown by their distance from 1


def plain(context: AttributionContext) -> Hypotheses:
    """All zeros, or negated: tried first, because zeros have many other explanations."""
    r = context.expected
    yield FaultHypothesis(
        "zero", _noun(context) + " all zeros", functools.partial(context.outputs, np.zeros_like(r))
    )
    yield FaultHypothesis(
        "negated", _noun(context) + " with the other sign", functools.partial(context.outputs, -r)
    )


def narrowed(context: AttributionContext) -> Hypotheses:
    """An int64 result truncated to 32 bits."""
    if context.raw is not None and context.raw.dtype == torch.int64:
        cut = context.expected.astype(np.int64).astype(np.int32).astype(np.float64)
        yield FaultHypothesis(
            "int64-truncated", "int64 cut to int32", functools.partial(context.outputs, cut)
        )


def hypotheses(context: AttributionContext) -> Hypotheses:
    yield from _rearranged(context)
    yield from _copied_inputs(context)


def fitted(context: AttributionContext) -> Hypotheses:
    """Faults with a fitted parameter: tried last, because they explain much that has a better
    name."""
    yield from _scaled_or_offset(context)
    yield from _out_of_range(context)
    yield FaultHypothesis(
        "shifted", f"{_noun(context)} in another order", functools.partial(_permuted, context)
    )


def _noun(context: AttributionContext) -> str:
    return "a gradient" if context.backward else "a result"


def _scaled_or_offset(context: AttributionContext) -> Hypotheses:
    """A constant factor or summand, fitted over the failing elements."""
    a, r = context.actual[context.failing], context.expected[context.failing]
    if a.size < 2 or context.special:
        return
    with np.errstate(all="ignore"):
        weight = 1.0 / np.square(context.unit[context.failing])
        factor = float(np.sum(weight * a * r) / np.sum(weight * r * r))
        summand = float(np.sum(weight * (a - r)) / np.sum(weight))
    if np.isfinite(factor) and factor != 0.0:
        digits = 6 if abs(factor - 1.0) > _NEAR_ONE else 10
        words = f"a factor of {factor:.{digits}g}"
        if context.simulated_in_its_own_format and 0.0 < abs(factor - 1.0) <= _FLOAT32:
            yield FaultHypothesis(
                "float32-instead-of-float64",
                f"a factor rounded to float32 ({factor:.{digits}g})",
                functools.partial(context.outputs, factor * context.expected),
                1,
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


def _rearranged(context: AttributionContext) -> Hypotheses:
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
        if size > 2 and ".fft." in f".{context.operator.name}":
            yield FaultHypothesis(
                "flipped",
                f"{noun} reversed along dimension {dim}, but for its first number",
                functools.partial(context.outputs, tensor.flip(dim).roll(1, dim)),
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
        reinterpreted = tensor.mT.reshape(context.shape)
        yield FaultHypothesis(
            "transposed", f"{noun} transposed", functools.partial(context.outputs, reinterpreted)
        )
        reverse = tensor.reshape(*context.shape[:-2], context.shape[-1], context.shape[-2]).mT
        yield FaultHypothesis(
            "transposed", f"{noun} transposed", functools.partial(context.outputs, reverse)
        )


def _permuted(context: AttributionContext) -> Predicted:
    """The correct numbers in the wrong order: explains everything if both agree when sorted."""
    a, r = np.sort(context.actual), np.sort(context.expected)
    unit = context.unit[np.argsort(context.expected, kind="stable")]
    if r.size < 4 or float(np.median(np.diff(r))) < 10.0 * float(np.median(unit)):
        return []  # neighbors are indistinguishable
    if (
        context.size < _MIN_ERROR
        or np.unique(r).size < 4
        or not np.all(np.abs(a - r) <= 4.0 * unit)
    ):
        return []
    return context.outputs(context.actual)


def _copied_inputs(context: AttributionContext) -> Hypotheses:
    """An input returned as it is, or an output left unchanged."""
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
            overflowed = np.where(np.abs(r) >= threshold, np.copysign(np.inf, r), r)
            yield FaultHypothesis(
                "early-overflow",
                f"overflow already at {threshold:.4g}",
                functools.partial(context.outputs, overflowed),
            )
        wrong = context.failing & np.isfinite(a)
        if np.count_nonzero(wrong) >= 2:
            top = float(np.max(np.abs(a[wrong])))
            if top > 0.0:  # nothing is cut off at 0
                yield FaultHypothesis(
                    "saturated",
                    f"values beyond {top:.4g} cut off",
                    functools.partial(context.outputs, np.clip(r, -top, top)),
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
