"""Further shipped cases for what the others never reach: narrow conditions on which defects depend.

Public reports name such conditions: a contiguous slice, an argument beside another, an index above
256, a row of more than 1,024, an image of 32 x 32 with 8 channels, one infinity. Candidates
are drawn cases, and variations of small ones (:mod:`consistency.generate.variations`).
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from consistency.core import recipe
from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.engine.unit_cases import draw
from consistency.generate.variations import LARGE, _with_sizes, is_possible, variations
from consistency.generate.varied import (
    arguments,
    by_kind,
    cotangents,
    layouts,
    shapes,
    values,
    wider,
)
from consistency.judge.known.case_facts import UNKNOWN, Facts
from consistency.operators.declare import Operator

from . import ordinary_calls, plain_calls
from .conditions import further as further_conditions
from .measure import quick
from .noticing import CaseJudge, healthy
from .plain_calls import FULL, kind
from .results import EVERYTHING
from .selection import MOST_ELEMENTS, elements, planted

LENGTHS, ELEMENTS = (16, 32, 64, 256, 1024), (1024, 8192)
CHANNELS, PIXELS = 8, 32  # of an image that is no toy
BATCHED = 32  # rows of matrices that stand in a batch
MANY = 2  # tensors that decide whether a case is ordinary; others are biases, say
LARGE_INDEX = 256  # beyond it bfloat16 is not exact
# Here all sound ways to compute with an infinity agree, unless products are chained: in another
# order it may meet a zero. A compensated sum of it is NaN, and so is a convolution by transforms.
INFINITE = frozenset({"matmul", "pooling", "softmax"})
# Here a whole row of infinities has one result, whatever the order.
EITHER_ORDER = frozenset(
    {
        "activation", "binary", "cast", "comparison", "cumulative", "indexing", "inplace",
        "movement", "pooling", "reduction", "softmax", "sorting", "ternary", "unary",
    }
)  # fmt: skip
# Losses whose weights are one for each class; torch does not check how many dimensions they have.
OF_CLASSES = frozenset(
    f"nn.functional.{name}" for name in ("nll_loss", "cross_entropy", "multi_margin_loss")
)
# Numbers that an infinity may stand among; a matrix that is to be solved is none of these.
PLAIN = frozenset({"uniform", "normal", "wide", "integers", "cancelling", "sparse", "offset"})
SEEDS, COUNT = (201,), 40  # drawn candidates
# Cases from which others are derived: the smallest, and the smallest of each list of arguments.
FEWEST_OF, MOST_TYPES, FEW_ELEMENTS = 3, 8, 24
# Cases that are added: most of the first dtype, some for kernels of halves and of integers.
MOST, MOST_OF_OTHERS = {"float32": 14, "float16": 6, "bfloat16": 6, "int64": 6}, 4
LEAST = 2.0  # what a case must reach anew, in the weights below
TRIALS = 24  # candidates that are judged
COUNTING = frozenset({"cumulative", "reduction", "sorting"})  # a count may leave the format
COTANGENT = 1 << 20  # where cotangents lie in the bitstream, beyond all numbers
ORDINARY = 2  # further ones, about which nothing is degenerate
EVEN = frozenset({"uniform", "normal", "wide", "integers"})
BASES, COMBINED = 5, 80  # cases that are varied in every way, and combinations of two ways
MOST_OF_ALL = 3 << 16  # elements of a varied case: two sizes of 2, one beyond 2^16


class Search(NamedTuple):
    """How many cases are chosen, out of how many that are judged, and what each reaches anew."""

    most: int
    trials: int
    least: float


# Of ordinary calls one condition is reason enough: a variation meets little else.
OF_ORDINARY, OF_ORDINARY_IN_OTHERS = Search(40, 80, 0.9), Search(5, 24, 0.9)
OF_DRAWN = Search(10, 30, 1.9)  # where the ordinary calls are drawn ones
OF_PLAIN, PLAIN_IN_OTHERS = Search(28, 80, 0.9), Search(4, 12, 1.4)
OF_IMAGES, IMAGES_IN_OTHERS = Search(10, 20, 0.9), Search(3, 6, 0.9)
PLAIN_COUNT = 240  # draws among whose options combinations are looked for


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
    kept = [case for case in found.values() if elements(case) <= MOST_ELEMENTS]
    return [*kept, *(case for case in _wider(operator, small) if case.id not in found)]


def _wider(operator: Operator, small: list[Case]) -> Iterator[Case]:
    """Variations in every way of the smallest cases with other arguments, and combinations of
    two."""
    kinds: dict[tuple[str, ...], Case] = {}
    for case in small:
        rank = len(case.tensors[0].base) if _is_plain(case) else 0
        kinds.setdefault((str(rank), *_types(case)), case)
    ordered = sorted(kinds.values(), key=lambda case: not _is_plain(case))
    bases = random.Random(operator.name).sample(ordered[: 2 * BASES], min(BASES, len(ordered)))
    bases += sorted(filter(_is_plain, small), key=_oddity)[:ORDINARY]
    chance = random.Random(operator.name)
    singles = [other for base in bases for other in wider(operator, base, small)]
    yield from (case for case in singles if elements(case) <= MOST_OF_ALL)
    for _ in range(COMBINED if singles else 0):
        kind = chance.choice(by_kind(operator, chance.choice(singles), small))
        two = list(kind)
        case = chance.choice(two) if two else singles[0]
        if elements(case) <= MOST_OF_ALL:
            yield case


def _with_infinities(case: Case) -> Iterator[Case]:
    """The case with one infinity in the middle of each of its tensors in turn."""
    for number, tensor in enumerate(case.tensors):
        if isinstance(tensor, TensorRecipe) and floats(tensor.dtype) and tensor.values[0] in PLAIN:
            other = replace(tensor, special=((math.prod(tensor.base) // 2, "inf"),))
            yield case.with_tensors(other if n == number else t for n, t in enumerate(case.tensors))


def _is_plain(case: Case) -> bool:
    """Whether the case has tensors, and none is a view or holds special values."""
    return bool(case.tensors) and all(
        isinstance(t, TensorRecipe) and not t.view and not t.special for t in case.tensors
    )


def _oddity(case: Case) -> tuple[int, int]:
    """How much about a plain case is degenerate, then its elements: a fault that depends on one
    condition shows in a variation of an ordinary case that meets this one."""
    tensors = [t for t in case.tensors[:MANY] if isinstance(t, TensorRecipe)]
    ones = sum(t.base.count(1) + 3 * t.base.count(0) + 3 * (not t.base) for t in tensors)
    odd = sum(floats(t.dtype) and t.values[0] not in EVEN for t in tensors)
    return ones + odd, elements(case)


def _types(case: Case) -> tuple[str, ...]:
    return (*(type(arg).__name__ for arg in case.args), *case.kwargs)


def _is_special(case: Case) -> bool:
    return any(t.special or t.view for t in case.tensors if isinstance(t, TensorRecipe))


def further(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Cases that reach, beside those of a quick run, the most of what no other does: variations of
    drawn cases, then of ordinary calls. Those on which the CPU's own results fail are added to
    ``failing``: a defect of torch, or one of ours."""
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    drawn = Search(MOST.get(dtype, MOST_OF_OTHERS), TRIALS, LEAST)
    chosen = _chosen(operator, candidates(operator, dtype), reached, drawn, failing)
    ordinary = [_differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    search = OF_ORDINARY if ordinary else OF_DRAWN
    if dtype != operator.dtypes[0]:
        search = OF_ORDINARY_IN_OTHERS
    drawn_ones = [case for seed in SEEDS for case in draw(operator, dtype, COUNT, seed)[0]]
    ordinary = ordinary or _least_odd(drawn_ones)
    options = [*ordinary, *drawn_ones]
    others = [*ordinary]
    others += [case for call in ordinary for case in wider(operator, call, options)]
    others += [case for call in ordinary for case in crossed(operator, call, options)]
    small = [case for case in others if elements(case) <= MOST_OF_ALL]
    return chosen + _chosen(operator, small, reached, search, failing)


def plain(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Cases that are plain calls of what no case of a quick run is, and images beside factors of
    each channel; as :func:`further`."""
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    first = dtype == operator.dtypes[0] and operator.family != "forms"
    drawn = draw(operator, dtype, PLAIN_COUNT if first else COUNT, SEEDS[0])[0]
    found: list[Case] = []
    ordinary = [_differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    drawn = [*ordinary, *drawn]
    for calls, told, search in (
        (plain_calls.of, plain_calls.PLAIN, OF_PLAIN if first else PLAIN_IN_OTHERS),
        (plain_calls.images, plain_calls.CHANNELS, OF_IMAGES if first else IMAGES_IN_OTHERS),
    ):
        small = [case for case in calls(operator, drawn) if elements(case) <= MOST_ELEMENTS]
        found += _chosen(operator, small, reached, search, failing, told)
    return found


def _differentiated(operator: Operator, case: Case) -> Case:
    """The case with a cotangent, so that its gradients are compared, too."""
    return replace(case, cotangent=COTANGENT if operator.differentiable else 0)


def _least_odd(drawn: Iterable[Case]) -> list[Case]:
    """The most ordinary ones of drawn cases, of other arguments each, those with the fewest options
    first: where no call is written down, variations of these take its place."""
    plain = sorted(filter(_is_plain, drawn), key=lambda case: (len(case.kwargs), *_oddity(case)))
    found = list({_types(case): case for case in reversed(plain)}.values())[-ORDINARY:]
    return [*found, *(_with_sizes(case, {1: FULL}) for case in found if _oddity(case)[0])]


def crossed(operator: Operator, case: Case, others: Sequence[Case]) -> Iterator[Case]:
    """Layouts beside every other value of an argument, and long tensors of one value: pairs of
    conditions that reports name, which single variations do not join."""
    written = bool(operator.mutates or operator.leading or operator.name.endswith("_"))
    if not list(wider(operator, case, others)):
        return
    for other in arguments.of(case, others):
        yield from layouts.of(operator, other, overlap=not written)
        yield from cotangents.of(other)
    for other in shapes.broadcast(case):
        yield from layouts.of(operator, other, overlap=not written)
    most = MOST_OF_ALL if operator.family in COUNTING else MOST_OF_ALL // 8
    for other in shapes.thresholds(case):
        if elements(other) <= most:
            yield from _constant(other)


def _constant(case: Case) -> Iterator[Case]:
    """The case with one value everywhere in each of its tensors of floating-point numbers."""
    for number, tensor in enumerate(case.tensors[:MANY]):
        plain = isinstance(tensor, TensorRecipe) and tensor.values[0] in PLAIN
        if plain and isinstance(tensor, TensorRecipe) and floats(tensor.dtype):
            for other in values.constants(tensor):
                yield case.with_tensors(
                    other if n == number else t for n, t in enumerate(case.tensors)
                )


def _chosen(
    operator: Operator,
    cases: Iterable[Case],
    reached: set[str],
    search: Search,
    failing: list[Case] | None,
    only: str = "",
) -> list[Case]:
    """Sound cases in the order of what they reach anew, which is added to ``reached``: ``only``
    conditions that begin so count."""
    waiting = {case.id: (case, _beginning(reach(case), only)) for case in cases}
    chosen: list[Case] = []
    judged = silent = 0  # where nothing can be told, another one is tried in its place
    for case, conditions in _by_gain(waiting, reached, search.least):
        if unsettled(operator, case) or not is_possible(operator, case):
            continue
        judged += 1
        match soundness(operator, case):
            case "sound":
                chosen.append(case)
                reached |= set(conditions)
            case "silent" if silent < search.trials:
                silent, judged = silent + 1, judged - 1
            case "failing" if failing is not None:
                failing.append(case)
        if judged == search.trials or len(chosen) == search.most:
            break
    return chosen


def _beginning(conditions: dict[str, float], only: str) -> dict[str, float]:
    return {text: weight for text, weight in conditions.items() if text.startswith(only)}


def _by_gain(
    waiting: dict[str, tuple[Case, dict[str, float]]], reached: set[str], least: float
) -> Iterator[tuple[Case, dict[str, float]]]:
    """Cases in the order of what they add to ``reached``, which may grow in between. A gain never
    grows, so one that is still the largest when it is computed again is the largest."""

    def gain(name: str) -> float:
        return sum(w for text, w in waiting[name][1].items() if text not in reached)

    heap = [(-gain(name), elements(case), name) for name, (case, _) in waiting.items()]
    heapq.heapify(heap)
    while heap:
        _, size, name = heapq.heappop(heap)
        now = gain(name)
        if heap and now < -heap[0][0]:
            heapq.heappush(heap, (-now, size, name))
        elif now >= least:
            yield waiting[name]
        else:
            return


def unsettled(operator: Operator, case: Case) -> bool:
    """Whether sound kernels may return other numbers: rows of infinities where they are added or
    multiplied in any order, NaN and infinities in a product that is multiplied by 0 (BLAS does not
    compute it), arguments that torch does not check."""
    named = [t.values for t in case.tensors if isinstance(t, TensorRecipe)]
    rows = [values[-1] for values in named if values[:1] in (("constant",), ("leading",))]
    if "-inf" in rows and (operator.family not in EITHER_ORDER or "chained" in operator.traits):
        return True
    special = [token for t in case.tensors if isinstance(t, TensorRecipe) for _, token in t.special]
    zero = operator.family in ("matmul", "forms", "inplace") and case.kwargs.get("alpha") == 0
    if zero and {"nan", "-nan", "inf", "-inf"} & {*rows, *special}:
        return True
    smoothing, weight = case.kwargs.get("label_smoothing", 0), case.kwargs.get("weight")
    flat = not isinstance(weight, TensorRecipe) or len(weight.base) == 1
    return not 0 <= smoothing <= 1 or (operator.name in OF_CLASSES and not flat)


def soundness(operator: Operator, case: Case) -> str:
    """``"sound"`` where the CPU's results pass and results that are wrong everywhere do not,
    ``"failing"`` where the CPU's do not pass. Anything else: nothing can be told there, or the
    judge's magnitudes do not fit the call, which may be none that the operator draws."""
    told = False
    for item in healthy(operator, case):
        try:
            judge = CaseJudge(item)
        except (RuntimeError, TypeError, ValueError, LookupError, ArithmeticError, AttributeError):
            return "unfit"
        if judge.fails:
            return "failing"
        if not judge.passes:  # nothing can be told there: all elements are equal, say
            continue
        wrong = planted(EVERYTHING, item)
        told |= wrong is not None and judge.notices(wrong)
    return "sound" if told else "silent"


def unreached(cases: Sequence[Case], others: Iterable[Case]) -> set[str]:
    """The conditions that ``others`` meet and ``cases`` do not."""
    return {t for case in others for t in reach(case)} - {t for case in cases for t in reach(case)}
