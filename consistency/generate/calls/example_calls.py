"""Cases derived from a user's example of a call: other sizes, layouts, dtypes and numbers.

Equal sizes in the example are taken for one dimension, so that they change together: a product's
inner sizes still fit. Whether a derived call is one that the function takes, the reference says.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ...core import dtypes
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...operators.declare import FLOATS
from ..layouts import inverse, possible
from ..materialize import case_of

COTANGENT = 1 << 20  # a position in the bitstream with enough numbers before it
_MOST_SPECIAL = 64  # numbers that are put in one by one
BLOCKS = (127, 128, 129, 256, 257, 1000, 1024, 1025)  # sizes where blocks of kernels begin and end
MAX_ELEMENTS = 1 << 15  # of a derived tensor
_STEP = 4099  # in the bitstream, from one tensor to the next
_LAYOUTS = ("transpose", "slice", "offset", "expand", "channels-last", "unit-stride")
Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class DerivedCase:
    """A case and how it differs from the example, in words. ``kind`` is ``example``, ``sizes``,
    ``layout``, ``values``, ``special`` or ``dtype``."""

    case: Case
    kind: str
    words: str

    @property
    def gradients(self) -> bool:
        """Whether gradients are compared: not at NaN and infinities, where formulas of a gradient
        that are equal elsewhere differ."""
        return self.kind != "special"


class ExampleCall:
    """One call with a user's own arguments; ``written`` are the positions of tensors, in the order
    of the case, that the function writes to."""

    def __init__(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        source: str,
        written: Sequence[int] = (),
    ) -> None:
        self.case = replace(case_of(name, "float32", tuple(args), kwargs, COTANGENT), source=source)
        floats = [t.dtype for t in self.case.tensors if dtypes.floats(t.dtype)]
        kinds = [t.dtype for t in self.case.tensors]
        self.dtype = next(iter(floats), next(iter(kinds), "float32"))
        self.case = replace(self.case, dtype=self.dtype)
        self._written, self._position = frozenset(written), 0
        literals = [t for t in self.case.tensors if isinstance(t, Literal)]
        self._ranges = [_range(t) for t in literals]
        self.sizes = sorted({n for t in literals for n in t.shape if n > 1}, reverse=True)

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The example's own dtype, then the other floating-point ones of its kind."""
        return (self.dtype, *(d for d in FLOATS if d != self.dtype and self.dtype in FLOATS))

    def derived(self, dtype: str) -> Iterator[DerivedCase]:
        """The cases in ``dtype``: the example, and then one of each kind in turn, so that none is
        left out where time ends first. In the example's own dtype there are about twice as many as
        in others."""
        if dtype == self.dtype:
            yield DerivedCase(self.case, "example", "the example")
        else:
            yield DerivedCase(self._drawn(dtype), "dtype", f"the example in {dtype}")
        kinds = [self._in_other_sizes(dtype), self._in_other_layouts(dtype)]
        if dtypes.floats(dtype):
            kinds += [self._of_other_values(dtype), self._with_special_numbers(dtype)]
        yield from (
            case for turn in itertools.zip_longest(*kinds) for case in turn if case is not None
        )

    def _in_other_sizes(self, dtype: str) -> Iterator[DerivedCase]:
        changes = self._size_changes()
        for change in changes if dtype == self.dtype else itertools.islice(changes, 6):
            words = ", ".join(f"size {old} → {new}" for old, new in change.items())
            yield DerivedCase(self._drawn(dtype, change), "sizes", words)

    def _in_other_layouts(self, dtype: str) -> Iterator[DerivedCase]:
        seen: set[str] = set()
        for position, tensor in enumerate(self.case.tensors):
            for layout in self._layouts(position, tensor):
                if dtype == self.dtype or layout not in seen:
                    seen.add(layout)
                    words = f"tensor {position} in the layout {layout!r}"
                    case = self._drawn(dtype, layouts={position: layout})
                    yield DerivedCase(case, "layout", words)

    def _of_other_values(self, dtype: str) -> Iterator[DerivedCase]:
        for values in ("unit", "whole", "wide", "mean", "cancelling", "tiny"):
            words = f"numbers of the class {values!r}"
            yield DerivedCase(self._drawn(dtype, values=values), "values", words)
        case = self._drawn(dtype, tokens=("0", "-0"))
        yield DerivedCase(case, "values", "with 0 and -0 among the numbers")

    def _with_special_numbers(self, dtype: str) -> Iterator[DerivedCase]:
        """Single ones, which a mask may hide from most rows, and so many that none is without."""
        for token in ("nan", "inf"):
            words = f"with one {token} in every row but the last"
            yield DerivedCase(self._drawn(dtype, one_a_row=token), "special", words)
        for tokens in (("nan",), ("inf", "-inf")):
            words = f"with {' and '.join(tokens)} among the numbers"
            yield DerivedCase(self._drawn(dtype, tokens=tokens), "special", words)

    def _size_changes(self) -> Iterator[dict[int, int]]:
        if not self.sizes:
            return
        for step in (1, -1):
            yield {n: n + step for n in self.sizes}
        largest = self.sizes[0]
        ends = [n for n in BLOCKS if n != largest]
        yield from ({largest: n} for n in ends[:2])
        for size in self.sizes:
            yield from ({size: n} for n in (size + 1, size - 1, 1) if len(self.sizes) > 1 or n == 1)
        yield from ({largest: n} for n in ends[2:])
        yield {largest: 0}

    def _layouts(self, position: int, tensor: TensorRecipe | Literal) -> list[str]:
        shape = tensor.shape if isinstance(tensor, Literal) else tensor.base
        if not dtypes.floats(tensor.dtype):
            return []
        names = possible(tuple(shape), overlap=position not in self._written)
        return [name for name in _LAYOUTS if name in names and shape]

    def _drawn(
        self,
        dtype: str,
        sizes: Mapping[int, int] | None = None,
        layouts: Mapping[int, str] | None = None,
        values: str = "",
        tokens: tuple[str, ...] = (),
        one_a_row: str = "",
    ) -> Case:
        tensors: list[TensorRecipe | Literal] = []
        for position, tensor in enumerate(self.case.tensors):
            assert isinstance(tensor, Literal)
            shape = tuple((sizes or {}).get(n, n) for n in tensor.shape)
            low, high = self._ranges[position]
            if not dtypes.floats(tensor.dtype):
                drawn = _whole(tensor, shape, low, high, self._stop(shape))
                tensors.append(drawn)
                continue
            base, view = shape, ()
            layout = (layouts or {}).get(position)
            found = (
                inverse(
                    layout,
                    shape,
                    min if layout == "expand" else _lowest,
                    overlap=position not in self._written,
                )
                if layout is not None
                else None
            )
            if found is not None:
                base, view = found[0], (found[1],)  # type: ignore[assignment]
            chosen = ("tokens", low, high, *tokens) if tokens else _class(values, low, high)
            kind = dtype if tensor.dtype == self.dtype else tensor.dtype
            special = _one_a_row(base, one_a_row) if one_a_row else ()
            tensors.append(
                TensorRecipe(base, kind, chosen, self._stop(base), view, special, leaf=tensor.leaf)
            )
        return replace(self.case.with_tensors(tensors), dtype=dtype)

    def _stop(self, shape: tuple[int, ...]) -> int:
        self._position += _STEP
        return self._position + 2 * math.prod(shape)


