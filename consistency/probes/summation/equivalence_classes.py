"""Classes of outputs with the same summation order, and that order. Tile edges, or rows with
another memory alignment, may differ from the rest.

A few pairs of terms are queried at all outputs; outputs with equal results form one class, and one
tree is recovered for each class.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .sums_in_operators import Asking, NotAskedError, Question
from .trees import NotATreeError, Tree, recover

Array = np.ndarray[Any, Any]
MOST_CLASSES = 16
FURTHER = (0, 64)  # additional pairs, if the usual ones do not distinguish all orders


def trees_of(question: Question, asked: list[Asking]) -> list[tuple[Tree, Array]]:
    """Trees and masks [rows, columns] of their outputs. Outputs that cannot be queried are in no
    mask.

    Appends all queries to ``asked``. Raises NotATreeError and NotAskedError.
    """
    layout = question.layout
    sets = [question.at(places, np.arange(layout.columns)) for places in layout.places]
    if not sets:
        raise NotAskedError("every output reads padding: its terms cannot be marked")
    asked += sets
    for more in FURTHER:
        trees: list[tuple[Tree, Array]] = []
        pairs = _pairs(layout.terms, layout.added, more)
        try:
            for member in _classes(sets, pairs):
                asked.append(question.at(*_rectangle(member, sets)))
                trees.append(
                    (recover(layout.terms + layout.added, asked[-1], added=layout.added), member)
                )
        except NotATreeError:
            if more == FURTHER[-1]:
                raise
        else:
            break
    return trees


def _classes(sets: Sequence[Asking], pairs: Sequence[tuple[int, int]]) -> list[Array]:
    """Masks [rows, columns] of outputs with equal results."""
    layout = sets[0].question.layout
    answers = np.concatenate(
        [np.stack([asking.everywhere(i, j) for i, j in pairs], axis=-1) for asking in sets]
    )
    answers = np.where(np.isfinite(answers), answers, -1.0)
    kinds, labels = np.unique(answers.reshape(-1, len(pairs)), axis=0, return_inverse=True)
    if len(kinds) > MOST_CLASSES:
        raise NotATreeError(
            f"outputs at different places answer in {len(kinds)} ways: the order is not the same "
            "each time, or no tree"
        )
    class_of_output = np.full((len(layout.left), layout.columns), -1)
    class_of_output[np.concatenate([asking.rows for asking in sets])] = labels.reshape(
        answers.shape[:2]
    )
    return [class_of_output == kind for kind in range(len(kinds))]


def _pairs(terms: int, added: int, more: int) -> list[tuple[int, int]]:
    """Pairs of terms that distinguish common orders: neighbors (blocks, aligned loops), terms at
    the distance of interleaved running sums, and terms at the ends, in the middle and far apart;
    plus ``more`` random pairs."""
    last, half = terms - 1, terms // 2
    pairs = [
        (0, 1),
        (0, half),
        (0, last),
        (half - 1, half),
        (terms // 3, terms // 3 + 1),
        (0, terms // 5),
    ]
    pairs += [(i, i + 1) for i in (1, 2, 3, 7)] + [(last - i - 1, last - i) for i in range(4)]
    pairs += [
        pair for step in (4, 8, 16, 32) for pair in ((half, half + step), (last - step, last))
    ]
    random = np.random.Generator(np.random.Philox(terms))
    first, distances = (
        random.integers(0, terms, more),
        2 ** random.integers(0, 7, more) + random.integers(0, 2, more),
    )
    pairs += zip(first.tolist(), (first + distances).tolist(), strict=True)
    pairs = [(i, j) for i, j in pairs if 0 <= i < j < terms] + (
        [(0, terms), (half, terms)] if added else []
    )
    return list(dict.fromkeys(pairs))


def _rectangle(member: Array, sets: Sequence[Asking]) -> tuple[Array, Array]:
    """Rows of one set and columns that all belong to a class: the columns of the row with the most
    of them, and all rows that contain these columns."""
    rows = max((asking.rows for asking in sets), key=lambda rows: int(member[rows].sum()))
    columns = np.flatnonzero(member[rows[member[rows].sum(1).argmax()]])
    return rows[member[np.ix_(rows, columns)].all(1)], columns
