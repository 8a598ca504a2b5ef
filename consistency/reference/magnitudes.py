"""S, the magnitude of the summed terms, by the names that error models use: ``products``,
``pointwise``, ``normwise`` …"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..core.model import Output
from ..core.recipe import Literal, TensorRecipe, owner
from .float32_magnitudes import is_large, upper_bound
from .perturbation import change_signs, largest, responses, scale_one, shift_by_norm

if TYPE_CHECKING:
    from .error_magnitudes import ErrorMagnitudes

_FACTORS = frozenset({"alpha", "beta", "value", "divisor_override"})

Magnitudes = tuple[torch.Tensor | float | None, ...]


def floats(tensor: torch.Tensor) -> bool:
    """Whether a tensor holds floating-point numbers, real or complex."""
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def unsigned(value: Any, tensors: bool = True) -> Any:
    """Absolute values of floats and, with ``tensors``, of floating-point tensors, in nested lists,
    tuples and dictionaries.

    Complex numbers become real, because a sum of moduli bounds either part. Integers, which may be
    dimensions, stay unchanged, except in arguments that are factors (``alpha=-1``).
    """
    if isinstance(value, torch.Tensor):
        return value.abs() if tensors and floats(value) and not value.requires_grad else value
    if isinstance(value, (float, complex)):
        return abs(value)
    if isinstance(value, (tuple, list)):
        return type(value)(unsigned(item, tensors) for item in value)
    if isinstance(value, dict):
        return {
            key: abs(item) if key in _FACTORS and type(item) is int else unsigned(item, tensors)
            for key, item in value.items()
        }
    return value


def _moduli(outputs: Sequence[Output]) -> list[Any]:
    """The absolute values of floating-point outputs, None for others."""
    return [o.tensor.abs() if o.tensor is not None and floats(o.tensor) else None for o in outputs]


def _none(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    return (None,) * count


def _output(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    return tuple(_moduli(reference.outputs))


def _products(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    operator = reference.operator
    plain = operator.observe is None and not operator.mutates and not reference.promoted_integers
    if reference.direction == "forward" and plain:
        # A fast path that builds no new tensors: nearly every matrix product comes here.
        function, arguments = operator.reference or operator, reference.arguments
        kwargs, result = arguments.kwargs, None
        if is_large(reference):
            result = upper_bound(
                reference, function, unsigned(arguments.args, False), unsigned(kwargs, False)
            )
        if result is None:
            args = [*map(unsigned, arguments.args)]
            result = function(*args, **(unsigned(kwargs) if kwargs else {}))
        if isinstance(result, torch.Tensor):
            return (result.abs() if result.is_complex() else result,) * count
    outputs = reference.evaluate(lambda base, position: base.abs(), absolute=True)
    if len(outputs) != count:
        return _output(reference, count)
    sizes = tuple(_moduli(outputs))
    if reference.direction == "forward":
        return sizes
    # No sum is larger than that of its terms' moduli, unless torch wrote these to another place, as
    # its gradient of `gather` by an expanded index does (docs/findings.md).
    return tuple(
        torch.fmax(s, o) if s is not None and o is not None and s.shape == o.shape else s
        for s, o in zip(sizes, _moduli(reference.outputs), strict=True)
    )


def _pointwise(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    """|result| + Σ over inputs of |response| to a relative change of that input, per unit of
    change."""
    total = _moduli(reference.outputs)
    inputs = len(reference.materials.bases) + (reference.direction == "backward")
    for chosen in range(inputs):
        for i, response in enumerate(responses(reference, functools.partial(scale_one, chosen))):
            if total[i] is not None and response is not None:
                total[i] = total[i] + torch.nan_to_num(response, nan=0.0, posinf=0.0)
    if reference.direction == "backward":
        return tuple(_reduced_floor(reference, i, s) for i, s in enumerate(total))
    return tuple(total)


def _reduced_floor(reference: ErrorMagnitudes, index: int, magnitude: Any) -> Any:
    """The largest magnitude for all elements, if broadcasting made the gradient a sum, whose terms
    may cancel. Other signs of the cotangents show the size of the terms."""
    forward = reference.forward_outputs
    if magnitude is None or not forward or not magnitude.numel():
        return magnitude
    # Of lists, each gradient belongs to the result at the same place.
    lists = len(reference.outputs) % len(forward) == 0
    its_own = forward[index % len(forward) if lists else 0]
    if magnitude.numel() >= its_own.numel():
        return magnitude
    resigned = (
        reference.evaluate(
            functools.partial(change_signs, pattern, len(reference.materials.bases))
        )[index]
        for pattern in range(3)
    )
    return max(
        largest(magnitude),
        _scale(reference),
        *(largest(o.tensor.abs()) for o in resigned if o.tensor is not None),
    )


def _scale(reference: ErrorMagnitudes) -> float:
    """The largest absolute element of any output."""
    return max(
        (largest(o.tensor.abs()) for o in reference.outputs if o.tensor is not None), default=0.0
    )


def _normwise(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    """max |ref| plus the largest responses of any element to perturbations of the inputs relative
    to their norms, per unit of perturbation."""
    sums: list[Any] = [
        largest(o.tensor.abs()) if o.tensor is not None and floats(o.tensor) else None
        for o in reference.outputs
    ]
    for pattern in range(3):
        for i, response in enumerate(
            responses(reference, functools.partial(shift_by_norm, pattern))
        ):
            if sums[i] is not None and response is not None:
                sums[i] += largest(response)
    return tuple(sums)


def _own_steps(reference: ErrorMagnitudes, count: int) -> Magnitudes:
    """The effect of the rounding errors of a function's own steps; if these cannot be traced, the
    function's sensitivity to its inputs."""
    from .own_steps import magnitudes
    from .recorded_steps import UntraceableError

    try:
        return magnitudes(reference, count)
    except UntraceableError:
        return _normwise(reference, count)


