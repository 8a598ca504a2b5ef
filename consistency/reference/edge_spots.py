"""Which elements of a case around edges a spot check proves: those next to each edge, and some
farther away on either side."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import dtypes
from ..core.recipe import TensorRecipe
from ..generate import edges, exhaustive
from ..generate.materialize import Materials


def at_edges(materials: Materials, size: int, count: int) -> Sequence[int]:
    """Some ``count`` flat positions of an output with ``size`` elements, the same number on either
    side of every edge: the nearest one, and others in the order of their distance. None of another
    case, or where an element is not a function of the number in its place."""
    case = materials.case
    points = edges.edges(case.operator, case.dtype)
    swept = next((i for i, t in enumerate(case.tensors) if _is_around(t)), None)
    if swept is None or not points or not exhaustive.is_exhaustive(case):
        return ()
    numbers = dtypes.real_of(materials.bases[swept]).astype(np.float64)
    if numbers.size != size:
        return ()
    each = max(1, count // (2 * len(points)))
    with np.errstate(over="ignore"):
        gaps = numbers[:, None] - np.array(points)
    nearest = np.abs(gaps).argmin(axis=1)
    chosen: set[int] = set()
    for number in range(len(points)):
        gap = gaps[:, number]
        for side in (gap >= 0, gap < 0):
            places = np.flatnonzero(side & (nearest == number))
            ordered = places[np.argsort(np.abs(gap[places]), kind="stable")]
            _, first = np.unique(np.abs(gap[ordered]), return_index=True)
            distinct = ordered[first]
            picks = np.linspace(0, distinct.size - 1, min(each, distinct.size))
            chosen.update(distinct[picks.astype(int)].tolist())
    return sorted(chosen)


def _is_around(tensor: object) -> bool:
    return isinstance(tensor, TensorRecipe) and tensor.values[0] == "near"
