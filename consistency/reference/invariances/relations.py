"""Which operators are held to which relation, and why the others are not, from a file in this
package.

``python tools/invariances.py`` found it by trying, on the processor and the torch that the file
names, and writes the file and docs/invariances.md.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...core import recipe
from ...core.model import Case
from ...operators.declare import Operator

FILE = Path(__file__).with_name("relations.jsonl")
LAYOUT, BATCH, LENGTH = RELATIONS = ("layout", "batch", "length")
SLOPE = "slope"  # held by every operator that is a derivative of another one
# Which tensors hold the items of a batch along their first dimension: the first one; those of the
# same rank as the first one; those of any rank.
FIRST, ALIKE, EVERY = MODES = ("first", "alike", "every")
Shape = tuple[int, ...]


def relations(operator: str) -> Mapping[str, str]:
    """Why an operator is not held to a relation, by relation; empty text where it is. Nothing of
    an operator that the file does not know."""
    row = _rows().get(operator)
    return {} if row is None else {name: row[name] for name in RELATIONS}


def batch_positions(
    operator: Operator, case: Case, shapes: Sequence[Shape], outputs: Sequence[Shape]
) -> tuple[int, ...]:
    """The positions of the tensors whose first dimension is the batch of this case; empty where
    there is none. ``shapes`` are those of its tensors, ``outputs`` of its results."""
    row = _rows().get(operator.name)
    if row is None or row[BATCH]:
        return ()
    mode, rank, apart = row["mode"], row["rank"], row["apart"]
    if not shapes or len(shapes[0]) < rank or (apart and names_first(case, len(shapes[0]))):
        return ()
    return carriers(operator, mode, shapes, outputs)


def carriers(
    operator: Operator, mode: str, shapes: Sequence[Shape], outputs: Sequence[Shape]
) -> tuple[int, ...]:
    """The tensors that hold the items of a batch if this mode is the operator's; empty where the
    shapes do not fit: every result must have as many items."""
    if not shapes or not shapes[0] or shapes[0][0] < 2 or not outputs:
        return ()
    size, rank = shapes[0][0], len(shapes[0])
    if any(not shape or shape[0] != size for shape in outputs):
        return ()
    found = tuple(
        i
        for i, shape in enumerate(shapes[:1] if mode == FIRST else shapes)
        if shape and shape[0] == size and (mode != ALIKE or len(shape) == rank)
    )
    return found if set(operator.mutates) <= set(found) else ()


def names_first(case: Case, rank: int) -> bool:
    """Whether a whole number among the arguments may mean the first dimension."""
    return any(_names(value, rank) for value in (*case.args, *case.kwargs.values()))


def _names(value: recipe.Arg, rank: int) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_names(item, rank) for item in value)
    return type(value) is int and value in (0, -rank)


@functools.cache
def _rows() -> Mapping[str, Mapping[str, Any]]:
    if not FILE.is_file():
        return {}
    rows = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return {row["operator"]: row for row in rows}
