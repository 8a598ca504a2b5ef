"""How large a healthy error can be: the terms of ``budget = c·ulp(ref) + λ·G(n)·u·S + floor``.

The numbers c and λ are in tolerances.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ..core.dtypes import INTEGER_RANGE
from .domains import COMPLEX
from .hooks import Args, Kwargs, Magnitude, Tensors, Terms, hook


def one(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n = 1: nothing is accumulated."""
    return 1.0


@hook
def reduced(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """n of a reduction: input elements per output element."""
    inputs, results = int(x.numel()), outputs[0].numel()
    return max(inputs / max(results, 1), 1.0)


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """How large a healthy error can be.

    ``kind``: ``exact`` (any difference counts), ``rounded`` (a few ulp of the result),
    ``accumulated`` (a sum of ``terms`` numbers of total magnitude S), ``structure`` (values are not
    defined, only shape and dtype).

    ``magnitude`` is S: ``""`` (none), ``"products"`` (the operator on absolute values, of tensors
    and of float arguments), ``"output"`` (\\|ref\\|), ``"pointwise"`` (Σ \\|xᵢ·∂f/∂xᵢ\\|,
    elementwise operators only), ``"normwise"`` (the largest response of any output element to
    relative perturbations of the inputs' norms, plus max \\|ref\\|), or a function of the float64
    ``(args, kwargs, outputs)`` that returns one tensor per output (or one for all), or one of these
    names where it has no closed form. ``growth`` is
    G: ``sqrt`` for sums in blocks or trees, ``linear`` for sequential scans and long recurrences.
    ``backward`` is S for gradients, in the same words. ``integers_exact``: integer-valued inputs
    give the exact answer. ``wide_accumulation``: float16 and bfloat16 results are accumulated in
    float32 and rounded once; set it to False for operators that are composed of others and so round
    their intermediates to the half format (gradients always are). ``in_complex`` is the model for
    complex numbers where it is another kind: an absolute value is rounded there. S is always made
    of moduli, and bounds the error of either part: where numbers are multiplied, a part's error is
    relative to the whole number. ``moves``: going backward, cotangents are moved and added, and
    nothing else, so that an element of a gradient that is one cotangent is that number exactly
    (S is 0 there). ``in_integers`` is the model for whole numbers that the operator
    makes floats first, which rounds the large ones. ``at_least_output``: going forward, no S is
    below \\|ref\\|, so that S of a large result need not be computed where its ulp decides.
    ``below``: of a large call with one output, a tensor or a number that costs less than S and is
    never above it; S is computed where that decides nothing.
    """

    kind: str = "rounded"
    magnitude: str | Magnitude = ""
    terms: Terms = one
    growth: str = "sqrt"
    backward: str | Magnitude = "normwise"
    integers_exact: bool = False
    wide_accumulation: bool = True
    moves: bool = False
    at_least_output: bool = False
    below: Magnitude | None = None
    in_complex: ErrorModel | None = None
    in_integers: ErrorModel | None = None

    def of(self, dtype: str) -> ErrorModel:
        """The model that holds in ``dtype``: among complex numbers functions err relative to the
        modulus of their result."""
        if dtype in INTEGER_RANGE and self.in_integers is not None:
            return self.in_integers
        if dtype not in COMPLEX:
            return self
        if self.in_complex is not None:
            return self.in_complex
        return replace(self, magnitude="output") if self.kind == "rounded" else self


EXACT = ErrorModel("exact", backward="products", moves=True)
ROUNDED = ErrorModel("rounded", "pointwise", backward="pointwise")
STRUCTURE = ErrorModel("structure")


def products(terms: Terms = reduced, **changes: Any) -> ErrorModel:
    """Sums of products, linear in every tensor argument: S from absolute values, forward and
    backward."""
    return replace(ErrorModel("accumulated", "products", terms, "sqrt", "products"), **changes)


def accumulated(magnitude: str | Magnitude, terms: Terms = reduced, **changes: Any) -> ErrorModel:
    """Other accumulations, with S named or given as a function."""
    return replace(ErrorModel("accumulated", magnitude, terms), **changes)


NORMWISE = accumulated("normwise", one)
