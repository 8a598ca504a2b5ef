"""The reference: the operator in float64 on the same inputs, and S, the magnitude of the summed
terms.

A :class:`Reference` is built once per case and direction and serves every backend. S is computed
only when an error exceeds what correct rounding explains, because it takes more runs of the
operator.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..backends.base import collect, failed
from ..backends.batched_factors import one_thread
from ..core import bits, dtypes
from ..core.model import Case, Outcome, Output
from ..core.recipe import Literal, TensorRecipe, tensors
from ..core.verdict import OutcomeStatus
from ..generate.materialize import Adjust, Arguments, Materials, leaves, prepare
from ..generate.value_classes import EXACT_CLASSES
from ..operators.common_form import common_form, in_common_form, order_of, placed
from ..operators.declare import Operator
from .converted_integers import converted
from .input_numbers import InputNumbers
from .magnitudes import MAGNITUDES, Magnitudes, floats, of_owners, unsigned, without_special_values
from .moved_gradients import without_moved
from .perturbation import largest
from .proofs import Proofs
from .written_integers import are_computed_otherwise

LARGE = 1 << 15  # numbers from which on S is worth avoiding; fewer have the exact maximum
# Families whose tensors of whole numbers are terms and factors: elementwise kernels, but for those
# that take exponents, and products.
_ARITHMETIC = frozenset({"binary", "comparison", "inplace", "ternary", "unary"})
_PRODUCTS = frozenset({"convolution", "matmul"})
_OF_EXPONENTS = ("float_power", "ldexp", "pow")
# Beside these families, functions of rows and losses whose whole numbers are no classes.
_OF_OPERANDS = frozenset(
    {"cdist", "cumulative_trapezoid", "dist", "trapezoid"}
    | {
        f"nn.functional.{name}"
        for name in (
            "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
            "cosine_similarity", "gaussian_nll_loss", "huber_loss", "kl_div", "l1_loss",
            "margin_ranking_loss", "mse_loss", "pairwise_distance", "poisson_nll_loss",
            "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss",
        )
    }
)  # fmt: skip
_REJECTIONS = (RuntimeError, ValueError, IndexError, NotImplementedError, ZeroDivisionError)


def _decisive(case: Case) -> str:
    """The case's dtype, or the complex one that belongs to it where another tensor is complex: so
    is the result, and errors are relative to its modulus."""
    if case.dtype in dtypes.PARTS or not any(t.dtype in dtypes.PARTS for t in case.tensors):
        return case.dtype
    return dtypes.beside(case.dtype)


def _call(
    operator: Operator, arguments: Arguments, backward: bool, absolute: bool = False
) -> tuple[Output, ...]:
    """The operator on float64 arguments on torch's CPU, in this process.

    ``absolute`` takes the absolute values of Python numbers; those of tensors were taken when they
    were built, so that in-place operators write to the original.
    """
    function = operator.reference or operator

    def call(args: Any, kwargs: Any) -> Any:
        if absolute:
            return function(*unsigned(args, False), **unsigned(kwargs, False))
        return function(*args, **kwargs)

    outputs = collect(call, operator, arguments, backward)
    return tuple([_resolve_lazy_bits(output) for output in outputs])


def _adjust_others(
    excluded: tuple[int, ...], adjust: Adjust, base: torch.Tensor, position: int
) -> torch.Tensor:
    return base if position in excluded else adjust(base, position)


def _resolve_lazy_bits(output: Output) -> Output:
    """With torch's lazy conjugate and negative bits resolved."""
    tensor = output.tensor
    if tensor is None or not (tensor.is_conj() or tensor.is_neg()):
        return output
    return replace(output, tensor=tensor.resolve_conj().resolve_neg())


