"""Orthogonal polynomials by their recurrences: n steps whose errors add up, next to roots more than
the value is worth."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from ..core.recipe import Arg
from .declare import FLOAT, INTEGERS, Call, Domain, Drawing, Operator, Sample, accumulated, call
from .definitions import nan_kept, ordered
from .hooks import Args, Kwargs, Tensors
from .sampling import shape_of

LOW, HIGH = 4, 12


def of_degree(domain: Domain) -> Sample:
    """A tensor of arguments, and one degree for all or a tensor of them, or a number and that: one
    of few bits and of small degree, because S, made by perturbing tensors, misses its condition."""

    def sample(d: Drawing) -> Call:
        kind = d.choice("degree", "tensors", "tensors", "argument")
        shape, max_degree = shape_of(d), d.choice(LOW, HIGH) if kind != "argument" else LOW
        if d.floating and kind != "argument" and d.choice(*[False] * 7, True):
            values = ("tokens", domain.low, domain.high, "nan")
            return call(d.tensor(shape, values=values), d.integer(2, max_degree))
        degree: Arg = d.integer(1, max_degree)
        if kind != "degree":
            degree = d.tensor(d.broadcastable(shape), values=("integers", 1, max_degree))
        if kind == "argument":
            x = d.integer(int(16 * domain.low), int(16 * domain.high)) / 16 if d.floating else 1
            return call(x, degree)
        return call(d.tensor(shape, domain), degree)

    return sample


def steps(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n: one step of the recurrence per degree."""
    return float(HIGH)


def of_numbers(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The polynomial, which is NaN at NaN from degree 1 on. That of degree 0 is 1 everywhere, as
    torch documents it. NaN and what leaves int64 are no degrees: torch takes them for a negative
    one, and the polynomial is 0, at NaN as elsewhere."""
    kept = nan_kept(function, 1)  # a degree is no number of the line

    @functools.wraps(function)
    def polynomial(x: Any, n: Any) -> torch.Tensor:
        result: torch.Tensor = kept(x, n)
        if not isinstance(n, torch.Tensor):
            return result
        degree = ordered(n)
        return torch.where((degree >= 1) & (degree < 2.0**63), result, function(x, n))

    return polynomial


# On [-1, 1] these are bounded; Hermite's and Laguerre's grow, and nothing is drawn where they leave
# the small numbers.
BOUNDED, SHIFTED, NARROW = (
    Domain(-1.0, 1.0, points=(-1.0, 0.0, 1.0)),
    Domain(0.0, 1.0, points=(0.0, 0.5, 1.0)),
    Domain(-2.0, 2.0),
)
DOMAINS = {
    **{f"chebyshev_polynomial_{kind}": BOUNDED for kind in "tuvw"},
    **{f"shifted_chebyshev_polynomial_{kind}": SHIFTED for kind in "tuvw"},
    "hermite_polynomial_h": NARROW, "hermite_polynomial_he": NARROW,
    "laguerre_polynomial_l": Domain(0.0, 4.0),
    "legendre_polynomial_p": BOUNDED,
}  # fmt: skip
RECURRENCE = accumulated("normwise", steps, growth="linear")
OPERATORS = [
    Operator(
        name=f"special.{name}",
        family="polynomial",
        sample=of_degree(domain),
        error=RECURRENCE,
        dtypes=(*FLOAT, *INTEGERS, "bool"),
        differentiable=False,
        traits=frozenset({"elementwise"}),
        whole=(1,),
        reference=of_numbers(getattr(torch.special, name)),
    )
    for name, domain in DOMAINS.items()
]
