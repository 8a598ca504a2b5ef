"""The healthy backends: nothing here may fail. Other precision, other order, other formulas, other
choices among ties."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from . import memory, outcomes, precision
from .model import BOTH, Call, Healthy, Maker, constantly, formula, one_of, straight
from .sound import SOUND
from .ties import last_among_ties

N = "nn.functional."
Rows = Iterator[Healthy]


def over(names: str, what: str, make: Maker, **more: Any) -> Rows:
    """One healthy backend for each of several operators, separated by blanks; a leading dot stands
    for ``nn.functional``."""
    for name in names.split():
        yield Healthy(what, N + name[1:] if name[0] == "." else name, make, **more)


def next_to(up: bool) -> outcomes.Change:
    """Every other element is the neighboring number."""

    def change(y: Tensor) -> None:
        far = torch.full_like(y[::2], float("inf") if up else float("-inf"))
        y[::2] = torch.where(y[::2].isfinite() & (y[::2] != 0), y[::2].nextafter(far), y[::2])

    return outcomes.flat(change)


def inward(x: Tensor) -> Tensor:
    """Every number is the neighboring one towards zero."""
    return torch.where(x.isfinite() & (x != 0), x.nextafter(torch.zeros_like(x)), x)


def half_next_to(y: Tensor) -> Tensor:
    """As :func:`next_to` for float16, which has no nextafter: the bits plus one, for normal numbers
    away from the end."""
    moved = (y.contiguous().view(torch.int16) + 1).view(torch.float16)
    return torch.where((y.abs() > 1e-3) & (y.abs() < 6e4) & (moved.abs() < 6e4), moved, y)


def ties_reversed(call: Call) -> Any:
    """sort, topk: equal elements come in the opposite order, where no order among them is
    promised."""
    x, dim = call.args[0], call.given("dim", 2 if call.operator.name == "topk" else 1, -1)
    if call.kwargs.get("stable") or not x.ndim:
        return call.run()
    values, index = call.with_arg(0, x.flip(dim)).run()
    return values, x.shape[dim] - 1 - index


def saturating_cast(low: int, high: int) -> Maker:
    """Floats beyond an integer type end at its limits, NaN at zero: undefined in C++, usual in
    hardware."""

    def deed(call: Call) -> Any:
        x = call.args[0]
        if not x.is_floating_point():
            return call.run()
        fits = (x >= low) & (x <= high)
        result = call.run()
        ends = torch.where(x.isnan(), 0, torch.where(x > 0, high, low)).to(result.dtype)
        return torch.where(fits, result, ends)

    return constantly(deed)


def one_thread_more(call: Call) -> Any:
    """On another number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        return call.run()
    finally:
        torch.set_num_threads(before)


def contiguous_first(call: Call) -> Any:
    """Every input is copied to contiguous memory, but for images in channels_last, of which torch
    promises results in channels_last."""
    return call.each(lambda x: x if in_channels_last(x) else x.contiguous()).run()


def in_channels_last(x: Tensor) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.ndim in formats and x.is_contiguous(memory_format=formats[x.ndim])


def permuted(call: Call) -> Any:
    """Terms in another order: the contracted dimension is reversed."""
    a, b, *rest = call.args
    inner = -2 if b.ndim > 1 and call.operator.name != "nn.functional.linear" else -1
    return call.operator(a.flip(-1), b.flip(inner), *rest, **call.kwargs)


def reversed_terms(call: Call) -> Any:
    """A reduction over its dimension reversed."""
    x, dim = call.args[0], call.given("dim", 2 if call.operator.name == "norm" else 1, None)
    if not x.ndim:
        return call.run()
    return call.with_arg(0, x.flip(list(range(x.ndim)) if dim is None else dim)).run()


def channels_reversed(call: Call) -> Any:
    """A convolution that adds its channels up from the last."""
    if call.kwargs.get("groups", 1) != 1:
        return call.run()
    x, weight = call.args[:2]
    return call.with_arg(0, x.flip(1 - weight.ndim)).with_arg(1, weight.flip(1)).run()


