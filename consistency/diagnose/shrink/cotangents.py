"""Cotangents: switch between the bitstream and literal tensors, which can be simplified."""

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
from .tensor_edits import tensors_of, with_tensors

_FAR = 1 << 14  # end of the window in the bitstream, enough for almost all cotangents


def simplify_drawn_cotangents(search: Search) -> None:
    """Replace literal cotangents by the bitstream if the case still fails: those adapt to the
    shape of the result. Drawn ones become contiguous, and all tensors leaves, likewise."""
    if search.case.cotangents:
        search.report("cotangents")
        search.accept(replace(search.case, cotangents=(), cotangent=_FAR))
    if not all(tensor.leaf for tensor in search.case.tensors):
        tensors = [replace(tensor, leaf=True) for tensor in tensors_of(search.case)]
        search.accept(with_tensors(search.case, tensors))
    for layout in ("", "constant"):
        if search.case.cotangent_layout not in ("", layout):
            search.accept(replace(search.case, cotangent_layout=layout))


def simplify_literal_cotangents(search: Search) -> None:
    """Make the cotangents literal if the case still fails."""
    case = search.case
    if search.predicate.direction != "backward" or case.cotangents:
        return
    search.report("cotangents")
    with quiet():
        search.accept(_with_cotangents(case, search.predicate.operator))


def _with_cotangents(case: Case, operator: Operator) -> Case | None:
    """The case with its bitstream cotangents as literals; None if the CPU rejects the call."""
    try:
        arguments = prepare(case).build(gradients=operator.leaves)
        mutated = {id(arguments.tensors[i]) for i in operator.mutates if i < len(arguments.tensors)}
        args = [a.clone() if id(a) in mutated else a for a in arguments.args]
        with torch.enable_grad():
            cotangents = [
                literal(cotangent(root, case.cotangent, arguments))
                if isinstance(root, torch.Tensor) and root.requires_grad
                else None
                for root in flatten(operator(*args, **arguments.kwargs))
            ]
    except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, RecipeError):
        return None
    if not any(cotangents):
        return None
    return replace(case, cotangent=0, cotangents=tuple(cotangents), cotangent_layout="")
