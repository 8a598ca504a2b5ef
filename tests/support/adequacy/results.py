"""Faults of results: functions of what is returned alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace

import torch

from consistency.core.model import Outcome

from .model import Change, Fault, Healthy

OUTPUTS = 3  # of which single elements are changed
SHARE = 0.01  # by how much one element is off
ONE_OFF = "one element of output 0 is 1% off"


def parts(change: Change) -> Change:
    """The change of real numbers, applied to the parts of complex ones."""

    def changed(tensor: torch.Tensor) -> torch.Tensor | None:
        if not tensor.is_complex():
            return change(tensor)
        other = change(torch.view_as_real(tensor.resolve_conj()).clone())
        return None if other is None else torch.view_as_complex(other.contiguous())

    return changed


def floating(change: Change) -> Change:
    return parts(lambda t: change(t) if t.is_floating_point() else None)


def one_off(healthy: Healthy, index: int, place: int | None = None) -> Outcome | None:
    """One ordinary element of one output is 1% off: whole numbers by at least 1, bool by its
    opposite, also where no tensor is returned. Which element says ``place``, or the case's hash."""
    if index >= len(healthy.outcome.outputs):
        return None
    output = healthy.outcome.outputs[index]
    if output.tensor is None:
        return _answer_off(healthy, index) if output.value is not None else None
    real = _real(output.tensor)
    flat = real.detach().reshape(-1).clone()
    places = _ordinary(flat)
    if not len(places):
        return None
    number = int(healthy.case.digest[:12], 16) if place is None else place
    chosen = int(places[number % len(places)])
    if flat.dtype == torch.bool:
        flat[chosen] = ~flat[chosen]
    elif flat.is_floating_point():
        value = float(flat[chosen])
        flat[chosen] = value * (1.0 - SHARE)
        if float(flat[chosen]) == value:
            flat[chosen] = torch.nextafter(flat[chosen], flat[chosen] * 0)
    else:
        one = flat[chosen : chosen + 1]
        step = max(int(abs(int(one)) * SHARE), 1)
        one.copy_((one.to(torch.int64) + step).to(flat.dtype))  # torch adds no uint16
    shaped = flat.reshape(real.shape)
    tensors = healthy.tensors
    tensors[index] = torch.view_as_complex(shaped) if output.tensor.is_complex() else shaped
    return healthy.with_tensors(tensors)


def ordinary_elements(healthy: Healthy) -> int:
    """How many elements of output 0 :func:`one_off` may change."""
    outputs = healthy.outcome.outputs
    if not outputs or outputs[0].tensor is None:
        return len(outputs[:1])
    return len(_ordinary(_real(outputs[0].tensor).reshape(-1)))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _ordinary(flat: torch.Tensor) -> torch.Tensor:
    """The positions of elements of which 1% is a normal number, or whose successor is one."""
    if flat.dtype == torch.bool:
        usable = torch.ones_like(flat)
    elif flat.is_floating_point():
        usable = flat.isfinite() & (flat.abs() > 128 * torch.finfo(flat.dtype).tiny)
    else:
        usable = flat.abs() < torch.iinfo(flat.dtype).max // 2
    return usable.nonzero().flatten()


def _answer_off(healthy: Healthy, index: int) -> Outcome:
    """A returned Python number is off, or a returned bool the opposite."""
    outputs = list(healthy.outcome.outputs)
    value = outputs[index].value
    wrong = not value if isinstance(value, bool) else value + max(abs(value) * SHARE, 1)
    outputs[index] = replace(outputs[index], value=type(value)(wrong))
    return replace(healthy.outcome, outputs=tuple(outputs))


def _zeroed(tensor: torch.Tensor, first: int) -> torch.Tensor | None:
    """From flat position ``first`` on nothing is written."""
    if first >= tensor.numel():
        return None
    flat = tensor.reshape(-1).clone()
    flat[first:] = 0
    return flat.reshape(tensor.shape)


def tail(tensor: torch.Tensor, width: int) -> torch.Tensor | None:
    """What is left over of whole vectors is not written."""
    return _zeroed(tensor, tensor.numel() - tensor.numel() % width)


def last(tensor: torch.Tensor) -> torch.Tensor | None:
    return _zeroed(tensor, tensor.numel() - 1) if tensor.numel() > 1 else None


