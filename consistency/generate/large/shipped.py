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
from typing import Any

from ...core.model import Case
from ...core.recipe import TensorRecipe
from ...operators.declare import Operator
from .tile_call import PERIOD

FILE = Path(__file__).with_name("tiles.jsonl")
WIDE = Path(__file__).with_name("wide.jsonl")
DTYPE = "float32"
HALF = ("float16", "bfloat16")
OF_HALF = frozenset(
    {
        "attention", "convolution", "cumulative", "indexing", "matmul", "normalization", "pooling",
        "reduction", "softmax", "sorting",
    }
)  # fmt: skip
# Whole numbers of cases that are wide: those of int64 lie around powers of two, of which float32
# and float16 hold one in many; bool ones are counted beyond what a byte holds.
WHOLE: Mapping[str, tuple[Any, ...]] = {"int64": ("powers", 40), "bool": ("integers", 0, 1)}
OF_WHOLE = frozenset({"cumulative", "indexing", "reduction", "sorting"})
# Rows, batches or elements: beyond 2**16, where indices of 16 bits and grids of blocks end, and
# 2**19, where products of some accelerators stop, with something left over of every block of a
# power of two.
ROWS = (1 << 19) + 1357
MOST_ELEMENTS = 1 << 21  # of the largest tensor: a case of more takes too long beside small ones


def cases(operator: Operator, dtype: str) -> tuple[Case, ...]:
    """The moderately large cases of an operator in float32: one whose results all repeat, one with
    a long reduced dimension, and some in which two sizes are large, as far as there are such. In
    half precision and in whole numbers those with two large sizes, of operators that have other
    kernels there."""
    found = _cases().get(operator.name, ())
    if dtype == DTYPE:
        return found
    family = operator.family
    if "prod" in operator.name:  # the numbers of long products would leave the format
        return ()
    if dtype in HALF and family in OF_HALF:
        values = None
    elif dtype in WHOLE and family in OF_WHOLE:
        values = WHOLE[dtype]
    else:
        return ()
    return tuple(_in_dtype(case, dtype, values) for case in found if case.tiling is None)


def _in_dtype(case: Case, dtype: str, values: tuple[Any, ...] | None) -> Case:
    """The same call on the same numbers, rounded to another format, or on whole numbers."""
    tensors = (
        replace(t, dtype=dtype, values=values or t.values, leaf=t.leaf or values is not None)
        if isinstance(t, TensorRecipe) and t.dtype == DTYPE
        else t
        for t in case.tensors
    )
    cotangent = 0 if values else case.cotangent
    layout = "" if values else case.cotangent_layout
    changed = replace(case, dtype=dtype, cotangent=cotangent, cotangent_layout=layout)
    return changed.with_tensors(tensors)


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
