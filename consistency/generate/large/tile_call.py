"""What a ``sample`` function draws for a large case: one dimension of a fixed period, small ones
beside it, plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core import dtypes
from ...core.recipe import TensorRecipe
from ...operators.declare import REAL, Domain

# Prime, so that no power of two, which faults of indices and blocks are, is a multiple of it; and
# one that divides 2**24 + 1, where nothing is left over.
PERIOD = 257
SIDE = 3  # the size of other dimensions
_STOP = 1 << 14  # of the first tensor's window in the bitstream
_MOST_SIDE = 8
SUMS: tuple[str, ...] = ("balanced", "products")
KINDS: tuple[str, ...] = ("plain", "wide", "special", *SUMS)


@dataclass
class TileCall:
    """The interface of ``sample`` functions (:class:`~consistency.operators.drawing.Drawing`) that
    draws nothing: the same options for the same ``attempt``.

    In even attempts shapes begin with the period and in odd ones they end with it; in later ones a
    size drawn alone has it, too. ``kind``, one of :data:`KINDS`, says what tensors hold: numbers
    in [-1, 1] or [-9, 9], or special values, within the domain in each case; or as many 1 as -1
    along the period, whose sum is 0, or the sum of whose products is.
    """

    dtype: str
    attempt: int = 0
    kind: str = "plain"
    counts: dict[str, int] = field(default_factory=dict)

    def _count(self, what: str) -> int:
        self.counts[what] = self.counts.get(what, -1) + 1
        return self.counts[what]

    @property
    def complex(self) -> bool:
        return self.dtype in dtypes.PARTS

    @property
    def floating(self) -> bool:
        return dtypes.floats(self.dtype)

    def size(self, low: int = 1, high: int = 64) -> int:
        turn = self._count("size")
        if self.attempt >= 2 and turn == self.attempt // 2 - 1:
            return PERIOD
        return min(max(low, SIDE), max(low, high))

    def shape(
        self, low: int = 0, high: int = 4, *, least: int = 1, most: int = 64, elements: int = 4096
    ) -> tuple[int, ...]:
        rank = max(low, min(1, high))
        if not rank:
            return ()
        side = max(least, min(SIDE, most, _MOST_SIDE))
        if self.attempt >= 2 and self.attempt % 4 >= 2:
            return (side,) * rank
        rest = (side,) * (rank - 1)
        return (*rest, PERIOD) if self.attempt % 2 else (PERIOD, *rest)

    def broadcastable(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape)

    def choice(self, *options: Any) -> Any:
        turn = self._count("choice")
        for preferred in ("none", "tensors"):
            if preferred in options:
                return preferred
        return options[0] if self.attempt < 6 else options[(self.attempt + turn) % len(options)]

    def flag(self) -> bool:
        return self.attempt >= 6 and (self.attempt + self._count("flag")) % 2 == 1

    def integer(self, low: int, high: int) -> int:
        return min(max(low, 0) + (1 if self.attempt < 6 else 0), high)

    def number(self, low: float, high: float) -> float:
        return low + (high - low) * (0.625, 0.375, 0.75, 0.25)[self._count("number") % 4]

    def dim(self, shape: Sequence[int]) -> int:
        """The dimension of the period where its data are balanced, else another one."""
        long = next((d for d, size in enumerate(shape) if size == PERIOD), 0)
        if self.kind in SUMS or len(shape) < 2:
            return long
        return next(d for d in reversed(range(len(shape))) if d != long)

    def dims(self, shape: Sequence[int], *, least: int = 1) -> tuple[int, ...]:
        return tuple(sorted({self.dim(shape), *range(least - 1)})) if shape else ()

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
        kind, base = dtype or self.dtype, tuple(shape)
        elements = math.prod(base) * (2 if kind in dtypes.PARTS else 1)
        if values is None and self.kind in SUMS and PERIOD in base and kind == self.dtype:
            at = base.index(PERIOD)
            turn, stride = self._count("balanced"), math.prod(base[at + 1 :])
            mirror = 1 if turn and self.kind == "products" else -1
            values = ("balanced", PERIOD, stride, mirror, turn)
        values = values or _within(domain, kind, self.kind)
        stop = _STOP + self._count("tensor") * 4099
        return TensorRecipe(base, kind, values, max(stop, elements))

    def index(
        self, shape: Sequence[int], size: int, *, negative: bool = False, distinct: bool = False
    ) -> TensorRecipe:
        if distinct:
            (count,) = shape
            view = (("slice", 0, 0, count, None),) if count < size else ()
            return TensorRecipe((size,), "int64", ("permutation",), size, view)
        return self.tensor(shape, dtype="int64", values=("integers", 0, size - 1))


def _within(domain: Domain, dtype: str, which: str) -> tuple[Any, ...]:
    """The plainest value class within a domain."""
    if dtype == "bool":
        return ("integers", 0, 1)
    low, high = max(domain.low, -9.0), min(domain.high, 9.0)
    if low > high:
        low = high = domain.low if math.isfinite(domain.low) else domain.high
    if dtype in dtypes.INTEGER_RANGE:
        least = 0 if dtype in dtypes.UNSIGNED else -9
        low = max(math.ceil(low), least)
        return ("integers", low, max(math.floor(min(high, 9.0)), low))
    if which == "special" and domain.specials:
        return ("tokens", float(low), float(high), *domain.specials)
    if which == "wide":
        return ("uniform", float(low), float(high))
    bottom, top = max(domain.low, -1.0), min(domain.high, 1.0)
    if bottom >= top:
        bottom, top = max(domain.low, -1024.0), min(domain.high, 1024.0)
    return ("uniform", float(bottom), float(top))