def beyond(tensor: torch.Tensor, limit: int) -> torch.Tensor | None:
    """Beyond ``limit`` of a dimension, the numbers of its beginning come again."""
    long = [d for d, size in enumerate(tensor.shape) if size > limit]
    if not long or not tensor.numel():
        return None
    index = torch.arange(tensor.shape[long[-1]]) % limit
    return tensor.index_select(long[-1], index)


def repeated(tensor: torch.Tensor, dim: int) -> torch.Tensor | None:
    """All rows along ``dim`` are the first one."""
    if tensor.ndim <= dim or not tensor.numel():
        return None
    return tensor.narrow(dim, 0, 1).expand_as(tensor).clone()


def flushed(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(tensor.abs() < torch.finfo(tensor.dtype).tiny, tensor * 0, tensor)


def through(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return tensor.to(dtype).to(tensor.dtype)


def shorter(tensor: torch.Tensor) -> torch.Tensor | None:
    """The result in the next shorter format: float64 in float32, the others in bfloat16."""
    wide = tensor.dtype == torch.float64
    return through(tensor, torch.float32 if wide else torch.bfloat16)


def magnitudes(tensor: torch.Tensor) -> torch.Tensor | None:
    return None if tensor.dtype == torch.bool else tensor.abs()


def rounded_integers(tensor: torch.Tensor) -> torch.Tensor | None:
    """Whole numbers as float32 holds them."""
    if tensor.dtype not in (torch.int32, torch.int64):
        return None
    near = tensor.to(torch.float32).to(torch.float64)
    ends = torch.iinfo(tensor.dtype)
    return torch.where(near.abs() < float(ends.max), near, tensor).to(tensor.dtype)


def flattened(tensor: torch.Tensor) -> torch.Tensor | None:
    """An empty result loses its shape."""
    return tensor.reshape(-1) if tensor.numel() == 0 and tensor.ndim > 1 else None


def scaled(tensor: torch.Tensor) -> torch.Tensor | None:
    """Everything is wrong: half as large again, or the opposite."""
    if tensor.dtype == torch.bool:
        return ~tensor
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor + tensor // 2 + 1
    return tensor * 1.5


def _each(change: Change) -> Callable[[Healthy], Outcome | None]:
    return lambda healthy: healthy.each(change)


def faults() -> Iterator[Fault]:
    for index in range(OUTPUTS):
        name = f"one element of output {index} is 1% off"
        yield Fault(name, functools.partial(one_off, index=index), weight=4.0)
    changes: dict[str, Change] = {
        "last element not written": last,
        "remainder of 4 not written": functools.partial(tail, width=4),
        "remainder of 8 not written": functools.partial(tail, width=8),
        "remainder of 32 not written": functools.partial(tail, width=32),
        "wrong beyond 16 of a dimension": functools.partial(beyond, limit=16),
        "wrong beyond 32 of a dimension": functools.partial(beyond, limit=32),
        "wrong beyond 64 of a dimension": functools.partial(beyond, limit=64),
        "wrong beyond 128 of a dimension": functools.partial(beyond, limit=128),
        "first row copied to all": functools.partial(repeated, dim=0),
        "first column copied to all": functools.partial(repeated, dim=1),
        "first of the third dimension copied to all": functools.partial(repeated, dim=2),
        "NaN is 0": floating(lambda t: torch.where(t.isnan(), 0.0, t).to(t.dtype)),
        "infinity is NaN": floating(lambda t: torch.where(t.isinf(), torch.nan, t).to(t.dtype)),
        "infinity is the largest number": floating(
            lambda t: t.clamp(torch.finfo(t.dtype).min, torch.finfo(t.dtype).max)
        ),
        "subnormal results are 0": floating(flushed),
        "-0 is 0": floating(lambda t: torch.where(t == 0, t.abs(), t)),
        "signs are lost": parts(magnitudes),
        "results in a shorter format": floating(shorter),
        "whole numbers through float32": rounded_integers,
        "an empty result is flat": flattened,
    }
    for name, change in changes.items():
        yield Fault(name, _each(change))


def _everything(healthy: Healthy) -> Outcome | None:
    if healthy.outcome.outputs and all(o.tensor is None for o in healthy.outcome.outputs):
        return one_off(healthy, 0)
    return healthy.each(parts(scaled))


EVERYTHING = Fault("everything is wrong", _everything)
# Where a gradient vanishes with its tensor (a norm of zeros), a quotient of zeros goes wrong.
UNDEFINED = Fault(
    "0 is NaN", _each(floating(lambda t: torch.where(t == 0, torch.nan, t).to(t.dtype)))
)
