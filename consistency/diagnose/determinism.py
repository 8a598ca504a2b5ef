"""Determinism: whether a backend gives the same bits in another run, with other threads, and for a
single row of a batch.

These comparisons need no tolerance and no reference. *Runs* repeats the same call; *threads* uses a
variant of the backend with another number of threads; *batch* passes only the first row of the
first tensor. Rows are independent if in float64 the result of the row equals the row of the result,
to 2⁻⁴⁰ of the largest number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import torch

from ..backends.base import Backend
from ..core import dtypes
from ..core.detail import Nondeterministic
from ..core.model import Case, Outcome, Result
from ..core.schema import row_type
from ..core.verdict import Verdict, VerdictKind
from ..errors import ConsistencyError
from ..generate.materialize import Materials, case_of, prepare
from ..operators.declare import Operator
from ..reference import quiet

KINDS = MappingProxyType(
    {
        "runs": "from run to run",
        "threads": "with another number of threads",
        "batch": "alone as in a batch",
    }
)
TITLE = "determinism"  # of the section in the summary
LOOKED_AT = 4  # cases of each operator × dtype
_THREADS = "one thread"  # name of the backend variant
_ROW_TOLERANCE = 2.0**-40
_UNREPEATABLE_TRAITS = frozenset({"random", "uninitialized"})


@dataclass(frozen=True, slots=True)
class Repeatability:
    """For one operator, dtype, direction and backend: in how many of ``cases`` bits differed.

    ``ulp`` is the largest difference in ulp of the dtype at the larger number; infinity if NaN, an
    infinity or a shape differed.
    """

    operator: str
    dtype: str
    direction: str
    backend: str
    kind: str
    cases: int = 0
    differing: int = 0
    ulp: float = 0.0
    example: Case | None = field(default=None, compare=False)

    def to_json(self) -> dict[str, Any]:  # a RepeatabilityRow
        names = ("operator", "dtype", "direction", "backend", "kind", "cases", "differing")
        row: dict[str, Any] = {name: getattr(self, name) for name in names}
        return (
            row
            | {"ulp": min(self.ulp, 1e300)}
            | ({"case_id": self.example.id} if self.example is not None else {})
        )

    @staticmethod
    def from_json(row: Mapping[str, Any]) -> Repeatability:
        """The inverse of :meth:`to_json`, without the example. Raises ValueError, KeyError or
        TypeError for malformed data."""
        operator, dtype, direction, backend, kind = (
            str(row[x]) for x in ("operator", "dtype", "direction", "backend", "kind")
        )
        if kind not in KINDS:
            raise ValueError(f"{kind[:40]!r} is no way to repeat a case")
        ulp = float(row["ulp"])
        ulp = math.inf if ulp >= 1e300 else ulp
        return Repeatability(
            operator, dtype, direction, backend, kind, int(row["cases"]), int(row["differing"]), ulp
        )


RepeatabilityRow = row_type(
    Repeatability, "operator", "dtype", "direction", "backend", "kind", "cases", "differing", "ulp"
)


@dataclass
class RepeatCheck:
    """Repeats each added case ``repeats`` times and records differences."""

    operator: Operator
    repeats: int
    _found: dict[tuple[str, str, str, str], Repeatability] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        return (
            not self.operator.traits & _UNREPEATABLE_TRAITS
            and self.operator.error.kind != "structure"
        )

    def add(self, case: Case, direction: str, backends: Iterable[Backend]) -> None:
        """Check one case on each backend; skips backends on which it does not run."""
        materials = prepare(case)
        row = _first_row(self.operator, materials) if direction == "forward" else None
        with quiet():
            for backend in backends:
                first = backend.run(self.operator, materials, direction)
                if first.status != "ok":
                    continue
                repeated = [
                    backend.run(self.operator, materials, direction) for _ in range(self.repeats)
                ]
                self._record(
                    case,
                    direction,
                    backend,
                    "runs",
                    max(
                        (largest_difference(first, threaded) for threaded in repeated), default=0.0
                    ),
                )
                threaded = backend.variants().get(_THREADS)
                if threaded is not None:
                    self._record(
                        case,
                        direction,
                        backend,
                        "threads",
                        largest_difference(
                            first, threaded.run(self.operator, materials, direction)
                        ),
                    )
                if row is not None:
                    row_outcome = backend.run(self.operator, row, direction)
                    self._record(
                        case,
                        direction,
                        backend,
                        "batch",
                        largest_difference(_row_of(first), row_outcome),
                    )

    def _record(self, case: Case, direction: str, backend: Backend, kind: str, ulp: float) -> None:
        key = (case.dtype, direction, backend.name, kind)
        previous = self._found.get(key) or Repeatability(
            self.operator.name, case.dtype, direction, backend.name, kind
        )
        is_larger = ulp > previous.ulp
        self._found[key] = replace(
            previous,
            cases=previous.cases + 1,
            differing=previous.differing + (ulp > 0.0),
            ulp=max(ulp, previous.ulp),
            example=case if is_larger else previous.example,
        )

    def found(self) -> tuple[Repeatability, ...]:
        return tuple(self._found.values())


def largest_difference(a: Outcome, b: Outcome) -> float:
    """The largest difference of two outcomes in ulp: 0 for equal bits (all NaNs are equal),
    infinity for differences in kind."""
    if a.status != b.status or len(a.outputs) != len(b.outputs):
        return float("inf")
    return max(
        (_difference(x.tensor, y.tensor) for x, y in zip(a.outputs, b.outputs, strict=True)),
        default=0.0,
    )


def _difference(x: torch.Tensor | None, y: torch.Tensor | None) -> float:
    if x is None or y is None:
        return 0.0 if x is y else float("inf")
    if x.shape != y.shape or x.dtype != y.dtype:
        return float("inf")
    if x.is_complex():
        x, y = torch.view_as_real(x.resolve_conj()), torch.view_as_real(y.resolve_conj())
    if not x.dtype.is_floating_point:
        return 0.0 if bool((x == y).all()) else float("inf")
    a, b = x.double(), y.double()
    same = (a == b) & (torch.signbit(a) == torch.signbit(b)) | (a.isnan() & b.isnan())
    if bool(same.all()):
        return 0.0
    a, b = a[~same], b[~same]
    if not bool((a.isfinite() & b.isfinite()).all()):
        return float("inf")
    form = dtypes.FORMATS[dtypes.name_of(x.dtype)]
    larger = torch.maximum(a.abs(), b.abs()).numpy()
    ulp = dtypes.spacing(larger, form, larger.copy())
    return float(((a - b).abs().numpy() / ulp).max()) or 0.5  # +0 and −0 differ by half an ulp


def _first_row(operator: Operator, materials: Materials) -> Materials | None:
    """The case with only the first row of its first tensor; None if rows are not independent."""
    case = materials.case
    if operator.mutates or operator.observe is not None or operator.alternatives is not None:
        return None
    arguments = materials.build()
    x = next((item for item in arguments.args if isinstance(item, torch.Tensor)), None)
    if x is None or x.ndim < 2 or x.shape[0] < 2 or not x.dtype.is_floating_point:
        return None
    args = tuple(item[:1] if item is x else item for item in arguments.args)
    try:
        row = prepare(case_of(case.operator, case.dtype, args, arguments.kwargs, case.cotangent))
    except ConsistencyError:
        return None
    plain = Backend()
    full, row_only = (
        plain.run(operator, materials, dtype="float64"),
        plain.run(operator, row, dtype="float64"),
    )
    if full.status != "ok" or not row_only.ok:
        return None
    pairs = [(a.tensor, b.tensor) for a, b in zip(full.outputs, row_only.outputs, strict=False)]
    return (
        row
        if pairs
        and len(full.outputs) == len(row_only.outputs)
        and all(_matches_first_row(a, b) for a, b in pairs)
        else None
    )


def _matches_first_row(full: torch.Tensor | None, row: torch.Tensor | None) -> bool:
    if (
        full is None
        or row is None
        or full.ndim < 1
        or full.shape[0] < 2
        or row.shape != (1, *full.shape[1:])
    ):
        return False
    if not full.dtype.is_floating_point or not row.numel():
        return False
    a, b = full[:1], row
    finite = a.isfinite() & b.isfinite()
    scale = float(a[finite].abs().max()) if bool(finite.any()) else 0.0
    return bool(finite.all()) and bool(((a - b).abs() <= _ROW_TOLERANCE * scale).all())


def _row_of(outcome: Outcome) -> Outcome:
    outputs = tuple(
        replace(o, tensor=o.tensor[:1] if o.tensor is not None else None) for o in outcome.outputs
    )
    return replace(outcome, outputs=outputs)


def failure(found: Repeatability, operator: Operator, allowed: str) -> Result | None:
    """A result if the bits may not differ: between runs where the policy forbids it, or in any case
    for elementwise operators.

    ``allowed`` is the policy ``nondeterminism``: ``none``, or ``rounding`` (sums by atomic
    additions). Elementwise operators have no sums, so other threads or neighbors must not change a
    bit.
    """
    if not found.differing or found.example is None:
        return None
    elementwise = "elementwise" in operator.traits and found.direction == "forward"
    if not (
        elementwise if found.kind != "runs" else allowed == "none" or found.ulp == float("inf")
    ):
        return None
    text = (
        f"other bits {KINDS[found.kind]} in {found.differing} of {found.cases} cases, "
        f"{_size_text(found.ulp)}"
    )
    numbers = {"ulp_max": min(found.ulp, 1e300)}
    verdict = Verdict(VerdictKind.NONDETERMINISTIC)
    return Result(
        found.example,
        found.backend,
        found.direction,
        verdict,
        text,
        MappingProxyType(numbers),
        operator.family,
        detail=Nondeterministic(found.kind),
    )


def _size_text(ulp: float) -> str:
    return "not only in rounding" if ulp == float("inf") else f"up to {ulp:.3g} ulp"


def summary(found: Sequence[Repeatability]) -> list[str]:
    """The section of the summary: one line per kind and backend."""
    lines: list[str] = []
    groups: dict[tuple[str, str], list[Repeatability]] = {}
    for item in found:
        groups.setdefault((item.kind, item.backend), []).append(item)
    for (kind, backend), items in sorted(
        groups.items(), key=lambda group: (list(KINDS).index(group[0][0]), group[0][1])
    ):
        names = {item.operator for item in items}
        worst: Mapping[str, float] = {}
        for item in items:
            if item.differing:
                worst = {**worst, item.operator: max(item.ulp, worst.get(item.operator, 0.0))}
        text = (
            f"{len(names) - len(worst)} of {len(names)} operators give the same bits {KINDS[kind]}"
        )
        sorted_names = sorted(worst, key=lambda name: -worst[name])
        shown = ", ".join(f"{name} ({_size_text(worst[name])})" for name in sorted_names[:3])
        more = f" and {len(sorted_names) - 3} more" if len(sorted_names) > 3 else ""
        lines.append(f"  {backend}: {text}" + (f"; not {shown}{more}" if sorted_names else ""))
    return [TITLE, *lines] if lines else []
