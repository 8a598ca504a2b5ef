"""Gradients that real devices compute wrongly: cotangents that stay where they are, the other side
of a kink, a power that is taken twice."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ...backends._cotangents import differentiated
from ...backends._outputs import limited
from ...generate.materialize import Arguments
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted

_SELECTING = ("sort", "msort", "topk", "nn.functional.max_unpool", "cummax", "cummin")
_SCANS = ("cummax", "cummin")
_KINKED = ("leaky_relu", "rrelu", "prelu", "threshold", "relu", "hardtanh", "celu", "elu", "selu")
_MIN_SHOWN = 4  # elements: a gradient is one cotangent of several by chance once in 2¹¹ or less
_NORMS = ("norm", "linalg.norm", "linalg.vector_norm", "linalg.matrix_norm")


def hypotheses(context: AttributionContext, name: str) -> Hypotheses:
    if not context.backward:
        return
    yield FaultHypothesis(
        "first-everywhere",
        "one number of the gradient in place of several",
        functools.partial(_one_number, context),
    )
    if name.startswith(_SELECTING):
        for per_plane in (False, True):
            yield FaultHypothesis(
                "indices-ignored",
                "cotangents stay where they are: the indices are ignored",
                functools.partial(_unmoved, context, per_plane),
            )
    if name in _SCANS:
        yield FaultHypothesis(
            "duplicates-dropped",
            "duplicate indices do not accumulate",
            functools.partial(_one_per_index, context, name),
        )
    if name.removeprefix("nn.functional.").rstrip("_") in _KINKED:
        yield FaultHypothesis(
            "other-side",
            "at the kink the gradient is that of its other side",
            functools.partial(_beyond_zero, context),
        )
    if name in _NORMS or name == "nn.functional.pairwise_distance":
        yield FaultHypothesis(
            "evaluated-otherwise",
            "the gradient has xᵖ⁻¹ raised to p once more",
            functools.partial(_power_twice, context, name),
        )


def _one_number(context: AttributionContext) -> Predicted:
    """The wrong elements, several by right, are all the number of one that is right."""
    wrong = context.failing & context.finite
    held = np.unique(context.actual[wrong])
    if held.size != 1 or held[0] == 0.0 or np.unique(context.expected[wrong]).size < _MIN_SHOWN:
        return []
    alike = context.finite & ~context.failing & (context.actual == held[0])
    if not alike.any():
        return []
    return context.outputs(np.where(wrong, context.expected[alike][0], context.expected))


def _cotangent(context: AttributionContext) -> tuple[Arguments, torch.Tensor]:
    """The arguments, and the cotangent of the call's only result that has a gradient."""
    arguments = context.reference.materials.build("float64", gradients=context.operator.leaves)
    results = limited(context.operator(*arguments.args, **arguments.kwargs))
    ((_, cotangent),) = differentiated(results, arguments)
    return arguments, cotangent.detach()


def _unmoved(context: AttributionContext, per_plane: bool) -> Predicted:
    """The first cotangents, of everything or of every plane."""
    _, cotangent = _cotangent(context)
    size, (planes, plane) = context.expected.size, _planes(context.shape, cotangent.shape)
    values = cotangent.reshape(planes if per_plane else 1, -1)
    count = plane if per_plane else size
    gradient = values[:, :count].reshape(context.shape)
    outputs = [*context.reference.outcome.outputs]
    outputs[context.index] = replace(outputs[context.index], tensor=gradient)
    return context.reference.observed(tuple(outputs))


def _planes(shape: tuple[int, ...], other: torch.Size) -> tuple[int, int]:
    """The leading dimensions that two shapes share, as a count, and the elements of the rest."""
    shared = 0
    while shared < min(len(shape), len(other)) and shape[shared] == other[shared]:
        shared += 1
    return math.prod(shape[:shared]), math.prod(shape[shared:])


def _one_per_index(context: AttributionContext, name: str) -> Predicted:
    """The gradient of a scan if of the cotangents of one element only one counts, whichever: the
    result itself where it is one of them."""
    arguments, cotangent = _cotangent(context)
    args, kwargs = arguments.args, arguments.kwargs
    dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
    indices = getattr(torch, name)(args[0].detach(), dim).indices
    actual = torch.from_numpy(context.actual).reshape(context.shape)
    if indices.shape != actual.shape or not indices.ndim:
        return []
    alike = (actual.gather(dim, indices) == cotangent).to(torch.float64)
    is_one = torch.zeros_like(actual).scatter_reduce_(dim, indices, alike, "amax") > 0.0
    shown = is_one.reshape(-1).numpy() & context.failing
    if np.count_nonzero(shown) < _MIN_SHOWN:
        return []
    return context.outputs(np.where(shown, context.actual, context.expected))


def _beyond_zero(context: AttributionContext) -> Predicted:
    """The gradient where zeros (and NaN, which compare like them) are the smallest number above."""

    def above(base: torch.Tensor, position: int) -> torch.Tensor:
        if position or not base.dtype.is_floating_point:
            return base
        return torch.where((base == 0.0) | base.isnan(), 1e-300, base)

    return context.with_inputs(above)


def _power_twice(context: AttributionContext, name: str) -> Predicted:
    """∂‖x‖ₚ = ḡ·x|x|ᵖ⁻²/‖x‖ᵖ⁻¹ with the power of x raised to p once more."""
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    x: Any = args[0].detach()
    rest = args[1:]
    if name == "nn.functional.pairwise_distance":
        eps = kwargs.get("eps", 1e-6)
        x, rest = x - args[1].detach() + eps, args[2:]
    order = kwargs.get("p", kwargs.get("ord", rest[0] if rest else 2.0))
    if not isinstance(order, (int, float)) or order <= 2 or math.isinf(order):
        return []
    x = x.reshape(-1).numpy()
    if x.size != context.expected.size:
        return []
    sign = np.sign(context.expected) * np.sign(x)  # of the cotangent, as the power has x's sign
    with np.errstate(all="ignore"):
        coefficient = np.abs(context.expected) / np.abs(x) ** (order - 1)
        power = np.abs(x) ** ((order - 1) * order)
    return context.outputs(np.where(x == 0.0, 0.0, sign * coefficient * power))
