"""Faults observed on real devices: lost writes, dropped duplicates, a biased variance, saturating
integers.

They are specific, so they are tried before more general faults, which may match by chance.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import torch

from ...backends._outputs import _against, _limited
from ...generate.materialize import Arguments
from ...operators.refusals import REFUSALS
from .context import AttributionContext, FaultHypothesis, Hypotheses, Predicted
from .precision import rounded
from .wrong_elements import substituted

VARIANCES = ("var", "std", "var_mean", "std_mean")
_ADDING = ("scatter_add", "index_add", "index_put")
_WITH_BETA = ("addmm", "addmv", "addbmm", "baddbmm", "addr")
_HALF_BITS = 11


def hypotheses(context: AttributionContext) -> Hypotheses:
    name = context.operator.name
    yield from _lost_writes(context)
    yield from _duplicates(context, name.rstrip("_"))
    if name in VARIANCES and not context.backward:
        words = f"{name} divides by n instead of n − 1"
        yield FaultHypothesis(
            "biased-variance",
            words,
            functools.partial(
                context.with_call, _unchanged_call, functools.partial(_biased_variance, name)
            ),
        )
        if context.dtype == "float16":
            yield FaultHypothesis(
                "biased-variance", words, functools.partial(_biased_variance_in_float16, context)
            )
    if context.special:
        yield from _special_values(context, name)
    if context.whole:
        yield from _integers(context)
    if name.startswith("nn.functional.conv_transpose"):
        words = "what output_padding adds is left zero"
        yield FaultHypothesis(
            "output-padding-zero",
            words,
            functools.partial(_zero_output_padding, context, int(name[-2])),
        )
    if len(context.shape) > 1 and not context.backward and np.ptp(context.actual) > 0.0:
        for dims in range(1, len(context.shape)):
            yield FaultHypothesis(
                "first-everywhere",
                "the first row in place of every row",
                functools.partial(_repeat_first_row, context, dims),
            )


def _unchanged_call(arguments: Arguments) -> tuple[list[Any], dict[str, Any]]:
    return list(arguments.args), dict(arguments.kwargs)


def _lost_writes(context: AttributionContext) -> Hypotheses:
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


def _duplicates(context: AttributionContext, name: str) -> Hypotheses:
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
                functools.partial(context.with_call, _unchanged_call, added),
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
    leaves = [i for i, tensor in enumerate(arguments.tensors) if tensor.requires_grad]
    ((_, cotangent),) = _against(
        _limited(context.operator(*arguments.args, **arguments.kwargs)), arguments
    )
    leaf = leaves[context.index]
    shape = arguments.tensors[leaf].shape
    positions = torch.arange(math.prod(shape), dtype=torch.float64).reshape(shape)
    args, kwargs = substituted(arguments, {leaf: positions})
    (read_positions,) = [
        item
        for item in _limited(context.operator(*args, **kwargs))
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


def _biased_variance(
    name: str,
    x: torch.Tensor,
    dim: Any = None,
    unbiased: Any = None,
    keepdim: bool = False,
    **kwargs: Any,
) -> Any:
    dim = None if isinstance(dim, bool) else dim
    return getattr(torch, name)(x, dim, correction=0, keepdim=keepdim)


def _biased_variance_in_float16(context: AttributionContext) -> Predicted:
    """The same with every step truncated to float16, for hardware that rounds toward zero."""
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    dim = kwargs.get("dim", args[1] if len(args) > 1 and not isinstance(args[1], bool) else None)
    dims = list(range(args[0].ndim)) if dim is None else dim
    truncate = functools.partial(rounded, bits=_HALF_BITS, truncate=True)
    centered = truncate(args[0] - truncate(args[0].mean(dims, keepdim=True)))
    result = truncate(truncate(centered * centered).mean(dims))
    return context.outputs(
        (truncate(result.sqrt()) if context.operator.name.startswith("std") else result).reshape(
            context.shape
        )
    )


def _special_values(context: AttributionContext, name: str) -> Hypotheses:
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
        if context.form is not None:
            # Any of them may explain a result; the simplest one is tried first.
            for words, signed, zeros_too in (
                ("subnormal inputs taken for zero", True, False),
                ("subnormal inputs taken for zero", False, False),
                ("subnormal inputs and -0 taken for +0", False, True),
            ):
                flushed = functools.partial(
                    _flush_subnormals, context.form.smallest_normal, signed, zeros_too
                )
                yield FaultHypothesis(
                    "flushed-subnormals", words, functools.partial(context.with_inputs, flushed)
                )
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
            functools.partial(context.with_call, _unchanged_call, global_indices),
        )


def _replace_nan(
    value: float, clear_zero_signs: bool, base: torch.Tensor, position: int
) -> torch.Tensor:
    """Replace NaN by ``value``; with ``clear_zero_signs`` also −0 by +0."""
    if not base.dtype.is_floating_point:
        return base
    return torch.where(torch.isnan(base), value, base + 0.0 if clear_zero_signs else base)


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


def _integers(context: AttributionContext) -> Hypotheses:
    """Integers computed in float32, or saturated; only exact matches count."""
    assert context.raw is not None
    bits = min(torch.iinfo(context.raw.dtype).bits, 32) if context.raw.dtype != torch.bool else 0
    if not bits:
        return
    info = torch.iinfo(context.raw.dtype if bits < 32 else torch.int32)
    float32_values = _compute_in_float32(context)
    limited = (
        f"integers saturate at {bits} bits instead of wrapping"
        if context.raw.dtype != torch.int64
        else "int64 saturates at 32 bits"
    )
    for name, words, values in (
        ("saturated", limited, np.clip(context.expected, info.min, info.max)),
        ("float32-integers", "integer arithmetic goes through float32", float32_values),
        (
            "float32-integers",
            f"integer arithmetic goes through float32, and {limited}",
            np.clip(float32_values, info.min, info.max),
        ),
    ):
        yield FaultHypothesis(name, words, functools.partial(_if_equal, context, values))


def _compute_in_float32(context: AttributionContext) -> np.ndarray[Any, Any]:
    """The call on the same integers in float32; NaN if it accepts integers only."""
    arguments = context.reference.materials.build("float64")
    float32_inputs = {
        i: t.to(torch.float32)
        for i, t in enumerate(arguments.tensors)
        if not t.dtype.is_floating_point and t.dtype != torch.bool
    }
    args, kwargs = substituted(arguments, float32_inputs)
    try:
        output = [
            item
            for item in _limited(context.operator(*args, **kwargs))
            if isinstance(item, torch.Tensor)
        ][context.index]
        return output.detach().to(torch.float64).reshape(context.expected.shape).numpy()
    except REFUSALS:
        return np.full_like(context.expected, np.nan)


def _if_equal(context: AttributionContext, values: np.ndarray[Any, Any]) -> Predicted:
    return context.outputs(values) if np.array_equal(values, context.actual) else []


def _zero_output_padding(context: AttributionContext, dims: int) -> Predicted:
    args, kwargs = context.reference.arguments.args, context.reference.arguments.kwargs
    added = kwargs.get("output_padding", args[5] if len(args) > 5 else 0)
    added = [added] * dims if isinstance(added, int) else list(added)
    tensor = torch.from_numpy(context.expected.copy()).reshape(context.shape)
    for dim, count in zip(range(-dims, 0), added, strict=True):
        if count:
            tensor.narrow(dim, tensor.shape[dim] - count, count).zero_()
    return context.outputs(tensor)


def _repeat_first_row(context: AttributionContext, dims: int) -> Predicted:
    tail = math.prod(context.shape[dims:])
    rows = context.expected.reshape(-1, tail)
    return context.outputs(np.ascontiguousarray(np.broadcast_to(rows[:1], rows.shape)))