class Reference(InputNumbers):
    """The float64 outcome of one case in one direction; S, n and G are computed on demand.

    ``outcome`` is the raw float64 :class:`Outcome`; ``outputs`` are the quantities to compare
    (after the operator's ``observe`` hook). ``tails`` are, per output, corrections to add to the
    float64 values (from a more precise reference), or None. ``independent`` is False if the
    reference is only the CPU's own computation in the tested dtype. ``verified`` is None unless
    elements were proved, and then says how many (empty: all of them). Build and use a Reference
    under :func:`quiet`, because torch's warnings are passed through.
    """

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        self.operator, self.materials, self.direction = operator, materials, direction
        self.verified: str | None = None
        self.integers_too = False  # whether integers were made float64 before the call
        self.by_numpy = False  # whether NumPy computed all outputs
        # By output and precision (judge.error_scale):
        self.error_models: dict[tuple[int, int], float | tuple[float, float, float]] = {}
        # By output: formula distance, usual RMS error, widening (own_steps.py):
        self.of_steps: dict[int, tuple[float, float, float]] = {}
        # By output: its numbers, and whether they repeat (judge.measurement):
        self.repeated: dict[int, tuple[Any, bool]] = {}
        # By output: flattened arrays that comparisons share (judge.elements):
        self.flattened: dict[int, tuple[Any, ...]] = {}
        self.dtype = _decisive(materials.case)
        self.model = operator.error.of(self.dtype)
        wide = operator.reference_dtype
        self.independent = (
            dtypes.floats(materials.case.dtype)
            and materials.case.dtype not in ("float64", "complex128")
            if wide is not None
            else operator.reference is not None
        )
        backward = direction == "backward"
        arguments = materials.build(wide, gradients=backward and operator.leaves)
        as_computed = converted(operator, materials, [t.ndim for t in arguments.tensors])
        if as_computed is not materials:
            self.materials = as_computed
            arguments = as_computed.build(wide, gradients=backward and operator.leaves)
        try:
            self.outcome = Outcome(OutcomeStatus.OK, _call(operator, arguments, backward))
        except Exception as error:  # reported as a case without a reference
            self.outcome = failed(error)
        if not backward and not operator.mutates:
            self.arguments = arguments
        fractions = any(o.tensor is not None and floats(o.tensor) for o in self.outcome.outputs)
        whole = fractions and not dtypes.floats(materials.case.dtype)
        if whole and not are_computed_otherwise(operator, materials):
            self._float_integers()
        self.outputs: tuple[Output, ...] = self.observed(self.outcome.outputs)
        flags = [
            o.tensor for o in self.outputs if o.tensor is not None and o.tensor.dtype == torch.bool
        ]
        if "random" in operator.traits and flags and len(flags) == len(self.outputs):
            # Checks of a random operator must all be True, whatever was drawn here.
            self.independent = True
            self.outputs = tuple(
                replace(o, tensor=torch.ones_like(f))
                for o, f in zip(self.outputs, flags, strict=True)
            )
        self.tails: tuple[torch.Tensor | None, ...] = (None,) * len(self.outputs)

    def _float_integers(self) -> None:
        """For integer inputs and float results, which torch computes in float32: start again from
        float64 inputs."""
        try:
            arguments = self.materials.build("float64", integers_too=True)
            self.outcome = Outcome(OutcomeStatus.OK, _call(self.operator, arguments, False))
            self.independent = self.integers_too = True
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return  # the operator takes integers only: keep its own result as the reference

    @functools.cached_property
    def proofs(self) -> Proofs:
        """The proved elements of this reference."""
        return Proofs(self)

    def observed(self, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        """The quantities to compare in place of ``outputs``: those that the operator determines
        uniquely; floating-point ones in float64."""
        hook = (
            self.operator.observe_gradients
            if self.direction == "backward"
            else self.operator.observe
        )
        if hook is None or not outputs:
            return outputs
        wide = [
            o.tensor if o.tensor is None or not floats(o.tensor) else _widen(o.tensor)
            for o in outputs
        ]
        observations = hook(*self.hook_arguments, tuple(wide))
        dtype = next(
            (o.dtype for o in outputs if dtypes.floats(o.dtype)), self.materials.case.dtype
        )
        return tuple(
            Output(
                outputs[i].name if i < len(outputs) else f"seen/{i}",
                tensor,
                outputs[i].dtype if i < len(outputs) and dtypes.floats(outputs[i].dtype) else dtype,
            )
            for i, tensor in enumerate(observations)
        )

    @functools.cached_property
    def hook_arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in the one form that hooks of the declaration see."""
        return common_form(self.operator, self.arguments.args, self.arguments.kwargs)

    def terms(self, index: int) -> float:
        """n: the number of terms accumulated into one element of output ``index``."""
        if index not in self._terms:
            self._terms[index] = self._count_terms(index)
        return self._terms[index]

    def counted(self, index: int) -> float:
        """n if already computed, else 0."""
        return self._terms.get(index, 0.0)

    @functools.cached_property
    def _terms(self) -> dict[int, float]:
        return {}

    def _count_terms(self, index: int) -> float:
        forward = self.forward_outputs
        if not forward:
            return 1.0
        n = max(float(self.model.terms(*self.hook_arguments, forward)), 1.0)
        if self.direction == "forward":
            return n
        # All products of the forward pass, spread over the elements of this gradient.
        gradient = self.outcome.outputs[index].tensor
        if self.operator.family == "foreach" and len(self.outputs) % len(forward) == 0:
            forward = (forward[index % len(forward)],)  # the result at the same place
        spread = max(
            n
            * sum(o.numel() for o in forward)
            / max(gradient.numel() if gradient is not None else 1, 1),
            1.0,
        )
        if self.model.moves:  # each cotangent is added once at most
            spread = min(spread, float(max(sum(o.numel() for o in forward), 1)))
        if self._adds_cotangents:
            spread = max(spread, self._most_cotangents(index))
        # If the intermediates are themselves sums, each term has the error of such a sum.
        return max(spread, n) if "through-sums" in self.operator.traits else spread

    @property
    def _adds_cotangents(self) -> bool:
        """Whether gradients are sums of cotangents, as they come or, between two neighbors of a
        quantile, in shares."""
        return self.model.moves or (
            self.operator.family == "sorting" and self.model.kind == "accumulated"
        )

    def _most_cotangents(self, index: int) -> float:
        """How many cotangents the element of a gradient adds up that adds most of them, as of a row
        that is read again and again: the gradient of cotangents of 1. 0 where they are literal."""
        if self.materials.case.cotangents:
            return 0.0
        first = len(self.materials.bases)
        ones = self.evaluate(
            lambda base, position: torch.ones_like(base) if position >= first else base
        )
        counts = ones[index].tensor if index < len(ones) else None
        return largest(counts.abs()) if counts is not None else 0.0

    @functools.cached_property
    def forward_outputs(self) -> tuple[torch.Tensor, ...]:
        """The raw float64 tensors of the forward pass."""
        outputs = (
            self.outcome.outputs
            if self.direction == "forward"
            else _call(self.operator, self.materials.build("float64"), False)
        )
        return tuple(o.tensor for o in outputs if o.tensor is not None)

    def growth(self, index: int) -> float:
        """G(n) for varied data: √n for blocked or pairwise sums, n for sequential ones."""
        n = self.terms(index)
        return n if self.model.growth == "linear" else math.sqrt(n)

    @functools.cached_property
    def low_entropy(self) -> bool:
        """As InputNumbers; also where cotangents that are all one number are moved and added, or
        averaged: they are the terms then."""
        case = self.materials.case
        constant = case.cotangent_layout in ("expanded", "constant")
        averaged = "linear" in self.operator.traits and len(case.tensors) == 1
        added = self.direction == "backward" and (self._adds_cotangents or averaged)
        return (constant and added) or super().low_entropy

    @functools.cached_property
    def magnitudes(self) -> Magnitudes:
        """S per output: a float64 tensor of its shape, one number for all elements, or None if the
        error model has no S.

        Elements that no NaN or infinity among the inputs reaches have the S of the other inputs;
        those of gradients that were only moved have none.
        """
        magnitudes = without_special_values(self, self._magnitudes())
        return (
            without_moved(self, magnitudes)
            if self.model.moves and self.direction == "backward"
            else magnitudes
        )

    @functools.cached_property
    def magnitude_below(self) -> torch.Tensor | float | None:
        """What the S of a large call is nowhere below, and costs less; None where the error model
        has no such bound, or an input holds NaN or infinities."""
        below = self.model.below
        if below is None or self.direction == "backward" or len(self.outputs) != 1:
            return None
        if self.input_size <= LARGE or self.holds_special_values:
            return None
        raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
        least = below(*self.hook_arguments, raw)
        assert isinstance(least, (torch.Tensor, float))
        return least

    def _magnitudes(self) -> Magnitudes:
        kind = self.model.magnitude if self.direction == "forward" else self.model.backward
        count = len(self.outputs)
        if callable(kind) and (ordered := self._in_common_order) is not None:
            other, places = ordered
            own, theirs = (
                leaves(each.materials.case, each.operator.leaves) for each in (self, other)
            )
            sizes = dict(zip((places[n] for n in theirs), other._magnitudes(), strict=True))
            return tuple(sizes[n] for n in own)
        ways = callable(kind) or bool(self.arguments.shared)
        if ways and (whole := self._with_every_leaf) is not None:
            # Error models give S of every gradient, in the order of the arguments, and what comes
            # through memory in several ways may cancel.
            asked, every = (
                leaves(each.materials.case, self.operator.leaves) for each in (self, whole)
            )
            return of_owners(
                self.materials.case.tensors,
                dict(zip(every, whole._magnitudes(), strict=True)),
                asked,
            )
        if not callable(kind):
            return MAGNITUDES[kind](self, count)
        raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
        with one_thread(self.operator, self.arguments):
            magnitude = kind(*self.hook_arguments, raw)
        if isinstance(magnitude, str):  # no closed form for these arguments
            return MAGNITUDES[magnitude](self, count)
        if isinstance(magnitude, torch.Tensor) and not magnitude.requires_grad:
            return (magnitude,) * count
        magnitude = (
            tuple(magnitude) if isinstance(magnitude, (tuple, list)) else (magnitude,) * count
        )
        return tuple(m.detach() if isinstance(m, torch.Tensor) else m for m in magnitude)

    @functools.cached_property
    def _in_common_order(self) -> tuple[Reference, list[int]] | None:
        """The same call in the form that hooks see, where its gradients come in another order (an
        operand that is given by name stands behind the others), and where each of its tensors
        stands here."""
        case = self.materials.case
        if self.direction == "forward" or not case.kwargs or self.arguments.shared:
            return None
        places = order_of(self.operator, case)
        if places is None:
            return None
        back = [places.index(place) for place in range(len(places))]
        operator = placed(self.operator, back)
        ordered = in_common_form(self.operator, case)
        return Reference(operator, prepare(ordered), self.direction), places

    @functools.cached_property
    def _with_every_leaf(self) -> Reference | None:
        """The same with the gradients that the case does not ask for, of tensors with memory of
        their own; None where it asks for all, or where they have none."""
        case = self.materials.case
        if self.direction == "forward" or all(tensor.leaf for tensor in case.tensors):
            return None
        every: list[TensorRecipe | Literal] = []
        bases = list(self.materials.bases)
        for number, tensor in enumerate(case.tensors):
            other = replace(tensor, leaf=True)
            if isinstance(other, TensorRecipe):
                other = replace(other, shared=False)
                if tensor.dtype in self.promoted_integers:  # it has a gradient as a fraction has
                    other = replace(other, dtype="float64")
                    bases[number] = bases[number].astype(np.float64)
            every.append(other)
        materials = replace(self.materials, case=case.with_tensors(every), bases=tuple(bases))
        whole = Reference(self.operator, materials, self.direction)
        return whole if whole.outcome.status is OutcomeStatus.OK else None

    def evaluate(self, adjust: Adjust | None, *, absolute: bool = False) -> tuple[Output, ...]:
        """The outputs with inputs changed by ``adjust``; empty if the operator rejects the changed
        inputs. Integer-valued inputs such as a degree stay unchanged."""
        try:
            return self.observed(self.recomputed(adjust, absolute=absolute))
        except _REJECTIONS:
            # A changed argument left the operator's domain, such as a probability above 1.
            return ()

    def recomputed(self, adjust: Adjust | None, *, absolute: bool = False) -> tuple[Output, ...]:
        """The same, before the operator's ``observe`` hook. Raises what the operator raises."""
        backward = self.direction == "backward"
        if adjust is not None and self.operator.whole:
            adjust = functools.partial(_adjust_others, self.operator.whole, adjust)
        arguments = self.materials.build(
            "float64", gradients=backward and self.operator.leaves, adjust=adjust,
            integers_too=self.promoted_integers if adjust is not None else False,
        )  # fmt: skip
        return _call(self.operator, arguments, backward, absolute)

    @functools.cached_property
    def promoted_integers(self) -> tuple[str, ...]:
        """The dtypes of whole numbers that are terms and factors like the fractions beside them;
        those of other operators are indices, sizes and exponents."""
        used = {tensor.dtype for tensor in self.materials.case.tensors}
        floating, whole = any(map(dtypes.floats, used)), used.intersection(dtypes.INTEGRAL)
        name, family = self.operator.ruled_by
        if family == "unary":  # of which none takes a mask
            whole |= used.intersection({"bool"})
        elementwise = family in _ARITHMETIC and "elementwise" in self.operator.traits
        takes = elementwise and not name.startswith(_OF_EXPONENTS)
        takes |= name in _OF_OPERANDS or family in _PRODUCTS
        return tuple(whole) if floating and takes else ()

    @functools.cached_property
    def exact_integers(self) -> bool:
        """Whether all inputs are small integers whose partial sums are exact in the tested
        dtype."""
        recipes = [*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs)]
        if not self.model.integers_exact or self.direction == "backward":
            return False
        are_integers = all(
            isinstance(t, TensorRecipe) and t.values[0] in EXACT_CLASSES and not t.special
            for t in recipes
        )
        form = dtypes.form_of(self.materials.case.dtype)
        if (
            not are_integers
            or form is None
            or any(isinstance(v, (float, complex)) for v in self.materials.case.kwargs.values())
        ):
            return False
        sizes = [
            float(m.abs().max()) if isinstance(m, torch.Tensor) and m.numel() else 0.0
            for m in self.magnitudes
        ]
        # A complex product may be computed from three real products of sums of parts.
        factor = 4.0 if self.dtype in dtypes.PARTS else 1.0
        return factor * max(sizes, default=0.0) <= 2.0**form.precision

    @functools.cached_property
    def without_nan(self) -> tuple[tuple[Output, ...], ...]:
        """For operators that select an extreme: the outputs with NaN inputs as −∞ and as +∞."""
        if "extremum" not in self.operator.traits or self.direction == "backward":
            return ()
        return tuple(
            self.evaluate(functools.partial(_nan_as, value)) for value in (-math.inf, math.inf)
        )

    def flushed(self) -> tuple[Output, ...] | None:
        """The outputs with subnormal inputs flushed to zero; None if no input is subnormal."""
        form = dtypes.FORMATS.get(self.materials.case.dtype)
        if form is None:
            return None
        tiny = form.smallest_normal
        if not any(bits.holds_subnormals(base, tiny) for base in self.materials.bases):
            return None
        return self.evaluate(
            lambda base, position: torch.where(base.abs() < tiny, base * 0.0, base)
        )

    def flushed_terms(self) -> tuple[Output, ...]:
        """What the terms with subnormal inputs add up to in a sum of products, all of one sign:
        vector code may flush them where the scalar code behind it does not. Empty for other
        operators."""
        kind = self.model.magnitude if self.direction == "forward" else self.model.backward
        form = dtypes.FORMATS.get(self.materials.case.dtype)
        if kind != "products" or form is None:
            return ()
        tiny = form.smallest_normal
        every, others = (
            self.evaluate(adjust, absolute=True)
            for adjust in (
                lambda base, position: base.abs(),
                lambda base, position: torch.where(base.abs() < tiny, 0.0, base.abs()),
            )
        )
        return tuple(
            Output(a.name, a.tensor - b.tensor, a.dtype)
            for a, b in zip(every, others, strict=True)
            if a.tensor is not None and b.tensor is not None
        )


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def _nan_as(value: float, base: torch.Tensor, position: int) -> torch.Tensor:
    return torch.where(torch.isnan(base), value, base)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence warnings of torch and NumPy about the reference computations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            yield
