"""Faults at zeros with a sign, subnormal numbers and NaN."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch

from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call

_WITH_BETA = ("addmm", "addmv", "addbmm", "baddbmm", "addr")


def hypotheses(context: AttributionContext, name: str) -> Hypotheses:
    tensors = context.reference.arguments.tensors
    if any(
        t.dtype.is_floating_point and bool(((t == 0.0) & torch.signbit(t)).any()) for t in tensors
    ):
        words = "the sign of a zero input is lost"
        yield FaultHypothesis(
            "zero-sign-lost",
            words,
            functools.partial(context.with_inputs, lambda base, position: base + 0.0),
        )
        # Beside zeros with their signs, which `precision` tries.
        for words, zeros_too in (
            ("subnormal inputs taken for zero", False),
            ("subnormal inputs and -0 taken for +0", True),
        ):
            yield from flushed_inputs(context, words, signed=False, zeros_too=zeros_too)
    if any(t.dtype.is_floating_point and bool(t.isnan().any()) for t in tensors):
        for value, plain in (
            (-math.inf, False),
            (math.inf, False),
            (-math.inf, True),
            (math.inf, True),
        ):
            replace_nan = functools.partial(_replace_nan, value, plain)
            yield FaultHypothesis(
                "nan-dropped",
                "leaving NaN out",
                functools.partial(context.with_inputs, replace_nan),
            )
    if name in _WITH_BETA and context.reference.arguments.kwargs.get("beta") == 0:
        words = "the input is not left out although beta is 0"
        yield FaultHypothesis(
            "beta-zero-kept", words, functools.partial(_add_input_times_zero, context)
        )
    if name.startswith("nn.functional.max_pool"):
        words = "indices are counted from the start of the tensor, not of their plane"
        global_indices = functools.partial(_global_pool_indices, context.operator, int(name[-2]))
        yield FaultHypothesis(
            "index-base",
            words,
            functools.partial(context.with_call, unchanged_call, global_indices),
        )


def _replace_nan(
    value: float, clear_zero_signs: bool, base: torch.Tensor, position: int
) -> torch.Tensor:
    """Replace NaN by ``value``; with ``clear_zero_signs`` also −0 by +0."""
    if not base.dtype.is_floating_point:
        return base
    return torch.where(torch.isnan(base), value, base + 0.0 if clear_zero_signs else base)


def flushed_inputs(
    context: AttributionContext,
    words: str = "subnormal inputs taken for zero",
    *,
    signed: bool = True,
    zeros_too: bool = False,
) -> Hypotheses:
    """Zeros in place of subnormal inputs, with their signs if ``signed``, and of zeros of either
    sign, ``zeros_too``."""
    if context.form is not None:
        flushed = functools.partial(
            _flush_subnormals, context.form.smallest_normal, signed, zeros_too
        )
        yield FaultHypothesis(
            "flushed-subnormals", words, functools.partial(context.with_inputs, flushed)
        )


def _flush_subnormals(
    tiny: float, signed: bool, zeros_too: bool, base: torch.Tensor, position: int
) -> torch.Tensor:
    """Zeros for subnormal numbers, with their signs if ``signed``; and for zeros, ``zeros_too``."""
    flushed = base.abs() < tiny if zeros_too else (base != 0.0) & (base.abs() < tiny)
    zero = torch.copysign(torch.zeros_like(base), base) if signed else torch.zeros_like(base)
    return torch.where(flushed, zero, base)


def _add_input_times_zero(context: AttributionContext) -> Predicted:
    special = (
        (context.reference.arguments.args[0] * 0.0).broadcast_to(context.shape).reshape(-1).numpy()
    )
    return context.outputs(context.expected + special)


def _global_pool_indices(
    operator: Any, dims: int, x: torch.Tensor, *args: Any, **kwargs: Any
) -> Any:
    values, indices = operator(x, *args, **kwargs)
    size = math.prod(x.shape[-dims:])
    planes = torch.arange(math.prod(x.shape[:-dims])).reshape(*x.shape[:-dims], *[1] * dims)
    return values, indices + size * planes
