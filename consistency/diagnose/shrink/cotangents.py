"""Cotangents: what gradients are taken against comes from the bitstream, and is given by its bits
to be made simpler."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...backends.base import cotangent
from ...core.model import Case
from ...core.trees import flatten
from ...errors import RecipeError
from ...generate.materialize import literal, prepare
from ...operators.declare import Operator
from ...reference import quiet
from .failure_predicate import Search

_FAR = 1 << 14  # a window's end in the bitstream, beyond which few cotangents are longer


def simplify_drawn_cotangents(search: Search) -> None:
    """Cotangents from the bitstream in place of literal ones, if the case still fails so: they
    follow whatever shape the result has."""
    if search.case.cotangents:
        search.report("cotangents")
        search.accept(replace(search.case, cotangents=(), cotangent=_FAR))


def simplify_literal_cotangents(search: Search) -> None:
    """Give the cotangents by their bits, if the case still fails so."""
    case = search.case
    if search.predicate.direction != "backward" or case.cotangents:
        return
    search.report("cotangents")
    with quiet():
        search.accept(_with_cotangents(case, search.predicate.operator))


def _with_cotangents(case: Case, operator: Operator) -> Case | None:
    """The case with the cotangents that its window in the bitstream gives; None where the CPU
    refuses the call."""
    try:
        arguments = prepare(case).build(gradients=operator.leaves)
        written = {id(arguments.tensors[i]) for i in operator.mutates if i < len(arguments.tensors)}
        args = [a.clone() if id(a) in written else a for a in arguments.args]
        with torch.enable_grad():
            found = [
                literal(cotangent(root, case.cotangent, arguments))
                if isinstance(root, torch.Tensor) and root.requires_grad
                else None
                for root in flatten(operator(*args, **arguments.kwargs))
            ]
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, RecipeError):
        return None
    return replace(case, cotangent=0, cotangents=tuple(found)) if any(found) else None
