"""The sizes of large cases: around those at which kernels change, as far as memory allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from ...core import dtypes
from ...core.model import Case
from ...operators.declare import Operator
from .discovery import Tile, tiles
from .tile_call import PERIOD

TOP = 1 << 24  # elements, from which float32 does not hold every index
# Elements of the largest tensor.
_ELEMENTS = (TOP, 1 << 23, 1 << 17, 1 << 16, 1 << 15)
# Rows, batches, terms of a sum, where fewer elements than at the top belong to them.
_ROWS = (1 << 17, 1 << 16, 1 << 15)
_AROUND = (-1, 0, 1, 1357)
_BEYOND = 1 << 31  # elements, from which int32 does not hold every index
# Solvers and decompositions of so many small matrices take minutes: batches up to this size.
_SLOW = {"linalg": 1 << 21}
STAGES = 3


def cases(operator: Operator, dtype: str, memory: int, stage: int) -> Iterator[Case]:
    """The large cases of an operator in one dtype that fit into ``memory`` bytes, in the order of
    stages: one just beyond 2**24 elements, then the other sizes, then those around 2**31."""
    for tile in tiles(operator, dtype):
        for size in _sizes(operator, tile, dtype, stage):
            if size >= 2 * PERIOD and _bytes(tile, size) <= memory:
                yield _of_size(tile, size)


def _sizes(operator: Operator, tile: Tile, dtype: str, stage: int) -> list[int]:
    """Sizes of the repeated dimension, the largest first."""
    limit = _SLOW.get(operator.family, 2 * _BEYOND)
    first = _size(tile, min(TOP, limit), 1)
    if stage == 0:
        return [first]
    if stage == 1:
        elements = [_size(tile, n, more) for n in _ELEMENTS if n <= limit for more in _AROUND]
        rows = [
            n + more
            for n in _ROWS
            for more in _AROUND
            if not tile.whole and (n + more) * tile.largest <= 2 * TOP
        ]
        return sorted({*elements, *rows} - {first}, reverse=True)
    narrow = dtype in dtypes.INTEGER_RANGE or dtype in ("bool", "float16", "bfloat16")
    if not narrow or limit < _BEYOND or tile.reduced:
        return []
    return [_size(tile, _BEYOND, more) for more in (1, 0, -1)]


def _size(tile: Tile, elements: int, more: int) -> int:
    """The size with which the largest tensor has so many elements, and ``more`` of them; whole
    repetitions where it must be."""
    size = math.ceil(elements / tile.largest) + more
    return -(-size // PERIOD) * PERIOD if tile.whole else size


def _bytes(tile: Tile, size: int) -> float:
    """What a call takes: inputs and results, and with gradients their cotangents, themselves, and
    what is kept for them."""
    assert tile.case.tiling is not None
    return size * tile.bytes * (4.0 if tile.case.tiling.backward else 1.5)


def _of_size(tile: Tile, size: int) -> Case:
    assert tile.case.tiling is not None
    return replace(tile.case, tiling=replace(tile.case.tiling, size=size))
