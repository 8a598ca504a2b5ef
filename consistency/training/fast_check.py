"""The fast check of one call: float64 on its actual inputs, and a bound that takes a few passes
over the result.

A score above 1 is not a verdict: the call then becomes a case for the judge. Below 1 the error is
within rounding to the format of the result (elementwise operators), or within a few units of the
largest number of its row.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..core import dtypes
from ..core.trees import flatten, map_leaves, map_tensors
from ..reference.perturbation import binade
from .freivalds import Combined
from .op_facts import WIDER, OpFacts, written
from .trace.session import run_in_thread

SAMPLE = 1 << 13  # elements that are checked of an elementwise result
ROW = 8.0  # units of roundoff of the largest number in a row
MOST = 512.0  # the same for sums of many terms, whose budget is larger
SINGLE = dtypes.FORMATS["float32"].precision
UNIT, TINY = dtypes.FORMATS["float32"].unit_roundoff, dtypes.FORMATS["float32"].smallest_normal
_EXPONENT = 0x7FF0000000000000
_INFINITE = float("inf")


class NoReferenceError(Exception):
    """The call has no float64 reference; the message says why."""


def reference(
    func: Any, known: OpFacts, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[torch.Tensor]]:
    """What the call returns in float64 (in its own dtype if it only moves numbers), and the
    mutated tensors. Raises NoReferenceError."""
    mutated = {id(t) for t in flatten(written(known, args, kwargs))}

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            target = value.dtype if known.moves else WIDER.get(value.dtype, value.dtype)
            if value.dtype == target:
                return value.clone() if id(value) in mutated else value
            return value.to(target)
        if isinstance(value, torch.dtype) and not known.moves:
            return WIDER.get(value, value)
        return value

    wide_args = map_leaves(wide, list(args))
    wide_kwargs = {
        name: map_leaves(wide, value)
        for name, value in kwargs.items()
        if name not in ("device", "pin_memory")
    }
    kernel = known.kernel
    result: list[Any] = []
    try:
        if kernel is not None and kernel.reference is not None:
            # Some references need autograd, which is off in a dispatch mode: run them in a thread.
            reference_function = kernel.reference
            run_in_thread(
                lambda: result.append(reference_function(*wide_args, **wide_kwargs)),
                threading.Event(),
            )
        else:
            result.append(func(*wide_args, **wide_kwargs))
    except Exception as error:
        raise NoReferenceError(f"float64 gives no reference: {type(error).__name__}") from None
    out = result[0]
    outputs = leading(known, out)
    return outputs, [
        t for t in flatten(written(known, wide_args, wide_kwargs)) if isinstance(t, torch.Tensor)
    ]


def leading(known: OpFacts, out: Any) -> list[Any]:
    """The returned values that are defined, flat."""
    outputs = list(flatten(out))
    kept = known.kernel.kept if known.kernel is not None else None
    return outputs[:kept] if kept is not None else outputs


def widened(outputs: Sequence[Any]) -> tuple[Any, ...]:
    """In float64."""
    return tuple(
        t.to(WIDER.get(t.dtype, t.dtype)) if isinstance(t, torch.Tensor) else t for t in outputs
    )


def score(
    got: torch.Tensor,
    want: torch.Tensor,
    known: OpFacts,
    c: float,
    precision: int = 53,
    terms: float = 1.0,
) -> float:
    """The distance from float64 as a multiple of what the fast check accepts; infinite for
    differing NaN, shapes or integers.

    ``precision`` is that of the shortest input format: kernels with mixed formats accumulate in the
    shorter one. ``terms``: the possible number of terms summed per element.
    """
    if got.shape != want.shape:
        return _INFINITE
    if not got.numel():
        return 0.0
    if known.moves and got.dtype == want.dtype:
        return 0.0 if _same(got, want) else _INFINITE
    form = dtypes.form_of(dtypes.name_of(got.dtype))
    if form is None or want.dtype not in (torch.float64, torch.complex128):
        return 0.0 if _same(got, want) else _INFINITE
    if precision < form.precision:
        form = next(other for other in dtypes.FORMATS.values() if other.precision == precision)
    if got.is_complex():
        got, want = torch.view_as_real(got.resolve_conj()), torch.view_as_real(want.resolve_conj())
    error = got.to(torch.float64, copy=True).sub_(want).abs_()  # the model still needs `got`
    largest = float(error.max())
    if largest == 0.0:
        return 0.0
    if not largest < _INFINITE:
        same = (got == want) | (got.isnan() & want.isnan())
        error = torch.where(same, 0.0, error)
        largest = float(error.max())
        if not largest < _INFINITE:
            return _INFINITE
    if not known.strict:
        rows = _rows(want.abs())
        bound = (
            rows.amax(-1, keepdim=True)
            .mul_((admitted(terms, form.precision) + c) * form.unit_roundoff)
            .clamp_(min=form.smallest_normal)
        )
        return float(_rows(error).amax(-1, keepdim=True).div_(bound).max())
    # A power of two below each number, times 2^(1 - precision), is its ulp.
    ulp = binade(want.contiguous()).clamp_(min=form.smallest_normal)
    return float(error.div_(ulp).max()) * 2.0 ** (form.precision - 1) / max(c, 0.5)


def admitted(terms: float, precision: int) -> float:
    """Units of roundoff accepted for a sum of so many terms: at most a 64th of its size, except
    for a few units of short formats."""
    return min(MOST, ROW + terms / 8.0, max(ROW, 2.0 ** (precision - 6)))


def score_of(found: Sequence[Combined], known: OpFacts) -> float:
    """The largest score of random combinations of a call's results."""
    worst = 0.0
    for got, want, norms, terms in found:
        rows = (
            _rows(norms)
            .amax(-1, keepdim=True)
            .mul_(admitted(terms, SINGLE) * UNIT)
            .clamp_(min=TINY)
        )
        value = (
            float(_rows((got - want).abs_()).amax(-1, keepdim=True).div_(rows).max())
            if got.numel()
            else 0.0
        )
        worst = max(worst, value if value == value else _INFINITE)
    return worst


