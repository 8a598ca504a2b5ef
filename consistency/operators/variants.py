"""The variants that a declaration asks for: with complex numbers, and in place.

``out=`` and methods are made in :mod:`.call_forms`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..core.recipe import TensorRecipe
from .declare import COMPLEX, Call, ComplexVariant, Drawing, InPlaceVariant, Operator, Sample
from .nonunique_results import of_memory_too

NO_VARIANTS: dict[str, Any] = {
    "complex": False, "inplace": "", "out": False, "method": False, "aten": ""
}  # fmt: skip
_GATHERING = (
    "inplace",
    "call_forms",
    "aten_forms",
    "derivatives",
)  # made of what the other modules declare
# Of an operator and its in-place form.
SHARED_TRAITS = frozenset({"elementwise", "extremum", "own-format"})


def declared() -> Iterator[Operator]:
    """Every operator as it is declared, without its variants."""
    from . import FAMILY_MODULES

    for module in FAMILY_MODULES:
        if module not in _GATHERING:
            yield from importlib.import_module(f".{module}", __package__).OPERATORS


def with_complex(operator: Operator) -> Operator:
    """The operator with complex dtypes beside its own, if it takes them: the same declaration, with
    both parts drawn and S made of moduli (:meth:`.ErrorModel.of`)."""
    if not operator.complex or set(COMPLEX) & set(operator.dtypes):
        return operator
    changes: dict[str, Any] = {"dtypes": (*operator.dtypes, *COMPLEX)}
    if isinstance(operator.complex, ComplexVariant):
        if operator.complex.error is not None:
            changes["error"] = replace(operator.error, in_complex=operator.complex.error)
        if operator.complex.sample is not None:
            changes["sample"] = _by_dtype(operator.sample, operator.complex.sample)
    return replace(operator, **changes)


def _by_dtype(real: Sample, complex_sample: Sample) -> Sample:
    def sample(d: Drawing) -> Call:
        return complex_sample(d) if d.complex else real(d)

    return sample


def in_place_form(operator: Operator) -> Operator:
    """The operator that its ``inplace`` field describes."""
    variant = operator.inplace
    variant = InPlaceVariant(name=variant) if isinstance(variant, str) else variant
    reference = operator.reference
    return Operator(
        name=variant.name,
        family="inplace",
        sample=variant.sample or functools.partial(_without_overlap, operator.sample),
        function=variant.function,
        error=variant.error or operator.error,
        dtypes=variant.dtypes or operator.dtypes,
        differentiable=operator.differentiable,
        traits=(operator.traits & SHARED_TRAITS if variant.traits is None else variant.traits)
        | {"inplace"},
        mutates=(0,),
        ranges=operator.ranges,
        observe=of_memory_too(operator.observe),
        reference=reference and functools.partial(copied_back, reference),
        complex=_complex_in_place(operator.complex, variant.complex),
    )


def _complex_in_place(
    operator: bool | ComplexVariant, variant: bool | ComplexVariant | None
) -> bool | ComplexVariant:
    """What is different for complex numbers in place: the error as in the operator, the sample not,
    which need not draw a destination."""
    if variant is False or (variant is None and not operator):
        return False
    given = variant if isinstance(variant, ComplexVariant) else ComplexVariant()
    error = operator.error if isinstance(operator, ComplexVariant) else None
    return ComplexVariant(sample=given.sample, error=given.error or error)


def copied_back(reference: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    return x.copy_(reference(x.clone(), *args, **kwargs))  # x may be saved for the gradient


class DistinctElements:
    """Draws as ``d`` does, but no two elements of a tensor share memory."""

    def __init__(self, d: Drawing) -> None:
        self._d = d

    def __getattr__(self, name: str) -> Any:
        return getattr(self._d, name)

    def tensor(self, *args: Any, **kwargs: Any) -> TensorRecipe:
        return self._d.tensor(*args, **kwargs | {"overlap": False})


def _without_overlap(sample: Sample, d: Drawing) -> Call:
    return sample(DistinctElements(d))
