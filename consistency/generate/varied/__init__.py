"""Variations of a case beyond those that drawn cases get (:mod:`consistency.generate.variations`),
one dimension of variation each. Which of them a call allows is found out by calling it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from ...core.dtypes import floats
from ...core.model import Case
from ...operators.declare import Operator
from ..variations import UNCHECKED
from . import arguments, cotangents, layouts, operand_dtypes, shapes, values

__all__ = ["by_kind", "wider"]

# Kernels that take indices or positions as they come: with others than theirs they end the process,
# or do not return (docs/findings.md).
INDICES = frozenset(
    {
        "nn.functional.embedding_bag",
        "nn.functional.grid_sample",
        "nn.functional.multilabel_margin_loss",
    }
)


def wider(operator: Operator, case: Case, others: Sequence[Case]) -> Iterator[Case]:
    """Every variation of ``case``: layouts, shapes, numbers and options (those of ``others``, cases
    of the same operator × dtype), value classes, the dtype of one operand, layouts of the
    cotangent. Some cannot be called. None of kernels that check too little, and none of random
    numbers."""
    return itertools.chain.from_iterable(by_kind(operator, case, others))


def _takes_indices(operator: Operator, case: Case) -> bool:
    """Whether whole numbers of the case's dtype may be indices: of uint8 they would be a mask."""
    return operator.family == "indexing" and not floats(case.dtype)


def by_kind(operator: Operator, case: Case, others: Sequence[Case]) -> list[Iterator[Case]]:
    """The same, one iterator per dimension of variation."""
    unchecked = operator.family in UNCHECKED or operator.name in INDICES
    if unchecked or "random" in operator.traits:
        return []
    written = bool(operator.mutates or operator.leading or operator.name.endswith("_"))
    return [
        layouts.of(operator, case, overlap=not written),
        shapes.of(operator, case),
        arguments.of(case, others),
        values.of(case),
        *([] if _takes_indices(operator, case) else [operand_dtypes.of(case)]),
        cotangents.of(operator, case),
        (other for more in shapes.ranks(case) for other in arguments.dims(more)),
    ]
