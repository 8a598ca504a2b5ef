"""Moderately large cases of every operator, from files in this package: those in which one size is
large and the results repeat, and wide ones, in which two sizes are large at once. Finding which
calls repeat takes seconds for some operators, which the first run of a user must not wait for.

``python tools/large_tiles.py`` and ``python tools/wide_cases.py`` write the files.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...operators.declare import Operator
from .tile_call import PERIOD

FILE = Path(__file__).with_name("tiles.jsonl")
WIDE = Path(__file__).with_name("wide.jsonl")
DTYPE = "float32"
HALF, OF_HALF = ("float16", "bfloat16"), frozenset({"attention", "convolution", "matmul"})
# Rows, batches or elements: beyond 2**16, where indices of 16 bits and grids of blocks end, and
# 2**19, where products of some accelerators stop, with something left over of every block of a
# power of two.
ROWS = (1 << 19) + 1357
MOST_ELEMENTS = 1 << 21  # of the largest tensor: a case of more takes too long beside small ones


def cases(operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The moderately large cases of an operator in float32: one whose results all repeat, one with
    a long reduced dimension, and some in which two sizes are large, as far as there are such. In
    half precision those with two large sizes, of operators that have other kernels there."""
    found = _cases().get(operator.name, ())
    if dtype == DTYPE:
        return found
    if dtype not in HALF or operator.family not in OF_HALF:
        return ()
    return tuple(_in_dtype(case, dtype) for case in found if case.tiling is None)


def _in_dtype(case: Case, dtype: str) -> Case:
    """The same call on the same numbers, rounded to another format."""
    tensors = (
        replace(t, dtype=dtype) if isinstance(t, TensorRecipe) and t.dtype == DTYPE else t
        for t in case.tensors
    )
    return replace(case.with_tensors(tensors), dtype=dtype)


@functools.cache
def _cases() -> Mapping[str, tuple[Case, ...]]:
    found: dict[str, tuple[Case, ...]] = {}
    for line in FILE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        case = Case.from_json(row["case"])
        assert case.tiling is not None
        size = min(ROWS, int(MOST_ELEMENTS / row["largest"]))
        size -= size % PERIOD if row["whole"] else 0
        if size > 2 * PERIOD:
            large = replace(case, tiling=replace(case.tiling, size=size))
            found[case.operator] = (*found.get(case.operator, ()), large)
    for line in WIDE.read_text(encoding="utf-8").splitlines():
        case = Case.from_json(json.loads(line))
        found[case.operator] = (*found.get(case.operator, ()), case)
    return found
