"""The operator in float64 on a case's inputs, and on changed ones: what a reference is computed
with, and what S, n and the checks of single results are measured with."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from ..backends.base import collect
from ..core import bits, dtypes
from ..core.model import Outcome, Output
from ..generate.materialize import Adjust, Arguments, Materials
from ..operators.common_form import common_form
from ..operators.declare import Operator
from ..operators.error_model import ErrorModel
from .input_numbers import InputNumbers
from .magnitudes import floats, unsigned

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


class ChangedInputs(InputNumbers):
    """The outputs of one case in one direction, with its inputs as they are or changed.

    ``outcome`` is the raw float64 :class:`Outcome`; ``outputs`` are the quantities to compare;
    ``model`` is the operator's error model for the dtype that decides, ``dtype``.
    """

    dtype: str
    model: ErrorModel
    outcome: Outcome
    outputs: tuple[Output, ...]

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        self.operator, self.materials, self.direction = operator, materials, direction

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

    def alternatives(self, index: int) -> Iterator[torch.Tensor]:
        """Other admissible results for an output of a discontinuous operator, forwards."""
        hook = self.operator.alternatives
        if hook is None or self.direction != "forward":
            return
        raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
        for outputs in hook(*self.hook_arguments, raw):
            yield torch.as_tensor(outputs[index])

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
        if adjust is not None:
            self.check_range(arguments)
        return called(self.operator, arguments, backward, absolute)

    def check_range(self, changed: Arguments) -> None:
        """Raises ValueError where numbers left the format that LAPACK is given: it may end the
        process where it meets infinities."""
        if self.operator.family == "linalg" and not _finite(changed) and _finite(self.arguments):
            raise ValueError("numbers leave the format, and LAPACK is not given infinities")

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
    def without_nan(self) -> tuple[tuple[Output, ...], ...]:
        """For operators that select an extreme: the outputs with NaN inputs as −∞ and as +∞."""
        if "extremum" not in self.operator.traits or self.direction == "backward":
            return ()
        return tuple(
            self.evaluate(functools.partial(_nan_as, value)) for value in (-math.inf, math.inf)
        )

    def flushed(self) -> tuple[Output, ...] | None:
        """The outputs with subnormal inputs, each by its own format, flushed to zero; None if no
        input is subnormal."""
        limit = self._smallest_normal()
        if limit is None:
            return None
        tensors = zip(self.materials.case.tensors, self.materials.bases, strict=True)
        if not any(
            bits.holds_subnormals(base, tensor.dtype, limit(position))
            for position, (tensor, base) in enumerate(tensors)
        ):
            return None
        return self.evaluate(
            lambda base, position: torch.where(base.abs() < limit(position), base * 0.0, base)
        )

    def _smallest_normal(self) -> Callable[[int], float] | None:
        """That of each tensor's format, by its position, or of the case's where it has none and for
        the cotangents behind them; None if the case has none."""
        tensors, own = self.materials.case.tensors, dtypes.FORMATS.get(self.materials.case.dtype)
        if own is None:
            return None

        def of(position: int) -> float:
            name = tensors[position].dtype if position < len(tensors) else ""
            return (dtypes.FORMATS.get(name) or own).smallest_normal

        return of

    def flushed_terms(self) -> tuple[Output, ...]:
        """What the terms with subnormal inputs add up to in a sum of products, all of one sign:
        vector code may flush them where the scalar code behind it does not. Empty for other
        operators."""
        kind = self.model.magnitude if self.direction == "forward" else self.model.backward
        limit = self._smallest_normal()
        if kind != "products" or limit is None:
            return ()
        every, others = (
            self.evaluate(adjust, absolute=True)
            for adjust in (
                lambda base, position: base.abs(),
                lambda base, position: torch.where(base.abs() < limit(position), 0.0, base.abs()),
            )
        )
        return tuple(
            Output(a.name, a.tensor - b.tensor, a.dtype)
            for a, b in zip(every, others, strict=True)
            if a.tensor is not None and b.tensor is not None
        )


def called(
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


def _finite(arguments: Arguments) -> bool:
    return all(bool(x.isfinite().all()) for x in arguments.args if isinstance(x, torch.Tensor))


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


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


def _nan_as(value: float, base: torch.Tensor, position: int) -> torch.Tensor:
    return torch.where(torch.isnan(base), value, base)
