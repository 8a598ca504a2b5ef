"""The reference: the operator in float64 on the same inputs, and S, the magnitude that was actually summed.

A :class:`Reference` is made once per case and direction and serves every backend. S is computed only when an error exceeds
what correct rounding explains, because it costs further runs of the operator.
"""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from . import dtypes
from .backends.base import collect, failed
from .materialise import Adjust, Arguments, Materials
from .model import Outcome, Output
from .operators.declare import Operator
from .recipe import TensorRecipe, tensors
from .values import EXACT_CLASSES

# Relative size of the perturbations that measure sensitivity: far above float64's rounding, far below any curvature.
_STEP = 2.0**-28
_LOW_ENTROPY = 16


def _absolute(value: Any, tensors: bool = True) -> Any:
    if isinstance(value, torch.Tensor):
        return value.abs() if tensors and value.dtype.is_floating_point and not value.requires_grad else value
    if isinstance(value, float):
        return abs(value)
    if isinstance(value, (tuple, list)):
        return type(value)(_absolute(item, tensors) for item in value)
    if isinstance(value, dict):
        return {key: _absolute(item, tensors) for key, item in value.items()}
    return value


def _call(operator: Operator, arguments: Arguments, backward: bool, absolute: bool = False) -> tuple[Output, ...]:
    """The operator on float64 arguments, without the shields of a backend: this is our own process and torch's CPU.

    ``absolute`` is about numbers only: tensors were adjusted when they were built, and a copy would not be written in place.
    """
    function = operator.reference or operator
    if not absolute:
        return collect(lambda args, kwargs: function(*args, **kwargs), operator, arguments, backward)
    return collect(lambda args, kwargs: function(*_absolute(args, False), **_absolute(kwargs, False)), operator, arguments, backward)


