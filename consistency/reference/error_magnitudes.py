"""S, the magnitude of the terms that each element sums, by the operator's error model."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Self

import numpy as np
import torch

from ..backends.batched_factors import one_thread
from ..core import dtypes
from ..core.recipe import Literal, TensorRecipe, tensors
from ..core.verdict import OutcomeStatus
from ..generate.materialize import Materials, leaves, prepare
from ..generate.value_classes import EXACT_CLASSES
from ..operators.common_form import in_common_form, order_of, placed
from ..operators.declare import Operator
from .magnitudes import MAGNITUDES, Magnitudes, of_owners, without_special_values
from .moved_gradients import without_moved
from .term_counts import TermCounts

LARGE = 1 << 15  # numbers from which on S is worth avoiding; fewer have the exact maximum


class ErrorMagnitudes(TermCounts):
    """S of each output; it is computed once, on demand, because it takes more runs of the
    operator."""

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        super().__init__(operator, materials, direction)
        # By output: formula distance, usual RMS error, widening (own_steps.py):
        self.of_steps: dict[int, tuple[float, float, float]] = {}

    @functools.cached_property
    def magnitudes(self) -> Magnitudes:
        """S per output: a float64 tensor of its shape, one number for all elements, or None if the
        error model has no S.

        Elements that no NaN or infinity among the inputs reaches have the S of the other inputs;
        those of gradients that were only moved have none.
        """
        magnitudes = without_special_values(self, self._magnitudes())
        return (
            without_moved(self, magnitudes)
            if self.model.moves and self.direction == "backward"
            else magnitudes
        )

    @functools.cached_property
    def magnitude_below(self) -> torch.Tensor | float | None:
        """What the S of a large call is nowhere below, and costs less; None where the error model
        has no such bound, or an input holds NaN or infinities."""
        below = self.model.below
        if below is None or self.direction == "backward" or len(self.outputs) != 1:
            return None
        if self.input_size <= LARGE or self.holds_special_values:
            return None
        raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
        least = below(*self.hook_arguments, raw)
        assert isinstance(least, (torch.Tensor, float))
        return least

    def _magnitudes(self) -> Magnitudes:
        kind = self.model.magnitude if self.direction == "forward" else self.model.backward
        count = len(self.outputs)
        if callable(kind) and (ordered := self._in_common_order) is not None:
            other, places = ordered
            own, theirs = (
                leaves(each.materials.case, each.operator.leaves) for each in (self, other)
            )
            sizes = dict(zip((places[n] for n in theirs), other._magnitudes(), strict=True))
            return tuple(sizes[n] for n in own)
        ways = callable(kind) or bool(self.arguments.shared)
        if ways and (whole := self._with_every_leaf) is not None:
            # Error models give S of every gradient, in the order of the arguments, and what comes
            # through memory in several ways may cancel.
            asked, every = (
                leaves(each.materials.case, self.operator.leaves) for each in (self, whole)
            )
            return of_owners(
                self.materials.case.tensors,
                dict(zip(every, whole._magnitudes(), strict=True)),
                asked,
            )
        if not callable(kind):
            return MAGNITUDES[kind](self, count)
        raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
        with one_thread(self.operator, self.arguments):
            magnitude = kind(*self.hook_arguments, raw)
        if isinstance(magnitude, str):  # no closed form for these arguments
            return MAGNITUDES[magnitude](self, count)
        if isinstance(magnitude, torch.Tensor) and not magnitude.requires_grad:
            return (magnitude,) * count
        magnitude = (
            tuple(magnitude) if isinstance(magnitude, (tuple, list)) else (magnitude,) * count
        )
        return tuple(m.detach() if isinstance(m, torch.Tensor) else m for m in magnitude)

    @functools.cached_property
    def _in_common_order(self) -> tuple[Self, list[int]] | None:
        """The same call in the form that hooks see, where its gradients come in another order (an
        operand that is given by name stands behind the others), and where each of its tensors
        stands here."""
        case = self.materials.case
        if self.direction == "forward" or not case.kwargs or self.arguments.shared:
            return None
        places = order_of(self.operator, case)
        if places is None:
            return None
        back = [places.index(place) for place in range(len(places))]
        operator = placed(self.operator, back)
        ordered = in_common_form(self.operator, case)
        return type(self)(operator, prepare(ordered), self.direction), places

    @functools.cached_property
    def _with_every_leaf(self) -> Self | None:
        """The same with the gradients that the case does not ask for, of tensors with memory of
        their own; None where it asks for all, or where they have none."""
        case = self.materials.case
        if self.direction == "forward" or all(tensor.leaf for tensor in case.tensors):
            return None
        every: list[TensorRecipe | Literal] = []
        bases = list(self.materials.bases)
        for number, tensor in enumerate(case.tensors):
            other = replace(tensor, leaf=True)
            if isinstance(other, TensorRecipe):
                other = replace(other, shared=False)
                if tensor.dtype in self.promoted_integers:  # it has a gradient as a fraction has
                    other = replace(other, dtype="float64")
                    bases[number] = bases[number].astype(np.float64)
            every.append(other)
        materials = replace(self.materials, case=case.with_tensors(every), bases=tuple(bases))
        whole = type(self)(self.operator, materials, self.direction)
        return whole if whole.outcome.status is OutcomeStatus.OK else None

    @functools.cached_property
    def exact_integers(self) -> bool:
        """Whether all inputs are small integers whose partial sums are exact in the tested
        dtype."""
        recipes = [*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs)]
        if not self.model.integers_exact or self.direction == "backward":
            return False
        are_integers = all(
            isinstance(t, TensorRecipe) and t.values[0] in EXACT_CLASSES and not t.special
            for t in recipes
        )
        form = dtypes.form_of(self.materials.case.dtype)
        if (
            not are_integers
            or form is None
            or any(isinstance(v, (float, complex)) for v in self.materials.case.kwargs.values())
        ):
            return False
        sizes = [
            float(m.abs().max()) if isinstance(m, torch.Tensor) and m.numel() else 0.0
            for m in self.magnitudes
        ]
        # A complex product may be computed from three real products of sums of parts.
        factor = 4.0 if self.dtype in dtypes.PARTS else 1.0
        return factor * max(sizes, default=0.0) <= 2.0**form.precision
