"""Reduced precision of inputs, accumulator or result."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...core.model import Output
from ...generate.materialize import Adjust
from ...operators.refusals import REFUSALS
from .context import AttributionContext, FaultHypothesis, Hypotheses, Predicted, flat

MOST_STEPS = 4096  # of a replayed accumulation
MOST_TERMS = 1 << 22
_MIN_DISTINCT = 4  # distinct numbers: fewer may fit a short format by chance


def hypotheses(context: AttributionContext) -> Hypotheses:
    if context.form is None:
        return
    yield from _inputs(context)
    if context.dtype == "float64":
        yield from _float32_arithmetic(context)
    yield from _results(context)
    if context.dtype != "float64" and not context.backward:
        yield from _accumulators(context)


def rounded(tensor: torch.Tensor, bits: int, *, truncate: bool = False) -> torch.Tensor:
    """float64 numbers rounded to ``bits`` significand bits, to nearest even or toward zero, with
    unlimited exponent."""
    mantissa, exponent = torch.frexp(tensor)
    scaled = torch.ldexp(mantissa, torch.tensor(bits))
    result = torch.ldexp(scaled.trunc() if truncate else scaled.round(), exponent - bits)
    return torch.where(torch.isfinite(tensor), result, tensor)


_FORMATS = (
    ("tf32-inputs", "TF32 inputs", 11),
    ("bfloat16-inputs", "bfloat16 inputs", 8),
    ("float32-inputs", "float32 inputs", 24),
)


def _inputs(context: AttributionContext) -> Hypotheses:
    assert context.form is not None
    for name, words, bits in _FORMATS:
        if bits >= context.form.precision:
            continue
        name = "float32-instead-of-float64" if bits == 24 else name
        yield FaultHypothesis(
            name,
            words,
            functools.partial(context.with_inputs, functools.partial(_round_floats, bits, False)),
        )
        yield FaultHypothesis(
            name,
            f"truncated {words}",
            functools.partial(context.with_inputs, functools.partial(_round_floats, bits, True)),
        )
        yield from _some_inputs(context, name, words, functools.partial(_round_floats, bits, False))
    yield FaultHypothesis(
        "flushed-subnormals", "flushed subnormals", functools.partial(_flush_outputs, context)
    )
    if context.form.precision > 11:
        if context.operator.error.magnitude == "products":
            yield FaultHypothesis(
                "bfloat16x3-inputs",
                "bfloat16 inputs in three parts (bf16×3)",
                functools.partial(_three_products, context),
            )
        yield FaultHypothesis(
            "float16-inputs", "float16 inputs", functools.partial(_float16_inputs, context)
        )


def _some_inputs(context: AttributionContext, name: str, words: str, adjust: Adjust) -> Hypotheses:
    """One input in reduced precision; in backward also all inputs without the cotangent."""
    count = len(context.reference.materials.bases)
    if context.backward:
        yield FaultHypothesis(
            name,
            words,
            functools.partial(
                context.with_inputs, functools.partial(_adjust_some, tuple(range(count)), adjust)
            ),
        )
    if count > 1 or context.backward:
        for i in range(count + context.backward):
            kind = words.removesuffix(" inputs")
            text = (
                f"{kind} in place of argument {i}"
                if i < count
                else f"{kind} in place of the cotangent"
            )
            yield FaultHypothesis(
                name,
                text,
                functools.partial(
                    context.with_inputs, functools.partial(_adjust_some, (i,), adjust)
                ),
            )


def _adjust_some(
    chosen: tuple[int, ...], adjust: Adjust, base: torch.Tensor, position: int
) -> torch.Tensor:
    """Apply ``adjust`` to some of the inputs."""
    return adjust(base, position) if position in chosen else base


def _round_floats(bits: int, truncate: bool, base: torch.Tensor, position: int) -> torch.Tensor:
    return rounded(base, bits, truncate=truncate) if base.dtype == torch.float64 else base


def _float16_inputs(context: AttributionContext) -> Predicted:
    """Only if some failing result stays finite and nonzero: zeros and infinities of float16
    match many faults."""
    outputs = context.with_inputs(_to_float16_and_back)
    tensor = outputs[context.index].tensor if context.index < len(outputs) else None
    if tensor is None or tensor.numel() != context.expected.size:
        return []
    values = flat(tensor)[context.failing]
    return (
        outputs
        if np.count_nonzero(np.isfinite(values) & (values != 0.0)) > values.size // 2
        else []
    )


def _to_float16_and_back(base: torch.Tensor, position: int) -> torch.Tensor:
    return base.to(torch.float16).to(base.dtype)


def _to_bfloat16_and_back(base: torch.Tensor) -> torch.Tensor:
    return base.to(torch.bfloat16).to(base.dtype)


def _three_products(context: AttributionContext) -> Predicted:
    """hi·hi + hi·lo + lo·hi: (hi + lo)·(hi + lo) without lo·lo."""

    def two_parts(base: torch.Tensor, position: int) -> torch.Tensor:
        high = _to_bfloat16_and_back(base)
        return high + _to_bfloat16_and_back(base - high)

    def low_parts(base: torch.Tensor, position: int) -> torch.Tensor:
        return (
            _to_bfloat16_and_back(base - _to_bfloat16_and_back(base))
            if position < 2
            else base * 0.0
        )

    two_part_outputs, low_outputs = context.with_inputs(two_parts), context.with_inputs(low_parts)
    return [Output(a.name,
    a.tensor - b.tensor if a.tensor is not None and b.tensor is not None else None)
            for a, b in zip(two_part_outputs, low_outputs, strict=True)]  # fmt: skip


def _flush_outputs(context: AttributionContext) -> Predicted:
    assert context.form is not None
    smallest_normal, outputs = (
        context.form.smallest_normal,
        context.reference.flushed() or context.reference.outputs,
    )
    return [
        Output(
            o.name,
            torch.where(o.tensor.abs() < smallest_normal, o.tensor * 0.0, o.tensor)
            if o.tensor is not None
            else None,
        )
        for o in outputs
    ]


def _float32_arithmetic(context: AttributionContext) -> Hypotheses:
    """The operator run in float32, or a result that contains only float32 numbers."""

    def single() -> Predicted:
        from ...backends.base import collect

        backward = context.backward
        arguments = context.reference.materials.build(
            "float32", gradients=backward and context.operator.leaves
        )
        outputs = collect(
            lambda a, k: context.operator(*a, **k), context.operator, arguments, backward
        )
        return context.reference.observed(outputs)

    yield FaultHypothesis(
        "float32-instead-of-float64", "float32 arithmetic in place of float64", single
    )
    yield _representable(
        context, "float32-instead-of-float64", "float32 arithmetic in place of float64", np.float32
    )


def _results(context: AttributionContext) -> Hypotheses:
    """Results rounded to a shorter format, or representable in it because it was the
    accumulator."""
    assert context.form is not None
    for name, words, kind, bits in (
        ("bfloat16-accumulator", "bfloat16", None, 8),
        ("float16-accumulator", "float16", np.float16, 11),
    ):
        if bits >= context.form.precision or context.operator.error.kind != "accumulated":
            continue
        yield FaultHypothesis(
            name, f"results rounded to {words}", functools.partial(_rounded_result, context, bits)
        )
        yield _representable(context, name, f"a {words} accumulator", kind)


def _rounded_result(context: AttributionContext, bits: int) -> Predicted:
    return context.outputs(rounded(torch.from_numpy(context.expected), bits))


def _representable(
    context: AttributionContext, name: str, words: str, kind: Any
) -> FaultHypothesis:
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
        ):
            return []
        return context.outputs(context.actual)

    return FaultHypothesis(name, words, simulate)


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


def _accumulators(context: AttributionContext) -> Hypotheses:
    """Sums replayed term by term, in order or in blocks, with every partial sum truncated or
    rounded."""
    rounders: tuple[tuple[str, str, Callable[[torch.Tensor], torch.Tensor]], ...] = (
        (
            "truncating-accumulator",
            "a truncating accumulator",
            functools.partial(rounded, bits=24, truncate=True),
        ),
        ("bfloat16-accumulator", "a bfloat16 accumulator", _to_bfloat16_and_back),
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
    terms = terms_of(context)
    if terms is None or terms.shape[0] < 2 * block or terms.shape[0] > MOST_STEPS * block:
        return []
    total = torch.zeros(terms.shape[1:], dtype=torch.float64)
    for start in range(0, terms.shape[0], block):
        total = round_partial_sum(total + terms[start : start + block].sum(0))
    scale = terms.shape[0] if context.operator.name == "mean" else 1
    return context.outputs((total / scale).reshape(context.shape).numpy())


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