MAGNITUDES: dict[str, Callable[[ErrorMagnitudes, int], Magnitudes]] = {
    "": _none,
    "output": _output,
    "products": _products,
    "pointwise": _pointwise,
    "normwise": _normwise,
    "own steps": _own_steps,
}


def without_special_values(reference: ErrorMagnitudes, magnitudes: Magnitudes) -> Magnitudes:
    """``magnitudes``, with the S of zeros in place of NaN and infinities among the inputs where
    theirs is not a number, or left out as one: an infinity that a transform cuts off is no
    summand."""
    if not reference.holds_special_values or all(_settled(m) for m in magnitudes):
        return magnitudes
    materials = reference.materials.without_special_values
    finite = type(reference)(reference.operator, materials, reference.direction)
    if not finite.outcome.ok:
        return magnitudes
    others = finite.magnitudes
    if len(others) != len(magnitudes):
        return magnitudes
    return tuple(_mended(m, other) for m, other in zip(magnitudes, others, strict=True))


def of_owners(
    recipes: Sequence[TensorRecipe | Literal],
    magnitudes: Mapping[int, torch.Tensor | float | None],
    asked: Sequence[int],
) -> Magnitudes:
    """The S of the gradients at the positions ``asked``: each with those of the tensors in its
    memory, through which gradients go, too; the largest one where they are viewed otherwise."""
    owned = {position: owner(recipes, position) for position in magnitudes}
    sums = []
    for position in asked:
        total = magnitudes[position]
        for other, first in owned.items():
            size = magnitudes[other]
            if first != position or total is None or size is None:
                continue
            if isinstance(size, torch.Tensor) and not (
                isinstance(total, torch.Tensor) and total.shape == size.shape
            ):
                size = largest(size)
            total = total + size
        sums.append(total)
    return tuple(sums)


def _settled(magnitude: torch.Tensor | float | None) -> bool:
    if isinstance(magnitude, torch.Tensor):
        return bool((magnitude.isfinite() & (magnitude != 0.0)).all())
    return magnitude is None or (math.isfinite(magnitude) and magnitude != 0.0)


def _mended(
    magnitude: torch.Tensor | float | None, other: torch.Tensor | float | None
) -> torch.Tensor | float | None:
    if isinstance(magnitude, torch.Tensor) and other is not None:
        if isinstance(other, torch.Tensor) and other.shape != magnitude.shape:
            return magnitude
        return torch.where(magnitude.isfinite() & (magnitude != 0.0), magnitude, other)
    return magnitude if _settled(magnitude) else other
