"""Results in the wrong place in memory: written without their strides, at the wrong offset, or
beyond the tensor."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import torch

from ...backends._cotangents import differentiated
from ...core.trees import map_leaves
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call


def hypotheses(context: AttributionContext) -> Hypotheses:
    if "view" in context.operator.traits and not context.backward:
        yield FaultHypothesis(
            "strides-ignored",
            "the strides of the view that is returned are ignored",
            functools.partial(context.with_call, unchanged_call, _in_line(context.operator)),
        )
    if context.backward and context.reference.materials.case.cotangent_layout == "transposed":
        yield FaultHypothesis(
            "strides-ignored",
            "strides of the cotangent ignored",
            functools.partial(
                context.with_call, unchanged_call, _with_cotangents_in_order(context.operator)
            ),
        )
    if context.backward or context.operator.mutates:
        yield from _without_strides(context)
    if context.operator.name == "__setitem__" and context.backward:
        yield FaultHypothesis(
            "offset-ignored",
            "the offset of the written slice is ignored",
            functools.partial(_slice_without_offset, context),
        )
    if not context.backward and context.operator.mutates:
        yield FaultHypothesis(
            "written-beyond",
            "a write to one number fills what follows it in memory",
            functools.partial(_filled_from, context),
        )


def _in_line(operator: Any) -> Any:
    """The operator whose view is read one number after the other, from its first one on."""

    def call(*args: Any, **kwargs: Any) -> Any:
        view = operator(*args, **kwargs)
        if not isinstance(view, torch.Tensor) or view.is_contiguous():
            raise ValueError("no strides to ignore")
        whole = view.untyped_storage().nbytes() // view.element_size()
        line = view.as_strided((whole,), (1,), 0)[view.storage_offset() :][: view.numel()]
        return line.reshape(view.shape)

    return call


class _ReadInOrder(torch.autograd.Function):
    """A result whose cotangent is read as if it were contiguous."""

    @staticmethod
    def forward(ctx: Any, result: torch.Tensor) -> torch.Tensor:
        return result.view_as(result)

    @staticmethod
    def backward(ctx: Any, *cotangents: torch.Tensor) -> Any:
        (arrived,) = cotangents
        strides = torch.empty(arrived.shape, device="meta").stride()
        return arrived.as_strided(arrived.shape, strides).clone()


def _with_cotangents_in_order(operator: Any) -> Any:
    """The operator whose results that have gradients get them in the order of memory."""

    def in_order(result: Any) -> Any:
        tracked = getattr(result, "requires_grad", False)
        return _ReadInOrder.apply(result) if tracked else result  # type: ignore[no-untyped-call]

    def call(*args: Any, **kwargs: Any) -> Any:
        return map_leaves(in_order, (operator.reference or operator)(*args, **kwargs))

    return call


def of_new_results(context: AttributionContext) -> Hypotheses:
    """Of a function's result: to be tried after faults of reading, transpositions and ignored
    arguments, which often explain the same and are met more often."""
    if not context.backward and not context.operator.mutates:
        yield from _without_strides(context)


def _without_strides(context: AttributionContext) -> Hypotheses:
    written = "gradient" if context.backward else "result"
    for position, tensor in enumerate(context.reference.arguments.tensors):
        if tensor.shape == torch.Size(context.shape) and not tensor.is_contiguous():
            for inverse in (False, True):
                yield FaultHypothesis(
                    "strides-ignored",
                    f"the {written} is written without the strides it is read with",
                    functools.partial(_in_storage_order, context, position, inverse),
                )


def _in_storage_order(context: AttributionContext, position: int, inverse: bool) -> Predicted:
    """The elements written one after the other, and read with the strides of an argument of the
    same shape; what lies behind the last one is zero. ``inverse``: the other way round."""
    tensor = context.reference.arguments.tensors[position]
    places = torch.zeros(tensor.shape, dtype=torch.int64)
    for dim, (size, stride) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        steps = torch.arange(size) * stride
        places = places + steps.reshape([-1 if d == dim else 1 for d in range(tensor.ndim)])
    offsets = places.reshape(-1).numpy()
    values = context.expected
    inside = offsets < values.size
    if inverse:
        if not inside.all() or np.unique(offsets).size != offsets.size:
            return []
        result = np.zeros_like(values)
        result[offsets] = values
    else:
        result = np.where(inside, values[np.minimum(offsets, values.size - 1)], 0.0)
        if not result[context.failing].any():
            return []  # a result that is zero where it is wrong has simpler causes
    return context.outputs(result.reshape(context.shape))


def _slice_without_offset(context: AttributionContext) -> Predicted:
    """The gradients of ``x[index] = value`` if the slice is taken from the start of the memory: its
    shape and strides are right."""
    arguments = context.reference.materials.build("float64", gradients=context.operator.leaves)
    leaves = arguments.leaves
    x, index, value = arguments.args[:3]
    key = tuple(index) if isinstance(index, list) else index
    result = x * 1.0
    result[key] = value
    ((_, cotangent),) = differentiated([result], arguments)
    view = torch.zeros(x.shape, dtype=torch.float64)[key]
    gradient = cotangent.detach().clone(memory_format=torch.contiguous_format)
    written = gradient.as_strided(view.shape, view.stride(), 0)
    leaf = arguments.tensors[leaves[context.index]]
    if leaf is not x:
        summed = written.sum_to_size(leaf.shape)
        return context.outputs(summed.contiguous().numpy().reshape(-1))
    written.zero_()
    return context.outputs(gradient.numpy().reshape(-1))


def _filled_from(context: AttributionContext) -> Predicted:
    """The storage behind a mutated tensor of one element: everything from there on has its new
    value."""
    outputs = context.reference.outcome.outputs
    kind, _, number = outputs[context.index].name.partition("/")
    if kind != "arg":
        return []
    position = int(number)
    view = context.reference.arguments.tensors[position]
    if view.numel() != 1 or context.expected.size < 2:
        return []
    offset = view.storage_offset()
    result = context.expected.copy()
    result[offset:] = result[offset]
    return context.outputs(result)
