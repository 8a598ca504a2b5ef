"""Hypothesis strategies: the :class:`Draw` that operators' ``sample`` functions talk to, and
:func:`cases`.

Everything is drawn by construction, so no draw is thrown away. Shrinking goes towards: fewer and
smaller dimensions, contiguous layout, the plainest value class, defaults (the first option of every
choice), and a window at the beginning of the bitstream, which leaves zeros everywhere but at the
culprit (see :mod:`consistency.generate.bitstream`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from ..core import dtypes
from ..core.model import Case
from ..core.recipe import TensorRecipe
from ..operators.declare import REAL, Domain, Operator
from .layouts import inverse, possible
from .long_transforms import with_safe_dims
from .shared_operands import with_shared_operand
from .special_positions import SpecialPositions
from .value_class_choice import (
    MOST_CONVERTED,
    WIDE_INTEGERS,
    computes_exactly,
    converts_first,
    plane,
    value_classes_within,
)

# Just around powers of two, where vector bodies, tails and blocks begin and end.
INTERESTING = (
    1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511,
    513, 1000, 1024, 2048, 4095,
)  # fmt: skip
MOST_ELEMENTS = 1 << 16


@functools.lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


@functools.lru_cache(maxsize=4096)
def _sizes(low: int, high: int) -> st.SearchStrategy[int]:
    corners = [size for size in INTERESTING if low <= size <= high]
    small = st.integers(low, min(high, low + 4))
    return st.one_of(small, st.sampled_from(corners), st.integers(low, high)) if corners else small


_CHOICES: dict[str, st.SearchStrategy[Any]] = {}
_FLAG = st.sampled_from((False, True))


def _sampled(options: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    """Cached by repr: a cache that compares would treat (False,) and (0.0,) as equal."""
    spelling = repr(options)
    if spelling not in _CHOICES:
        _CHOICES[spelling] = st.sampled_from(options)
    return _CHOICES[spelling]


class Draw:
    """Draws the arguments of one case in one dtype. Every method says which way its examples
    shrink."""

    def __init__(self, draw: st.DrawFn, dtype: str, operator: Operator) -> None:
        self._draw = draw
        self.dtype = dtype
        self.operator = operator
        self._special_positions = SpecialPositions(self, operator)

    @property
    def floating(self) -> bool:
        """Whether the case's dtype is a floating-point one, real or complex."""
        return dtypes.floats(self.dtype)

    @property
    def complex(self) -> bool:
        """Whether the case's dtype is a complex one."""
        return self.dtype in dtypes.PARTS

    def size(self, low: int = 1, high: int = 64) -> int:
        """A dimension's size, often just around a power of two. Shrinks towards ``low``."""
        return self._draw(_sizes(low, max(low, high)))

    def shape(
        self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 64, elements: int = 4096
    ) -> tuple[int, ...]:
        """A shape with ``low`` to ``high`` dimensions of sizes ``least`` to ``most``. Shrinks to
        fewer, then smaller dimensions."""
        remaining, sizes = elements, []
        for _ in range(self._draw(_integers(low, high))):
            size = self.size(least, max(least, min(most, remaining)))
            remaining //= max(size, 1)
            sizes.append(size)
        return tuple(sizes)

    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to ``shape``. Shrinks towards ``shape`` itself."""
        if not self.flag():
            return tuple(shape)
        keep = tuple(1 if self.flag() else size for size in shape)
        return keep[self._draw(_integers(0, len(keep))) :]

    def choice(self, *options: Any) -> Any:
        """One of the options. Shrinks towards the first."""
        return self._draw(_sampled(options))

    def flag(self) -> bool:
        """True or False. Shrinks towards False."""
        return self._draw(_FLAG)

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]. Shrinks towards 0, or the end of the range that is nearest
        to it."""
        return self._draw(_integers(low, high))

    def number(self, low: float, high: float) -> float:
        """A Python float in [low, high] with few digits (a multiple of 2**-6). Shrinks towards 0 or
        the nearest end."""
        return self._draw(_integers(math.ceil(low * 64), math.floor(high * 64))) / 64.0

    def dim(self, shape: Sequence[int]) -> int:
        """A dimension of ``shape``, counted from either end; 0 for a 0-d tensor. Shrinks towards
        0."""
        rank = max(len(shape), 1)
        return self._draw(_integers(-rank, rank - 1))

    def dims(self, shape: Sequence[int], *, least: int = 1) -> tuple[int, ...]:
        """Distinct dimensions of ``shape`` in ascending order. Shrinks towards fewer."""
        chosen = [dim for dim in range(len(shape)) if self.flag()]
        for dim in range(len(shape)):
            if len(chosen) >= least:
                break
            if dim not in chosen:
                chosen.append(dim)
        return tuple(sorted(chosen))

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
        """A tensor of ``shape`` with numbers from ``domain``, or of the value class ``values``.

        ``layout=False`` keeps it contiguous; ``overlap=False`` excludes views in which elements
        share memory (for tensors that are written to). Shrinks towards a contiguous tensor of
        evenly spread numbers with zeros everywhere but at the culprit.
        """
        dtype = dtype or self.dtype
        base, view = self._layout(tuple(shape), overlap=overlap) if layout else (tuple(shape), ())
        elements = math.prod(base)
        if dtype in dtypes.PARTS:
            domain, elements = plane(self.operator, self.dtype, domain), 2 * elements
            view = (*view, ("conj",)) if layout and self.choice(False, False, False, True) else view
        special: tuple[tuple[int, str], ...] = ()
        if values is None or domain.names_special_values:
            special = self._special_positions.draw(domain, dtype, elements)
        values = values or self._values(dtype, domain)
        return TensorRecipe(base, dtype, values, self.stop(elements), view, special)

    def stop(self, elements: int) -> int:
        """The end of a window of so many elements in the bitstream. Shrinks towards 0, where
        everything is blank.

        A sum of four integers, because a single one would leave a third of the windows partly
        blank.
        """
        reach = _integers(0, 2 * max(1 << 12, elements))
        return self._draw(reach) + self._draw(reach) + self._draw(reach) + self._draw(reach)

    def index(
        self, shape: Sequence[int], size: int, *, negative: bool = False, distinct: bool = False
    ) -> TensorRecipe:
        """An int64 tensor of positions below ``size``, with duplicates unless ``distinct`` (1-d
        only, a part of a permutation, or every second one of it).

        Shrinks towards zeros.
        """
        if distinct:
            (count,) = shape
            apart = 1 < count < size and 2 * count <= size + 1 and self.choice(False, True)
            step, end = (2, 2 * count - 1) if apart else (None, count)
            view = (("slice", 0, 0, end, step),) if count < size else ()
            return TensorRecipe((size,), "int64", ("permutation",), self.stop(size), view)
        low = -size if negative and self.flag() else 0
        return self.tensor(shape, dtype="int64", values=("integers", low, size - 1))

    def _layout(
        self, shape: tuple[int, ...], *, overlap: bool
    ) -> tuple[tuple[int, ...], tuple[tuple[Any, ...], ...]]:
        """Base shape and chain of views that end in ``shape``. Shrinks towards contiguous."""
        base = shape
        chain: list[tuple[Any, ...]] = []
        for _ in range(self.choice(0, 0, 1, 1, 2)):
            names = possible(base, overlap=overlap)
            step = (
                inverse(self.choice(*names, *names[:1]), base, self.integer, overlap=overlap)
                if names
                else None
            )
            if step is not None and math.prod(step[0]) <= MOST_ELEMENTS:
                base = step[0]
                chain.insert(0, step[1])
        return base, tuple(chain)

    def _values(self, dtype: str, domain: Domain) -> tuple[Any, ...]:
        """A value class within the domain. Shrinks towards evenly spread numbers."""
        if dtype == "bool":
            return ("integers", 0, 1)
        form = dtypes.form_of(dtype)
        if form is None:
            if (
                dtype in WIDE_INTEGERS
                and math.isinf(domain.low)
                and math.isinf(domain.high)
                and computes_exactly(self.operator)
                and self.choice(False, False, True)
            ):
                return tuple(self.choice(*WIDE_INTEGERS[dtype]))
            reach = 9
            if converts_first(self.operator) and self.choice(*[False] * 7, True):
                reach = min(dtypes.INTEGER_RANGE[dtype][1] // 2, MOST_CONVERTED)
            least = 0 if dtype in dtypes.UNSIGNED else -reach
            low = max(math.ceil(max(domain.low, -float(reach))), least)
            high = min(math.floor(min(domain.high, float(reach))), reach)
            return ("integers", low, high) if low <= high else ("integers", 0, 1)
        return self._draw(value_classes_within(domain, form))


@st.composite
def cases(draw: st.DrawFn, operator: Operator, dtype: str) -> Case:
    """Cases of one operator in one dtype. Shrinks as its ``sample`` function's draws do; the
    cotangent's window to 0."""
    source = Draw(draw, dtype, operator)
    call = with_shared_operand(source, operator, operator.sample(source))
    cotangent = source.stop(1 << 12) if operator.differentiable else 0
    case = Case(operator.name, dtype, call.args, call.kwargs, cotangent)
    return with_safe_dims(operator, case)