def shortest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Significand bits of the shortest floating-point format among the tensors, without 0-d
    ones."""
    tensors = (
        t
        for t in flatten((list(args), dict(kwargs)))
        if isinstance(t, torch.Tensor) and t.ndim and t.is_floating_point()
    )
    return min(
        (
            dtypes.FORMATS[name].precision
            for t in tensors
            if (name := dtypes.name_of(t.dtype)) in dtypes.FORMATS
        ),
        default=53,
    )


def _same(got: torch.Tensor, want: torch.Tensor) -> bool:
    if torch.equal(got, want):
        return True
    return got.is_floating_point() and bool(((got == want) | (got.isnan() & want.isnan())).all())


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """Elements of similar size in the last dimension: pixels of a channel, features of a
    position."""
    if tensor.ndim >= 4 and tensor.shape[-1] * tensor.shape[-2] >= 8:
        return tensor.flatten(-2)
    if tensor.ndim < 2 or tensor.shape[-1] >= 8:
        return tensor.reshape(1, 1) if tensor.ndim == 0 else tensor
    return tensor.flatten(1)


def sampled(
    args: Sequence[Any], kwargs: Mapping[str, Any], shape: torch.Size, turn: int
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of an elementwise call at :data:`SAMPLE` positions; None if they do not
    broadcast to the result's shape."""
    tensors = [t for t in flatten((list(args), dict(kwargs))) if isinstance(t, torch.Tensor)]
    try:
        if np.broadcast_shapes(*(tuple(t.shape) for t in tensors)) != tuple(shape):
            return None
    except ValueError:
        return None
    positions = places(shape, turn)
    sample = ElementSampler(shape, positions)
    return map_tensors(sample, tuple(args)), map_tensors(sample, dict(kwargs))


def places(shape: torch.Size, turn: int) -> torch.Tensor:
    """The first and last positions, and evenly spaced ones in between that vary with ``turn``."""
    count, end = shape.numel(), SAMPLE // 8
    step = max(1, (count - 2 * end) // (SAMPLE - 2 * end)) | 1
    middle = torch.arange(end + turn % step, count - end, step)
    return torch.cat([torch.arange(end), middle, torch.arange(count - end, count)])


class ElementSampler:
    """Selects elements of a tensor by positions in the shape that it is broadcast to."""

    def __init__(self, shape: torch.Size, chosen: torch.Tensor) -> None:
        self._shape, self._chosen = shape, chosen
        self._index: tuple[torch.Tensor, ...] | None = None

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() == 1:
            return tensor.reshape(()) if tensor.ndim == 0 else tensor.reshape(1)
        if tensor.shape == self._shape and tensor.is_contiguous():
            return tensor.view(-1)[self._chosen]
        if self._index is None:
            places = np.unravel_index(self._chosen.numpy(), tuple(self._shape))
            self._index = tuple(torch.from_numpy(np.ascontiguousarray(i)) for i in places)
        return tensor.expand(self._shape)[self._index]
