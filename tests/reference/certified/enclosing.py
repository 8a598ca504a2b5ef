"""Nodes of calls of torch, and whether their balls hold what mpmath computes in 500 bits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mpmath
import numpy as np
import torch
from flint import arb

from consistency.reference.certified import balls
from consistency.reference.certified.complex_numbers import Pair
from consistency.reference.certified.nodes import everything
from consistency.reference.certified.rounding import nearest_double
from tests.reference.certified.traces import exactly, followed, gradient_nodes

BITS = 500  # of mpmath's numbers
STEP = 160  # a derivative is the difference over 2⁻¹⁶⁰, which errs by about 2⁻³²⁰


def enclosed(function: Callable[..., Any], *tensors: torch.Tensor, bits: int = 128) -> list[Any]:
    """What ``function`` gives of tensors: flat arrays of elements, real and imaginary parts
    apart."""
    with balls.precision(bits):
        made, trace = followed(function, *tensors)
        made = made if isinstance(made, tuple) else (made,)
        return [everything(part).reshape(-1) for x in made for part in _parts(trace.node(x))]


def enclosed_gradients(
    function: Callable[..., Any],
    cotangents: Sequence[torch.Tensor],
    *tensors: torch.Tensor,
    bits: int = 128,
) -> list[Any]:
    """Gradients of what ``function`` gives against ``cotangents``, as :func:`enclosed` gives
    values."""
    given = iter(cotangents)
    with balls.precision(bits):
        found, _ = gradient_nodes(function, lambda result: next(given), *tensors)
        assert next(given, None) is None
        return [everything(part).reshape(-1) for x in found for part in _parts(x)]


def _parts(x: Any) -> list[Any]:
    return [x.re, x.im] if isinstance(x, Pair) else [x]


def exact(x: Any) -> arb:
    """A number of mpmath's, a fraction or a float as a ball that it surely is in."""
    with balls.precision(2 * BITS):
        if isinstance(x, mpmath.mpf):
            return exactly(x)
        return arb(x)


def holds(ball: Any, truth: Any, scale: float, slack: int = 300) -> bool:
    """Whether a ball holds the truth, which itself is good to ``slack`` bits of ``scale``."""
    with balls.precision(2 * BITS):
        near = exact(truth) + arb(0, arb(scale) * arb(2) ** -slack)
        return bool(balls.ball(ball).overlaps(near))


def tight(elements: Any) -> float:
    """The share of elements that are known well enough for a certificate."""
    known = [nearest_double(x) is not None for x in elements]
    return sum(known) / len(known) if known else 1.0


def numbers(x: torch.Tensor) -> Any:
    """A tensor's matrices as a nested list of numbers of mpmath's."""
    return _nested(x.detach().resolve_conj().numpy())


def _nested(x: Any) -> Any:
    if x.ndim == 0:
        value = x.item()
        return mpmath.mpc(value) if isinstance(value, complex) else mpmath.mpf(value)
    return [_nested(row) for row in x]


def derivatives(
    of: Callable[..., Any], cotangents: Sequence[torch.Tensor], *tensors: torch.Tensor
) -> list[list[Any]]:
    """Of Re Σ conj(cotangent)·result by every part of every number of the arguments, by central
    differences."""
    values = [numbers(t.reshape(-1)) for t in tensors]
    weights = [numbers(g.reshape(-1)) for g in cotangents]
    step = mpmath.mpf(2) ** -STEP

    def total() -> Any:
        made = of(
            *(
                np.array(v, dtype=object).reshape(tuple(t.shape))
                for v, t in zip(values, tensors, strict=True)
            )
        )
        return sum(
            mpmath.re(mpmath.conj(w) * y)
            for ws, ys in zip(weights, made, strict=True)
            for w, y in zip(ws, ys, strict=True)
        )

    found: list[list[Any]] = []
    for which, tensor in enumerate(tensors):
        for unit in (mpmath.mpf(1), mpmath.mpc(0, 1))[: 2 if tensor.is_complex() else 1]:
            part = []
            for i, value in enumerate(values[which]):
                values[which][i] = value + step * unit
                above = total()
                values[which][i] = value - step * unit
                below = total()
                values[which][i] = value
                part.append((above - below) / (2 * step))
            found.append(part)
    return found
