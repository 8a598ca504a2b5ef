"""Window functions against the formulas of the documentation in 500 bits."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import pytest
import torch
from enclosing import BITS, holds, tight

from consistency.reference.certified import balls
from consistency.reference.certified.nodes import everything
from consistency.reference.certified.windows import window


def frac(text: str) -> Any:
    value = Fraction(text)
    return mpmath.mpf(value.numerator) / value.denominator


def cosines(*texts: str) -> Callable[[Any, Any, Any], Any]:
    return lambda n, steps, length: sum(
        (-1) ** i * frac(a) * mpmath.cos(2 * mpmath.pi * i * n / steps) for i, a in enumerate(texts)
    )


TABLE: dict[str, tuple[dict[str, Any], Callable[[Any, Any, Any], Any]]] = {
    "bartlett": ({}, lambda n, steps, length: 1 - abs(2 * n / mpmath.mpf(steps) - 1)),
    "blackman": ({}, cosines("0.42", "0.5", "0.08")),
    "hamming": ({}, cosines("0.54", "0.46")),
    "hann": ({}, cosines("0.5", "0.5")),
    "nuttall": ({}, cosines("0.3635819", "0.4891775", "0.1365995", "0.0106411")),
    "general_cosine": ({"a": [0.5, 0.25, 0.25]}, cosines("0.5", "0.25", "0.25")),
    "general_hamming": ({"alpha": 0.75}, cosines("0.75", "0.25")),
    "cosine": ({}, lambda n, steps, length: mpmath.sin(mpmath.pi * (n + mpmath.mpf(1) / 2) / (steps + 1))),
    "exponential": ({"tau": 3.0}, lambda n, steps, length: mpmath.exp(-abs(n - mpmath.mpf(steps) / 2) / 3)),
    "gaussian": ({"std": 2.5}, lambda n, steps, length: mpmath.exp(-(((n - mpmath.mpf(steps) / 2) / mpmath.mpf(2.5)) ** 2) / 2)),
    "kaiser": (
        {"beta": 8.5},
        lambda n, steps, length: (
            mpmath.besseli(0, mpmath.mpf(8.5) * mpmath.sqrt(1 - (2 * n / mpmath.mpf(steps) - 1) ** 2))
            / mpmath.besseli(0, mpmath.mpf(8.5))
        ),
    ),
}


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("name", TABLE)
def test_windows_are_the_documented_ones(name: str, sym: bool) -> None:
    given, of = TABLE[name]
    for length in (2, 3, 8, 33):
        with balls.precision(128):
            node = window(name, length, sym=sym, **given)
            assert node is not None
            found = everything(node)
        with mpmath.workprec(BITS):
            truth = [of(n, length - 1 if sym else length, length) for n in range(length)]
        assert all(holds(x, t, 1.0) for x, t in zip(found, truth, strict=True))
        assert tight([x for x, t in zip(found, truth, strict=True) if abs(t) > 1e-100]) == 1.0
        theirs = getattr(torch.signal.windows, name)(length, sym=sym, dtype=torch.float64, **given)
        assert all(abs(float(x) - y) < 1e-14 for x, y in zip(found, theirs.tolist(), strict=True))


def test_one_point_is_1_and_ends_may_be_0() -> None:
    with balls.precision(128):
        for name, (given, _) in TABLE.items():
            node = window(name, 1, **given)
            assert node is not None
            assert everything(node).tolist() == [1]
        for name in ("hann", "blackman", "bartlett"):
            node = window(name, 9)
            assert node is not None
            assert everything(node)[0] == 0
        assert window("tukey", 9) is None
