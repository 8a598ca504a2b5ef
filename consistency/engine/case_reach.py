"""What the cases of a quick run reach of each operator: classes of values, sizes, dtypes, overloads
of aten, and the share of planted faults that they notice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.cpu import Cpu
from ..core import bits, dtypes
from ..core.model import DIRECTIONS, Case
from ..diagnose.evaluation import differentiates
from ..generate.large import shipped as long_cases
from ..generate.materialize import prepare
from ..generate.search import batch
from ..generate.shipped import adequacy
from ..generate.shipped import cases as shipped
from ..operators.aten_calls import AtenCallRecorder
from ..operators.declare import Operator
from .run_options import PROFILES

VALUES = ("ordinary", "zero", "extreme", "subnormal", "infinity", "NaN")


@dataclass(frozen=True)
class Reach:
    """What the cases of one operator reach. ``values`` are words of :data:`VALUES`;
    ``largest_dimension`` and ``elements`` those of the largest tensor among the arguments;
    ``overloads`` of aten; ``noticed`` maps a direction to the numbers of planted faults that its
    shipped cases notice, and that any of the cases they were chosen from shows."""

    operator: str
    values: tuple[str, ...]
    largest_dimension: int
    elements: int
    dtypes: tuple[str, ...]
    overloads: frozenset[str]
    noticed: dict[str, tuple[int, int]]

    def share(self, direction: str) -> float | None:
        """The share of planted faults that are noticed; None where none was planted."""
        noticed, shown = self.noticed.get(direction, (0, 0))
        return noticed / shown if shown else None

    def to_json(self) -> dict[str, Any]:
        return {
            "values": list(self.values),
            "largest_dimension": self.largest_dimension,
            "elements": self.elements,
            "dtypes": list(self.dtypes),
            "overloads": sorted(self.overloads),
            "noticed": {direction: list(pair) for direction, pair in self.noticed.items()},
        }


def reach(operator: Operator) -> Reach:
    """What a quick run's cases reach, called on the CPU; seconds for one operator."""
    values: set[str] = set()
    overloads: set[str] = set()
    longest = elements = 0
    called = one_of_each_kind(operator.dtypes)
    for dtype in operator.dtypes if operator.callable is not None else ():
        for case in _small_cases(operator, dtype):
            for found in _arrays(case):
                values.update(_classes(found))
            if dtype in called:
                overloads |= _overloads(operator, case)
            for shape in _shapes(case):
                longest = max(longest, *shape, 0)
                elements = max(elements, int(np.prod(shape, dtype=np.float64)))
        for case in long_cases.cases(operator, dtype):
            for shape in _full_shapes(case):
                longest = max(longest, *shape, 0)
                elements = max(elements, int(np.prod(shape, dtype=np.float64)))
    return Reach(
        operator.name,
        tuple(word for word in VALUES if word in values),
        longest,
        elements,
        operator.dtypes,
        frozenset(overloads),
        _noticed(operator),
    )


def _full_shapes(case: Case) -> Iterator[tuple[int, ...]]:
    """The shapes of a long case's tensors: those that are tiled at their full size."""
    if case.tiling is None:
        yield from _shapes(case)
        return
    for shape, dim in zip(_shapes(case), case.tiling.dims, strict=False):
        if dim is not None:
            yield (*shape[:dim], case.tiling.size, *shape[dim + 1 :])


def one_of_each_kind(names: Sequence[str]) -> list[str]:
    """The first dtype of each kind, because each may have its own kernels: floating, complex,
    integer, boolean."""
    kinds: dict[str, str] = {}
    for name in names:
        kinds.setdefault(name.rstrip("0123456789").removeprefix("b"), name)
    return list(kinds.values())


def _small_cases(operator: Operator, dtype: str) -> list[Case]:
    fresh = batch(operator, dtype, PROFILES["quick"], 0)
    return [*shipped.cases(operator, dtype), *fresh]


def _shapes(case: Case) -> Iterator[tuple[int, ...]]:
    for tensor in case.tensors:
        yield tensor.base or getattr(tensor, "shape", ())


def _arrays(case: Case) -> Sequence[np.ndarray[Any, Any]]:
    """The numbers of the floating tensors of a case, widened where NumPy has no such format."""
    materials = prepare(case)
    pairs = zip(case.tensors, materials.bases, strict=True)
    return [
        bits.to_tensor(base.copy(), tensor.dtype).float().numpy()
        if tensor.dtype == "bfloat16"
        else base
        for tensor, base in pairs
        if dtypes.floats(tensor.dtype)
    ]


def _classes(numbers: np.ndarray[Any, Any]) -> Iterator[str]:
    """The words of :data:`VALUES` that apply to some number."""
    parts = numbers.view(numbers.real.dtype) if np.iscomplexobj(numbers) else numbers
    sizes = np.abs(parts.astype(np.float64, copy=False))
    form = np.finfo(parts.dtype)
    tiny, largest = float(form.tiny), float(form.max)
    ordinary = (sizes >= 2.0**-8) & (sizes <= 2.0**8)
    found = {
        "NaN": np.isnan(sizes),
        "infinity": np.isinf(sizes),
        "zero": sizes == 0,
        "subnormal": (sizes > 0) & (sizes < tiny),
        "extreme": np.isfinite(sizes) & ((sizes > largest / 2**8) | (sizes < tiny * 2**8)),
        "ordinary": ordinary,
    }
    yield from (word for word, where in found.items() if bool(where.any()))


def _overloads(operator: Operator, case: Case) -> set[str]:
    cpu, materials, reached = Cpu(), prepare(case), set[str]()
    for direction in operator.directions if differentiates(operator, case.dtype) else ("forward",):
        with AtenCallRecorder() as recorder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cpu.run(operator, materials, direction)
        reached |= {name for name in recorder.overloads if name.startswith("aten::")}
    return reached


def _noticed(operator: Operator) -> dict[str, tuple[int, int]]:
    table = adequacy.measured()
    rows = [table[operator.name, d] for d in operator.dtypes if (operator.name, d) in table]
    return {
        direction: (
            sum(row.noticed.get(direction, 0) for row in rows),
            sum(row.shown.get(direction, 0) for row in rows),
        )
        for direction in DIRECTIONS
        if any(direction in row.shown for row in rows)
    }
