"""Calls of torch's functions, traced and evaluated; and whether the enclosures hold what an exact
computation gives."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified.complex_numbers import Pair
from consistency.reference.certified.nodes import everything
from consistency.reference.certified.rounding import nearest_double
from tests.reference.certified.traces import followed, gradient_nodes

CASES = int(
    os.environ.get("CONSISTENCY_CERTIFIED_CASES", "60")
)  # elements that are compared per row of a table
NIGHTLY = 10_000
DIGITS = 200

Tensor = torch.Tensor


def numbers(rng: random.Random, shape: Sequence[int], kind: str = "wide") -> Tensor:
    """Exact inputs: over the whole range and below, few different ones with ties, or ordinary
    ones."""

    def wide() -> float:
        which = rng.randrange(8)
        if which == 0:
            return rng.choice(
                (
                    0.0,
                    -0.0,
                    5e-324,
                    -5e-324,
                    2.0**-1022,
                    1.7976931348623157e308,
                    -1.7976931348623157e308,
                    1.0,
                )
            )
        return rng.uniform(-1.0, 1.0) * 2.0 ** rng.randint(-300, 300)

    of = {
        "wide": wide,
        "few": lambda: float(rng.randint(-2, 2)),
        "plain": lambda: rng.uniform(-2.0, 2.0),
    }[kind]
    return torch.tensor([of() for _ in range(math.prod(shape))], dtype=torch.float64).reshape(
        tuple(shape)
    )


def traced(call: Callable[..., Any], *tensors: Any, bits: int = 256) -> list[np.ndarray[Any, Any]]:
    """All elements of all results, in the results' shapes; of complex ones the real parts, then the
    imaginary ones."""
    with balls.precision(bits):
        out, trace = followed(call, *tensors)
        assert not trace.missing, trace.missing
        found: list[np.ndarray[Any, Any]] = []
        for tensor in out if isinstance(out, (list, tuple)) else [out]:
            node = trace.node(tensor)
            found += (
                [everything(node.re), everything(node.im)]
                if isinstance(node, Pair)
                else [everything(node)]
            )
        return found


def slopes(
    call: Callable[..., Tensor], *tensors: Tensor, bits: int = 256
) -> list[np.ndarray[Any, Any]]:
    """Gradients of Σ w·result by every tensor, with w = 1, 2, 3 …"""
    with balls.precision(bits):
        made, trace = gradient_nodes(
            call,
            lambda out: torch.arange(1.0, out.numel() + 1.0).double().reshape(out.shape),
            *tensors,
        )
        assert not trace.missing, trace.missing
        return [everything(g).reshape(tuple(t.shape)) for g, t in zip(made, tensors, strict=True)]


def fractions(tensor: Tensor) -> np.ndarray[Any, Any]:
    """Finite numbers as fractions, in the tensor's shape."""
    made = np.empty(tensor.numel(), dtype=object)
    made[:] = [Fraction(v) for v in tensor.reshape(-1).tolist()]
    return made.reshape(tuple(tensor.shape))


def _exactly(x: arb) -> Fraction:
    mantissa, exponent = x.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def holds(element: Any, truth: Any) -> bool:
    """Whether a ball contains a fraction, or a number of mpmath's but for its own error; other
    elements are compared."""
    if type(element) is not arb:
        if isinstance(truth, mpmath.mpf):
            truth = float(truth)
        return bool(element == truth or (element != element and truth != truth))
    room = Fraction(0)
    if isinstance(truth, mpmath.mpf):
        sign, mantissa, exponent, _ = truth._mpf_
        truth = Fraction(-int(mantissa) if sign else int(mantissa)) * Fraction(2) ** exponent
        room = abs(truth) / 10 ** (DIGITS - 10)
    return (
        element.is_finite()
        and abs(_exactly(element.mid()) - truth) <= _exactly(element.rad()) + room
    )


class Tally:
    """How many enclosures hold the truth, and how many are as narrow as a certificate needs."""

    def __init__(self) -> None:
        self.seen = self.narrow = 0

    def compare(self, found: Any, truth: Any) -> None:
        found, truth = np.asarray(found, dtype=object), np.asarray(truth, dtype=object)
        assert found.shape == truth.shape
        for place, (element, exact) in enumerate(
            zip(found.reshape(-1).tolist(), truth.reshape(-1).tolist(), strict=True)
        ):
            assert holds(element, exact), f"element {place}: {element} does not hold {exact}"
            self.seen += 1
            self.narrow += type(element) is not arb or nearest_double(element) is not None

    def settled(self) -> None:
        assert self.seen
        assert self.narrow >= 0.99 * self.seen, f"{self.narrow} of {self.seen} are narrow"


def check(row: Callable[[random.Random], tuple[Any, Any]], name: str, count: int) -> None:
    """``row`` gives elements and what they are; as often as it takes for so many elements."""
    rng, tally = random.Random(name), Tally()
    while tally.seen < count:
        found, truth = row(rng)
        for one, exact in zip(found, truth, strict=True):
            tally.compare(one, exact)
    tally.settled()


def enclosure_tests(
    rows: Mapping[str, Callable[[random.Random], tuple[Any, Any]]],
) -> tuple[Callable[[str], None], Callable[[str], None]]:
    """Two tests of every row: of some cases, and at night of many."""

    @pytest.mark.parametrize("name", rows)
    def by_day(name: str) -> None:
        check(rows[name], name, CASES)

    @pytest.mark.nightly
    @pytest.mark.parametrize("name", rows)
    def at_night(name: str) -> None:
        check(rows[name], name + " at night", NIGHTLY // 10)

    return by_day, at_night
