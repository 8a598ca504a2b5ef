"""S of a user's function: the effect of the rounding errors of its own steps on the result.

Each step of a composed function rounds to the format of its result: a softmax written as exp ÷ sum
in float16 rounds four times, torch's own rounds once. Here the steps are replayed in float64 with
an independent random rounding error added to each step's result. The standard deviation σ over such
replays is the effect of healthy rounding on each element (Monte Carlo arithmetic: Parker, Pierce
and Eggert 2000), including cancellation and amplification. The errors are 2⁻²⁰ of real ones, so
that σ is of first order, and the random numbers are always the same (:mod:`.step_noise`).

σ cannot reveal a wrong formula whose error is as small as rounding. Therefore the function is also
evaluated in float64 without rounding, and its distance from the reference in σ goes to the judge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from ..backends.base import collect
from ..core import dtypes
from ..generate.materialize import Arguments, Materials
from ..operators.declare import ErrorModel, Operator, one
from .magnitudes import Magnitudes
from .perturbation import rounding_noise, scale_by_signs, ulp
from .recorded_steps import CastsToFloat64, RecordedSteps, UntraceableError
from .step_noise import KERNEL_ERROR, SHIFT, StepNoise

if TYPE_CHECKING:
    from .error_magnitudes import ErrorMagnitudes

NAME = "own steps"
DTYPES = ("float16", "bfloat16", "float32")
REPLAYS, MIN_REPLAYS = 64, 24
FEW_REPLAYS = 6  # of a derivative that is an operator of its own, in each of its cases
_MAX_ELEMENTS = 1 << 26  # intermediate numbers, beyond which replays would take minutes
_MAX_DRAWN = 1 << 24  # random numbers of all replays, beyond which there are fewer replays
_SAMPLED = 1 << 14  # evenly spaced elements from which the mean square is computed
_SPREAD = 6.0  # standard deviations of the mean square over the replays
_MIN_USUAL_RMS = 1.5  # in σ, because real rounding errors are not quite uniform (ties)
# Largest difference between the replayed steps and the function in float64, relative to the largest
# response to a small change of the inputs.
_MAX_DIFFERENCE = 2.0**-3
# A kernel of somebody's own rounds at other steps than its reference does: × σ of the reference.
_OTHER_STEPS = 3.0
_LIMIT = 5.0  # σ, which own steps are allowed (λ of tolerances.yaml)


@dataclass(frozen=True, kw_only=True)
class Composed(Operator):
    """An operator that is judged by the rounding errors of its own steps.

    ``of_kernel``: the steps are those of a reference, and what is judged is a kernel that computes
    the same in other steps. ``shorter``: the formats that steps round to and that hold fewer digits
    than the case's own.
    """

    of_kernel: bool = False
    shorter: tuple[str, ...] = ()

    @property
    def ruled_by(self) -> tuple[str, str]:
        return NAME, NAME


def as_composed(
    operator: Operator, materials: Materials, *, of_kernel: bool = False
) -> Operator | None:
    """The operator as one that is judged by its own steps; None if it has fewer than two rounding
    steps (as the reference of a kernel, one) or they cannot be traced."""
    if (
        materials.case.dtype not in DTYPES
        or operator.observe is not None
        or operator.alternatives is not None
        or operator.mutates
    ):
        return None
    try:
        steps = RecordedSteps(operator, materials, "forward")
        if (
            steps.rounding < (1 if of_kernel else 2)
            or steps.elements > _MAX_ELEMENTS
            or not _reproduces_function(steps, operator, materials)
        ):
            return None
    except UntraceableError:
        return None
    return Composed(
        name=operator.name, family=operator.family, sample=operator.sample,
        function=operator.callable,
        reference=operator.reference, traits=operator.traits,
        differentiable_inputs=operator.differentiable_inputs,
        error=ErrorModel("accumulated", NAME, one, wide_accumulation=False, backward=NAME),
        of_kernel=of_kernel, shorter=shorter_formats(steps, materials.case.dtype),
    )  # fmt: skip


def shorter_formats(steps: RecordedSteps, dtype: str) -> tuple[str, ...]:
    """The formats that steps round to and that hold fewer digits than ``dtype``."""
    results = [r for step in steps.steps if step.rounds for r in step.results if r is not None]
    formats = {dtypes.name_of(r.dtype) for r in results} & set(dtypes.FORMATS)
    precision = dtypes.FORMATS[dtype].precision
    return tuple(sorted(name for name in formats if dtypes.FORMATS[name].precision < precision))


def _reproduces_function(steps: RecordedSteps, operator: Operator, materials: Materials) -> bool:
    """Whether the replayed steps respond to a small change of the inputs as the function does:
    False where data pass through NumPy."""
    arguments_at, arguments_moved = (
        materials.build("float64", adjust=adjust) for adjust in (None, scale_by_signs)
    )
    results = []
    for arguments in (arguments_at, arguments_moved):
        recorded = steps.replay(arguments)
        results.append((recorded, _in_float64(operator, arguments)))
    (one_recorded, one_called), (other_recorded, other_called) = results
    if not len(one_recorded) == len(one_called) == len(other_called):
        return False
    for a, b, c, d in zip(one_recorded, other_recorded, one_called, other_called, strict=True):
        if (a is None) != (c is None):
            return False
        if a is None or b is None or c is None or d is None:
            continue
        if a.shape != c.shape:
            return False
        recorded_change, called_change = (
            torch.nan_to_num(y - x, nan=0.0, posinf=0.0, neginf=0.0) for x, y in ((a, b), (c, d))
        )
        largest = float(called_change.abs().max()) if called_change.numel() else 0.0
        if recorded_change.numel() and float(
            (recorded_change - called_change).abs().max()
        ) > _MAX_DIFFERENCE * largest + 2.0**-45 * float(torch.nan_to_num(c).abs().max()):
            return False
    return True


def _in_float64(operator: Operator, arguments: Arguments) -> list[torch.Tensor | None]:
    """The function on float64 numbers, with casts to shorter formats replaced by float64."""
    # The function receives only the case's own arguments, not the reference's dtype defaults.
    own = arguments.materials.case.kwargs
    try:
        with torch.no_grad(), CastsToFloat64():  # type: ignore[no-untyped-call]
            outputs = collect(
                lambda args, kwargs: operator(
                    *args, **{k: v for k, v in kwargs.items() if k in own}
                ),
                operator,
                arguments,
                False,
            )
    except Exception as error:  # a user's function may not work under a dispatch mode
        raise UntraceableError(f"{type(error).__name__}: {str(error)[:100]}") from error
    return [
        o.tensor if o.tensor is not None and o.tensor.is_floating_point() else None for o in outputs
    ]


def magnitudes(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    """σ/u of each output; also sets ``reference.of_steps``. Raises UntraceableError."""
    steps = RecordedSteps(reference.operator, reference.materials, reference.direction)
    arguments = reference.materials.build("float64")
    replays = max(MIN_REPLAYS, min(REPLAYS, _MAX_DRAWN // max(steps.elements, 1)))
    of_kernel = isinstance(reference.operator, Composed) and reference.operator.of_kernel
    if of_kernel:
        replays = MIN_REPLAYS
    elif reference.operator.derivative_of is not None:
        replays = FEW_REPLAYS
    noise = StepNoise(replays)
    exact = steps.replay(arguments, noise.measured)
    squares: list[Any] = [None if p is None else torch.zeros_like(p) for p in exact]
    samples: list[list[torch.Tensor]] = [[] for _ in exact]
    for _ in range(replays):
        given = _with_noise(reference, noise.generator) if of_kernel else arguments
        for i, (perturbed, unperturbed) in enumerate(
            zip(steps.replay(given, noise.added), exact, strict=True)
        ):
            if perturbed is not None and unperturbed is not None:
                shift = torch.nan_to_num(
                    (perturbed - unperturbed).div_(SHIFT), nan=0.0, posinf=0.0, neginf=0.0
                )
                squares[i].addcmul_(shift, shift)
                samples[i].append(shift.reshape(-1)[:: max(shift.numel() // _SAMPLED, 1)].clone())
    formula = (
        _in_float64(reference.operator, arguments)
        if _has_own_reference(reference)
        else [None] * len(exact)
    )
    results: list[torch.Tensor | float | None] = []
    for i in range(count):
        if i >= len(exact) or squares[i] is None:
            results.append(None)
            continue
        sigma = (squares[i] / replays).sqrt_()
        tested = reference.outputs[i].tensor
        u = dtypes.FORMATS[_format(steps.outputs[i])].unit_roundoff
        # With few replays σ may be too small by chance: add two standard deviations of σ².
        widening = math.sqrt(1.0 + 2.0 * math.sqrt(2.0 / replays))
        if of_kernel:
            sigma = _of_kernel(sigma, tested)
        if replays > FEW_REPLAYS:  # too few for a statistic
            reference.of_steps[i] = (
                _formula_distance(formula[i], tested, sigma, u),
                _usual_rms(samples[i], sigma),
                widening,
            )
        results.append(sigma * (widening / u))
    return tuple(results)


def _with_noise(reference: ErrorMagnitudes, generator: torch.Generator) -> Arguments:
    """The inputs with a random rounding error each: of the steps within a kernel nothing is known,
    but their effect is about that of inputs that were rounded once more."""
    recipes = reference.materials.case.tensors

    def noisy(base: torch.Tensor, position: int) -> torch.Tensor:
        form = dtypes.form_of(recipes[position].dtype)
        if form is None or not base.is_floating_point():
            return base
        # A kernel computes in float32 at least.
        form = form if form.precision > 24 else dtypes.FORMATS["float32"]
        return base + rounding_noise(generator, base).mul_(ulp(base, form)).mul_(SHIFT)

    return reference.materials.build("float64", adjust=noisy)


def _of_kernel(sigma: torch.Tensor, result: torch.Tensor | None) -> torch.Tensor:
    """σ of a kernel whose reference has ``sigma``: of other steps, computed in float32 at least.
    What the reference does not round stays exact."""
    if result is None or not result.numel():
        return sigma
    size = torch.nan_to_num(result.abs(), nan=0.0, posinf=0.0).max()
    single = dtypes.FORMATS["float32"].unit_roundoff
    of_its_own = (KERNEL_ERROR / _LIMIT) * single * size
    return torch.where(sigma > 0.0, _OTHER_STEPS * sigma + of_its_own, sigma)


def _has_own_reference(reference: ErrorMagnitudes) -> bool:
    return reference.direction == "forward" and reference.operator.reference not in (
        None,
        reference.operator.callable,
    )


def _format(tensor: torch.Tensor | None) -> str:
    name = dtypes.name_of(tensor.dtype) if tensor is not None else ""
    return name if name in dtypes.FORMATS else "float32"


def _formula_distance(
    formula: torch.Tensor | None, tested: torch.Tensor | None, sigma: torch.Tensor, u: float
) -> float:
    """The largest distance of the function in float64 from its reference, in σ of its rounding
    errors in the tested dtype."""
    if formula is None or tested is None or formula.shape != tested.shape or not tested.numel():
        return 0.0
    size = torch.nan_to_num(tested.abs(), nan=0.0, posinf=0.0)
    scale = sigma + u * (0.25 * size + 2.0**-20 * size.max()) + 1e-300
    return float(torch.nan_to_num((formula - tested).abs() / scale, nan=0.0, posinf=0.0).max())


def _usual_rms(samples: list[torch.Tensor], sigma: torch.Tensor) -> float:
    """The largest usual RMS error in σ. Elements of a row share errors, so that it scatters widely
    with few rows."""
    sigma = sigma.reshape(-1)[:: max(sigma.numel() // _SAMPLED, 1)]
    positive = sigma > 0.0
    if not bool(positive.any()):
        return _MIN_USUAL_RMS
    means = torch.stack([(shift[positive] / sigma[positive]).square().mean() for shift in samples])
    return max(_MIN_USUAL_RMS, math.sqrt(1.0 + _SPREAD * float(means.std())))
