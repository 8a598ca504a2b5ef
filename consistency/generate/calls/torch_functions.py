"""The third source of cases: functions that a case names itself, ``call/torch.add`` or
``call/Tensor.copy_``, as recordings do.

The name is looked up (:mod:`consistency.operators.catalog.functions`), never evaluated.
What our declaration of the same function knows (its error model, what is unique about its result)
holds for the call as well; anything else is judged by its sensitivity to its inputs.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ... import operators
from ...core.case_source import parse_source
from ...core.dtypes import FORMATS, TORCH, float64_by_default
from ...core.model import Case
from ...core.recipe import DType
from ...operators.catalog.functions import CONVERTS_FIRST, FACTORIES, function_named
from ...operators.declare import Operator, call
from .generic_error import BY_SENSITIVITY, GENERIC

NAMED = "named"  # the trait of an operator that is defined by its case


def operator_of(case: Case) -> Operator:
    """The operator of a case with the source ``call/…``. Raises UsageError for a name that may not
    be called."""
    source = parse_source(case.source)
    return _operator(source.name, case.operator, source.writes, _shorter(source.name, case))


@functools.lru_cache(maxsize=4096)
def _operator(name: str, title: str, writes: tuple[int, ...], shorter: str) -> Operator:
    function = function_named(name)
    declared = declared_as(name, function)
    reference = None
    if name.startswith("torch.") and name.removeprefix("torch.") in FACTORIES:
        reference = functools.partial(_in_double, function)
    common: dict[str, Any] = {
        "name": title, "function": _returns_nothing if name == "operator.setitem" else function,
        "differentiable": True, "mutates": writes, "reference": reference,
    }  # fmt: skip
    if declared is None:
        return Operator(
            family=GENERIC,
            sample=lambda d: call(),
            error=BY_SENSITIVITY,
            traits=frozenset({NAMED}),
            **common,
        )
    if shorter:
        common["alternatives"] = _cast_to(function, shorter)
    # The case says itself which tensors have gradients.
    form_of = None if declared.name == title else declared
    return replace(
        declared,
        **common,
        traits=declared.traits | {NAMED},
        differentiable_inputs=None,
        cases=None,
        form_of=form_of,
    )


def declared_as(name: str, function: Callable[..., Any]) -> Operator | None:
    """Our declaration of the function called ``name``, if there is one."""
    declared, last = operators.registry(), name.partition(".")[2]
    match = declared.get(f"__{last}__" if name.startswith("operator.") else last)
    if match is not None:
        return match
    return next(
        (o for o in declared.values() if o.form_of is None and o.callable is function), None
    )


def casting_first(operator: Operator, case: Case) -> Operator:
    """The declared operator, which also takes numbers that are cast to the dtype of the result
    before they are summed, where ``case`` asks for a shorter one."""
    shorter = _shorter(operator.name, case)
    if not shorter or operator.alternatives is not None:
        return operator
    function: Any = operator.callable
    return replace(operator, alternatives=_cast_to(function, shorter))


def _cast_to(function: Callable[..., Any], dtype: str) -> Callable[..., Any]:
    return functools.partial(_cast_first, function, TORCH[dtype])


def _returns_nothing(*args: Any) -> tuple[()]:
    """``x[key] = value``, of which only what was written is compared."""
    operator.setitem(*args)
    return ()


def _shorter(name: str, case: Case) -> str:
    """The dtype of a reduction if it has fewer digits than the case's own: ``sum(x,
    dtype=torch.float16)``."""
    requested = case.kwargs.get("dtype")
    if (
        name.rpartition(".")[2] not in CONVERTS_FIRST
        or not isinstance(requested, DType)
        or case.dtype not in FORMATS
    ):
        return ""
    is_shorter = (
        requested.name in FORMATS
        and FORMATS[requested.name].precision < FORMATS[case.dtype].precision
    )
    return requested.name if is_shorter else ""


def _cast_first(
    function: Callable[..., Any], dtype: torch.dtype, args: Any, kwargs: Any, outputs: Any
) -> list[tuple[Any, ...]]:
    """As torch documents, cast the numbers before they are summed; casting the sum is accepted as
    well."""
    return [(function(args[0].to(dtype).to(torch.float64), *args[1:], **kwargs),)]


def _in_double(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A factory function in float64 if it was not given a dtype."""
    with float64_by_default():
        return function(*args, **kwargs)
