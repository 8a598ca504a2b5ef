"""Window functions of signal processing: from a length alone to numbers between 0 and 1. And the
frequencies of the bins of a transform."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from ..core.recipe import DType
from .declare import (
    FLOAT,
    FLOATS,
    Call,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .hooks import Tensors, hook


def window(**options: tuple[Any, ...]) -> Sample:
    """Up to 257 points, seldom none, symmetric or periodic; each option takes one of its values, or
    is left out where None is among them."""

    def sample(d: Drawing) -> Call:
        chosen = {name: d.choice(*values) for name, values in options.items()}
        given = {name: value for name, value in chosen.items() if value is not None}
        size = d.choice(d.size(1, 257), d.size(1, 257), d.size(1, 257), 2, 1, 0)
        return call(size, **given, **({} if d.flag() else {"sym": False}), dtype=DType(d.dtype))

    return sample


def older(**options: tuple[Any, ...]) -> Sample:
    """The same of the functions without a module, which are periodic unless they are told not to
    be: ``periodic`` in the place of ``sym``."""

    def sample(d: Drawing) -> Call:
        drawn = window(**options)(d)
        given = {name: value for name, value in drawn.kwargs.items() if name != "sym"}
        if len(given) > 1:  # the overloads with more options have none without this one
            return call(*drawn.args, d.flag(), **given)
        return call(*drawn.args, *([] if d.flag() else [False]), **given)

    return sample


def hamming(d: Drawing) -> Call:
    """The second weight can be given beside the first one only."""
    weights: dict[str, tuple[Any, ...]] = {"alpha": (0.5, 0.75), "beta": (0.25,)}
    return older(**dict(list(weights.items())[: d.choice(0, 1, 2)]))(d)


def exponential(d: Drawing) -> Call:
    """A center can be given for periodic ones only."""
    drawn = window(tau=(None, 0.5, 3.0))(d)
    if drawn.kwargs.get("sym", True) or d.flag():
        return drawn
    return call(*drawn.args, **drawn.kwargs, center=d.choice(0.0, 3.0))


def frequencies(d: Drawing) -> Call:
    """Of up to 257 bins, whose distance is a power of two or none. Shrinks towards one bin."""
    spacing = d.choice(None, 0.5, 3.0, 0.1, -2.0)
    return call(
        d.choice(d.size(1, 257), d.size(1, 257), 2, 1),
        **({} if spacing is None else {"d": spacing}),
        dtype=DType(d.dtype),
    )


@hook
def of_bins(outputs: Tensors, *_: Any, **__: Any) -> torch.Tensor:
    """i·(1/(n·d)), of which the distance, the product, the quotient are rounded as well."""
    return 4.0 * outputs[0].abs()


@hook
def of_angle(
    outputs: Tensors, size: Any, *_: Any, a: Sequence[float] = (), alpha: float = 0.5,
    beta: float = 0.0, **__: Any,
) -> torch.Tensor:  # fmt: skip
    """Terms of at most 1, or of the weights that are given, of arguments up to 2π (or a few
    deviations), that are rounded before the function is taken; of exponents up to ``beta``."""
    weights = max(sum(map(abs, a)), abs(alpha) + abs(1.0 - alpha), 1.0)
    s = 8.0 * weights + abs(beta)
    return torch.full_like(outputs[0], s if math.isfinite(s) else 8.0)


@hook
def of_position(
    outputs: Tensors, size: Any, *_: Any, tau: float = 1.0, std: float = 1.0, **__: Any
) -> torch.Tensor:
    """Exponents made of positions up to half the length, in units of the width, each rounded."""
    width = min(abs(tau), abs(std), 1.0) or 1.0
    return torch.full_like(outputs[0], 8.0 + 0.5 * float(size) / width)


WINDOWS: dict[str, Sample] = {
    "bartlett": window(),
    "blackman": window(),
    "cosine": window(),
    "exponential": exponential,
    "gaussian": window(std=(None, 2.0, 7.5)),
    "general_cosine": window(a=([0.5, 0.25, 0.25], [0.46, 0.23, 0.31])),
    "general_hamming": window(alpha=(None, 0.5, 0.75)),
    "hamming": window(),
    "hann": window(),
    "kaiser": window(beta=(None, 1.0, 8.6)),
    "nuttall": window(),
}
OLDER: dict[str, Sample] = {
    "bartlett_window": older(),
    "blackman_window": older(),
    "hamming_window": hamming,
    "hann_window": older(),
    "kaiser_window": older(beta=(None, 1.0, 8.6)),
}


def op(name: str, sample: Sample, error: ErrorModel, dtypes: tuple[str, ...] = FLOAT) -> Operator:
    return Operator(
        name=name,
        family="signal",
        sample=sample,
        error=error,
        dtypes=dtypes,
        differentiable=False,
        traits=frozenset({"constant"}),
    )


ANGLES, POSITIONS = accumulated(of_angle, one), accumulated(of_position, one)
BINS = accumulated(of_bins, one, wide_accumulation=False)
OPERATORS = [
    *(
        op(
            f"signal.windows.{name}",
            sample,
            POSITIONS if name in ("exponential", "gaussian") else ANGLES,
        )
        for name, sample in WINDOWS.items()
    ),
    *(op(name, sample, ANGLES) for name, sample in OLDER.items()),
    op("fft.fftfreq", frequencies, BINS, FLOATS),
    op("fft.rfftfreq", frequencies, BINS, FLOATS),
]
