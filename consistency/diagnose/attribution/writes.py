"""Faults of writing: values that are not written, and contributions to one element of which only
one counts."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ...backends._cotangents import differentiated
from ...backends._outputs import limited
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses, Predicted, unchanged_call
from .wrong_elements import substituted

_ADDING = ("scatter_add", "index_add", "index_put")


def lost_writes(context: AttributionContext) -> Hypotheses:
    """The mutated storage (or the returned view of it) keeps its old values, entirely or at some
    elements."""
    position = _mutated_position(context)
    if position is None:
        return
    arguments = context.reference.arguments
    base, view = arguments.bases[position], arguments.tensors[position]
    name = context.reference.outcome.outputs[context.index].name
    before = (base if name.startswith("arg/") else view).detach().to(torch.float64).reshape(-1)
    is_full_write = (
        view.is_contiguous()
        and view.numel() == base.numel()
        and context.operator.name != "__setitem__"
    )
    subject = "what is written is" if is_full_write else "writes to the view are"
    if before.numel() != context.expected.size:
        return
    yield FaultHypothesis(
        "lost-write",
        f"{subject} lost",
        functools.partial(context.outputs, before.reshape(context.shape)),
    )
    old_values = before.numpy()
    unchanged = context.failing & (
        (context.actual == old_values) | (np.isnan(context.actual) & np.isnan(old_values))
    )
    count, wrong = int(np.count_nonzero(unchanged)), int(np.count_nonzero(context.failing))
    if wrong and count == wrong:
        text = f"{subject} lost for {count} of {view.numel()} elements"
        yield FaultHypothesis(
            "lost-write",
            text,
            functools.partial(context.outputs, np.where(unchanged, old_values, context.expected)),
        )


def _mutated_position(context: AttributionContext) -> int | None:
    """The position of the tensor whose mutation the flagged output shows; None if it shows none."""
    outputs, mutates = context.reference.outcome.outputs, context.operator.mutates
    if context.backward or not mutates or context.index >= len(outputs):
        return None
    kind, _, number = outputs[context.index].name.partition("/")
    return (
        int(number)
        if kind == "arg"
        else mutates[0]
        if "inplace" in context.operator.traits
        else None
    )


def dropped_duplicates(context: AttributionContext, name: str) -> Hypotheses:
    """Of several contributions to one element only the last, or the first, counts."""
    words = "duplicate indices do not accumulate"
    for first in (False, True):
        if context.backward:
            if context.operator.error.kind == "exact":
                yield FaultHypothesis(
                    "duplicates-dropped",
                    words,
                    functools.partial(_drop_duplicate_gradients, context, first),
                )
        elif name in _ADDING:
            added = functools.partial(_add_once, name, context.operator.name.endswith("_"), first)
            yield FaultHypothesis(
                "duplicates-dropped",
                words,
                functools.partial(context.with_call, unchanged_call, added),
            )


def _add_once(
    name: str, inplace: bool, first: bool, x: torch.Tensor, *args: Any, **kwargs: Any
) -> torch.Tensor:
    def flip_if_first(tensor: torch.Tensor, dim: int) -> torch.Tensor:
        return tensor.flip(dim) if first else tensor

    if name == "index_put":
        indices, values = args[0], args[1]
        result = x.index_put(indices, x[tuple(indices)] + values)
    else:
        dim, index, source = args[0], args[1], args[2]
        if name == "index_add":
            added = x.index_select(dim, index) + kwargs.get("alpha", 1) * source
            result = x.index_copy(dim, flip_if_first(index, 0), flip_if_first(added, dim))
        else:
            added = x.gather(dim, index) + source[tuple(slice(n) for n in index.shape)]
            result = x.scatter(dim, flip_if_first(index, dim), flip_if_first(added, dim))
    return x.copy_(result) if inplace else result


def _drop_duplicate_gradients(context: AttributionContext, first: bool) -> Predicted:
    """The gradient of an operator that only moves numbers, where each element gets only one of
    its cotangents."""
    arguments = context.reference.materials.build("float64", gradients=context.operator.leaves)
    leaves = arguments.leaves
    ((_, cotangent),) = differentiated(
        limited(context.operator(*arguments.args, **arguments.kwargs)), arguments
    )
    leaf = leaves[context.index]
    shape = arguments.tensors[leaf].shape
    positions = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    args, kwargs = substituted(arguments, {leaf: positions})
    (read_positions,) = [
        item
        for item in limited(context.operator(*args, **kwargs))
        if isinstance(item, torch.Tensor)
    ]
    targets, cotangents = read_positions.reshape(-1).to(torch.int64), cotangent.reshape(-1)
    if targets.numel() != cotangents.numel() or not bool(
        ((targets >= 0) & (targets < positions.numel())).all()
    ):
        return []
    gradient = np.zeros(positions.numel())
    order = slice(None, None, -1) if first else slice(None)
    gradient[targets.numpy()[order]] = cotangents.numpy()[order]
    return context.outputs(gradient)
