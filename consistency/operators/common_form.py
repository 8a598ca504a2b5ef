"""One form of a call for every form that torch takes.

Any argument may be given by position or by name, and losses take two that ``reduction`` has
replaced (torch.nn.functional: "``size_average`` and ``reduce`` are in the process of being
deprecated"). Hooks see required arguments by position, others by name, and ``reduction`` alone.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..core.model import Case
from ..core.recipe import tensors
from .call_signature import argument_names, required_names
from .declare import Operator

_REPLACED = ("size_average", "reduce")
# NumPy's names, which torch's parser of arguments takes for its own.
_OF_NUMPY = {"axis": "dim", "keepdims": "keepdim"}
OUT = ".out"


def common_form(
    operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the same call: required ones by position, up to the first that is missing,
    the others by name, as far as every overload has the same name in the same place. What torch
    does not describe stays as it is."""
    names, required = _described(operator)
    given, named = tuple(args), dict(kwargs)
    if any(name in named for name in _OF_NUMPY) and _is_torchs(operator):
        named = {_OF_NUMPY.get(name, name): value for name, value in named.items()}
    if required < len(given) <= len(names) and not set(names[required : len(given)]) & set(named):
        named |= zip(names[required:], given[required:], strict=False)
        given = given[:required]
    given, named = _with_operands(names, required, given, named)
    return given, _with_reduction(named) if any(n in named for n in _REPLACED) else named


def _with_operands(
    names: Sequence[str], required: int, given: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Required arguments by position, up to the first that is missing."""
    for name in names[len(given) : required]:
        if name not in named:
            break
        given += (named.pop(name),)
    return given, named


@functools.lru_cache(maxsize=4096)
def _described(operator: Operator) -> tuple[tuple[str, ...], int]:
    """The names of what can be given by position, up to the first place where overloads differ, and
    how many of them have no default."""
    if operator.name.startswith("aten."):
        return (), 0  # positions and names are those of the overload's schema
    into = operator.name.endswith(OUT)  # takes the destination, then what its operator takes
    operator = operator.form_of or operator
    function: Any = operator.callable
    if not _is_torchs(operator):  # hooks fit what is drawn
        return (operands := required_names(operator)), len(operands)
    if "random" in operator.traits:
        return (), 0  # hooks take what a distribution is given in the order of the call
    names, required = argument_names(operator), len(required_names(operator))
    if inspect.ismethoddescriptor(function) and names[:1] != ("input",):
        names, required = ("input", *names), required + 1
    overloads = _overloads(operator) if not inspect.isfunction(function) else []
    for place in range(required, len(names)):
        found = {overload[place] for overload in overloads if len(overload) > place}
        if found - {names[place]}:
            names = names[:place]
            break
    return (("out", *names), required + 1) if into else (names, required)


def _is_torchs(operator: Operator) -> bool:
    """Whether torch itself takes the arguments: not a formula of ours, or of whoever declares an
    operator."""
    function: Any = (operator.form_of or operator).callable
    return str(getattr(function, "__module__", None) or "torch").startswith("torch")


def _overloads(operator: Operator) -> list[tuple[str, ...]]:
    """The names of what ATen's overloads take by position."""
    base = operator.aten or operator.name.replace(".", "_")
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{base}")
    return [
        tuple(
            "input" if one.name == "self" else one.name
            for one in schema.arguments
            if not one.kwarg_only
        )
        for schema in schemas
    ]


def in_form_of(operator: Operator, case: Case) -> Operator:
    """The operator with its positions of tensors (which it writes to, which have gradients) counted
    as they stand in ``case``; a destination ``out=`` is written to, too."""
    if not case.kwargs:
        return operator
    here = {id(tensor): place for place, tensor in enumerate(case.tensors)}
    names = _written_names(operator)
    places = order_of(operator, case)
    if places is not None:
        operator = placed(operator, places)
    if set(names) & set(case.kwargs):
        found = [
            [here[id(t)] for t in tensors(case.kwargs[name])] if name in case.kwargs else [place]
            for name, place in zip(names, operator.mutates, strict=False)
        ]
        operator = replace(operator, mutates=tuple(itertools.chain(*found)))
    into = tuple(here[id(tensor)] for tensor in tensors(case.kwargs.get("out")))
    return replace(operator, mutates=(*operator.mutates, *into)) if into else operator


def _written_names(operator: Operator) -> tuple[str, ...]:
    """The names of the tensors that are written to, which stand first among the arguments."""
    names = _described(operator)[0] if operator.mutates else ()
    return tuple(names[place] for place in operator.mutates if place < len(names))


def in_common_form(operator: Operator, case: Case) -> Case:
    """The same call with its required arguments by position, and tensors that follow them (weights
    and biases), so that gradients come in the order of the signature."""
    names, required = _described(operator)
    args, kwargs = _with_operands(names, required, tuple(case.args), dict(case.kwargs))
    while required <= len(args) < len(names) and any(tensors(kwargs.get(names[len(args)]))):
        args += (kwargs.pop(names[len(args)]),)
    return replace(case, args=args, kwargs=kwargs)


def order_of(operator: Operator, case: Case) -> list[int] | None:
    """Where the tensors of the call in the common form stand in ``case``; None where they have the
    same order."""
    if not any(tensors(case.kwargs)):
        return None
    recipes = case.tensors
    here = {id(tensor): place for place, tensor in enumerate(recipes)}
    places = [here[id(tensor)] for tensor in in_common_form(operator, case).tensors]
    return None if places == sorted(places) or len(here) < len(recipes) else places


def placed(operator: Operator, places: Sequence[int]) -> Operator:
    """The operator with its positions of tensors changed as ``places`` tells."""

    def moved(positions: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(places[n] for n in positions if n < len(places))

    return replace(
        operator,
        mutates=moved(operator.mutates),
        edges=moved(operator.edges),
        differentiable_inputs=None
        if operator.differentiable_inputs is None
        else moved(operator.differentiable_inputs),
    )


def _with_reduction(named: dict[str, Any]) -> dict[str, Any]:
    """With ``reduction`` in place of what it has replaced."""
    size_average, reduce = (named.pop(name, None) for name in _REPLACED)
    if size_average is None and reduce is None:
        return named
    return named | {
        "reduction": "none" if reduce is False else "sum" if size_average is False else "mean"
    }
