"""S of gradients by singular values: how far the singular vectors of a rounded matrix turn.

A backward stable decomposition is that of A + E, with ‖E‖ of a few u·‖A‖ (Higham, *Accuracy and
Stability*, ch. 19). A function of singular values alone has the gradient U·diag(g)·Vᴴ. Its first
order change is U·(K ∘ UᴴEV)·Vᴴ, where K between the vectors of σᵢ and σⱼ is the larger of
|gᵢ - gⱼ|/|σᵢ - σⱼ| and (gᵢ + gⱼ)/(σᵢ + σⱼ): the gap divides. No element of it is above
max K·‖E‖_F. S has a factor of √n, n the longer side, because a reflection has as many numbers: the
gradient's own n is 1, as many numbers go in as come out.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from .hooks import Tensors, hook

_RESOLVED = 2.0**-53  # × σ₁: gaps that float64 tells from none
_BY_SINGULAR_VALUES = ("nuc", 2, -2)


@hook
def of_singular_vectors(outputs: Tensors, x: torch.Tensor, *_: Any, **__: Any) -> Any:
    """The largest element of the gradient, and the largest of K × σ₁, times √n."""
    if not bool(x.isfinite().all()) or not x.numel():
        return "normwise"
    (gradient,) = outputs
    turned = _turned(x, gradient)[-1]
    return _of_each(gradient, turned).expand(gradient.shape)


@hook
def of_condition(
    outputs: Tensors, x: torch.Tensor, p: float | None = None, *_: Any, **__: Any
) -> Any:
    """The same; and the slopes of σ₁/σₙ (or σₙ/σ₁) depend on both, 2·σ₁/σₙ (or 2) times as much as
    they are. Of a single one both slopes cancel, 1/σ each with cotangents of at most 1."""
    if not bool(x.isfinite().all()) or not x.numel():
        return "normwise"
    (gradient,) = outputs
    values, slopes, turned = _turned(x, gradient)
    bent = 2.0 * slopes.abs().amax(-1)
    if p != -2:
        bent = bent * values[..., 0] / values[..., -1]
    if values.shape[-1] == 1:
        bent = bent + 2.0 / values[..., 0]
    return _of_each(gradient, turned + bent[..., None, None]).expand(gradient.shape)


@hook
def of_matrix_norm(
    outputs: Tensors, x: torch.Tensor, ord: Any = "fro", dim: Any = (-2, -1), *_: Any, **__: Any
) -> Any:
    """The same of a norm by singular values; the response to other numbers of others."""
    if ord not in _BY_SINGULAR_VALUES or not bool(x.isfinite().all()) or not x.numel():
        return "normwise"
    (gradient,) = outputs
    rows, columns = (d % x.ndim for d in dim)
    matrices = (t.movedim((rows, columns), (-2, -1)) for t in (x, gradient))
    turned = _turned(*matrices)[-1]
    whole = _of_each(gradient.movedim((rows, columns), (-2, -1)), turned)
    return whole.expand(*whole.shape[:-2], x.shape[rows], x.shape[columns]).movedim(
        (-2, -1), (rows, columns)
    )


def _turned(
    x: torch.Tensor, gradient: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The singular values of each matrix, the slopes g by them, and σ₁ × the largest of K.

    Beyond the smaller side there are vectors of σ = 0 and g = 0. What an error moves into them may
    be in one element: the first of a reflection, which has the error of the whole column's norm.
    """
    u, values, vh = torch.linalg.svd(x.detach())
    (m, n), k = x.shape[-2:], values.shape[-1]
    slopes = (u[..., :k].mH @ gradient @ vh[..., :k, :].mH).diagonal(dim1=-2, dim2=-1).real
    top = values[..., :1].clamp(min=torch.finfo(torch.float64).tiny)
    relative = values / top
    gaps = (relative.unsqueeze(-1) - relative.unsqueeze(-2)).abs().clamp(min=_RESOLVED)
    sums = (relative.unsqueeze(-1) + relative.unsqueeze(-2)).clamp(min=_RESOLVED)
    differences = (slopes.unsqueeze(-1) - slopes.unsqueeze(-2)).abs()
    twisted = (slopes.unsqueeze(-1) + slopes.unsqueeze(-2)).abs() / sums
    if not x.is_complex():  # a phase turns a single vector, a sign does not
        twisted = twisted * (1.0 - torch.eye(k, dtype=torch.float64))
    largest = torch.maximum(differences / gaps, twisted).amax((-2, -1))
    if m != n:
        outside = (slopes.abs() / relative.clamp(min=_RESOLVED)).amax(-1)
        largest = torch.maximum(largest, outside)
    return values, slopes, largest[..., None, None]


def _of_each(gradient: torch.Tensor, turned: torch.Tensor) -> torch.Tensor:
    root = math.sqrt(max(gradient.shape[-2:]))
    return root * (gradient.abs().amax((-2, -1), keepdim=True) + turned)
