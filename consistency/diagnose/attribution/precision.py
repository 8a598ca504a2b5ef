"""Reduced precision of inputs, of the arithmetic, of the accumulator or the result."""

from __future__ import annotations

import functools

import numpy as np
import torch

from ...core.model import Output
from ...generate.materialize import Adjust
from .accumulators import replayed_sums, representable, short_results
from .context import AttributionContext
from .fewer_bits import part_by_part, rounded, to_bfloat16_and_back
from .simulation import FaultHypothesis, Hypotheses, Predicted, flat
from .special_values import flushed_inputs


def hypotheses(context: AttributionContext) -> Hypotheses:
    if context.form is None:
        return
    yield from _inputs(context)
    if context.dtype == "float64":
        yield from _float32_arithmetic(context)
    yield from short_results(context)
    if context.dtype != "float64" and not context.backward:
        yield from replayed_sums(context)


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
            functools.partial(context.with_inputs, _rounding(bits, truncate=False)),
        )
        yield FaultHypothesis(
            name,
            f"truncated {words}",
            functools.partial(context.with_inputs, _rounding(bits, truncate=True)),
        )
        yield from _some_inputs(context, name, words, _rounding(bits, truncate=False))
    yield FaultHypothesis(
        "flushed-subnormals", "flushed subnormals", functools.partial(_flush_outputs, context)
    )
    yield from flushed_inputs(context)
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
    if count > 2 and not context.backward and context.operator.error.magnitude == "products":
        for i in range(count):  # a summand keeps its precision where factors lose theirs
            others = tuple(n for n in range(count) if n != i)
            yield FaultHypothesis(
                name,
                f"{words} but for argument {i}",
                functools.partial(
                    context.with_inputs, functools.partial(_adjust_some, others, adjust)
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


def _rounding(bits: int, truncate: bool) -> Adjust:
    def round_floats(base: torch.Tensor, position: int) -> torch.Tensor:
        return rounded(base, bits, truncate=truncate) if base.dtype == torch.float64 else base

    return part_by_part(round_floats)


def _float16_inputs(context: AttributionContext) -> Predicted:
    """Only if some failing result stays finite and nonzero: zeros and infinities of float16
    match many faults."""
    outputs = context.with_inputs(part_by_part(_to_float16_and_back))
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


def _three_products(context: AttributionContext) -> Predicted:
    """hi·hi + hi·lo + lo·hi: (hi + lo)·(hi + lo) without lo·lo."""

    def two_parts(base: torch.Tensor, position: int) -> torch.Tensor:
        high = to_bfloat16_and_back(base)
        return high + to_bfloat16_and_back(base - high)

    def low_parts(base: torch.Tensor, position: int) -> torch.Tensor:
        return (
            to_bfloat16_and_back(base - to_bfloat16_and_back(base)) if position < 2 else base * 0.0
        )

    two_part_outputs, low_outputs = (
        context.with_inputs(part_by_part(change)) for change in (two_parts, low_parts)
    )
    if not two_part_outputs or not low_outputs:
        return []
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
        context.reference.check_range(arguments)
        outputs = collect(
            lambda a, k: context.operator(*a, **k), context.operator, arguments, backward
        )
        return context.reference.observed(outputs)

    yield FaultHypothesis(
        "float32-instead-of-float64", "float32 arithmetic in place of float64", single
    )
    yield representable(
        context, "float32-instead-of-float64", "float32 arithmetic in place of float64", np.float32
    )