class Reference:
    """The float64 outcome of one case in one direction, with S, n and G on demand.

    ``outcome`` is the raw float64 :class:`Outcome`; ``outputs`` are the quantities to compare (after the operator's ``observe``
    hook). ``tails`` hold, per output, what must be added to the float64 value to come closer to the truth (from a wider
    reference), or None. ``independent`` is False where nothing but the reference's own computation stands behind it.
    Warnings that torch gives on the way pass through: make and use a Reference under :func:`quiet`.
    """

    def __init__(self, operator: Operator, materials: Materials, direction: str) -> None:
        self.operator, self.materials, self.direction = operator, materials, direction
        self.independent = materials.case.dtype in dtypes.FORMATS and materials.case.dtype != "float64"
        backward = direction == "backward"
        arguments = materials.build("float64", gradients=backward and operator.leaves)
        try:
            self.outcome = Outcome("ok", _call(operator, arguments, backward))
        except Exception as error:  # then the case has no reference, and that is what is reported
            self.outcome = failed(error)
        if not backward and not operator.mutates:
            self.arguments = arguments
        if materials.case.dtype not in dtypes.FORMATS and any(o.tensor is not None and _floats(o.tensor) for o in self.outcome.outputs):
            self._float_integers()
        self.outputs: tuple[Output, ...] = self.observed(self.outcome.outputs)
        self.tails: tuple[torch.Tensor | None, ...] = (None,) * len(self.outputs)

    def _float_integers(self) -> None:
        """Integers in, floats out: torch computes such results in float32, so the reference must start from float64 inputs."""
        try:
            arguments = self.materials.build("float64", integers_too=True)
            self.outcome = Outcome("ok", _call(self.operator, arguments, False))
            self.independent = True
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return  # an operator that takes integers only: its own result stays the reference

    @functools.cached_property
    def arguments(self) -> Arguments:
        """The case's arguments in float64, untouched by any operator."""
        return self.materials.build("float64")

    def observed(self, outputs: tuple[Output, ...]) -> tuple[Output, ...]:
        """What is compared in place of ``outputs``: the operator's unique quantities, in float64 where they float."""
        hook = self.operator.observe_gradients if self.direction == "backward" else self.operator.observe
        if hook is None or not outputs:
            return outputs
        wide = [o.tensor if o.tensor is None or not _floats(o.tensor) else _widen(o.tensor) for o in outputs]
        seen = hook(tuple(self.arguments.args), self.arguments.kwargs, tuple(wide))
        dtype = next((o.dtype for o in outputs if o.dtype in dtypes.FORMATS), self.materials.case.dtype)
        return tuple(
            Output(
                outputs[i].name if i < len(outputs) else f"seen/{i}",
                tensor,
                outputs[i].dtype if i < len(outputs) and outputs[i].dtype in dtypes.FORMATS else dtype,
            )
            for i, tensor in enumerate(seen)
        )

    def terms(self, index: int) -> float:
        """n: how many numbers were accumulated into one element of output ``index``."""
        if index not in self._terms:
            self._terms[index] = self._count_terms(index)
        return self._terms[index]

    @functools.cached_property
    def _terms(self) -> dict[int, float]:
        return {}

    def _count_terms(self, index: int) -> float:
        forward = self.forward_outputs
        if not forward:
            return 1.0
        n = max(float(self.operator.error.terms(tuple(self.arguments.args), self.arguments.kwargs, forward)), 1.0)
        if self.direction == "forward":
            return n
        # All products of the forward direction, spread over the elements of this gradient.
        gradient = self.outcome.outputs[index].tensor
        return max(n * sum(o.numel() for o in forward) / max(gradient.numel() if gradient is not None else 1, 1), 1.0)

    @functools.cached_property
    def forward_outputs(self) -> tuple[torch.Tensor, ...]:
        """The raw tensors that the operator returns going forward, in float64."""
        outputs = self.outcome.outputs if self.direction == "forward" else _call(self.operator, self.materials.build("float64"), False)
        return tuple(o.tensor for o in outputs if o.tensor is not None)

    def growth(self, index: int) -> float:
        """G(n) for data with some variety: √n for sums in blocks or trees, n for sequential ones."""
        n = self.terms(index)
        return n if self.operator.error.growth == "linear" else math.sqrt(n)

    @functools.cached_property
    def low_entropy(self) -> bool:
        """Whether a long operand holds next to no distinct numbers: then rounding errors add up, and G is n, not √n."""
        for base in self.materials.bases:
            if base.size > _LOW_ENTROPY and base.dtype.kind == "f":
                sample = base[-4096:]
                if np.unique(sample[sample != 0]).size < _LOW_ENTROPY:
                    return True
        recipes = (*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs))
        return any(
            math.prod(t.base) <= _LOW_ENTROPY and any(step[0] == "expand" for step in t.view)
            for t in recipes
            if isinstance(t, TensorRecipe)
        )

    @functools.cached_property
    def magnitudes(self) -> tuple[torch.Tensor | float | None, ...]:
        """S per output: a float64 tensor of its shape, one number for all elements, or None where the model has no S."""
        kind = self.operator.error.magnitude if self.direction == "forward" else self.operator.error.backward
        count = len(self.outputs)
        if callable(kind):
            raw = tuple(o.tensor for o in self.outcome.outputs if o.tensor is not None)
            made = kind(tuple(self.arguments.args), self.arguments.kwargs, raw)
            made = tuple(made) if isinstance(made, (tuple, list)) else (made,) * count
            return tuple(m.detach() if isinstance(m, torch.Tensor) else m for m in made)
        return _MAGNITUDES[kind](self, count)

    def evaluate(self, adjust: Adjust | None, *, absolute: bool = False) -> tuple[Output, ...]:
        """The outputs with inputs changed by ``adjust``; none where the operator refuses the changed inputs."""
        backward = self.direction == "backward"
        arguments = self.materials.build("float64", gradients=backward and self.operator.leaves, adjust=adjust)
        try:
            return self.observed(_call(self.operator, arguments, backward, absolute))
        except (RuntimeError, ValueError, IndexError, NotImplementedError):
            return ()  # a changed argument left the operator's domain, such as a probability above 1

    @functools.cached_property
    def exact_integers(self) -> bool:
        """Whether all inputs are small whole numbers whose partial sums the tested dtype holds exactly."""
        found = [*tensors(self.materials.case.args), *tensors(self.materials.case.kwargs)]
        if not self.operator.error.integers_exact or self.direction == "backward":
            return False
        drawn = all(isinstance(t, TensorRecipe) and t.values[0] in EXACT_CLASSES and not t.special for t in found)
        form = dtypes.FORMATS.get(self.materials.case.dtype)
        if not drawn or form is None or any(isinstance(v, float) for v in self.materials.case.kwargs.values()):
            return False
        sizes = [float(m.abs().max()) if isinstance(m, torch.Tensor) and m.numel() else 0.0 for m in self.magnitudes]
        return max(sizes, default=0.0) <= 2.0**form.precision

    def flushed(self) -> tuple[Output, ...] | None:
        """The outputs when subnormal inputs read as zero; None when there are none among the inputs."""
        form = dtypes.FORMATS.get(self.materials.case.dtype)
        if form is None:
            return None
        tiny = form.smallest_normal
        floating = [b for b in self.materials.bases if b.dtype.kind == "f"]
        with np.errstate(invalid="ignore"):
            if not any(((np.abs(b) < tiny) & (b != 0)).any() for b in floating):
                return None
        return self.evaluate(lambda base, position: torch.where(base.abs() < tiny, base * 0.0, base))