def _one_a_row(shape: tuple[int, ...], token: str) -> tuple[tuple[int, str], ...]:
    """A token in every row but the last (of one row, in that), each in another column."""
    if not math.prod(shape):
        return ()
    length, rows = shape[-1] if shape else 1, math.prod(shape[:-1])
    chosen = range(min(max(rows - 1, 1), _MOST_SPECIAL))
    return tuple((row * length + row * 7 % length, token) for row in chosen)


def small_enough(case: Case) -> bool:
    """Whether no tensor of a derived case is large."""
    return all(
        math.prod(t.base) <= MAX_ELEMENTS for t in case.tensors if isinstance(t, TensorRecipe)
    )


def _lowest(low: int, high: int) -> int:
    return min(max(low, 1), high)


def _whole(
    tensor: Literal, shape: tuple[int, ...], low: float, high: float, stop: int
) -> TensorRecipe | Literal:
    """Whole numbers as they are (they may be indices or offsets), or of the same range where the
    shape is another one."""
    if shape == tensor.shape:
        return tensor
    return TensorRecipe(shape, tensor.dtype, ("integers", int(low), int(high)), stop)


def _range(tensor: Literal) -> tuple[float, float]:
    """The range that numbers are drawn from: signed ones even around 0, others within their own."""
    from ..materialize import prepare

    values = prepare(Case("", tensor.dtype, (tensor,))).build().tensors[0]
    if not values.numel():
        return (-1.0, 1.0) if values.is_floating_point() else (0.0, 1.0)
    if not (values.is_floating_point() or values.is_complex()):
        return float(values.long().min()), float(values.long().max())
    reals = torch.view_as_real(values) if values.is_complex() else values
    finite = reals.double()[torch.isfinite(reals)]
    if not finite.numel():
        return -1.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    reach = max(abs(low), abs(high), 2.0**-6)
    if low < 0.0 < high:
        return -reach, reach
    return (low, high) if low < high else (low, low + 1.0)


def _class(name: str, low: float, high: float) -> Values:
    """A value class within the range; numbers of one sign keep it."""
    if low < 0.0 < high:
        return {
            "unit": ("normal", 0.0, 1.0),
            "whole": ("integers", -4, 4),
            "wide": ("wide", -8, 2, 1),
            "mean": ("offset", 64.0, 1.0),
            "cancelling": ("cancelling", 1.0),
            "tiny": ("tokens", -1.0, 1.0, "tiny", "subnormal"),
        }.get(name, ("uniform", low, high))
    if low >= 0.0 and name == "wide" and high > 0.0:
        bottom = max(math.floor(math.log2(low)), -8) if low > 0.0 else -8
        return ("wide", bottom, max(math.floor(math.log2(high)) - 1, bottom), 0)
    return ("uniform", low, high)
