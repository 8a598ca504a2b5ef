"""The five values that flow through the program: Case, Outcome, Comparison, Verdict, Result. All
are frozen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch

from ..errors import RecipeError, did_you_mean
from . import recipe
from .contract import Contract
from .detail import Detail
from .text import one_line, shown
from .tiling import Tiling
from .verdict import OutcomeStatus, Verdict

DIRECTIONS = ("forward", "backward")
# Of drawn cotangents: contiguous; one number for all elements without a stride (what sum's backward
# passes on); the same with memory of its own; the last dimension outermost in memory.
COTANGENT_LAYOUTS = ("", "expanded", "constant", "transposed")
MAX_REPR = 200  # characters
Key = tuple[str, str, str]  # of a result: case, backend, direction


@dataclass(frozen=True)
class Case:
    """One operator with concrete arguments and dtype, as a recipe.

    ``cotangent`` is ``(value class …, stop)`` of the tensors that gradients are taken against: one
    per differentiable output, each shaped like its output. ``source`` tells what a case that our
    strategies did not draw calls: ``opinfo``, ``opinfo/VARIANT``, ``call/torch.add`` for a function
    named by the case itself, or ``aten/add.Tensor`` for an overload of torch's own operators, as
    captured from a program. ``cotangents`` are literal ones that replace the drawn ones: one per
    returned value, None where it has no gradient. ``cotangent_layout`` is one of
    ``COTANGENT_LAYOUTS``, for drawn ones. ``tiling``: in a large case, how its tensors repeat.
    """

    operator: str
    dtype: str
    args: tuple[recipe.Arg, ...] = ()
    kwargs: Mapping[str, recipe.Arg] = field(default_factory=dict)
    cotangent: int = 0
    source: str = ""
    cotangents: tuple[recipe.Literal | None, ...] = ()
    cotangent_layout: str = ""
    tiling: Tiling | None = None

    def __post_init__(self) -> None:
        # Tensors are numbered in the order of the arguments, which must survive the way through
        # sorted JSON.
        object.__setattr__(self, "kwargs", dict(sorted(self.kwargs.items())))

    def __repr__(self) -> str:  # one line, however many arguments and bytes there are
        shapes = [
            str(list(t.shape if isinstance(t, recipe.Literal) else t.base)) for t in self.tensors
        ]
        more = ", …" if len(shapes) > 4 else ""
        told = f"{self.operator} {self.dtype} {', '.join(shapes[:4])}{more}"
        return one_line(f"<Case {self.id}: {told}>", MAX_REPR)

    @cached_property
    def line(self) -> str:
        """The case as one line of canonical JSON: what is hashed, pasted, and sent to workers."""
        return recipe.canonical(self.to_json())

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.line.encode("utf-8")).hexdigest()

    @cached_property
    def id(self) -> str:
        """Short name such as ``matmul-3fa1c2d409``: the operator's last part and the first ten
        digits of the hash."""
        return f"{self.operator.rpartition('.')[2]}-{self.digest[:10]}"

    def to_json(self) -> dict[str, Any]:
        kwargs = {name: recipe.encode(value) for name, value in self.kwargs.items()}
        body: dict[str, Any] = {
            "operator": self.operator,
            "dtype": self.dtype,
            "args": [recipe.encode(a) for a in self.args],
        }
        body = {**body, "kwargs": kwargs, "cotangent": self.cotangent}
        body |= {"source": self.source} if self.source else {}
        body |= {"cotangent_layout": self.cotangent_layout} if self.cotangent_layout else {}
        body |= {"tiling": self.tiling.to_json()} if self.tiling is not None else {}
        return body | (
            {"cotangents": [recipe.encode(c) for c in self.cotangents]} if self.cotangents else {}
        )

    @property
    def tensors(self) -> tuple[recipe.TensorRecipe | recipe.Literal, ...]:
        """The tensors among the arguments, in the order in which they are materialized."""
        return (*recipe.tensors(self.args), *recipe.tensors(self.kwargs))

    def with_tensors(self, tensors: Iterable[recipe.TensorRecipe | recipe.Literal]) -> Case:
        """The case with other tensors among its arguments, in the order of :attr:`tensors`."""
        source = iter(tensors)

        def swap(value: recipe.Arg) -> recipe.Arg:
            if isinstance(value, recipe.TENSORS):
                return next(source)
            if isinstance(value, (list, tuple)):
                return type(value)([swap(item) for item in value])
            return value

        args = tuple([swap(a) for a in self.args])
        return replace(self, args=args, kwargs={k: swap(v) for k, v in self.kwargs.items()})

    @property
    def literals(self) -> tuple[recipe.Literal, ...]:
        """The tensors given by their bits, cotangents included."""
        return tuple(t for t in (*self.tensors, *self.cotangents) if isinstance(t, recipe.Literal))

    @staticmethod
    def from_json(data: Any, literals: Mapping[str, bytes] | None = None) -> Case:
        """The case that parsed JSON describes. Raises RecipeError, never anything else."""
        if not isinstance(data, dict):
            raise RecipeError("a case is a JSON object with operator, dtype, args and kwargs")
        unknown = set(data) - {
            "operator",
            "dtype",
            "args",
            "kwargs",
            "cotangent",
            "source",
            "cotangents",
            "cotangent_layout",
            "tiling",
        }
        if unknown:
            raise RecipeError(f"{sorted(map(str, unknown))[0]!r:.40} is not a key of a case")
        operator, dtype, cotangent = (
            data.get("operator"),
            data.get("dtype"),
            data.get("cotangent", 0),
        )
        source = data.get("source", "")
        args, kwargs = data.get("args", []), data.get("kwargs", {})
        if (
            not isinstance(operator, str)
            or not isinstance(dtype, str)
            or not isinstance(source, str)
        ):
            raise RecipeError(
                "a case needs 'operator' and 'dtype' as text, and 'source' where it has one"
            )
        if not isinstance(args, list) or not isinstance(kwargs, dict) or type(cotangent) is not int:
            raise RecipeError(
                "a case's 'args' is a list, its 'kwargs' an object and its 'cotangent' a whole "
                "number"
            )
        decoded = {name: recipe.decode(value, literals) for name, value in kwargs.items()}
        arguments = tuple(recipe.decode(a, literals) for a in args)
        against = data.get("cotangents", [])
        if not isinstance(against, list):
            raise RecipeError("a case's 'cotangents' are a list of literal tensors and nulls")
        cotangents = tuple(recipe.decode(c, literals) for c in against)
        if not all(c is None or isinstance(c, recipe.Literal) for c in cotangents):
            raise RecipeError("a case's 'cotangents' are a list of literal tensors and nulls")
        layout = data.get("cotangent_layout", "")
        if not isinstance(layout, str) or layout not in COTANGENT_LAYOUTS:
            known = ", ".join(COTANGENT_LAYOUTS[1:])
            raise RecipeError(
                f"{shown(layout)} is not the layout of a cotangent"
                f"{did_you_mean(str(layout), COTANGENT_LAYOUTS[1:])}; known: {known}"
            )
        window = recipe.position(cotangent)
        tiling = Tiling.from_json(data["tiling"]) if "tiling" in data else None
        return Case(
            operator,
            dtype,
            arguments,
            decoded,
            window,
            source,
            cotangents,
            cotangent_layout=layout,
            tiling=tiling,
        )

    @staticmethod
    def from_line(line: str, literals: Mapping[str, bytes] | None = None) -> Case:
        """The case in one line of JSON. Raises RecipeError."""
        try:
            data = json.loads(line)
        except (
            ValueError,
            RecursionError,
        ) as error:  # ValueError: also integers of thousands of digits
            raise RecipeError(f"not a case: {str(error)[:120]} in {line[:60]!r}") from None
        return Case.from_json(data, literals)


@dataclass(frozen=True, slots=True)
class Output:
    """One returned tensor: ``out/0`` (a return value), ``arg/0`` (an argument written in place) or
    ``grad/0``.

    ``tensor`` is on the CPU; None for a gradient that is None or a return value that is not a
    tensor (``value``).
    """

    name: str
    tensor: torch.Tensor | None
    dtype: str = ""
    device: str = "cpu"
    value: Any = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a backend did with a case: ``status`` is ``ok``, ``raised``, or a verdict of its own
    such as ``fallback``.

    ``unsteady`` describes other runs of the same call that ended differently; empty if none are
    known. ``state_changes`` says which global state of its process the backend changed
    (``torch.get_default_dtype(): torch.float32 → torch.float64``). ``contract`` is None where it
    was not observed: nothing is compared then.
    """

    status: OutcomeStatus
    outputs: tuple[Output, ...] = ()
    exception: str = ""
    message: str = ""
    warnings: tuple[str, ...] = ()
    modified: tuple[int, ...] = ()
    seconds: float = 0.0
    unsteady: str = ""
    state_changes: tuple[str, ...] = ()
    contract: Contract | None = None

    @property
    def ok(self) -> bool:
        """Whether the call returned, on the backend itself."""
        return self.status == OutcomeStatus.OK


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


