"""Exhaustive cases: an elementwise operator on every bit pattern of a format, on those of float32
and float64 at equal distances and around its edges, or on all pairs of 2,048 chosen numbers.

The operator's own ``sample`` function makes the call, with its tensors swept and its other
arguments fixed. Domains do not limit what is swept.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core import dtypes
from ..core.model import Case
from ..core.recipe import TensorRecipe
from ..operators import registry
from ..operators.declare import HALF, REAL, Call, Domain, Operator
from . import edges
from .patterns import LANDMARKS
from .value_classes import PATTERN_CLASSES

PATTERNS = 1 << 16  # of a 16-bit format: one case
BLOCK = 1 << 22  # patterns of float32 in one case: half a binade
# Between the patterns that are swept in one case: the upper 16 bits take every value (of float32
# 128 numbers of each sign and exponent, of float64 16), and the others are not always zero.
STEP = {"float32": 0x0001_0001, "float64": 0x0001_0001_0001_0001}
# Of the tensors beside the first: 2^16, 2^32 or 2^64 divided by the golden ratio, so that pairs are
# spread over all exponents (Knuth, The Art of Computer Programming, 6.4), and by the plastic number
# and its square, for triples (Roberts, The unreasonable effectiveness of quasirandom sequences). In
# 16 bits all steps are three times that: with a step of 1, the first tensor's NaN would signal.
OTHER_STEPS = {
    ("float16", 2): (3, 0xDAA5), ("bfloat16", 2): (3, 0xDAA5),
    ("float32", 2): (STEP["float32"], 0x9E37_79B1),
    ("float64", 2): (STEP["float64"], 0x9E37_79B9_7F4A_7C15),
    ("float16", 3): (3, 0x43BD, 0xB5A3), ("bfloat16", 3): (3, 0x43BD, 0xB5A3),
    ("float32", 3): (STEP["float32"], 0xC13F_A9A9, 0x91E1_0DA5),
    ("float64", 3): (STEP["float64"], 0xC13F_A9A9_02A6_328F, 0x91E1_0DA5_C79E_7B1D),
}  # fmt: skip
# Functions of two tensors that are not swept in pairs: torch's Hurwitz zeta function takes as many
# steps as a number is small; the length of a complex number must not be negative (std::polar).
NO_PAIRS = frozenset({"special.zeta", "polar"})
# Operators that get the patterns without a sign only. Left of 0 torch's Hurwitz zeta function takes
# as many steps as the number is large, and does not come back from a large one; the multivariate
# gamma function is not defined there.
UNSIGNED = frozenset({"polygamma", "mvlgamma"})
# Operators that get these patterns once more: gradients left of 0 are those at poles, or of
# logarithms that are NaN, which cannot be certified, so that those of all are inconclusive.
UNSIGNED_AGAIN = frozenset({"digamma", "log2", "log10"})
_SWEPT = "every"
_NUMBERS = ("number", "right")  # options of samples whose second operand is a number
_OTHER_NUMBER = 3.296875  # eight bits, odd
_FRACTIONS = (0.625, 0.375, 0.75, 0.25)  # of a number's range, in turn


@dataclass
class FixedCall:
    """The interface of ``sample`` functions (:class:`~consistency.operators.drawing.Drawing`) that
    draws nothing: the first option of a choice (two tensors where that is one), few of everything,
    and every floating tensor of the largest shape swept."""

    dtype: str
    shape_given: tuple[int, ...]
    numbers: int = field(default=0)
    beside_number: bool = False  # in place of the second tensor, where that is an option

    @property
    def complex(self) -> bool:
        return False

    @property
    def floating(self) -> bool:
        return True

    def size(self, low: int = 1, high: int = 64) -> int:
        return low

    def shape(
        self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 64, elements: int = 4096
    ) -> tuple[int, ...]:
        return self.shape_given

    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape)

    def choice(self, *options: Any) -> Any:
        number = next((n for n in _NUMBERS if n in options), None)
        if self.beside_number and number is not None:
            return number
        return "tensors" if "tensors" in options else options[0]

    def flag(self) -> bool:
        return False

    def integer(self, low: int, high: int) -> int:
        return min(low + 1, high)

    def number(self, low: float, high: float) -> float:
        self.numbers += 1
        return low + (high - low) * _FRACTIONS[(self.numbers - 1) % len(_FRACTIONS)]

    def dim(self, shape: Sequence[int]) -> int:
        return 0

    def dims(self, shape: Sequence[int], *, least: int = 1) -> tuple[int, ...]:
        return tuple(range(least))

    def tensor(
        self,
        shape: Sequence[int],
        domain: Domain = REAL,
        *,
        dtype: str | None = None,
        values: tuple[Any, ...] | None = None,
        layout: bool = True,
        overlap: bool = True,
    ) -> TensorRecipe:
        base, kind = tuple(shape), dtype or self.dtype
        if kind == self.dtype and base == self.shape_given:
            return TensorRecipe(base, kind, (_SWEPT, 0))
        values = values or (("uniform", 0.5, 1.0) if dtypes.floats(kind) else ("integers", 0, 1))
        return TensorRecipe(base, kind, values, math.prod(base))

    def index(
        self, shape: Sequence[int], size: int, *, negative: bool = False, distinct: bool = False
    ) -> TensorRecipe:
        return self.tensor(shape, dtype="int64", values=("integers", 0, size - 1))


def cases(operator: Operator, dtype: str, *, all_kinds: bool = False) -> list[Case]:
    """The exhaustive cases of an operator in one dtype; none where it is not elementwise.

    Functions of one tensor get every pattern of float16 and bfloat16, mostly in one case; 65,536
    patterns of float32 and float64, the chosen numbers of float32 in another case, and numbers
    around their edges (:mod:`.edges`) in a further one. Functions of two and three tensors get
    65,536 pairs and triples. ``all_kinds`` takes every pattern of float32 for one tensor, in
    blocks, and adds functions of two tensors in 16 bits: all pairs of the chosen numbers.
    """
    wide = dtype in STEP
    if not _elementwise(operator) or not (dtype in HALF or wide):
        return []
    unsigned = operator.name in UNSIGNED
    blocks = dtype == "float32" and all_kinds
    size = PATTERNS >> unsigned
    call = operator.sample(FixedCall(dtype, (BLOCK if blocks else size,)))
    swept = _positions(call)
    if len(swept) == 1 and blocks:
        starts = range(0, 1 << (32 - unsigned), BLOCK)
        return [_case(operator, dtype, _swept_by(call, _SWEPT, start), BLOCK) for start in starts]
    if len(swept) == 1 and wide:
        spread = _case(operator, dtype, _swept_by(call, _SWEPT, 0, STEP[dtype]), size)
        around = _around_edges(operator, dtype)
        if unsigned or dtype != "float32":
            return [spread, *around]
        chosen = _swept_by(operator.sample(FixedCall(dtype, (LANDMARKS,))), "landmarks")
        return [spread, _case(operator, dtype, chosen, LANDMARKS), *around]
    if len(swept) in (2, 3):
        counts_steps = operator.name in NO_PAIRS | UNSIGNED or operator.family == "polynomial"
        if len(swept) == 3 and registry().get(operator.name) is not operator:
            return []  # where a formula of one's own overflows on the way, its domain says
        met = [] if counts_steps else _pairs_or_triples(operator, dtype, size)
        return [*met, *_all_pairs(operator, dtype, call, swept, all_kinds)]
    if len(swept) == 1 and operator.name in UNSIGNED_AGAIN:
        half = operator.sample(FixedCall(dtype, (size // 2,)))
        return [_case(operator, dtype, call, size), _case(operator, dtype, half, size // 2)]
    if len(swept) == 1:
        return [_case(operator, dtype, call, size)]
    return []


def sweeps_one_tensor(operator: Operator, dtype: str) -> bool:
    """Whether the cases in float32 or float64 sweep a single tensor of an elementwise operator."""
    if not _elementwise(operator) or dtype not in STEP or dtype not in operator.dtypes:
        return False
    return len(_positions(operator.sample(FixedCall(dtype, (1,))))) == 1


def _beside_number(operator: Operator, dtype: str, size: int) -> list[Case]:
    """The sweep of the first operand beside a number, where the operator is drawn so: kernels are
    others then (a product with the reciprocal, a rounded quotient)."""
    call = operator.sample(FixedCall(dtype, (size,), beside_number=True))
    if _positions(call) != [0] or not any(isinstance(a, (int, float)) for a in call.args):
        return []
    # By 1 nothing is rounded.
    args = tuple(math.copysign(_OTHER_NUMBER, a) if a in (1.0, -1.0) else a for a in call.args[1:])
    call = Call((call.args[0], *args), call.kwargs)
    return [_case(operator, dtype, _swept_by(call, _SWEPT, 0, STEP[dtype]), size)]


def _around_edges(operator: Operator, dtype: str) -> list[Case]:
    """The case of numbers around the operator's edges, if it has any."""
    values = edges.values(operator.name, dtype)
    if not values:
        return []
    call = _swept_by(operator.sample(FixedCall(dtype, (edges.NUMBERS,))), *values)
    args = (
        replace(arg, stop=edges.NUMBERS)
        if isinstance(arg, TensorRecipe) and arg.values == values
        else arg
        for arg in call.args
    )
    return [_case(operator, dtype, Call(tuple(args), call.kwargs), edges.NUMBERS)]


