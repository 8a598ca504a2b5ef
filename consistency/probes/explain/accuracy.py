"""Two algorithms of one function, told apart by their errors: how many ulp each errs, and for which
inputs they differ most. For what sums no terms, or sums them out of the reach of probes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...core.dtypes import FORMATS, spacing
from ...core.text import format_factor, format_percent

MIN_ELEMENTS = 64  # below, quarters of the inputs are too few to compare
GROWTH = 4.0  # times: by less, errors do not depend on the size of the input
DIGITS = {"float64": 17, "float32": 9, "float16": 5, "bfloat16": 4}


@dataclass(frozen=True)
class Accuracy:
    """The error of a result in ulp of the reference: ``largest``, its root mean square, and the
    share of elements that are rounded correctly (at most half an ulp)."""

    largest: float
    rms: float
    rounded: float

    def __str__(self) -> str:
        return (
            f"at most {format_factor(self.largest)} ulp (RMS {format_factor(self.rms)}, "
            f"{format_percent(self.rounded)} correctly rounded)"
        )


@dataclass(frozen=True)
class TwoAlgorithms:
    """The accuracies of both results, and sentences about where they differ."""

    sides: tuple[Accuracy, Accuracy]
    where: tuple[str, ...] = ()

    def lines(self, names: tuple[str, str]) -> Iterator[str]:
        a, b = self.sides
        yield f"Two algorithms: {names[0]} errs by {a}; {names[1]} by {b}."
        yield from (f"  {sentence}" for sentence in self.where)


def two_algorithms(
    tensors: Sequence[torch.Tensor],
    expected: torch.Tensor,
    dtype: str,
    inputs: Mapping[str, torch.Tensor],
    names: tuple[str, str],
) -> TwoAlgorithms | None:
    """None for what is no floating-point number. ``expected``: the reference, float64. ``inputs``
    by name: those of the shape of the result say for which numbers they differ."""
    form = FORMATS.get(dtype)
    if form is None or not all(t.is_floating_point() for t in (*tensors, expected)):
        return None
    right = np.ascontiguousarray(expected.detach().double().reshape(-1).numpy())
    found = [np.ascontiguousarray(t.detach().double().reshape(-1).numpy()) for t in tensors]
    with np.errstate(all="ignore"):
        ulp = spacing(right, form, np.empty_like(right))
        errors = [np.where(values == right, 0.0, np.abs(values - right) / ulp) for values in found]
        finite = np.isfinite(right) & np.isfinite(found[0]) & np.isfinite(found[1])
    if not finite.any():
        return None
    sides = [_accuracy(error[finite]) for error in errors]
    where = _where(found, right, errors, finite, tensors[0], dtype, inputs, names)
    return TwoAlgorithms((sides[0], sides[1]), tuple(where))


def _accuracy(error: np.ndarray) -> Accuracy:
    return Accuracy(
        float(error.max()), float(np.sqrt(np.square(error).mean())), float((error <= 0.5).mean())
    )


def _where(
    found: Sequence[np.ndarray],
    right: np.ndarray,
    errors: Sequence[np.ndarray],
    finite: np.ndarray,
    like: torch.Tensor,
    dtype: str,
    inputs: Mapping[str, torch.Tensor],
    names: tuple[str, str],
) -> Iterator[str]:
    gap = np.where(finite, np.abs(errors[0] - errors[1]), -1.0)
    worst = int(gap.argmax())
    if gap[worst] <= 0.0:
        return
    index = ", ".join(str(int(i)) for i in np.unravel_index(worst, tuple(like.shape)))
    digits = DIGITS.get(dtype, 17)
    alike = {name: t for name, t in inputs.items() if t.shape == like.shape}
    of = [f"{name} = {float(t.reshape(-1)[worst]):.{digits}g}" for name, t in alike.items()]
    at = f"at [{index}]" + (f", {', '.join(of)}" if of else "")
    values = " and ".join(f"{values[worst]:.{digits}g}" for values in found)
    yield f"Furthest apart {at}: {values}; float64 says {right[worst]:.{digits}g}."
    for name, tensor in alike.items():
        yield from _growth(name, tensor, errors, finite, names)


def _growth(
    name: str,
    tensor: torch.Tensor,
    errors: Sequence[np.ndarray],
    finite: np.ndarray,
    names: tuple[str, str],
) -> Iterator[str]:
    """Whether the errors of a side are larger for the larger, or for the smaller, inputs."""
    sizes = np.abs(tensor.detach().double().reshape(-1).numpy())
    usable = finite & np.isfinite(sizes)
    if int(usable.sum()) < MIN_ELEMENTS:
        return
    low, high = np.quantile(sizes[usable], (0.25, 0.75))
    for side, error in zip(names, errors, strict=True):
        small = _rms(error[usable & (sizes <= low)])
        large = _rms(error[usable & (sizes >= high)])
        if large > GROWTH * max(small, 0.25):
            yield f"{side} errs more for large {name}: {_quarters(large, small, high, low, name)}."
        elif small > GROWTH * max(large, 0.25):
            yield (
                f"{side} errs more for small {name}: RMS {format_factor(small)} ulp where |{name}| "
                f"≤ {low:.3g}, {format_factor(large)} where |{name}| ≥ {high:.3g}."
            )


def _quarters(large: float, small: float, high: float, low: float, name: str) -> str:
    return (
        f"RMS {format_factor(large)} ulp where |{name}| ≥ {high:.3g}, {format_factor(small)} where "
        f"|{name}| ≤ {low:.3g}"
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.square(values).mean())) if values.size else math.nan
