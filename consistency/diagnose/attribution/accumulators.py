"""Accumulators of reduced precision: results that fit a shorter format, and sums replayed term by
term."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...operators.refusals import REFUSALS
from .context import AttributionContext
from .fewer_bits import rounded, to_bfloat16_and_back, truncated_to_float32
from .simulation import FaultHypothesis, Hypotheses, Predicted

MOST_STEPS = 4096  # of a replayed accumulation
MOST_TERMS = 1 << 22
_SCANS: dict[str, Callable[..., torch.Tensor]] = {"cumsum": torch.add, "cumprod": torch.mul}
_MIN_CLEARED = 10  # binary digits
_FLOAT16_BITS = 11
_MIN_DISTINCT = 4  # distinct numbers: fewer may fit a short format by chance


def short_results(context: AttributionContext) -> Hypotheses:
    """Results rounded to a shorter format, or representable in it because it was the
    accumulator."""
    assert context.form is not None
    for name, words, kind, bits in (
        ("bfloat16-accumulator", "bfloat16", None, 8),
        ("float16-accumulator", "float16", np.float16, 11),
    ):
        if bits >= context.form.precision or context.operator.error.kind == "exact":
            continue
        yield FaultHypothesis(
            name, f"results rounded to {words}", functools.partial(_rounded_result, context, bits)
        )
        if context.operator.error.kind == "accumulated":
            yield representable(context, name, f"a {words} accumulator", kind)


def _rounded_result(context: AttributionContext, bits: int) -> Predicted:
    """Only if the digits that rounding would have cleared are too many for chance: one number of
    float16 fits bfloat16 once in eight times."""
    assert context.form is not None
    if int(context.failing.sum()) * (context.form.precision - bits) < _MIN_CLEARED:
        return []
    if context.operator.error.kind == "rounded" and context.distinct < _MIN_DISTINCT:
        return []  # a number of twelve digits, rounded otherwise, fits eleven in half the cases
    right = torch.from_numpy(context.expected)
    if bits == _FLOAT16_BITS and not context.special:  # small numbers have fewer digits
        half = right.to(torch.float16).to(torch.float64)
        return context.outputs(torch.where(half.isfinite(), half, right))
    return context.outputs(rounded(right, bits))


def representable(context: AttributionContext, name: str, words: str, kind: Any) -> FaultHypothesis:
    """Explains everything if every number of a varied result fits a format that the expected
    ones do not fit."""

    def simulate() -> Predicted:
        values = context.actual[context.failing & (context.actual != 0.0)]
        expected = context.expected[context.failing & (context.expected != 0.0)]
        # A float64 number is representable in float32 with probability 2⁻²⁹: a few suffice,
        # unless they are round.
        float32_only = (
            kind is np.float32
            and values.size > 0
            and not _fits(values, np.float16)
            and _close_in_float32(values, expected)
        )
        if (
            (np.unique(values).size < _MIN_DISTINCT and not float32_only)
            or not _fits(values, kind)
            or _fits(expected[:64], kind)
            or not _as_close_as_rounded(context, kind)
        ):
            return []
        return context.outputs(context.actual)

    return FaultHypothesis(name, words, simulate)


def _as_close_as_rounded(context: AttributionContext, kind: Any) -> bool:
    """Whether no error exceeds what n roundings to a half-precision format leave, n·u'·S: another
    divisor or argument may give numbers that fit the format by chance, too."""
    if kind is np.float32 or context.form is None:  # float32 may also have rounded the inputs
        return True
    bits = 11 if kind is np.float16 else 8
    growth = max(context.reference.growth(context.index), 1.0)
    limit = growth * 2.0 ** (context.form.precision - bits) * context.unit
    with np.errstate(all="ignore"):
        error = np.abs(context.actual - context.expected)
    return bool((error <= limit)[context.failing].all())


def _close_in_float32(values: Any, expected: Any) -> bool:
    """Whether the numbers agree to about half of float32's digits."""
    return values.shape == expected.shape and bool(
        np.allclose(values, expected, rtol=2.0**-12, atol=0.0)
    )


def _fits(values: Any, kind: Any) -> bool:
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    format = (
        torch.float32
        if kind is np.float32
        else torch.float16
        if kind is np.float16
        else torch.bfloat16
    )
    return bool((tensor.to(format).to(torch.float64) == tensor).all())