def is_exhaustive(case: Case) -> bool:
    """Whether a tensor of the case is swept."""
    return any(is_swept(case, tensor) for tensor in case.tensors)


def is_swept(case: Case, tensor: object) -> bool:
    """Whether a tensor of the case holds chosen bit patterns, or numbers around the edges of the
    operator."""
    return isinstance(tensor, TensorRecipe) and (
        tensor.values[0] in PATTERN_CLASSES
        or (
            tensor.values[0] == "near"
            and tensor.values == edges.values(case.operator, tensor.dtype)
        )
    )


def _elementwise(operator: Operator) -> bool:
    """Forms with ``out=`` and methods share the kernel of the function whose form they are."""
    drawn = operator.cases is None and operator.form_of is None and operator.callable is not None
    return drawn and "elementwise" in operator.traits and "random" not in operator.traits


def _positions(call: Call) -> list[int]:
    """The positions of swept tensors among the arguments."""
    return [
        position
        for position, arg in enumerate(call.args)
        if isinstance(arg, TensorRecipe) and arg.values[0] == _SWEPT
    ]


def _swept_by(call: Call, *values: Any) -> Call:
    """The call with other patterns in its swept tensor."""
    (position,) = _positions(call)
    args = list(call.args)
    args[position] = replace(args[position], values=values)
    return Call(tuple(args), call.kwargs)


