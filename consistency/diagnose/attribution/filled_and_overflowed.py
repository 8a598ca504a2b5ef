"""Faults of kernels that work in tiles or in a half format: zeros of a padding that are compared,
bounds of a format in place of infinities, squares that leave the format."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ...core.dtypes import TORCH
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call

_WORDS = "zeros that fill a tile take part in the comparison"
_LARGEST = frozenset({"max", "amax", "cummax", "maximum"})
_LEAST = frozenset({"min", "amin", "cummin", "minimum"})
# a root mean square, a norm or a variance over these arguments' trailing dimensions
_NORMALIZING = ("rms_norm", "layer_norm", "normalize", "cosine_similarity")
_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")


def largest_of(context: AttributionContext) -> float:
    """The largest finite number of the result's format: a cast has another than its case."""
    result = context.raw.dtype if context.raw is not None else TORCH[context.dtype]
    real = torch.empty(0, dtype=result).real.dtype if result.is_complex else result
    return float(torch.finfo(real if real.is_floating_point else TORCH[context.dtype]).max)


def hypotheses(context: AttributionContext, name: str) -> Hypotheses:
    """Of the operator ``name``, without ``nn.functional.`` and an underscore behind it."""
    if context.backward or context.form is None:
        return
    r = context.expected
    largest = name in _LARGEST or context.reference.materials.case.kwargs.get("mode") == "max"
    if largest or name in _LEAST:
        filled = np.maximum(r, 0.0) if largest else np.minimum(r, 0.0)
        yield FaultHypothesis("zero", _WORDS, functools.partial(context.outputs, filled))
    if name.startswith("max_pool") and context.index == 0:
        dims = int(name[len("max_pool")])
        padded = functools.partial(_pooled_with_zeros, context.operator, dims)
        yield FaultHypothesis(
            "zero", _WORDS, functools.partial(context.with_call, unchanged_call, padded)
        )
    if context.special and np.isinf(r).any():
        top = largest_of(context)
        for infinite in (np.isinf(r), r == -np.inf, r == np.inf):
            yield FaultHypothesis(
                "saturated",
                f"the largest number, {top:.4g}, in place of infinity",
                functools.partial(context.outputs, np.where(infinite, np.copysign(top, r), r)),
            )
    if name in _NORMALIZING and context.form.precision <= 11:
        yield FaultHypothesis(
            "early-overflow",
            "a sum of squares that leaves the format",
            functools.partial(_overflowed_norm, context),
        )
    if name == "sgn" and context.reference.arguments.tensors[0].is_complex():
        yield FaultHypothesis(
            "early-overflow",
            "a sum of squares that leaves the format",
            functools.partial(_overflowed_sign, context),
        )


def _pooled_with_zeros(operator: Any, dims: int, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """max_pool of an image that is padded with zeros, not with -inf."""
    given = dict(zip(_POOL, args, strict=False)) | kwargs
    padding = given.pop("padding", 0)
    sizes = [padding] * dims if isinstance(padding, int) else list(padding)
    if not any(sizes):
        raise ValueError("nothing is padded")
    image = torch.nn.functional.pad(x, [n for size in reversed(sizes) for n in (size, size)])
    return operator(image, **given, padding=0)


def _overflowed_norm(context: AttributionContext) -> Predicted:
    """Zeros in the rows whose sum of squares is beyond the format: a number divided by infinity."""
    arguments = context.reference.arguments
    x = arguments.tensors[0].detach().to(torch.float64)
    if tuple(x.shape) != context.shape or not x.numel():
        return []
    shape = arguments.args[1] if len(arguments.args) > 1 else None
    count = len(shape) if isinstance(shape, (list, tuple)) else 1
    dims = list(range(x.ndim - count, x.ndim))
    lost = (x * x).sum(dims, keepdim=True) > largest_of(context)
    return context.outputs(
        torch.where(lost, 0.0, torch.from_numpy(context.expected).reshape(context.shape))
    )


def _overflowed_sign(context: AttributionContext) -> Predicted:
    """Zeros for complex numbers the sum of whose squares is beyond the format."""
    parts = torch.view_as_real(context.reference.arguments.tensors[0].detach().resolve_conj())
    lost = (parts.to(torch.float64) ** 2).sum(-1, keepdim=True) > largest_of(context)
    if tuple(parts.shape) != context.shape:
        return []
    return context.outputs(
        torch.where(lost, 0.0, torch.from_numpy(context.expected).reshape(context.shape))
    )
