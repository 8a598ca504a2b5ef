"""Definitions from torch's documentation, for what torch's CPU gives otherwise: histograms between
equal bounds, lengths of ranges of whole numbers, distinct slices beside NaN."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

_NUMBERS = ("start", "end", "step")


def histc(x: Tensor, bins: int = 100, min: Any = 0, max: Any = 0, **rest: Any) -> Tensor:
    """The bounds are those of the data only if both are 0. Between other equal ones, what is less
    or greater is ignored, and the others lie in the middle, where torch counts numbers that are
    all equal (and NumPy those at two equal bounds)."""
    if min != max or min == 0 or not _is_in_every_format(min):
        return torch.histc(x, bins, min, max, **rest)
    counts = x.new_zeros(bins)
    counts[bins // 2] = (x == min).sum()
    return counts


def _is_in_every_format(number: Any) -> bool:
    """Whether no format rounds the number."""
    return all(
        torch.tensor(float(number), dtype=dtype).item() == number
        for dtype in (torch.float16, torch.bfloat16)
    )


def cov(
    x: Tensor,
    *,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> Tensor:
    """Of a single observation with a weight, which torch subtracts from itself in place while it is
    the mean, too, so that NaN and the input are lost (docs/findings.md)."""
    if (fweights is None and aweights is None) or x.shape[-1:] not in ((), (1,)):
        return torch.cov(x, correction=correction, fweights=fweights, aweights=aweights)
    rows = x.reshape(-1, 1)
    weights, divisor = observations(rows, correction, fweights, aweights)
    apart = rows - rows
    return ((apart * weights) @ apart.T / divisor).squeeze()


def corrcoef(x: Tensor) -> Tensor:
    """Without torch's limits of ±1, beside which it is not decided whether a gradient passes; that
    of a row's correlation with itself is 0 either way."""
    covariances = torch.cov(x)
    if covariances.ndim == 0:
        return covariances / covariances
    deviations = covariances.diagonal().sqrt()
    return covariances / deviations[:, None] / deviations


def observations(
    rows: Tensor,
    correction: int = 1,
    fweights: Tensor | None = None,
    aweights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The weights of the columns of ``rows``, and what ``cov`` divides their products by (as
    numpy.cov does)."""
    if fweights is None:
        counts = torch.ones(rows.shape[-1], dtype=rows.dtype)
    else:
        counts = fweights.reshape(-1).to(rows.dtype)
    weights = counts if aweights is None else counts * aweights.reshape(-1)
    total = weights.sum()
    lost = total if aweights is None else (weights * aweights.reshape(-1)).sum()
    return weights, (total - correction * lost / total).clamp(min=0.0)


def arange(*args: Any, **kwargs: Any) -> Tensor:
    """A range of whole numbers has ⌈(end − start) / step⌉ elements, too (torch's int64 rounds the
    three first). They are counted as torch does it, from and by whole numbers: no definition says
    how they are rounded."""
    result = torch.arange(*args, **kwargs)
    if result.is_floating_point() or not kwargs.keys().isdisjoint(_NUMBERS):
        return result
    start, end, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
    if not all(isinstance(x, (int, float)) and math.isfinite(x) for x in (start, end, step)):
        return result
    count = math.ceil((Fraction(end) - Fraction(start)) / Fraction(step))
    if count == len(result) or count != math.ceil((end - start) / step):
        return result  # as documented, or a matter of rounding
    steps = torch.arange(count, dtype=result.dtype, device=result.device)
    return int(start) + steps * int(step)


def unique(
    x: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Slices with NaN are equal to nothing, as elements are that are NaN, and come last; the others
    are sorted and each is there once."""
    if dim is None or not x.is_floating_point() or not bool(x.isnan().any()):
        return torch.unique(x, sorted, return_inverse, return_counts, dim)
    slices = x.movedim(dim, 0)
    unordered = slices.isnan().reshape(len(slices), -1).any(1)
    ordered = slices[~unordered]
    inverse = torch.zeros(len(slices), dtype=torch.int64)
    counts = torch.zeros(0, dtype=torch.int64)
    if len(ordered):
        ordered, inverse[~unordered], counts = torch.unique(
            ordered, return_inverse=True, return_counts=True, dim=0
        )
    last = slices[unordered]
    inverse[unordered] = torch.arange(len(ordered), len(ordered) + len(last))
    values = torch.cat((ordered, last)).movedim(0, dim)
    found = [values]
    found += [inverse] if return_inverse else []
    found += [torch.cat((counts, torch.ones_like(inverse[unordered])))] if return_counts else []
    return values if len(found) == 1 else tuple(found)
