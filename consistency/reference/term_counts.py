"""n, the number of terms that are accumulated into one element of a result, and G(n), how their
rounding errors grow."""

from __future__ import annotations

import functools
import math

import torch

from .changed_inputs import ChangedInputs, called
from .perturbation import largest


class TermCounts(ChangedInputs):
    """n and G of each output; each is computed once, on demand."""

    def terms(self, index: int) -> float:
        """n: the number of terms accumulated into one element of output ``index``."""
        if index not in self._terms:
            self._terms[index] = self._count_terms(index)
        return self._terms[index]

    def counted(self, index: int) -> float:
        """n if already computed, else 0."""
        return self._terms.get(index, 0.0)

    @functools.cached_property
    def _terms(self) -> dict[int, float]:
        return {}

    def _count_terms(self, index: int) -> float:
        forward = self.forward_outputs
        if not forward:
            return 1.0
        n = max(float(self.model.terms(*self.hook_arguments, forward)), 1.0)
        if self.direction == "forward":
            return n
        # All products of the forward pass, spread over the elements of this gradient.
        gradient = self.outcome.outputs[index].tensor
        if self.operator.family == "foreach" and len(self.outputs) % len(forward) == 0:
            forward = (forward[index % len(forward)],)  # the result at the same place
        spread = max(
            n
            * sum(o.numel() for o in forward)
            / max(gradient.numel() if gradient is not None else 1, 1),
            1.0,
        )
        if self.model.moves:  # each cotangent is added once at most
            spread = min(spread, float(max(sum(o.numel() for o in forward), 1)))
        if self._adds_cotangents:
            spread = max(spread, self._most_cotangents(index))
        # If the intermediates are themselves sums, each term has the error of such a sum.
        return max(spread, n) if "through-sums" in self.operator.traits else spread

    @property
    def _adds_cotangents(self) -> bool:
        """Whether gradients are sums of cotangents, as they come or, between two neighbors of a
        quantile, in shares."""
        return self.model.moves or (
            self.operator.family == "sorting" and self.model.kind == "accumulated"
        )

    def _most_cotangents(self, index: int) -> float:
        """How many cotangents the element of a gradient adds up that adds most of them, as of a row
        that is read again and again: the gradient of cotangents of 1. 0 where they are literal."""
        if self.materials.case.cotangents:
            return 0.0
        first = len(self.materials.bases)
        ones = self.evaluate(
            lambda base, position: torch.ones_like(base) if position >= first else base
        )
        counts = ones[index].tensor if index < len(ones) else None
        return largest(counts.abs()) if counts is not None else 0.0

    @functools.cached_property
    def forward_outputs(self) -> tuple[torch.Tensor, ...]:
        """The raw float64 tensors of the forward pass."""
        outputs = (
            self.outcome.outputs
            if self.direction == "forward"
            else called(self.operator, self.materials.build("float64"), False)
        )
        return tuple(o.tensor for o in outputs if o.tensor is not None)

    def growth(self, index: int) -> float:
        """G(n) for varied data: √n for blocked or pairwise sums, n for sequential ones."""
        n = self.terms(index)
        return n if self.model.growth == "linear" else math.sqrt(n)

    @functools.cached_property
    def low_entropy(self) -> bool:
        """As InputNumbers; also where cotangents that are all one number are moved and added,
        averaged, or summed in a formula: they are the terms then."""
        case = self.materials.case
        constant = case.cotangent_layout in ("expanded", "constant")
        averaged = "linear" in self.operator.traits and len(case.tensors) == 1
        summed = averaged or "sums-cotangents" in self.operator.traits
        added = self.direction == "backward" and (self._adds_cotangents or summed)
        return (constant and added) or super().low_entropy