_SENTENCES = frozenset(
    {
        "lost-write", "duplicates-dropped", "biased-variance", "zero-sign-lost", "beta-zero-kept",
        "index-base", "float32-integers",
        "output-padding-zero", "crossed-bounds", "rounded-toward-zero", "masked-by-product",
        "written-beyond", "indices-ignored", "other-side", "mask-incomplete",
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


@dataclass(frozen=True, slots=True)
class Result:
    """One case × one backend × one direction, judged.

    ``metrics`` maps names to numbers: ``rho_max`` (× budget), ``ulp_max``, ``scaled_max`` (×
    G·u·S), ``rmse_ratio`` (to the CPU in the same dtype) and others. ``worst`` names the worst
    element, where there is one. ``recorded_id`` is the recording's own id of an outcome that was
    recorded elsewhere. ``known``: where the verdict is ``known``, by which entry. ``proof`` is
    what was certified of the worst element, where the result fails by its numbers. ``detail`` holds
    as data what ``explanation`` says beside the numbers; the sentence itself is for people only.
    """

    case: Case
    backend: str
    direction: str
    verdict: Verdict
    explanation: str
    metrics: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    family: str = ""
    worst: Worst | None = None
    output: str = ""
    shapes: tuple[str, ...] = ()
    comparison: Comparison | None = None
    sha256: str = ""
    evidence: Evidence | None = None
    recorded_id: str = ""
    known: Known | None = None
    proof: Proof | None = None
    detail: Detail | None = None

    def __repr__(self) -> str:
        where = f"{self.operator} {self.dtype} {self.direction} on {self.backend}"
        told = self.explanation.removeprefix(self.verdict.value).lstrip(": ")
        return one_line(f"<Result {where}: {self.verdict.value}, {told}>", MAX_REPR)

    @property
    def cause(self) -> str:
        """The id of the fault that explains a failure, such as ``tf32-inputs``, or the stage
        (``translation``, ``runtime``) at which it arises; empty if neither was found."""
        if self.evidence is None:
            return ""
        if self.evidence.cause is not None:
            return self.evidence.cause.name
        return self.evidence.origin.stage if self.evidence.origin is not None else ""

    @property
    def share(self) -> float:
        """How much of the error the cause explains, 0 … 1."""
        return (
            self.evidence.cause.share
            if self.evidence is not None and self.evidence.cause is not None
            else 0.0
        )

    @property
    def workaround(self) -> str:
        """The change that made the divergence vanish; empty if none did."""
        trials = self.evidence.trials if self.evidence is not None else {}
        return next((words for words, rho in trials.items() if rho <= 1.0), "")

    @property
    def operator(self) -> str:
        return self.case.operator

    @property
    def dtype(self) -> str:
        return self.case.dtype

    @property
    def key(self) -> tuple[str, str, str]:
        """The identity of a result within a run: case, backend, direction."""
        return (self.case.id, self.backend, self.direction)


def kind(result: Result) -> tuple[str, ...]:
    """The kind of a failure: similar failures share it, and one example of each is enough for a
    person."""
    return (result.operator, result.dtype, result.direction, result.backend, result.verdict.value)