def _precision() -> Rows:
    wide = constantly(precision.computed_wider)
    names = (
        "exp log sin tanh erf pow div sqrt sum mean cumsum matmul bmm .conv2d .conv_transpose2d "
        ".layer_norm .group_norm softmax var norm logsumexp .gelu .interpolate .avg_pool2d "
        ".cross_entropy lgamma .scaled_dot_product_attention"
    )
    yield from over(names, "computed in float64", wide)
    yield from over(
        "mul atan2 matmul .conv2d .layer_norm softmax .gelu cumsum prod .mse_loss var .silu",
        "computed in float64",
        wide,
        directions=("backward",),
    )
    yield from over(
        # not .gelu: torch's own makes infinity NaN in float32
        "add mul exp sqrt tanh sum mean matmul mm .conv2d .layer_norm softmax .silu .avg_pool2d",
        "computed in float32",
        wide,
        dtype="float16",
    )
    yield from over(
        "add sub div sigmoid sum var bmm .linear .layer_norm log_softmax .silu .interpolate cumsum",
        "computed in float32",
        wide,
        dtype="bfloat16",
    )
    yield from over(
        "mul matmul .layer_norm softmax .conv2d",
        "computed in float32",
        wide,
        dtype="float16",
        directions=("backward",),
    )
    single = precision.nearest(torch.float32)
    for block in (1, 8, 64):
        make = partial(precision.accumulating, single, block)
        yield from over("matmul .linear .conv2d sum mean", f"float32 sums every {block}", make)
    yield from over(
        "matmul mm sum",
        "float32 sums from the end",
        partial(precision.accumulating, single, 4, "backward"),
    )
    yield from over(
        "dot mv sum mean",
        "float32 sums by pairs",
        partial(precision.accumulating, single, 1, "pairwise"),
    )
    yield from over(
        "matmul sum",
        "float32 sums every 16",
        partial(precision.accumulating, single, 16),
        dtype="bfloat16",
    )
    yield from over(
        "matmul .conv2d .linear bmm",
        "TF32 as asked for",
        partial(precision.rounding_inputs, 11),
        prefix="played+tf32",
    )
    yield from over(
        "matmul .linear",
        "float16 inputs as asked for",
        partial(precision.rounding_inputs, 11),
        prefix="played+tf32",
        directions=BOTH,
    )


def _order() -> Rows:
    yield from over(
        "matmul mm bmm dot .linear",
        "contracted the other way",
        constantly(permuted),
        directions=BOTH,
    )
    yield from over("matmul mm", "contracted the other way", constantly(permuted), dtype="float64")
    yield from over(
        "sum mean nansum var std norm logsumexp amax prod",
        "the other way round",
        constantly(reversed_terms),
        directions=BOTH,
    )
    yield from over(
        "sum var logsumexp", "the other way round", constantly(reversed_terms), dtype="float64"
    )
    yield from over(
        ".conv1d .conv2d .conv3d",
        "channels the other way round",
        constantly(channels_reversed),
        directions=BOTH,
    )
    yield from over(
        "matmul exp sum .layer_norm .conv2d", "one thread more", constantly(one_thread_more)
    )
    names = "exp add matmul sum cumsum .layer_norm softmax .conv2d .interpolate .avg_pool2d sort"
    yield from over(names, "contiguous first", constantly(contiguous_first), directions=BOTH)


def _choices() -> Rows:
    yield from over("median nanmedian", "last among ties", constantly(last_among_ties))
    yield from over("median", "last among ties", constantly(last_among_ties), dtype="int64")
    yield from over("sort topk", "ties reversed", constantly(ties_reversed))
    for up in (True, False):
        after = constantly(outcomes.after(next_to(up)))
        yield from over(
            "exp tanh pow log erf sigmoid atan2", f"an ulp {'up' if up else 'down'}", after
        )
    yield from over(
        "sin cos", "an ulp inward", constantly(outcomes.after(inward))
    )  # no sine is above 1
    half = constantly(
        lambda call: one_of(call.run(), lambda y: straight(y, half_next_to(y.detach())))
    )
    yield from over("pow hypot", "an ulp up", half, dtype="float16")
    flushing = constantly(outcomes.flushing)
    yield from over(
        "add mul exp abs sigmoid reciprocal .relu",
        "subnormals flushed",
        flushing,
        prefix="directml",
    )
    yield from over(
        "neg sign",
        "sign of zero lost",
        constantly(outcomes.after(outcomes.sign_of_zero_lost)),
        prefix="directml",
    )
    yield from over("char", "saturating", saturating_cast(-128, 127))
    yield from over("short", "saturating", saturating_cast(-(1 << 15), (1 << 15) - 1))
    yield from over("byte", "saturating", saturating_cast(0, 255))
    yield from over(
        "erf .conv3d",
        "not offered",
        constantly(memory.refused),
        verdicts=frozenset({"unsupported"}),
    )
    yield from over(
        "exp sort .interpolate",
        "fell back",
        constantly(memory.fell_back),
        verdicts=frozenset({"fallback"}),
    )


def _formulas() -> Rows:
    for operator, what, function in SOUND:
        yield Healthy(what, operator, formula(function))


HEALTHY = (*_precision(), *_order(), *_choices(), *_formulas())