def _floats(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _widen(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.dtype.is_complex else torch.float64)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence torch's and NumPy's remarks about our own float64 computations."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with np.errstate(all="ignore"):
            yield


Magnitudes = tuple[torch.Tensor | float | None, ...]


def _none(reference: Reference, count: int) -> Magnitudes:
    return (None,) * count


def _output(reference: Reference, count: int) -> Magnitudes:
    return tuple(o.tensor.abs() if o.tensor is not None and _floats(o.tensor) else None for o in reference.outputs)


def _products(reference: Reference, count: int) -> Magnitudes:
    operator = reference.operator
    if reference.direction == "forward" and operator.observe is None and not operator.mutates:
        # The quick way, because nearly every result of a matrix product comes through here: no tensors are built anew.
        function = operator.reference or operator
        result = function(*_absolute(tuple(reference.arguments.args)), **_absolute(reference.arguments.kwargs))
        if isinstance(result, torch.Tensor):
            return (result.abs() if result.is_complex() else result,) * count
    outputs = reference.evaluate(lambda base, position: base.abs(), absolute=True)
    if len(outputs) != count:
        return _output(reference, count)
    return tuple(o.tensor.abs() if o.tensor is not None and _floats(o.tensor) else None for o in outputs)


def _pointwise(reference: Reference, count: int) -> Magnitudes:
    """Σ over inputs of |response| to a relative change of that input alone, per unit of change."""
    total: list[Any] = [o.tensor.abs() if o.tensor is not None and _floats(o.tensor) else None for o in reference.outputs]
    inputs = len(reference.materials.bases) + (reference.direction == "backward")
    for chosen in range(inputs):
        for i, response in enumerate(_responses(reference, functools.partial(_grow, chosen))):
            if total[i] is not None and response is not None:
                total[i] = total[i] + torch.nan_to_num(response, nan=0.0, posinf=0.0)
    if reference.direction == "backward":
        return tuple(_reduced_floor(reference, i, s) for i, s in enumerate(total))
    return tuple(total)


def _reduced_floor(reference: Reference, index: int, magnitude: Any) -> Any:
    """Where broadcasting made the gradient a sum, its terms may cancel: take the largest magnitude for all elements.

    What the terms were made of shows when the cotangents get other signs.
    """
    forward = reference.forward_outputs
    if magnitude is None or not forward or magnitude.numel() >= forward[0].numel() or not magnitude.numel():
        return magnitude
    resigned = (reference.evaluate(functools.partial(_resign, pattern, len(reference.materials.bases)))[index] for pattern in range(3))
    return max(_largest(magnitude), _scale(reference), *(_largest(o.tensor.abs()) for o in resigned if o.tensor is not None))


def _resign(pattern: int, cotangent: int, base: torch.Tensor, position: int) -> torch.Tensor:
    """The cotangents all positive, or with signs from the sequences of :func:`_push`."""
    if position != cotangent:
        return base
    return base.abs() if pattern == 0 else _push(pattern, torch.ones_like(base), 0).sub(1.0).sign() * base.abs()


def _scale(reference: Reference) -> float:
    """Root of the number of summed terms × the largest element: what a cancelled sum was made of."""
    largest = [float(torch.nan_to_num(o.tensor.abs(), nan=0.0, posinf=0.0).max())
               for o in reference.outputs if o.tensor is not None and o.tensor.numel()]  # fmt: skip
    return max(largest, default=0.0)


def _normwise(reference: Reference, count: int) -> Magnitudes:
    """max |ref| plus the largest response of any element to perturbations of the inputs' norms, per unit of perturbation."""
    largest: list[Any] = [
        _largest(o.tensor.abs()) if o.tensor is not None and _floats(o.tensor) else None for o in reference.outputs
    ]
    for pattern in range(3):
        for i, response in enumerate(_responses(reference, functools.partial(_push, pattern))):
            if largest[i] is not None and response is not None:
                largest[i] += _largest(response)
    return tuple(largest)


def _responses(reference: Reference, adjust: Adjust) -> list[torch.Tensor | None]:
    """|change of each output| per unit of relative change of the inputs, as float64; None where it cannot be measured."""
    pairs = zip(reference.outputs, reference.evaluate(adjust), strict=False)
    changes = ((before.tensor, after.tensor) for before, after in pairs)
    return [(b - a).abs() / _STEP if a is not None and b is not None and _floats(a) and a.shape == b.shape else None for a, b in changes]


def _grow(chosen: int, base: torch.Tensor, position: int) -> torch.Tensor:
    return base * (1.0 - _STEP) if position == chosen else base


def _push(pattern: int, base: torch.Tensor, position: int) -> torch.Tensor:
    """base + δ·max|base|·(±1), the signs from a fixed, aperiodic sequence (the fractional parts of multiples of √2, √3, √5)."""
    root = math.sqrt((2.0, 3.0, 5.0)[pattern])
    signs = torch.frac(torch.arange(1, base.numel() + 1, dtype=torch.float64) * (root + 0.1 * position)) - 0.5
    return base + _STEP * _largest(base.abs()) * signs.sign()


def _largest(tensor: torch.Tensor) -> float:
    return float(torch.nan_to_num(tensor, nan=0.0, posinf=0.0, neginf=0.0).max()) if tensor.numel() else 0.0


_MAGNITUDES: dict[str, Callable[[Reference, int], Magnitudes]] = {
    "": _none,
    "output": _output,
    "products": _products,
    "pointwise": _pointwise,
    "normwise": _normwise,
}