def replayed_sums(context: AttributionContext) -> Hypotheses:
    """Sums replayed term by term, in order or in blocks, with every partial sum truncated or
    rounded."""
    rounders: tuple[tuple[str, str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        (
            "truncating-accumulator",
            "a truncating accumulator",
            truncated_to_float32,
        ),
        ("bfloat16-accumulator", "a bfloat16 accumulator", to_bfloat16_and_back),
        (
            "float16-accumulator",
            "a float16 accumulator",
            lambda t: t.to(torch.float16).to(torch.float64),
        ),
    )
    for block in (1, 4, 8, 16, 32):
        for name, label, rounder in rounders:
            if context.dtype != "float32" and not name.startswith(context.dtype):
                continue
            yield FaultHypothesis(
                name, label, functools.partial(_replay_sum, context, rounder, block)
            )


def _replay_sum(
    context: AttributionContext,
    round_partial_sum: Callable[[torch.Tensor], torch.Tensor],
    block: int,
) -> Predicted:
    if context.operator.name in _SCANS:
        return _replay_scan(context, round_partial_sum) if block == 1 else []
    terms = terms_of(context)
    if terms is None or terms.shape[0] < 2 * block or terms.shape[0] > MOST_STEPS * block:
        return []
    total = torch.zeros(terms.shape[1:], dtype=torch.float64)
    for start in range(0, terms.shape[0], block):
        total = round_partial_sum(total + terms[start : start + block].sum(0))
    scale = terms.shape[0] if context.operator.name == "mean" else 1
    return context.outputs((total / scale).reshape(context.shape).numpy())


def _replay_scan(
    context: AttributionContext, round_partial_sum: Callable[[torch.Tensor], torch.Tensor]
) -> Predicted:
    """A running sum or product of which every element is rounded, and then carried on."""
    arguments = context.reference.arguments
    x = arguments.tensors[0].detach().to(torch.float64)
    dim = arguments.kwargs.get("dim", arguments.args[1] if len(arguments.args) > 1 else 0)
    if not x.ndim or not 1 < x.shape[dim] <= MOST_STEPS or x.numel() != context.expected.size:
        return []
    step = _SCANS[context.operator.name]
    rows = [x.select(dim, 0)]
    for row in x.unbind(dim)[1:]:
        rows.append(round_partial_sum(step(rows[-1], row)))
    return context.outputs(torch.stack(rows, dim))


def terms_of(context: AttributionContext) -> torch.Tensor | None:
    """The terms of each output element along a new first dimension, for operators with a natural
    order of terms."""
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    try:
        return _terms(context.operator.name, args, kwargs)
    except REFUSALS:
        return None


def _terms(name: str, args: Any, kwargs: Any) -> torch.Tensor | None:
    if name in ("sum", "mean"):
        x, dims = args[0], kwargs.get("dim", args[1] if len(args) > 1 else None)
        dims = (
            list(range(x.ndim))
            if dims is None or dims == []
            else [dims]
            if isinstance(dims, int)
            else list(dims)
        )
        dims = sorted(d % x.ndim for d in dims)
        rest = [d for d in range(x.ndim) if d not in dims]
        return x.permute(*dims, *rest).reshape(-1, *[x.shape[d] for d in rest])  # type: ignore[no-any-return]
    if name in ("matmul", "mm", "bmm", "mv", "dot", "nn.functional.linear") and len(args) == 2:
        x, y = args
        y = y.T if name == "nn.functional.linear" and y.ndim == 2 else y
        if x.ndim == 1 and y.ndim == 1:
            return x * y  # type: ignore[no-any-return]
        y = y.unsqueeze(-1) if y.ndim == 1 else y
        x = x.unsqueeze(0) if x.ndim == 1 else x
        if x.numel() * y.shape[-1] > MOST_TERMS:
            return None
        return (x.unsqueeze(-1) * y.unsqueeze(-3)).movedim(-2, 0)  # type: ignore[no-any-return]
    if (
        name == "nn.functional.conv2d"
        and len(args) == 2
        and kwargs.get("groups", 1) == 1
        and "bias" not in kwargs
    ):
        x, weight = args
        options = {
            key: value for key, value in kwargs.items() if key in ("stride", "padding", "dilation")
        }
        columns = torch.nn.functional.unfold(
            x if x.ndim == 4 else x.unsqueeze(0), weight.shape[-2:], **options
        )
        if columns.numel() * weight.shape[0] > MOST_TERMS:
            return None
        terms = columns.unsqueeze(1) * weight.reshape(1, weight.shape[0], -1, 1)
        return terms.movedim(2, 0)  # type: ignore[no-any-return]
    return None
