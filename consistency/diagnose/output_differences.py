"""Outputs of the same case beside each other, element by element: where they differ, and one with
elements of another."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import torch

from ..core.model import Outcome, Output
from ..reference import Reference


def shapes(outputs: tuple[Output, ...]) -> list[tuple[int, ...] | None]:
    """Their shapes, None for what is no tensor."""
    return [None if o.tensor is None else tuple(o.tensor.shape) for o in outputs]


def same(outputs: tuple[Output, ...], others: tuple[Output, ...]) -> bool:
    """Whether all numbers are equal; NaN equals itself, and zeros have signs."""
    return all(_equal(a, b) for a, b in zip(outputs, others, strict=True))


def _equal(a: Output, b: Output) -> bool:
    if a.tensor is None or b.tensor is None:
        both = a.tensor is None and b.tensor is None
        return both and bool(a.value == b.value or a.value != a.value)
    alike = a.tensor.shape == b.tensor.shape and a.tensor.dtype == b.tensor.dtype
    return alike and torch.equal(_bits(a.tensor), _bits(b.tensor))


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.dtype == torch.float64:
        return torch.where(tensor.isnan(), torch.nan, tensor).view(torch.int64)
    return tensor.nan_to_num(0.0, 1.0, -1.0) if tensor.is_floating_point() else tensor


def flat(output: Output) -> np.ndarray:
    """The elements of a tensor, conjugated and negated where that was left to do, in one row."""
    assert output.tensor is not None
    return output.tensor.detach().resolve_conj().resolve_neg().reshape(-1).numpy()


def widened(output: Output) -> Output:
    """Floating-point and complex numbers in float64 and complex128; others as they are."""
    tensor = output.tensor
    if tensor is None or not (tensor.is_floating_point() or tensor.is_complex()):
        return output
    wide = torch.complex128 if tensor.is_complex() else torch.float64
    return replace(output, tensor=tensor.detach().to(wide))


def differing(a: Output, b: Output) -> np.ndarray:
    """The flat positions of the elements that differ, the largest difference first."""
    if a.tensor is None or b.tensor is None:
        return np.empty(0, dtype=np.int64)
    one, two = flat(a), flat(b)
    differs = (one != two) & ~((one != one) & (two != two))
    places = np.flatnonzero(differs)
    with np.errstate(all="ignore"):
        wide = complex if one.dtype.kind == "c" else float
        gap = np.abs(two[places].astype(wide) - one[places].astype(wide))
    return places[np.argsort(-np.nan_to_num(gap, nan=np.inf), kind="stable")]


def replaced(output: Output, other: Output, places: list[int]) -> Output:
    """``output`` with the elements of ``other`` at these flat positions."""
    if output.tensor is None or other.tensor is None or not places:
        return output
    values = (
        output.tensor.detach()
        .resolve_conj()
        .resolve_neg()
        .clone(memory_format=torch.contiguous_format)
    )
    chosen = torch.tensor(places)
    values.view(-1)[chosen] = other.tensor.detach().reshape(-1)[chosen].to(values.dtype)
    return replace(output, tensor=values)


def as_reference(reference: Reference, outcome: Outcome) -> Reference:
    """The reference with what ``outcome`` returned in place of its numbers: others are compared
    with those, by the same S."""
    own = copy.copy(reference)
    own.outputs = tuple([widened(o) for o in reference.observed(outcome.outputs)])
    own.outcome = replace(outcome, outputs=own.outputs, contract=None)
    own.tails, own.flattened = (None,) * len(own.outputs), {}
    return own
