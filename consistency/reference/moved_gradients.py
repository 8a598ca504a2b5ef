"""Which elements of a gradient are one cotangent each, moved there, perhaps negated: nothing is
rounded in them, in any format.

Found by computing again with cotangents that no sum, difference or multiple of others equals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch

from ..core.model import Output
from .magnitudes import Magnitudes
from .perturbation import seeded_generator

if TYPE_CHECKING:
    from .error_magnitudes import ErrorMagnitudes


@dataclass
class _Marks:
    """Cotangents from [1, 2), of 52 random bits: a sum of two of them lies beyond, a difference or
    a half below, and a sum of more equals none of them."""

    first: int  # the position of the cotangents, behind those of the arguments
    _generator: torch.Generator = field(default_factory=seeded_generator)
    _drawn: list[torch.Tensor] = field(default_factory=list)

    def __call__(self, base: torch.Tensor, position: int) -> torch.Tensor:
        if position < self.first:
            return base
        parts = 2 if base.is_complex() else 1
        numbers = 1.0 + torch.rand(
            (*base.shape, parts), dtype=torch.float64, generator=self._generator
        )
        self._drawn.append(numbers.flatten())
        return torch.view_as_complex(numbers) if base.is_complex() else numbers.squeeze(-1)

    def bear(self, tensor: torch.Tensor) -> torch.Tensor:
        """Which elements are 0 or a mark, or its opposite; of complex ones both parts."""
        every = torch.cat(self._drawn).numpy() if self._drawn else np.empty(0)
        plain = tensor.detach().resolve_conj().resolve_neg()
        numbers = (torch.view_as_real(plain) if plain.is_complex() else plain).numpy()
        borne = torch.from_numpy(np.asarray((numbers == 0.0) | np.isin(np.abs(numbers), every)))
        return borne.all(-1) if tensor.is_complex() else borne


def without_moved(reference: ErrorMagnitudes, magnitudes: Magnitudes) -> Magnitudes:
    """S of gradients, 0 where an element is one cotangent. Literal cotangents cannot be changed:
    S remains."""
    if reference.materials.case.cotangents:
        return magnitudes
    marks = _Marks(len(reference.materials.bases))
    raw = reference.recomputed(marks)
    if reference.operator.observe_gradients is not None and not all(
        bool(marks.bear(o.tensor).all()) for o in raw if o.tensor is not None
    ):
        return magnitudes  # what is observed may be the sum of the parts of a cotangent
    observed = reference.observed(raw)
    if len(observed) != len(magnitudes):
        return magnitudes
    rows = zip(magnitudes, observed, reference.outputs, strict=False)
    return tuple(_cleared(s, o, right.tensor, marks) for s, o, right in rows)


def _cleared(
    magnitude: torch.Tensor | float | None, output: Output, right: torch.Tensor | None,
    marks: _Marks,
) -> torch.Tensor | float | None:  # fmt: skip
    if magnitude is None or output.tensor is None or not output.tensor.numel():
        return magnitude
    moved = marks.bear(output.tensor)
    if right is not None and right.shape == output.tensor.shape == moved.shape:
        # Sums that torch writes elsewhere (`gather` by an expanded index) are 0 here, not moved.
        moved &= ~((output.tensor == 0.0) & (right != 0.0))
    if not moved.any():
        return magnitude
    sizes = torch.as_tensor(magnitude, dtype=torch.float64)
    if sizes.numel() not in (1, math.prod(moved.shape)):
        return magnitude
    return torch.where(moved, 0.0, sizes if sizes.numel() == 1 else sizes.reshape(moved.shape))
