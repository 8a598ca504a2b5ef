"""Further shipped cases for what the others never reach: of many candidates the sound ones that
meet the most conditions that none meets yet."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from consistency.core.dtypes import floats
from consistency.core.model import Case
from consistency.core.recipe import INLINE_BYTES, Literal, TensorRecipe, tensors
from consistency.engine.unit_cases import draw
from consistency.generate.ordinary_cases import is_ordinary
from consistency.generate.variations import is_possible
from consistency.generate.varied import operand_dtypes, wider
from consistency.operators.declare import Operator

from . import ordinary_calls, plain_calls
from .candidates import (
    COUNT,
    MOST_OF_ALL,
    SEEDS,
    candidates,
    crossed,
    differentiated,
    least_odd,
    vanishing,
)
from .corners import corners as of_first
from .measure import quick
from .noticing import CaseJudge, healthy
from .operand_corners import operand_corners
from .other_formats import translated
from .reach import reach
from .results import EVERYTHING, UNDEFINED
from .selection import MOST_ELEMENTS, elements, planted

# Here a whole row of infinities has one result, whatever the order.
EITHER_ORDER = frozenset(
    {
        "activation",
        "binary",
        "cast",
        "comparison",
        "cumulative",
        "indexing",
        "inplace",
        "movement",
        "pooling",
        "reduction",
        "softmax",
        "sorting",
        "ternary",
        "unary",
    }
)
# Losses whose weights are one for each class; torch does not check how many dimensions they have.
OF_CLASSES = frozenset(
    f"nn.functional.{name}" for name in ("nll_loss", "cross_entropy", "multi_margin_loss")
)
# Cases that are added: most of the first dtype, some for kernels of halves and of integers.
MOST, MOST_OF_OTHERS = {"float32": 14, "float16": 6, "bfloat16": 6, "int64": 6}, 4
LEAST = 2.0  # what a case must reach anew, in the weights below
TRIALS = 24  # candidates that are judged
OPERANDS = 8  # tensors of a call that get another dtype in turn
BASES, FEW = 3, 4  # plain calls whose operands get other dtypes, with tensors of some elements


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
OF_CALLED, CALLED_IN_OTHERS = Search(20, 60, 1.9), Search(5, 15, 1.9)
OF_REPORTED = Search(60, 120, 0.0)  # each call, for which condition matters is seldom told
OF_ALONE = Search(12, 30, 0.9)
OF_ZEROS = Search(4, 8, 1.9)
OF_PROMOTED, PROMOTED_IN_OTHERS = Search(24, 48, 1.9), Search(4, 12, 1.9)
OF_OPTIONS = Search(10, 30, 0.9)
IN_OTHER_FORMATS = Search(24, 48, 1.9)  # half precision and complex64: kernels of their own
IN_LONG_FORMATS, IN_INTEGERS = Search(8, 16, 1.9), Search(10, 20, 1.9)
PLAIN_COUNT = 240  # draws among whose options combinations are looked for


def further(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Cases that reach, beside those of a quick run, the most of what no other does: variations of
    drawn cases, then of ordinary calls. Those on which the CPU's own results fail are added to
    ``failing``: a defect of torch, or one of ours."""
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    drawn = Search(MOST.get(dtype, MOST_OF_OTHERS), TRIALS, LEAST)
    chosen = _chosen(operator, candidates(operator, dtype), reached, drawn, failing)
    ordinary = [differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    search = OF_ORDINARY if ordinary else OF_DRAWN
    if dtype != operator.dtypes[0]:
        search = OF_ORDINARY_IN_OTHERS
    drawn_ones = [case for seed in SEEDS for case in draw(operator, dtype, COUNT, seed)[0]]
    ordinary = ordinary or least_odd(drawn_ones)
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
    ordinary = [differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    drawn = [*ordinary, *drawn]
    for calls, told, search in (
        (plain_calls.of, plain_calls.PLAIN, OF_PLAIN if first else PLAIN_IN_OTHERS),
        (plain_calls.images, plain_calls.CHANNELS, OF_IMAGES if first else IMAGES_IN_OTHERS),
    ):
        small = [case for case in calls(operator, drawn) if elements(case) <= MOST_ELEMENTS]
        found += _chosen(operator, small, reached, search, failing, told)
    return found


def alone(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Plain calls in which one number is special; as :func:`further`."""
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    ordinary = [differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    drawn = [*ordinary, *draw(operator, dtype, COUNT, SEEDS[0])[0]]
    calls = plain_calls.alone(operator, drawn)
    small = [case for case in calls if elements(case) <= MOST_ELEMENTS]
    return _chosen(operator, small, reached, OF_ALONE, failing, plain_calls.ALONE)


def zeros(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Ordinary calls of which a tensor, or its first row, is 0 everywhere and has a gradient; as
    :func:`further`."""
    if not operator.differentiable:
        return []
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    ordinary = [differentiated(operator, c) for c in ordinary_calls.of(operator.name, dtype)]
    drawn = [case for seed in SEEDS for case in draw(operator, dtype, COUNT, seed)[0]]
    calls = [c for call in (ordinary or least_odd(drawn)) for c in vanishing(call)]
    return _chosen(operator, calls, reached, OF_ZEROS, failing)


def corners(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Calls without elements, of one, of six dimensions and the like (:mod:`.corners`,
    :mod:`.operand_corners`), where those of a quick run are none; as :func:`further`."""
    found, shipped = [], list(quick(operator, dtype))
    for case in (*of_first(operator, shipped), *operand_corners(operator, shipped)):
        told = soundness(operator, case)
        if told == "failing" and failing is not None:
            failing.append(case)
        # Of a result without numbers nothing else can be told than its shape.
        found += [case] if told in ("sound", "silent") else []
    return found


def promoted(operator: Operator, dtype: str, failing: list[Case] | None = None) -> list[Case]:
    """Plain calls with one operand of another dtype, as far as torch promotes it; as
    :func:`further`."""
    shipped = quick(operator, dtype)
    reached = {text for case in shipped for text in reach(case)}
    plain = [
        case for case in shipped if is_ordinary(case) and len(case.tensors) > 1 and _smallest(case)
    ]
    plain.sort(key=lambda case: (_smallest(case) < FEW, len(case.kwargs)))
    calls = [other for case in plain[:BASES] for other in operand_dtypes.of(case)]
    search = OF_PROMOTED if dtype == operator.dtypes[0] else PROMOTED_IN_OTHERS
    found = _chosen(operator, calls, reached, search, failing, "tensor")
    # Options that are tensors (weights, masks, statistics): a call for every set of them.
    others = (o for case in _with_other_options(plain) for o in operand_dtypes.of(case, OPERANDS))
    calls = [o for o in others if all(map(floats, {t.dtype for t in o.tensors}))]
    return found + _chosen(operator, calls, reached, OF_OPTIONS, failing, "tensor")


def _with_other_options(plain: list[Case]) -> Iterator[Case]:
    """The first case of every set of tensors among the options that the first cases lack."""
    seen = {_operands(case) for case in plain[:BASES]}
    for case in plain[BASES:]:
        if _operands(case) not in seen:
            seen.add(_operands(case))
            yield case


def _operands(case: Case) -> tuple[int, frozenset[str]]:
    return len(case.tensors), frozenset(k for k, v in case.kwargs.items() if any(tensors(v)))


def _smallest(case: Case) -> int:
    """The elements of the smallest tensor; 0 where one is a view."""
    tensors = [t for t in case.tensors if isinstance(t, TensorRecipe)]
    return min((0 if t.view else math.prod(t.base) for t in tensors), default=0)


def in_other_formats(
    operator: Operator, dtype: str, failing: list[Case] | None = None
) -> list[Case]:
    """Cases of the operator's first dtype in this one; as :func:`further`."""
    first = operator.dtypes[0]
    if dtype == first:
        return []
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    small = [case for case in quick(operator, first) if elements(case) <= MOST_OF_ALL]
    search = IN_OTHER_FORMATS if floats(dtype) else IN_INTEGERS
    search = IN_LONG_FORMATS if dtype in ("float64", "complex128") else search
    return _chosen(operator, translated(small, dtype), reached, search, failing)


def called(
    operator: Operator,
    dtype: str,
    calls: Iterable[Case],
    failing: list[Case] | None = None,
    *,
    reported: bool = False,
) -> list[Case]:
    """Those of ``calls``, which other people's programs make, that meet what no case of a quick run
    does, or all that are ``reported`` as computed wrongly somewhere; as :func:`further`."""
    reached = {text for case in quick(operator, dtype) for text in reach(case)}
    small = [case for case in calls if elements(case) <= MOST_OF_ALL]
    search = OF_CALLED if dtype == operator.dtypes[0] else CALLED_IN_OTHERS
    search = OF_REPORTED if reported else search
    return _chosen(operator, small, reached, search, failing)


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
        if unsettled(operator, case) or is_long(case) or not is_possible(operator, case):
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


def is_long(case: Case) -> bool:
    """Whether the case's line does not hold its numbers."""
    return any(isinstance(t, Literal) and len(t.data) > INLINE_BYTES for t in case.tensors)


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
        # Of nothing but zeros only that they are numbers can be told.
        wrong = planted(EVERYTHING if judge.passes else UNDEFINED, item)
        told |= wrong is not None and judge.notices(wrong)
    return "sound" if told else "silent"
