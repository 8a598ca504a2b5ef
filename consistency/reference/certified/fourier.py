"""Discrete Fourier transforms: each element is a sum of products with exact roots of unity,
evaluated on demand."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import flint
import numpy as np
from flint import acb, arb, fmpq

from . import balls
from .balls import Element, Elements
from .complex_numbers import Pair, Tensor
from .cyclotomic import vanishes
from .movement import permute, reshape, view
from .nodes import Deadline, Node, Positions

_TERMS = 1 << 22  # of one element; more would take minutes


class Roots:
    """Roots of unity exp(2πi·e/order) in one precision, computed on demand."""

    def __init__(self, order: int) -> None:
        self.order = order
        self._found: dict[int, acb] = {}
        self._angles: dict[tuple[int, int], tuple[arb, arb]] = {}

    def at(self, exponents: list[int]) -> list[acb]:
        roots = self._found
        try:
            return [roots[e] for e in exponents]
        except KeyError:
            for e in set(exponents).difference(roots):
                roots[e] = self._root(e)
            return [roots[e] for e in exponents]

    def _root(self, e: int) -> acb:
        """By symmetry, from an angle of at most π/4."""
        a, b = 2 * e, self.order  # the angle is π·a/b
        below = a > b
        a = 2 * b - a if below else a
        obtuse = 2 * a > b
        a = b - a if obtuse else a
        steep = 4 * a > b
        a, b = (b - 2 * a, 2 * b) if steep else (a, b)
        sine, cosine = self._angle(a, b)
        sine, cosine = (cosine, sine) if steep else (sine, cosine)
        return acb(-cosine if obtuse else cosine, -sine if below else sine)

    def _angle(self, a: int, b: int) -> tuple[arb, arb]:
        common = math.gcd(a, b)
        key = a // common, b // common
        if key not in self._angles:
            self._angles[key] = arb.sin_cos_pi_fmpq(fmpq(*key))
        return self._angles[key]


@functools.lru_cache(maxsize=32)
def roots_of_unity(order: int, bits: int) -> Roots:
    """The roots in the current precision, ``bits``, which is part of the cache key."""
    return Roots(order)


@dataclass(frozen=True)
class TransformPlan:
    """Σⱼ xⱼ·exp(sign·2πi·Σ_d j_d·k_d/period_d) for each k, times ``count`` to the power 0, −½ or
    −1.

    ``taken`` and ``made`` are the numbers of indices j and k per dimension. If one of them is
    ``half`` a spectrum in its last dimension, its elements count twice, for their mirror images,
    except the ends that have none.
    """

    taken: tuple[int, ...]
    made: tuple[int, ...]
    periods: tuple[int, ...]
    sign: int
    half: str = ""
    count: int = 1
    normalization: int = 0

    def adjoint(self) -> TransformPlan:
        half = {"taken": "made", "made": "taken", "": ""}[self.half]
        return replace(self, taken=self.made, made=self.taken, sign=-self.sign, half=half)

    @functools.cached_property
    def order(self) -> int:
        return math.lcm(*self.periods)

    @functools.cached_property
    def steps(self) -> Any:
        """For each flat j, the change of the root's exponent per step of each k."""
        along = np.indices(self.taken).reshape(len(self.taken), -1)
        return along * np.asarray([self.order // p for p in self.periods])[:, None]

    def exponents(self, k: int) -> list[int]:
        at = np.asarray(np.unravel_index(k, self.made))
        result: list[int] = (at @ self.steps % self.order).tolist()
        return result

    def weight(self, side: str, index: int) -> int:
        """How often the element with this flat index counts, on the ``taken`` or ``made`` side."""
        if self.half != side:
            return 1
        last = index % (self.taken if side == "taken" else self.made)[-1]
        return 1 if last == 0 or 2 * last == self.periods[-1] else 2

    def scaled(self, x: arb) -> arb:
        if self.normalization == 0:
            return x
        return x / (arb(self.count).sqrt() if self.normalization == 1 else self.count)


class Transform(Node):
    """Transformed rows of ``parts`` (real, or real and imaginary): B × K × (1 real part or 2
    parts)."""

    def __init__(self, parts: Sequence[Node], plan: TransformPlan, out_parts: int) -> None:
        super().__init__((parts[0].shape[0], math.prod(plan.made), out_parts), parts)
        self.plan = plan
        self._terms_bits = 0
        self._terms: dict[int, tuple[list[int], list[acb]]] = {}  # by row
        self._elements: dict[tuple[int, int], tuple[Element, Element]] = {}  # by row and k

    def _forget(self) -> None:
        """Clear values computed in another precision."""
        if self._terms_bits != flint.ctx.prec:
            self._terms_bits = flint.ctx.prec
            self._terms, self._elements = {}, {}

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        self._forget()
        width = self.inputs[0].shape[1]
        if width * positions.size > _TERMS:
            raise balls.Unknowable("a transform of so many numbers takes too long")
        rows = self._unknown_rows(positions)
        return (rows[:, None] * width + np.arange(width),) * len(self.inputs)

    def _unknown_rows(self, positions: Positions) -> Positions:
        rows = np.unique(positions // (self.shape[1] * self.shape[2])).tolist()
        return np.asarray([b for b in rows if b not in self._terms], dtype=np.int64)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        _, out_size, parts = self.shape
        for i, b in enumerate(self._unknown_rows(positions).tolist()):
            self._terms[b] = self._row([g[i].tolist() for g in given])
        values = []
        for position in positions.tolist():
            place, part = divmod(position, parts)
            b, k = divmod(place, out_size)
            if (b, k) not in self._elements:
                Deadline.check()
                self._elements[b, k] = self._element(*self._terms[b], k, parts)
            values.append(self._elements[b, k][part])
        return values

    def _row(self, parts: list[list[Element]]) -> tuple[list[int], list[acb]]:
        """The indices of the nonzero numbers, and these numbers."""
        indices, numbers = [], []
        for j, xs in enumerate(zip(*parts, strict=True)):
            if xs == (0.0,) or xs == (0.0, 0.0):
                continue
            z = acb(*(balls.ball(x) for x in xs))
            if not z.is_finite():
                raise balls.Unsure("a transform of what is not finite")
            weight = self.plan.weight("taken", j)
            indices.append(j)
            numbers.append(z if weight == 1 else z * weight)
        return indices, numbers

    def _element(
        self, indices: list[int], numbers: list[acb], k: int, parts: int
    ) -> tuple[Element, Element]:
        plan = self.plan
        exponents = plan.exponents(k)
        if plan.sign < 0:
            exponents = [plan.order - e if e else 0 for e in exponents]
        if len(indices) < len(exponents):
            exponents = [exponents[j] for j in indices]
        total = acb(0)
        for z, root in zip(
            numbers, roots_of_unity(plan.order, flint.ctx.prec).at(exponents), strict=True
        ):
            total += z * root
        weight = plan.weight("made", k)
        components = []
        for part, x in enumerate((total.real, total.imag)[:parts]):
            if not x.is_zero() and x.contains(0) and vanishes(numbers, exponents, plan.order, part):
                x = arb(0)
            components.append(plan.scaled(x * weight))
        return components[0], components[-1]

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        strides = gradient.size // max(gradient.shape[0], 1), self.shape[2]
        parts = [view(gradient, gradient.shape[:2], strides, p) for p in range(self.shape[2])]
        adjoint = Transform(parts, self.plan.adjoint(), len(self.inputs))
        return _parts(adjoint)


def _parts(node: Transform) -> list[Node]:
    rows, width, parts = node.shape
    return [view(node, (rows, width), (width * parts, parts), p) for p in range(parts)]


def transform(
    x: Tensor, dims: Sequence[int], made: Sequence[int], periods: Sequence[int], *, sign: int,
    half: str = "",
    count: int, normalization: int, real: bool = False,
) -> Tensor:  # fmt: skip
    """A tensor transformed along ``dims``. ``real``: the result is known to be real."""
    dims = [d % x.ndim for d in dims]
    if len(set(dims)) != len(dims):
        raise balls.Unsure("a dimension is transformed twice")
    batch_dims = [d for d in range(x.ndim) if d not in dims]
    sizes = tuple(x.shape[d] for d in dims)
    plan = TransformPlan(sizes, tuple(made), tuple(periods), sign, half, count, normalization)
    batch = [x.shape[d] for d in batch_dims]
    rows = [
        reshape(permute(part, [*batch_dims, *dims]), (math.prod(batch), math.prod(sizes)))
        for part in ((x.re, x.im) if isinstance(x, Pair) else (x,))
    ]
    inverse_order = np.argsort([*batch_dims, *dims]).tolist()
    results = [
        permute(reshape(part, (*batch, *made)), inverse_order)
        for part in _parts(Transform(rows, plan, 1 if real else 2))
    ]
    return results[0] if real else Pair(*results)
