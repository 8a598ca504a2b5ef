"""A call with one of its options replaced by one of another class.

What ``sample`` functions draw for options is ordinary: a correction of 0, 1 or 2, a few steps of a
shift. Reported defects lie at others: a whole number of as many bits as a word, the size of a
dimension or just beyond it, a number that float32 does not hold, an infinity, a whole number where
fractions are usual, no dimensions at all, one number for every dimension. Which of them a call
takes is found out by calling it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from ..core.dtypes import INTEGER_RANGE
from ..core.model import Case
from ..core.recipe import Arg, TensorRecipe
from ..operators.declare import HALF, Operator
from .variations import ATTEMPTS, PERIOD, is_possible

FRACTIONS = (0.0, -0.0, 1.0, -1.5, 2.0)
INFINITE = (math.inf, -math.inf)
INEXACT = (0.3, 1e-12)  # which float32 does not hold
HUGE = 1e6  # whose square float32 holds, and whose float16 is infinite
KINDS = (2, 1, 0, True)  # what is no fraction, in the place of one
WHOLE = (0, 1, -1, -2, 5, 8, 17, 33, 64, 127, 128)
SMALL = 128  # what every format of floats holds, as are all whole numbers below
BEYOND = 2, 5  # a whole number far beyond every size: factor and what is added
DIMENSIONS = frozenset({"dim", "dims", "axis"})
SINGLE = frozenset({"dim0", "dim1", "dim2", "start_dim", "end_dim", "source", "destination"})
PER_DIMENSION = frozenset({"stride", "padding", "dilation", "output_padding"})
WITH_NAN = frozenset({"binary", "comparison", "matmul", "ternary"})
WINDOWS = frozenset({"convolution", "pooling"})
# Flags that every call takes with every other option, whatever its tensors hold.
FLAGS = frozenset(
    {
        "ceil_mode", "count_include_pad", "descending", "keepdim", "largest", "normalized",
        "return_counts", "return_indices", "return_inverse", "return_mean", "sorted", "stable",
        "unbiased", "zero_infinity",
    }
)  # fmt: skip
# Families whose options belong to the numbers of their tensors, which decide what is defined; and
# formulas, whose own defaults need not be those of their function.
NEEDED = frozenset(
    {"attention", "cast", "embedding", "formulas", "indexing", "interpolate", "linalg", "masked",
     "optimizers", "programs", "random", "rnn", "sequences", "signal"}
)  # fmt: skip
# What torch warns of where it is left out.
WARNED = frozenset(
    {
        ("cross", "dim"), ("meshgrid", "indexing"), ("nn.functional.kl_div", "reduction"),
        ("nn.functional.softmin", "dim"),
    }
)  # fmt: skip
# Options that stay as they are drawn (families, or operators, and which names do not, None for no
# name at all), with the reason. Of operators without such names those of whole numbers stay.
LEFT_OUT: tuple[tuple[frozenset[str], frozenset[str] | None, str], ...] = (
    (
        frozenset({"cast", "embedding", "interpolate", "optimizers", "programs", "random", "rnn",
                   "sequences"}),
        None,
        "positions and sizes that kernels do not check, or numbers that change nothing compared",
    ),
    (
        frozenset({"pooling"}),
        frozenset({"stride", "divisor_override"}),  # but for these
        "where a window holds padding only, gradients are written beyond their memory",
    ),
    (
        frozenset({"bitwise_left_shift", "bitwise_right_shift"}),
        frozenset(),
        "shifts by less than 0, or by more bits than there are, are not defined",
    ),
    (
        frozenset({"cumprod", "masked.cumprod", "masked.prod", "prod"}),
        None,
        "factors are chosen so that a product along these dimensions stays in range",
    ),
    (
        frozenset({"nn.functional.local_response_norm"}),
        frozenset({"beta", "size"}),
        "a root of what is negative: a square root is NaN of -inf, other powers are infinite",
    ),
    (
        frozenset({"cdist", "nn.functional.pdist"}),
        None,
        "near the order 0 a norm is 2 to the power of 1 / p",
    ),
    (
        frozenset({"nn.functional.cross_entropy"}),
        frozenset({"ignore_index"}),
        "torch.nn.functional.cross_entropy: label_smoothing is 'a float in [0.0, 1.0]'",
    ),
    (
        frozenset({"nn.functional.ctc_loss"}),
        frozenset({"reduction", "zero_infinity"}),
        "torch.nn.CTCLoss: 'the target index cannot be blank'",
    ),
    (
        frozenset({"formulas"}),
        None,
        "a formula is written for the dimensions that it draws",
    ),
    (
        frozenset({"quantization"}),
        None,
        "a scale of zero and a range without the zero point have no defined result",
    ),
    (
        frozenset({"combinations"}),
        None,
        "as many as there are tuples of the elements are made first",
    ),
    (
        frozenset({"linalg.matrix_power", "linalg.norm"}),
        frozenset({"dim"}),
        "matrices are chosen so that their small powers stay in range",
    ),
    (
        frozenset({"mvlgamma"}),
        None,
        "torch.mvlgamma: 'all elements must be greater than (p - 1) / 2'",
    ),
    (
        frozenset({"div", "floor_divide", "fmod", "remainder", "true_divide", "__rdiv__"}),
        frozenset(),
        "a whole number divided by 0, or the smallest one by -1, ends the process",
    ),
)  # fmt: skip


def with_odd_options(operator: Operator, cases: list[Case], drawn: Collection[Case]) -> list[Case]:
    """The cases, of every eight the first one with another option that was ``drawn`` (and so is no
    variation) and that can be called so."""
    changed = list(cases)
    for start in range(0, len(cases) - PERIOD + 1, PERIOD):
        for position in range(start, start + PERIOD):
            other = _odd(operator, cases[position], cases) if cases[position] in drawn else None
            if other is not None:
                changed[position] = other
                break
    return changed


def _odd(operator: Operator, case: Case, others: Sequence[Case]) -> Case | None:
    """One of the case's odd options, which its hash names; None where those tried cannot be
    called."""
    found = [other for other in odd_options(operator, case, others) if other != case]
    first = int(case.digest[:8], 16)
    tried = (found[(first + n) % len(found)] for n in range(min(ATTEMPTS, len(found))))
    return next((other for other in tried if is_possible(operator, other)), None)


def odd_options(operator: Operator, case: Case, others: Sequence[Case] = ()) -> Iterator[Case]:
    """The case with each of its options in turn replaced or left out, and with flags of the others,
    cases of the same operator. Some cannot be called."""
    if "random" in operator.traits:
        return
    for position, value in enumerate(case.args):
        for other in _others(operator, case, "", value):
            args = (*case.args[:position], other, *case.args[position + 1 :])
            yield replace(case, args=args)
        for other in _spellings(operator, value) if position else ():
            args = (*case.args[:position], other, *case.args[position + 1 :])
            yield replace(case, args=args)
    for name, value in case.kwargs.items():
        for other in (*_others(operator, case, name, value), *_spellings(operator, value, name)):
            yield replace(case, kwargs={**case.kwargs, name: other})
        if _can_be_left_out(operator, case, name):
            yield replace(case, kwargs={k: v for k, v in case.kwargs.items() if k != name})
    for name in sorted(FLAGS & {name for other in (case, *others) for name in other.kwargs}):
        for flag in (False, True):
            if case.kwargs.get(name) is not flag:
                yield replace(case, kwargs={**case.kwargs, name: flag})


def _can_be_left_out(operator: Operator, case: Case, name: str) -> bool:
    """Whether the option is one that stands beside others by chance."""
    known, family = operator.ruled_by
    options = (bool, int, float, str, list, tuple, type(None))
    kept = family in NEEDED or name == "dtype" or (known, name) in WARNED
    kept |= _is_padded_half(operator, case) and name != "stride"
    kept |= any(known in whose and exceptions is None for whose, exceptions, _ in LEFT_OUT)
    return isinstance(case.kwargs[name], options) and not kept


def _others(operator: Operator, case: Case, name: str, value: Arg) -> Iterator[Arg]:
    if not _stays(operator, case, name):
        if name in DIMENSIONS:
            yield from _dimensions(value)
        elif name not in SINGLE:
            yield from _numbers(operator, case, name, value)


def _stays(operator: Operator, case: Case, name: str) -> bool:
    """Whether the option is one of those left out. Names that are not in a list of exceptions are;
    of operators that are named, whole numbers beside whole ones."""
    known, family = operator.ruled_by
    if _is_padded_half(operator, case) and name != "stride":
        return True
    for whose, exceptions, _ in LEFT_OUT:
        if family in whose and (exceptions is None or name not in exceptions):
            return True
        if known.rstrip("_") in whose or known in whose:
            if exceptions:
                return name not in exceptions
            return exceptions is None or case.dtype in INTEGER_RANGE
    return name == "dropout_p"


def _is_padded_half(operator: Operator, case: Case) -> bool:
    """Whether a window of padding only would end the process: in oneDNN's convolutions of half
    formats (docs/findings.md)."""
    return operator.ruled_by[1] == "convolution" and case.dtype in HALF


def _spellings(operator: Operator, value: Arg, name: str = "") -> Iterator[Arg]:
    """The same number for all dimensions of a window, said otherwise."""
    if operator.ruled_by[1] not in WINDOWS or (name and name not in PER_DIMENSION):
        return
    match value:
        case bool():
            return
        case int():
            yield [value]
        case list() | tuple() if value and all(item == value[0] for item in value):
            yield from (value[0], [value[0]])
    if name == "stride":  # as large as the window
        yield from (None, [])


def _dimensions(value: Arg) -> Iterator[Arg]:
    """All dimensions, said in every way; one as a list; several in another order."""
    match value:
        case int():
            yield from ([value], None)
        case list() | tuple():
            numbers = [item for item in value if isinstance(item, int)]
            yield from ([], None, numbers[::-1])
            yield from ([*numbers[:1]], [*numbers[-1:], *numbers[:-1]], [-1 - n for n in numbers])


def _numbers(operator: Operator, case: Case, name: str, value: Arg) -> Iterator[Arg]:
    match value:
        case bool():
            return
        case float() if _are_small(case):
            # What is left of a division hangs on how the divisor is rounded.
            inexact = () if "discontinuous" in operator.traits else INEXACT
            options: tuple[float, ...] = (*FRACTIONS, *inexact, HUGE, *KINDS, *_infinite(operator))
            yield from (x for x in options if repr(x) != repr(value))
        case int():
            yield from (x for x in _whole(case) if x != value)
            yield from (float(value), value + 0.5) if _are_small(case) else ()
        case list() | tuple() if name in PER_DIMENSION and value:
            if isinstance(value[0], int):
                yield [value[0] + 1, *value[1:]]
                yield from ([number] * len(value) for number in _whole(case) if number > 2)
        case list() | tuple() if value and all(type(item) is int for item in value):
            yield from _with_another(value)


def _with_another(value: Sequence[Arg]) -> Iterator[Arg]:
    """A list of whole numbers, sizes or lengths or shifts, with the first or the last one negative,
    0 or another."""
    for place in sorted({0, len(value) - 1}):
        item = value[place]
        for other in (-1, 0, item + 1 if isinstance(item, int) else 1):
            if other != item:
                yield [*value[:place], other, *value[place + 1 :]]


def _infinite(operator: Operator) -> tuple[float, ...]:
    """Infinities, and NaN, but for a bound or a size, on neither side of which any number lies."""
    return (*INFINITE, *((math.nan,) if operator.ruled_by[1] in WITH_NAN else ()))


def _are_small(case: Case) -> bool:
    """Whether whole numbers beside a fraction, if there are any, are such as every float holds:
    others are rounded first."""
    return all(
        t.values[0] == "integers" and max(map(abs, t.values[1:])) <= SMALL
        for t in case.tensors
        if isinstance(t, TensorRecipe) and t.dtype in INTEGER_RANGE
    )


def _whole(case: Case) -> Iterator[int]:
    """Whole numbers that the case's dtype holds, if it is one of whole numbers: small ones, around
    powers of two, and around the sizes of its tensors."""
    sizes = sorted({n for t in case.tensors if isinstance(t, TensorRecipe) for n in t.base} - {1})
    near = {n + step for n in (*sizes[:1], *sizes[-1:]) for step in (-1, 0, 1)}
    far = {BEYOND[0] * n + BEYOND[1] for n in sizes[-1:]}
    low, high = INTEGER_RANGE.get(case.dtype, (-math.inf, math.inf))
    yield from sorted(n for n in {*WHOLE, *near, *far} if low <= n <= high)
