"""Every ball of a Fourier transform holds what the definition gives in 500 bits; gradients and
exact zeros, too."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
import torch
from flint import acb, arb

from consistency.reference.certified import balls
from consistency.reference.certified.cyclotomic import vanishes
from consistency.reference.certified.fourier import roots_of_unity
from tests.reference.certified.enclosing import (
    BITS,
    derivatives,
    enclosed,
    enclosed_gradients,
    exact,
    holds,
    numbers,
    tight,
)

CASES = int(os.environ.get("CERTIFIED_CASES", "3"))  # per function
NORMS: tuple[str, ...] = ("backward", "ortho", "forward")


def spread(
    generator: np.random.Generator, shape: tuple[int, ...], is_complex: bool
) -> torch.Tensor:
    """Numbers of very different size, some of them 0, subnormal or huge."""

    def part() -> Any:
        x = generator.standard_normal(shape) * 2.0 ** generator.integers(-40, 40, shape)
        x = np.where(generator.random(shape) < 0.05, 5e-324 * 3, x)
        x = np.where(generator.random(shape) < 0.02, 1e300, x)
        return np.where(generator.random(shape) < 0.1, 0.0, x)

    return torch.from_numpy(part() + 1j * part() if is_complex else part())


def normal(generator: np.random.Generator, shape: tuple[int, ...], is_complex: bool) -> Any:
    real = generator.standard_normal(shape)
    return real + 1j * generator.standard_normal(shape) if is_complex else real


def transformed(
    x: Any,
    periods: tuple[int, ...],
    sign: int,
    made: tuple[int, ...],
    scale: Any,
    half: bool = False,
) -> list[Any]:
    """Σ x·exp(sign·2πi·Σ jk/period) by the definition; of a half spectrum what is mirrored counts
    twice, as real parts."""
    found = []
    for k in itertools.product(*(range(m) for m in made)):
        total = mpmath.mpc(0)
        for j in itertools.product(*(range(n) for n in x.shape)):
            angle = (
                sum(
                    (Fraction(a * b, p) for a, b, p in zip(j, k, periods, strict=True)), Fraction(0)
                )
                % 1
            )
            turn = mpmath.expjpi(sign * 2 * mpmath.mpf(angle.numerator) / angle.denominator)
            weight = 2 if half and j[-1] and 2 * j[-1] != periods[-1] else 1
            total += x[j] * turn * weight
        found.append((total.real if half else total) * scale)
    return found


def scale_of(norm: str, inverse: bool, count: int) -> Any:
    if norm == "ortho":
        return 1 / mpmath.sqrt(count)
    return 1 / mpmath.mpf(count) if (norm == "backward") == inverse else mpmath.mpf(1)


def case(
    name: str, generator: np.random.Generator, most: tuple[int, int, int] = (24, 6, 4)
) -> tuple[Callable[..., Any], torch.Tensor, Callable[[Any], list[Any]]]:
    """A call of torch, its argument, and the definition in mpmath."""
    rank = 1 if name[-1] not in "2n" else 2 if name[-1] == "2" else int(generator.integers(1, 4))
    sizes = tuple(int(n) for n in generator.integers(2, most[rank - 1], rank))
    norm = NORMS[int(generator.integers(3))]
    base = name.rstrip("2n")
    inverse = "i" in base
    real_in = base in ("rfft", "ihfft") or (
        base in ("fft", "ifft") and bool(generator.random() < 0.3)
    )
    half_in = base in ("irfft", "hfft")
    x = spread(generator, (*sizes[:-1], sizes[-1] // 2 + 1) if half_in else sizes, not real_in)
    made = (*sizes[:-1], sizes[-1] // 2 + 1) if base in ("rfft", "ihfft") else sizes
    options = {"n": sizes[-1]} if half_in and name[-1] == "t" else {"s": sizes} if half_in else {}
    if name[-1] == "n":
        options = {**options, "dim": tuple(range(rank))}

    def of(values: Any) -> list[Any]:
        scale = scale_of(norm, inverse, math.prod(sizes))
        if base == "hfft":
            # the conjugate half spectrum, transformed forwards: as irfft of the conjugate without
            # its scale
            conjugate = np.vectorize(mpmath.conj, otypes=[object])(values)
            return transformed(conjugate, sizes, 1, made, scale, half=True)
        return transformed(values, sizes, 1 if inverse else -1, made, scale, half=half_in)

    return (lambda t: getattr(torch.fft, name)(t, norm=norm, **options)), x, of


FUNCTIONS = [
    base + end
    for base in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    for end in ("", "2", "n")
]


def check(name: str, cases: int, seed: int) -> None:
    generator = np.random.default_rng(seed)
    known = []
    for _ in range(cases):
        function, x, of = case(name, generator)
        with mpmath.workprec(BITS):
            truth = of(np.array(numbers(x.reshape(-1)), dtype=object).reshape(tuple(x.shape)))
        parts = enclosed(function, x, bits=256 if float(x.abs().max()) < 1e200 else 2048)
        scale = 10.0 * float(x.abs().sum()) + 1e-300
        expected = [[mpmath.re(t) for t in truth], [mpmath.im(t) for t in truth]]
        for found, wanted in zip(parts, expected, strict=False):
            assert all(holds(f, w, scale) for f, w in zip(found, wanted, strict=True)), (name, x)
            known += found.tolist()
    assert tight(known) >= 0.99


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_hold_the_definition(name: str) -> None:
    check(name, CASES, FUNCTIONS.index(name))


@pytest.mark.nightly
@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_hold_the_definition_of_many(name: str) -> None:
    check(name, 60, 1000 + FUNCTIONS.index(name))


@pytest.mark.parametrize(
    "name", ["fft", "rfft", "irfft", "hfft", "ihfft", "ifft2", "rfft2", "irfftn"]
)
def test_gradients_are_derivatives_of_the_definition(name: str) -> None:
    generator = np.random.default_rng(7)
    function, x, of = case(name, generator, (7, 4, 3))
    x = torch.from_numpy(normal(generator, tuple(x.shape), x.is_complex()))
    made = function(x)
    g = torch.from_numpy(normal(generator, tuple(made.shape), made.is_complex()))
    with mpmath.workprec(BITS):
        wanted = derivatives(lambda v: [of(v)], [g], x)
    found = enclosed_gradients(function, [g], x)
    for part, truth in zip(found, wanted, strict=True):
        assert all(holds(f, w, 100.0, 250) for f, w in zip(part, truth, strict=True))
        assert tight(part) >= 0.9


@pytest.mark.parametrize("length", [1, 2, 7, 9, 12, 15, 30, 64])
def test_zeros_are_proved(length: int) -> None:
    """A constant has one line; a pure tone has two, whose parts may vanish."""
    re, im = enclosed(torch.fft.fft, torch.full((length,), 0.1, dtype=torch.complex128))
    assert all(x == 0 for x in im)
    assert all(x == 0 for x in re[1:])
    tone = torch.tensor([3.0, -3.0] * length, dtype=torch.float64)
    re, im = enclosed(torch.fft.rfft, tone)
    assert [i for i, x in enumerate(re) if x != 0] == [length]
    assert all(x == 0 for x in im)


def test_what_vanishes_is_told_from_what_is_small() -> None:
    with balls.precision(128):
        one, tiny = arb(1), arb(2) ** -300
        third = [acb(one)] * 3
        assert vanishes(third, [0, 1, 2], 3, 0)
        assert vanishes(third, [0, 1, 2], 3, 1)
        assert not vanishes([acb(one), acb(one), acb(one, tiny)], [0, 1, 2], 3, 0)
        assert not vanishes([acb(arb(1, 1e-30)), acb(one), acb(one)], [0, 1, 2], 3, 0)
        assert vanishes([acb(one), acb(0, one)], [0, 3], 4, 0) is False  # 1 + i·(−i) = 2
        assert vanishes([acb(one), acb(0, -one)], [0, 3], 4, 0)


def test_roots_of_unity_are_those_of_mpmath() -> None:
    for order in (1, 2, 3, 4, 5, 8, 12, 37, 100):
        with balls.precision(128):
            found = roots_of_unity(order, 128).at(list(range(order)))
        for e, z in enumerate(found):
            with mpmath.workprec(BITS):
                truth = mpmath.expjpi(mpmath.mpf(2 * e) / order)
            assert holds(z.real, truth.real, 1.0)
            assert holds(z.imag, truth.imag, 1.0)


def test_only_what_is_asked_for_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One element of a transform needs the elements of its own row and no others."""
    from consistency.reference.certified.nodes import Deadline, evaluate
    from consistency.reference.certified.tracing import CallTrace

    trace = CallTrace()
    x = torch.randn(64, 1096, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    with balls.precision(128):
        with torch.no_grad(), trace:
            node = trace.node(torch.fft.rfft(x))
        spent: list[int] = []
        monkeypatch.setattr(Deadline, "spend", spent.append)
        for row in range(10):
            spent.clear()
            evaluate(node.re, np.array([549 * row + 7]))  # type: ignore[union-attr]
            assert 1096 <= sum(spent) < 4 * 1096
    assert exact(1.5) == 1.5


def test_what_is_not_finite_is_unsure() -> None:
    with pytest.raises(balls.Unsure):
        enclosed(torch.fft.fft, torch.tensor([1.0, math.inf, 2.0], dtype=torch.float64))