def _pairs_or_triples(operator: Operator, dtype: str, size: int) -> list[Case]:
    """The call with two or three swept tensors, which meet in all exponents."""
    call = operator.sample(FixedCall(dtype, (size,)))
    args, swept = list(call.args), _positions(call)
    for position, step in zip(swept, OTHER_STEPS[dtype, len(swept)], strict=True):
        args[position] = replace(args[position], values=(_SWEPT, 0, step))
    case = _case(operator, dtype, Call(tuple(args), call.kwargs), size)
    return [case, *(_beside_number(operator, dtype, size) if dtype in STEP else ())]


def _all_pairs(
    operator: Operator, dtype: str, call: Call, swept: Sequence[int], all_kinds: bool
) -> list[Case]:
    """All pairs of landmarks, of functions of two tensors in 16 bits. Both tensors are expanded
    views, so that their gradients are those of single pairs."""
    if not all_kinds or dtype in STEP or len(swept) != 2 or operator.mutates:
        return []
    args = list(call.args)
    for position, base in zip(swept, ((LANDMARKS, 1), (1, LANDMARKS)), strict=True):
        view = (("expand", LANDMARKS, LANDMARKS),)
        args[position] = TensorRecipe(base, dtype, ("landmarks",), 0, view)
    return [_case(operator, dtype, Call(tuple(args), call.kwargs), LANDMARKS * LANDMARKS)]


def _case(operator: Operator, dtype: str, call: Call, elements: int) -> Case:
    cotangent = elements if operator.differentiable else 0
    return Case(operator.name, dtype, call.args, call.kwargs, cotangent)
