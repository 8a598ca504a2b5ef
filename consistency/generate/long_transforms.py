"""Calls of torch.fft whose complex transform of several dimensions writes past a buffer of MKL's.

It does where neither of two dimensions or more, one of them long, has stride 1: others lie inside
of them, or they have gaps. The process ends at some later allocation (docs/findings.md), so that
such calls are not drawn. What is transformed so is the signal, its half spectrum, or, going back,
a contiguous gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch

from ..core.model import Case
from ..core.recipe import TensorRecipe
from ..operators.call_forms import empty
from ..operators.common_form import common_form
from ..operators.declare import Operator
from ..operators.fourier import dims_of

LONG = 16  # calls from 30 on overran it, depending on what lay behind (docs/findings.md)


def transforms_long_dims(operator: Operator, case: Case) -> bool:
    """Whether the call, or its gradient, takes a complex transform of two dimensions or more, one
    of :data:`LONG` elements or more, none of stride 1."""
    name, family = operator.ruled_by
    if family != "fft" or name[-1] not in "2n" or not case.tensors:
        return False
    args, kwargs = common_form(
        operator.form_of or operator, case.args[operator.leading :], case.kwargs
    )
    signal = empty(args[0])
    dims = dims_of(name, (signal,), dict(kwargs))
    if len(dims) < 2 or max(dims) >= signal.ndim:
        return False  # torch refuses the latter
    asked = kwargs.get("s") or [-1] * len(dims)  # -1 leaves a length as it is
    return any(
        len(along) > 1 and _is_overrun(signal, along)
        for signal, along in _complex_transforms(name, signal, dims, asked, case.cotangent_layout)
    )


def _is_overrun(signal: torch.Tensor, along: Sequence[int]) -> bool:
    """Whether one of these dimensions is long and the innermost of them lies apart. Stride 0, that
    of an expanded signal, was not seen to do it."""
    long = max(signal.shape[dim] for dim in along) >= LONG
    return long and min(signal.stride(dim) for dim in along if signal.shape[dim] > 1) > 1


def with_safe_dims(operator: Operator, case: Case) -> Case:
    """The case, its signal contiguous where :func:`transforms_long_dims`, and where that is not
    enough, along the last two of its dimensions as they are."""
    if not transforms_long_dims(operator, case):
        return case
    args = list(case.args)
    signal = args[operator.leading]
    args[operator.leading] = _contiguous(signal)
    case = replace(case, args=tuple(args))
    if not transforms_long_dims(operator, case):
        return case
    dims = dims_of(operator.ruled_by[0], (empty(signal),), dict(case.kwargs))
    kwargs = {name: value for name, value in case.kwargs.items() if name != "s"}
    # A destination has no elements then, so that it may be given the result's shape.
    rooms = [replace(room, base=(0,), view=(), special=()) for room in args[: operator.leading]]
    args = [*rooms, *args[operator.leading :]]
    return replace(case, args=tuple(args), kwargs={**kwargs, "dim": sorted(dims)[-2:]})


def _contiguous(signal: TensorRecipe) -> TensorRecipe:
    shape = tuple(empty(signal).shape)
    kept = tuple(pair for pair in signal.special if pair[0] < math.prod(shape))
    return replace(signal, base=shape, view=(), special=kept)


def _complex_transforms(
    name: str, signal: torch.Tensor, dims: list[int], asked: Sequence[int], cotangent_layout: str
) -> Iterator[tuple[torch.Tensor, list[int]]]:
    """What the call and its gradient transform, without numbers, and along which dimensions
    (torch's SpectralOps.cpp and FunctionsManual.cpp)."""
    kind = name.removeprefix("fft.").rstrip("2n")
    inner, last = dims[:-1], dims[-1]
    lengths = {dim: length for dim, length in zip(dims, asked, strict=False) if length != -1}
    if kind in ("irfft", "hfft") and last in lengths:
        lengths[last] = lengths[last] // 2 + 1
    signal = _resized(signal, lengths)
    result = list(signal.shape)
    if kind == "ihfft":
        result[last] = result[last] // 2 + 1
    gradient = _gradient(result, cotangent_layout)
    match kind:
        case "fft" | "ifft":
            yield signal, dims
            yield gradient, dims
        case "rfft":  # whose gradient is padded to a whole spectrum
            yield torch.empty(result, device="meta"), dims
        case "irfft":
            yield signal, inner
        case "hfft":
            yield signal, inner
            yield _with_innermost(gradient, last), inner
        case "ihfft":
            yield _with_innermost(signal, last), inner
            yield gradient, inner


def _gradient(sizes: Sequence[int], layout: str) -> torch.Tensor:
    if layout == "transposed":
        return torch.empty(sizes[::-1], device="meta").permute(*reversed(range(len(sizes))))
    one = torch.empty(1, device="meta")
    return one.expand(sizes) if layout == "expanded" else torch.empty(sizes, device="meta")


def _resized(signal: torch.Tensor, lengths: Mapping[int, int]) -> torch.Tensor:
    """Cut off, or a contiguous one that is padded."""
    for dim, length in lengths.items():
        signal = signal.narrow(dim, 0, min(length, signal.shape[dim]))
    sizes = [lengths.get(dim, size) for dim, size in enumerate(signal.shape)]
    return signal if sizes == list(signal.shape) else torch.empty(sizes, device="meta")


def _with_innermost(signal: torch.Tensor, last: int) -> torch.Tensor:
    """The layout of a real transform's result, whose half spectra follow one another: of the other
    dimensions, the order stays."""
    strides = signal.stride()
    order = sorted((d for d in range(signal.ndim) if d != last), key=lambda d: -strides[d])
    order.append(last)
    sizes = [signal.shape[dim] for dim in order]
    return torch.empty(sizes, device="meta").permute([order.index(d) for d in range(signal.ndim)])
