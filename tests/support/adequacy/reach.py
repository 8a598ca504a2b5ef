"""Further shipped cases for what the others never reach: narrow conditions on which defects depend.

Public reports name such conditions: a contiguous slice, an argument beside another, an index above
256, a row of more than 1,024, an image of 32 x 32 with 8 channels, one infinity. Candidates
are drawn cases, and variations of small ones (:mod:`consistency.generate.variations`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from consistency.core import recipe
from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.unit_cases import draw
from consistency.generate.variations import LARGE, is_possible, variations
from consistency.judge.known.case_facts import UNKNOWN, Facts
from consistency.operators.declare import Operator

from .measure import quick
from .noticing import CaseJudge, healthy
from .results import EVERYTHING
from .selection import MOST_ELEMENTS, elements, planted

LENGTHS, ELEMENTS = (16, 32, 64, 256, 1024), (1024, 8192)
CHANNELS, PIXELS = 8, 32  # of an image that is no toy
BATCHED = 32  # rows of matrices that stand in a batch
LARGE_INDEX = 256  # beyond it bfloat16 is not exact
# Here all sound ways to compute with an infinity agree, unless products are chained: in another
# order it may meet a zero. A compensated sum of it is NaN, and so is a convolution by transforms.
INFINITE = frozenset({"matmul", "pooling", "softmax"})
# Numbers that an infinity may stand among; a matrix that is to be solved is none of these.
PLAIN = frozenset({"uniform", "normal", "wide", "integers", "cancelling", "sparse", "offset"})
SEEDS, COUNT = (201, 202), 40  # drawn candidates
# Cases from which others are derived: the smallest, and the smallest of each list of arguments.
FEWEST_OF, MOST_TYPES, FEW_ELEMENTS = 3, 8, 24
MOST, MOST_OF_HALVES = 8, 3  # cases that are added
LEAST = 2.0  # what a case must reach anew, in the weights below
TRIALS = 16  # candidates that are judged
HALVES = ("float16", "bfloat16")


def reach(case: Case) -> dict[str, float]:
    """The conditions that a case meets, with their weights."""
    found: dict[str, float] = {}
    for condition, weight in itertools.chain(_of_tensors(case), _of_arguments(case)):
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
    told = [f"{name} = {text}" for name, value in named if (text := _kind(value))]
    yield from ((text, 2.0 if text.endswith("= -0.0") else 1.5) for text in told)
    yield from ((" and ".join(pair), 0.75) for pair in itertools.combinations(told, 2))
    sizes = Facts(case).described("shape", case.tensors[0]) if case.tensors else ()
    for name, value in named:
        if type(value) is int and value > 1 and isinstance(sizes, tuple) and value in sizes:
            yield f"{name} is a size", 1.5
            yield from ((f"{name} is a size and {text}", 1.0) for text in told if text[0] != name)


def _kind(value: Any) -> str:
    match value:
        case bool() | None | str() | recipe.DType() | recipe.MemoryFormat():
            return str(value)
        case int():
            return "0" if value == 0 else "1" if value == 1 else "less" if value < 0 else "more"
        case float() if value == 0.0 or not math.isfinite(value):
            return repr(value)
        case float():
            return "a fraction" if value != int(value) else "less" if value < 0 else "more"
        case list() | tuple() if all(isinstance(item, int) for item in value) and value:
            largest = max(value)
            told = "ones" if largest == 1 else "zeros" if not largest else "more"
            return f"{len(value)} of {told}"
    return ""


def candidates(operator: Operator, dtype: str) -> list[Case]:
    """Drawn cases, and derived ones, all of moderate size."""
    drawn = [case for seed in SEEDS for case in draw(operator, dtype, COUNT, seed)[0]]
    small = sorted(drawn, key=lambda case: (_is_special(case), abs(elements(case) - FEW_ELEMENTS)))
    first = {_types(case): case for case in reversed(small)}  # the smallest with such arguments
    found = {case.id: case for case in drawn}
    for case in [*small[:FEWEST_OF], *list(first.values())[-MOST_TYPES:]]:
        found |= {other.id: other for other in variations(operator, case)}
        if operator.family in INFINITE and "chained" not in operator.traits:
            found |= {other.id: other for other in _with_infinities(case)}
    return [case for case in found.values() if elements(case) <= MOST_ELEMENTS]


def _with_infinities(case: Case) -> Iterator[Case]:
    """The case with one infinity in the middle of each of its tensors in turn."""
    for number, tensor in enumerate(case.tensors):
        if isinstance(tensor, TensorRecipe) and floats(tensor.dtype) and tensor.values[0] in PLAIN:
            other = replace(tensor, special=((math.prod(tensor.base) // 2, "inf"),))
            yield case.with_tensors(other if n == number else t for n, t in enumerate(case.tensors))


def _types(case: Case) -> tuple[str, ...]:
    return (*(type(arg).__name__ for arg in case.args), *case.kwargs)


def _is_special(case: Case) -> bool:
    return any(t.special or t.view for t in case.tensors if isinstance(t, TensorRecipe))


def further(operator: Operator, dtype: str) -> list[Case]:
    """Cases that reach, beside those of a quick run, the most of what no other does; in half
    precision those that are derived from them, for kernels of their own."""
    waiting = {case.id: (case, reach(case)) for case in candidates(operator, dtype)}
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    chosen: list[Case] = []
    for _ in range(TRIALS):
        gains = {
            name: sum(weight for text, weight in conditions.items() if text not in reached)
            for name, (_, conditions) in waiting.items()
        }
        best = max(gains, key=lambda n: (gains[n], -elements(waiting[n][0])), default="")
        if not best or gains[best] < LEAST:
            break
        case, conditions = waiting.pop(best)
        if not is_sound(operator, case):
            continue
        chosen.append(case)
        reached |= set(conditions)
        if len(chosen) == (MOST_OF_HALVES if dtype in HALVES else MOST):
            break
    return chosen


def is_sound(operator: Operator, case: Case) -> bool:
    """Whether the CPU's results pass, and results that are wrong everywhere do not. Not where the
    judge's magnitudes do not fit the call: a variation may be none that the operator draws."""
    if not is_possible(operator, case):
        return False
    items = healthy(operator, case)
    told = False
    for item in items:
        try:
            judge = CaseJudge(item)
        except (RuntimeError, TypeError, ValueError, IndexError, ArithmeticError):
            return False
        if not judge.passes:
            return False
        wrong = planted(EVERYTHING, item)
        told |= wrong is not None and judge.notices(wrong)
    return told


def unreached(cases: Sequence[Case], others: Iterable[Case]) -> set[str]:
    """The conditions that ``others`` meet and ``cases`` do not."""
    return {t for case in others for t in reach(case)} - {t for case in cases for t in reach(case)}
