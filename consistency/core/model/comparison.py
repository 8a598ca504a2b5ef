"""An outcome measured against its reference, in numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..detail import Detail
from ..text import MAX_REPR, one_line
from ..verdict import OutcomeStatus


@dataclass(frozen=True, slots=True)
class Worst:
    """The element with the largest ρ: its index and both values (as Python numbers)."""

    index: tuple[int, ...]
    actual: float
    expected: float


@dataclass(frozen=True, slots=True)
class ElementGroup:
    """Errors of the elements whose argument lies in one range (``None``: all elements not in a
    range of their own).

    ``ulp_max`` is max e/ulp, ``scaled_max`` max e/(G·u·S), ``abs_max`` max e. ``pareto_front``
    holds the corners (ulp/e, G·u·S/e) of the lower-left convex hull over the elements, from which
    the exact max ρ follows for any c and λ; it is empty where the two maxima settle the matter.
    ``flushed`` is the same for e reduced by the smallest normal number.
    """

    range: tuple[int, float, float] | None
    ulp_max: float = 0.0
    scaled_max: float = 0.0
    abs_max: float = 0.0
    pareto_front: tuple[tuple[float, float], ...] = ()
    worst: tuple[Worst, ...] = ()
    flushed: tuple[tuple[float, float], ...] | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One output against its reference. Sums run over the elements that are finite in both.

    ``rms`` is absolute; ``sigma_rms`` and ``sigma_max`` are errors in units of a healthy sequential
    computation's standard deviation (0 where S was not needed, or where few elements err
    unremarkably), ``independent`` tells whether elements err independently.
    ``positive``/``negative`` count signed errors, ``outward`` those away from zero. ``special``
    maps a kind of mismatch (``nan``, ``inf``, ``zero-sign``, ``nan-dropped``: a choice among the
    other numbers, ``flushed``: as for subnormal inputs that read as zero, ``saturated`` and
    ``saturated-float``: the limit of an integer's range, cast from an integer or a float beyond it,
    ``largest``: the largest number in place of an infinity) to how many elements have it.
    ``vacuous`` says why agreement here would prove nothing, ``pattern`` where the large errors lie,
    ``at_end`` whether they are the first or the last elements.
    ``cluster`` is the group of elements (a row, a tile, the last of a vector) with the largest RMS
    error, in the same σ: that RMS, how many they are, and where; None where no error is above 3 σ.
    ``terms`` is n, how many numbers were accumulated into an element; 0 where nothing is
    accumulated, or nobody counted. ``of_steps`` is there where a function was judged by the
    roundings of its own steps, of which σ is made then: how far it is from its reference in float64
    already, in σ, and up to what its RMS error is usual.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    element_groups: tuple[ElementGroup, ...] = ()
    exact: bool = False
    differing: int = 0
    rms: float = 0.0
    sigma_rms: float = 0.0
    sigma_max: float = 0.0
    independent: bool = False
    positive: int = 0
    negative: int = 0
    outward: int = 0
    special: Mapping[str, int] = field(default_factory=dict)
    special_worst: Worst | None = None
    vacuous: str = ""
    pattern: str = ""
    cluster: tuple[float, int, str] | None = None
    terms: float = 0.0
    of_steps: tuple[float, float] | None = None
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything the judge needs to know of an outcome, without a tensor and without a
    tolerance. ``contract`` tells what differs from the CPU beside the numbers."""

    status: OutcomeStatus
    outputs: tuple[Measured, ...] = ()
    structure: str = ""
    note: str = ""
    unsteady: str = ""
    detail: Detail | None = None
    contract: str = ""

    def __repr__(self) -> str:
        told = "; ".join(
            f"{o.name} {o.dtype} {list(o.shape)}: {o.differing:,} of {o.elements:,} elements differ"
            for o in self.outputs[:3]
        )
        return one_line(f"<Comparison {self.status.value}: {told or self.note}>", MAX_REPR)

    @property
    def ok(self) -> bool:
        """Whether the call and its reference both returned, so that numbers are compared."""
        return self.status == OutcomeStatus.OK


# Of a result that another process compared and wrote, where only its verdict was sent.
MEASURED_ELSEWHERE = Comparison(OutcomeStatus.OK, note="its measurements are in the bundle")
