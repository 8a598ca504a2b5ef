"""What the diagnosis of a failure found: causes, evidence, proofs, known divergences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Causes whose words are a sentence of their own.
_SENTENCES = frozenset(
    {
        "lost-write", "duplicates-dropped", "biased-variance", "zero-sign-lost", "beta-zero-kept",
        "index-base", "float32-integers",
        "output-padding-zero", "crossed-bounds", "rounded-toward-zero", "masked-by-product",
        "written-beyond", "indices-ignored", "other-side", "mask-incomplete",
        "another-of-equals",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cause:
    """A fault that, played in float64, explains a divergence: its id, how a sentence calls it, and
    its share (0 … 1)."""

    name: str
    words: str
    share: float

    def __str__(self) -> str:
        """``TF32 inputs explain 99%``, or, of words that are a sentence, ``writes to the view are
        lost (100% of the error)``."""
        percent = (
            f"{100.0 * self.share:.1f}".rstrip("0").rstrip(".")
            if 0.99 < self.share < 0.9995
            else f"{100.0 * self.share:.0f}"
        )
        if self.name in _SENTENCES:
            return f"{self.words} ({percent}% of the error)"
        several = self.words.endswith("inputs") and not self.words.startswith(
            "the "
        )  # "TF32 inputs", "the layout of the inputs"
        return f"{self.words} {'explain' if several else 'explains'} {percent}%"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an error of a runtime arises: ``stage`` is ``translation`` (the graph is wrong already)
    or ``runtime``; ``words`` say what shows it."""

    stage: str
    words: str

    def __str__(self) -> str:
        return f"the {self.stage}: {self.words}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the diagnosis of a failing result measured; numbers only, so that it can be judged
    again.

    ``initial_verdict`` is the verdict before the diagnosis. ``repeats`` were made, of which
    ``other`` gave another answer (by more than rounding) and ``within`` passed.
    ``input_perturbation_ratio`` and ``random_rounding_ratio`` are the largest error of a failing
    element in 3σ of the responses to input perturbations of ±½ ulp, and to random rounding of every
    step of the operator's decomposition (0: not measured). ``float64_error_ratio`` is the backend's
    own error in float64 divided by its error here (None: not measured). ``trials`` map what was
    changed (".contiguous() on the inputs", "oneDNN off") to the × budget that was left, ``cause``
    is what explains the error. ``backend_agreement`` says, where three or more backends ran, which
    of them give the same answer. ``brief``: the run's limit was reached, so that only known causes
    were tried, and none was found. ``rivals`` are the ids of other faults that explain the error as
    well, where few elements are wrong. ``origin`` tells, of a runtime that runs translated graphs,
    the translation's errors from the runtime's.
    """

    initial_verdict: str
    repeats: int = 0
    other: int = 0
    within: int = 0
    input_perturbation_ratio: float = 0.0
    random_rounding_ratio: float = 0.0
    float64_error_ratio: float | None = None
    trials: Mapping[str, float] = field(default_factory=dict)
    cause: Cause | None = None
    backend_agreement: str = ""
    brief: bool = False
    rivals: tuple[str, ...] = ()
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The known divergence that a failure matched: its id and place, the verdict without it, its
    max_rho (× budget, None for none), and whether it is flaky."""

    entry: str
    place: str
    verdict: str
    max_rho: float | None = None
    flaky: bool = False


@dataclass(frozen=True, slots=True)
class Proof:
    """The proved value of one element: ``digits`` of it, computed in balls of ``bits``."""

    output: str
    index: tuple[int, ...]
    digits: str
    bits: int
