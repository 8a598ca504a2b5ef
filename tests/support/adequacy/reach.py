"""The narrow conditions that a case meets, on which defects depend.

Public reports name them: a contiguous slice, an argument beside another, an index above 256, a row
of more than 1,024, an image of 32 x 32 with 8 channels, one infinity. Further ones are in
:mod:`.conditions`; :mod:`.search` chooses cases by them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from consistency.core import recipe
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.generate.variations import LARGE
from consistency.judge.known.case_facts import UNKNOWN, Facts

from .conditions import further as further_conditions
from .plain_calls import kind

LENGTHS, ELEMENTS = (16, 32, 64, 256, 1024), (1024, 8192)
CHANNELS, PIXELS = 8, 32  # of an image that is no toy
BATCHED = 32  # rows of matrices that stand in a batch
LARGE_INDEX = 256  # beyond it bfloat16 is not exact


def reach(case: Case) -> dict[str, float]:
    """The conditions that a case meets, with their weights."""
    found: dict[str, float] = {}
    told = (_of_tensors(case), _of_arguments(case), further_conditions(case))
    for condition, weight in itertools.chain(*told):
        found[condition] = max(weight, found.get(condition, 0.0))
    return found


def _of_tensors(case: Case) -> Iterator[tuple[str, float]]:
    facts = Facts(case)
    shapes: list[tuple[int, ...]] = []
    changed = [n for n, t in enumerate(case.tensors) if not _is_contiguous(facts, t)]
    for number, tensor in enumerate(case.tensors[:4]):
        shape, layout = facts.described("shape", tensor), facts.described("layout", tensor)
        if not isinstance(shape, tuple):
            continue
        shapes.append(shape)
        words = set(layout) - {"contiguous", "scalar", "empty", "offset"}
        if math.prod(shape) > 1 and _count(tensor) > 1:
            yield from ((f"tensor {number} is {word}", 2.0) for word in words)
            if changed == [number]:
                yield from ((f"only tensor {number} is {word}", 2.0) for word in words)
        if len(shape) > 2 and math.prod(shape[:-2]) > 1 and min(shape[-2:]) > BATCHED:
            yield f"a batch of more than {BATCHED} x {BATCHED}", 2.0
        if "contiguous" in layout and facts.described("offset", tensor) and math.prod(shape):
            yield f"tensor {number} is a contiguous slice", 3.0
        yield from ((f"longer than {n}", 2.0) for n in LENGTHS if max(shape, default=0) > n)
        yield from ((f"more than {n} elements", 2.0) for n in ELEMENTS if math.prod(shape) > n)
        if len(shape) == 4 and shape[1] >= CHANNELS and min(shape[2:]) >= PIXELS:
            yield "an image that is no toy", 3.0
        if not isinstance(tensor, TensorRecipe):
            continue
        yield from ((f"tensor {number} holds {token}", 2.0) for _, token in tensor.special)
        yield f"tensor {number} of {tensor.values[0]}", 0.25
        if tensor.values == LARGE:
            yield "squares beyond the format", 4.0
        index = tensor.values[0] == "integers" and tensor.dtype == "int64"
        if index and tensor.values[2] > LARGE_INDEX:
            yield f"tensor {number} has indices beyond {LARGE_INDEX}", 2.0
        if not tensor.leaf:
            yield f"tensor {number} tracks no gradient", 0.5
    if len(shapes) > 1 and len(shapes[0]) == len(shapes[1]) > 1:
        yield f"sizes differ: {shapes[0][-2] != shapes[1][-2]}", 1.0


def _is_contiguous(facts: Facts, tensor: recipe.TensorRecipe | recipe.Literal) -> bool:
    layout = facts.described("layout", tensor)
    return layout is UNKNOWN or bool({"contiguous", "scalar", "empty"} & set(layout))


def _count(tensor: recipe.TensorRecipe | recipe.Literal) -> int:
    """The numbers that the tensor was made of."""
    return math.prod(tensor.base if isinstance(tensor, TensorRecipe) else tensor.shape)


def _of_arguments(case: Case) -> Iterator[tuple[str, float]]:
    """Values of arguments that are no tensors, alone and in pairs, and those that are a size."""
    named = [(str(n), a) for n, a in enumerate(case.args)]
    named += [(name, value) for name, value in case.kwargs.items()]
    told = [f"{name} = {text}" for name, value in named if (text := kind(value))]
    yield from ((text, 2.0 if text.endswith("= -0.0") else 1.5) for text in told)
    yield from ((" and ".join(pair), 0.75) for pair in itertools.combinations(told, 2))
    sizes = Facts(case).described("shape", case.tensors[0]) if case.tensors else ()
    for name, value in named:
        if type(value) is int and value > 1 and isinstance(sizes, tuple) and value in sizes:
            yield f"{name} is a size", 1.5
            yield from ((f"{name} is a size and {text}", 1.0) for text in told if text[0] != name)
