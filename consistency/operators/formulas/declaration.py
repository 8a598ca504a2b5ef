"""The declaration of a formula, and shared helpers of the samples.

A formula is a function ``(call, …)`` of an operator's arguments; ``call(name, …)`` runs a named
operator on the backend under test. Data movement (views, cat, indexing) is written directly; every
computing step goes through ``call``. softmax's shift does not affect its gradient, so the shift is
detached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch

from ..declare import FLOAT, Call, Domain, Drawing, Sample, call, resolve

Run = Callable[..., Any]
Formula = Callable[..., Any]

FREE = Domain(-4.0, 4.0)
SUMS = Domain(wide=(-4, 3), sums=True)
APART = Domain(0.5, 4.0)
# Each gradient has a factor that is a sum, of as many terms as went in.
THROUGH_SUMS = frozenset({"through-sums"})


@dataclass(frozen=True)
class OperatorFormula:
    """``operator`` in terms of others, judged as ``formula.<name>``; ``words`` describe it.

    ``reference(operator, …)`` runs the operator in float64.
    """

    name: str
    operator: str
    words: str
    formula: Formula
    sample: Sample
    _: KW_ONLY
    dtypes: tuple[str, ...] = FLOAT
    differentiable: bool = True
    traits: frozenset[str] = frozenset()
    reference: Callable[..., Any] | None = None


def run(name: str, *args: Any, **kwargs: Any) -> Any:
    function = resolve(name)
    if function is None:
        raise NotImplementedError(f"torch {torch.__version__} has no {name}")
    return function(*args, **kwargs)


def tensors(*domains: Domain, low: int = 0, high: int = 3) -> Sample:
    """As many tensors of one shape as domains."""

    def sample(d: Drawing) -> Call:
        shape = d.shape(low, high, elements=1024)
        return call(*(d.tensor(shape, domain) for domain in domains))

    return sample


def rows(
    domain: Domain = SUMS,
    *,
    least: int = 1,
    dims: bool = True,
    several: bool = False,
    distinct: bool = False,
) -> Sample:
    """A tensor whose last dimension is worked on, named if ``dims``; ``distinct`` if constant rows
    have no gradient."""

    def sample(d: Drawing) -> Call:
        x = d.tensor(
            (*d.shape(0, 2, most=9), d.size(least, 257)),
            domain,
            values=("distinct",) if distinct else None,
            overlap=not distinct,
        )
        return call(x, *([[-1] if several else -1] if dims else []))

    return sample


def pair(first: str, second: str, *, factors: bool = False, added: str = "") -> Sample:
    """Operands of a product, sizes by letter; ``added`` comes before them, with factors."""

    def sample(d: Drawing) -> Call:
        sizes = {"b": d.size(1, 5), "i": d.size(2, 17), "k": d.size(1, 129), "j": d.size(2, 17)}
        shapes = [
            [sizes[letter] for letter in letters]
            for letters in ([added] if added else []) + [first, second]
        ]
        options = (
            {"beta": d.number(-2, 2), "alpha": d.number(-2, 2)} if factors and d.flag() else {}
        )
        return call(*(d.tensor(shape, SUMS) for shape in shapes), **options)

    return sample
