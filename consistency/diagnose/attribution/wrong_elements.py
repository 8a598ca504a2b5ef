"""The right computation on the wrong elements: misread layouts, shifted positions, dropped
terms."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ...core.trees import map_leaves
from ...generate.materialize import Arguments
from .context import AttributionContext
from .simulation import FaultHypothesis, Hypotheses

Change = Callable[[Arguments, int], torch.Tensor]


def hypotheses(context: AttributionContext) -> Hypotheses:
    tensors = context.reference.arguments.tensors
    yield from _layout_faults(context, tensors)
    yield from _dropped_terms(context, tensors)
    yield from _shifted_or_flipped(context, tensors)
    yield from narrowed(context)
    yield from _lost_signs_and_nans(context, tensors)


def substituted(
    arguments: Arguments, tensors: dict[int, torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """The call's arguments with other tensors at some positions."""
    others = {id(arguments.tensors[i]): tensor for i, tensor in tensors.items()}

    def swap(value: Any) -> Any:
        return others.get(id(value), value)

    return map_leaves(swap, arguments.args), map_leaves(swap, arguments.kwargs)


def _hypothesis(
    context: AttributionContext, name: str, words: str, positions: Iterable[int], change: Change
) -> FaultHypothesis:
    def build(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
        substitutes = {i: change(arguments, i) for i in positions}
        if not context.backward:
            return substituted(arguments, substitutes)
        # The gradient is computed from the substitutes and assigned to the original positions.
        substitutes = {
            i: tensor.detach().clone().requires_grad_(arguments.tensors[i].requires_grad)
            for i, tensor in substitutes.items()
        }
        call = substituted(arguments, substitutes)
        for i, tensor in substitutes.items():
            arguments.tensors[i] = tensor
        return call

    return FaultHypothesis(name, words, functools.partial(context.with_call, build))


def without_offset(arguments: Arguments, i: int) -> torch.Tensor:
    tensor = arguments.tensors[i]
    return arguments.bases[i].as_strided(tensor.shape, tensor.stride(), 0)


def in_storage_order(arguments: Arguments, i: int) -> torch.Tensor:
    """Read as contiguous, from the tensor's first element."""
    tensor, base = arguments.tensors[i], arguments.bases[i].reshape(-1)
    return base[tensor.storage_offset() :][: tensor.numel()].view(tensor.shape)


def last_stride_one(arguments: Arguments, i: int) -> torch.Tensor:
    tensor = arguments.tensors[i]
    return arguments.bases[i].as_strided(
        tensor.shape, (*tensor.stride()[:-1], 1), tensor.storage_offset()
    )


def from_the_start(arguments: Arguments, i: int) -> torch.Tensor:
    tensor = arguments.tensors[i]
    return arguments.bases[i].reshape(-1)[: tensor.numel()].view(tensor.shape)


def _layout_faults(context: AttributionContext, tensors: list[torch.Tensor]) -> Hypotheses:
    offset = [i for i, t in enumerate(tensors) if t.storage_offset()]
    strided = [i for i, t in enumerate(tensors) if not t.is_contiguous()]
    for i in offset:
        yield _hypothesis(
            context,
            "offset-ignored",
            f"storage offset of argument {i} ignored",
            [i],
            without_offset,
        )
    for i in strided:
        yield _hypothesis(
            context, "strides-ignored", f"strides of argument {i} ignored", [i], in_storage_order
        )
        yield _hypothesis(
            context,
            "strides-ignored",
            f"strides and offset of argument {i} ignored",
            [i],
            from_the_start,
        )
        if tensors[i].ndim and tensors[i].stride(-1) != 1:
            yield _hypothesis(
                context,
                "strides-ignored",
                f"last stride of argument {i} taken as 1",
                [i],
                last_stride_one,
            )
    if len(offset) > 1:
        yield _hypothesis(
            context, "offset-ignored", "storage offsets ignored", offset, without_offset
        )
    if len(strided) > 1:
        yield _hypothesis(context, "strides-ignored", "strides ignored", strided, in_storage_order)
        yield _hypothesis(
            context, "strides-ignored", "strides and offsets ignored", strided, from_the_start
        )
    for i, tensor in enumerate(tensors):
        if tensor.ndim >= 2 and tensor.shape[-1] == tensor.shape[-2] > 1:
            yield _hypothesis(
                context, "transposed", f"argument {i} transposed", [i], lambda a, i: a.tensors[i].mT
            )


def _lost_term_counts(size: int) -> list[int]:
    """Likely numbers of terms lost at an end: a few, or the remainder of a vector, warp or tile."""
    left_over = {size % width for width in (2, 4, 8, 16, 32, 64, 128, 256)}
    return sorted(k for k in {1, 2, 3, 4, size // 2, *left_over} if 0 < k < size)


def _dropped_terms(context: AttributionContext, tensors: list[torch.Tensor]) -> Hypotheses:
    for i, tensor in enumerate(tensors):
        for dim, size in enumerate(tensor.shape):
            if tensor.dtype == torch.bool:
                continue
            for k in _lost_term_counts(size):
                for end, lost in (("last", slice(size - k, size)), ("first", slice(0, k))):
                    words = (
                        f"{end} {k} of {size} terms missing"
                        if k > 1
                        else f"{end} of {size} terms missing"
                    )
                    zeroed = functools.partial(_zero_slice, dim, lost)
                    yield _hypothesis(context, "terms-dropped", words, [i], zeroed)
                    if i == 0:
                        kept = slice(0, size - k) if end == "last" else slice(k, size)
                        yield _hypothesis(
                            context,
                            "terms-dropped",
                            words,
                            [i],
                            functools.partial(_take_slice, dim, kept),
                        )


def _zero_slice(dim: int, where: slice, arguments: Arguments, i: int) -> torch.Tensor:
    tensor = arguments.tensors[i]
    mask = torch.ones(tensor.shape[dim], dtype=torch.bool)
    mask[where] = False
    return torch.where(
        mask.reshape([-1 if d == dim else 1 for d in range(tensor.ndim)]),
        tensor,
        torch.zeros_like(tensor),
    )


def _take_slice(dim: int, kept: slice, arguments: Arguments, i: int) -> torch.Tensor:
    return arguments.tensors[i][(slice(None),) * dim + (kept,)]


def _shifted_or_flipped(context: AttributionContext, tensors: list[torch.Tensor]) -> Hypotheses:
    for i, tensor in enumerate(tensors):
        for dim, size in enumerate(tensor.shape):
            if size < 2:
                continue
            for step in (1, -1):
                words = f"argument {i} shifted by {abs(step)} along dimension {dim}"
                yield _hypothesis(
                    context,
                    "shifted",
                    words,
                    [i],
                    lambda a, i, s=step, d=dim: a.tensors[i].roll(s, d),  # type: ignore[misc]
                )
            words = f"argument {i} flipped along dimension {dim}"
            yield _hypothesis(
                context,
                "flipped",
                words,
                [i],
                lambda a, i, d=dim: a.tensors[i].flip(d),  # type: ignore[misc]
            )
        if tensor.ndim >= 4:
            yield _hypothesis(
                context,
                "flipped",
                f"kernel of argument {i} flipped",
                [i],
                lambda a, i: a.tensors[i].flip(-1, -2),
            )


def narrowed(context: AttributionContext) -> Hypotheses:
    """int64 truncated to 32 bits; tried early, because truncated round numbers are often zero."""
    for i, tensor in enumerate(context.reference.arguments.tensors):
        if tensor.dtype == torch.int64:
            words = f"int64 of argument {i} cut to int32"
            yield _hypothesis(
                context,
                "int64-truncated",
                words,
                [i],
                lambda a, i: a.tensors[i].to(torch.int32).to(torch.int64),
            )


def _lost_signs_and_nans(context: AttributionContext, tensors: list[torch.Tensor]) -> Hypotheses:
    for i, tensor in enumerate(tensors):
        if tensor.dtype.is_floating_point:
            yield _hypothesis(
                context,
                "negated",
                f"sign of argument {i} lost",
                [i],
                lambda a, i: a.tensors[i].abs(),
            )
            if bool(tensor.isnan().any()):
                for value in (0.0, float("-inf"), float("inf")):
                    words = "NaN dropped"
                    yield _hypothesis(
                        context, "nan-dropped", words, [i],
                        lambda a, i, v=value: torch.where(a.tensors[i].isnan(), v, a.tensors[i]),  # type: ignore[misc]
                    )  # fmt: skip
