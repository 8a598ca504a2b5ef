"""The fast check of one call: float64 on the inputs that it really got, and a bound that costs a
few passes over its result.

A score above 1 is not a verdict: the call then becomes a case for the judge. Below 1 the error is
no more than rounding to the result's format explains (elementwise operators), or than a few units
of its row's largest number.
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

SAMPLE = 1 << 13  # numbers that are looked at where each stands by itself
ROW = 8.0  # units of roundoff of a row's largest number
MOST = 512.0  # the same for sums of many terms, whose budget is larger than that
SINGLE = dtypes.FORMATS["float32"].precision
UNIT, TINY = dtypes.FORMATS["float32"].unit_roundoff, dtypes.FORMATS["float32"].smallest_normal
_EXPONENT = 0x7FF0000000000000
_INFINITE = float("inf")


class NoReferenceError(Exception):
    """There is no float64 of this call; the text says why."""


def reference(
    func: Any, known: OpFacts, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[torch.Tensor]]:
    """What the call returns in float64 (in its own dtype where numbers are only moved), and what it
    writes. Raises Refused."""
    copied = {id(t) for t in flatten(written(known, args, kwargs))}

    def wide(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            target = value.dtype if known.moves else WIDER.get(value.dtype, value.dtype)
            if value.dtype == target:
                return value.clone() if id(value) in copied else value
            return value.to(target)
        if isinstance(value, torch.dtype) and not known.moves:
            return WIDER.get(value, value)
        return value

    given = map_leaves(wide, list(args))
    named = {
        name: map_leaves(wide, value)
        for name, value in kwargs.items()
        if name not in ("device", "pin_memory")
    }
    kernel = known.kernel
    made: list[Any] = []
    try:
        if kernel is not None and kernel.reference is not None:
            # Below autograd, where we are, nothing has gradients, which some of these are made of.
            written_elsewhere = kernel.reference
            run_in_thread(
                lambda: made.append(written_elsewhere(*given, **named)), threading.Event()
            )
        else:
            made.append(func(*given, **named))
    except Exception as error:
        raise NoReferenceError(f"float64 gives no reference: {type(error).__name__}") from None
    out = made[0]
    found = leading(known, out)
    return found, [t for t in flatten(written(known, given, named)) if isinstance(t, torch.Tensor)]


def leading(known: OpFacts, out: Any) -> list[Any]:
    """What is returned and means something, flat."""
    found = list(flatten(out))
    kept = known.kernel.kept if known.kernel is not None else None
    return found[:kept] if kept is not None else found


def widened(outputs: Sequence[Any]) -> tuple[Any, ...]:
    """In float64, for what is computed from them."""
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
    """How far a result is from float64, × what the quick look admits; infinite where NaN, shapes or
    integers differ.

    ``precision`` is that of the shortest format among the inputs: kernels that mix formats sum up
    in the shorter one. ``terms``: so many numbers may have been added up in an element.
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
    error = got.to(torch.float64, copy=True).sub_(want).abs_()  # the model goes on with `got`
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
    """Units of roundoff that a sum of so many terms may be off by, without another look: never more
    than a 64th of what it is, but for the few units of a format with few bits."""
    return min(MOST, ROW + terms / 8.0, max(ROW, 2.0 ** (precision - 6)))


def score_of(found: Sequence[Combined], known: OpFacts) -> float:
    """The largest score of combinations of a call's results."""
    worst = 0.0
    for got, want, size, terms in found:
        rows = (
            _rows(size).amax(-1, keepdim=True).mul_(admitted(terms, SINGLE) * UNIT).clamp_(min=TINY)
        )
        value = (
            float(_rows((got - want).abs_()).amax(-1, keepdim=True).div_(rows).max())
            if got.numel()
            else 0.0
        )
        worst = max(worst, value if value == value else _INFINITE)
    return worst


def shortest(args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Significand bits of the shortest floating format among the tensors given, but for single
    numbers."""
    given = (
        t
        for t in flatten((list(args), dict(kwargs)))
        if isinstance(t, torch.Tensor) and t.ndim and t.is_floating_point()
    )
    return min(
        (
            dtypes.FORMATS[name].precision
            for t in given
            if (name := dtypes.name_of(t.dtype)) in dtypes.FORMATS
        ),
        default=53,
    )


def _same(got: torch.Tensor, want: torch.Tensor) -> bool:
    if torch.equal(got, want):
        return True
    return got.is_floating_point() and bool(((got == want) | (got.isnan() & want.isnan())).all())


def _rows(tensor: torch.Tensor) -> torch.Tensor:
    """Numbers that are alike in size in a last dimension: pixels of a channel, features of a
    position."""
    if tensor.ndim >= 4 and tensor.shape[-1] * tensor.shape[-2] >= 8:
        return tensor.flatten(-2)
    if tensor.ndim < 2 or tensor.shape[-1] >= 8:
        return tensor.reshape(1, 1) if tensor.ndim == 0 else tensor
    return tensor.flatten(1)


def sampled(
    args: Sequence[Any], kwargs: Mapping[str, Any], shape: torch.Size, turn: int
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of an elementwise call at :data:`SAMPLE` places; None where they do not have
    the result's shape."""
    given = [t for t in flatten((list(args), dict(kwargs))) if isinstance(t, torch.Tensor)]
    try:
        if np.broadcast_shapes(*(tuple(t.shape) for t in given)) != tuple(shape):
            return None
    except ValueError:
        return None
    chosen = places(shape, turn)
    change = ElementSampler(shape, chosen)
    return map_tensors(change, tuple(args)), map_tensors(change, dict(kwargs))


def places(shape: torch.Size, turn: int) -> torch.Tensor:
    """The first and the last few thousand places, and evenly spaced ones in between, other ones in
    every turn."""
    count, end = shape.numel(), SAMPLE // 8
    step = max(1, (count - 2 * end) // (SAMPLE - 2 * end)) | 1
    middle = torch.arange(end + turn % step, count - end, step)
    return torch.cat([torch.arange(end), middle, torch.arange(count - end, count)])


class ElementSampler:
    """A tensor's numbers at some places of the shape that it is broadcast to."""

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
