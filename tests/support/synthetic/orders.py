"""Backends that add in an order that is known: nested tuples of term numbers, evaluated with exact
roundings of their own.

``BIAS`` is the bias. ``((0, 1), 2)`` adds term 2 to the sum of 0 and 1; ``(0, 1, 2)`` adds all
three at once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import torch

import consistency
from consistency import operators
from consistency.probes.summation.trees import Tree

from .rounding import Array, nearest_even, to_odd

BIAS = -1
Nested = Any  # a number, or a tuple of them
keep = nearest_even(24)


def sequential(parts: Iterable[Nested]) -> Nested:
    return functools.reduce(lambda so_far, part: (so_far, part), parts)


def pairwise(parts: Sequence[Nested]) -> Nested:
    parts = list(parts)
    while len(parts) > 1:
        parts = [
            tuple(parts[i : i + 2]) if i + 1 < len(parts) else parts[i]
            for i in range(0, len(parts), 2)
        ]
    return parts[0]


def lanes(n: int, count: int, join: Callable[[Sequence[Nested]], Nested] = pairwise) -> Nested:
    """``count`` running sums that take turns."""
    return join([sequential(range(lane, n, count)) for lane in range(count)])


def blocks(
    n: int, size: int, inner: Callable[[Sequence[Nested]], Nested] = sequential
) -> list[Nested]:
    return [inner(range(start, min(start + size, n))) for start in range(0, n, size)]


def at_once(n: int, count: int, *, with_sum: bool) -> Nested:
    """Additions of ``count`` terms; the running sum is one more, or is added to each group's
    sum."""
    groups = [tuple(range(start, min(start + count, n))) for start in range(0, n, count)]
    groups = [group if len(group) > 1 else group[0] for group in groups]
    if not with_sum:
        return sequential(groups)
    return functools.reduce(
        lambda so_far, group: (so_far, *(group if isinstance(group, tuple) else (group,))), groups
    )


def tree_of(nested: Nested, terms: int, added: int = 0) -> Tree:
    nodes: list[tuple[int, ...]] = []

    def number(part: Nested) -> int:
        if not isinstance(part, tuple):
            return terms if part == BIAS else int(part)
        nodes.append(tuple([number(child) for child in part]))
        return terms + added + len(nodes) - 1

    number(nested)
    return Tree(terms + added, tuple(nodes), added)


class Sums(consistency.Backend):
    """Adds products (``linear``, ``matmul``) and sums of rows by ``choose(terms, rows, columns)``,
    in float32.

    That is one order, or a list of ``(mask [rows, columns], order)``. ``fused``: with FMA, but for
    the products from ``rest`` on.
    """

    def __init__(
        self, choose: Callable[[int, int, int], Any], *, fused: bool = False, rest: int = 1 << 30
    ) -> None:
        self.name, self.choose, self.fused, self.rest = "sums", choose, fused, rest

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        bias = None
        if operator.name == "nn.functional.linear":
            a, b, bias = args[0], args[1].T, args[2]
        elif operator.name == "matmul":
            a, b = args
        elif operator.name == "sum":
            a, b = args[0], None
        else:
            return super().call(operator, args, kwargs)
        if a.dtype != torch.float32:
            return super().call(operator, args, kwargs)
        left = a.double().numpy()[:, None, :]
        right = np.ones((1, 1, a.shape[1])) if b is None else b.double().numpy().T[None]
        shape = (left.shape[0], right.shape[1])
        found = np.zeros(shape)
        chosen = self.choose(a.shape[1], *shape)
        for mask, nested in (
            chosen if isinstance(chosen, list) else [(np.ones(shape, dtype=bool), chosen)]
        ):
            whole = self._value(
                nested, left, right, None if bias is None else bias.double().numpy()[None]
            )
            found[mask] = np.broadcast_to(whole, shape)[mask]
        out = torch.from_numpy(found).float()
        return out[:, 0] if b is None else out

    def _value(self, nested: Nested, left: Array, right: Array, bias: Array | None) -> Array:
        """What a part sums up to, in float64 arrays of float32 numbers; leaves as rounded
        products."""

        def product(part: Nested) -> Array:
            assert isinstance(part, int)
            return np.asarray(bias) if part == BIAS else left[..., part] * right[..., part]

        if not isinstance(nested, tuple):
            return keep(product(nested))
        if len(nested) > 2:
            parts = [
                product(p) if not isinstance(p, tuple) else self._value(p, left, right, bias)
                for p in nested
            ]
            return _exactly_together(parts)
        one, other = nested
        if isinstance(one, int) and (isinstance(other, tuple) or other == BIAS):
            one, other = other, one
        if self.fused and isinstance(other, int) and other != BIAS and other < self.rest:
            return keep(to_odd(self._value(one, left, right, bias), product(other)))
        return keep(
            to_odd(self._value(one, left, right, bias), self._value(other, left, right, bias))
        )


class Convolving(Sums):
    """conv2d, too, as a product of its windows (rows: places, image by image) and its kernels
    (columns)."""

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if operator.name != "nn.functional.conv2d":
            return super().call(operator, args, kwargs)
        x, weight, *rest = args
        bias, stride, padding, dilation = (*rest, *(None, 1, 0, 1)[len(rest) :])
        windows = torch.nn.functional.unfold(x, weight.shape[2:], dilation, padding, stride)
        rows, kernels = windows.transpose(1, 2).reshape(-1, windows.shape[1]), weight.flatten(1)
        if bias is None:
            found = super().call(operators.get("matmul"), [rows, kernels.T], {})
        else:
            found = super().call(operators.get("nn.functional.linear"), [rows, kernels, bias], {})
        high = (x.shape[2] + 2 * padding - dilation * (weight.shape[2] - 1) - 1) // stride + 1
        return found.reshape(len(x), high, -1, len(weight)).permute(0, 3, 1, 2)


def _exactly_together(parts: Sequence[Array]) -> Array:
    """The sum as a fraction, rounded once."""
    stacked = np.stack(np.broadcast_arrays(*parts))
    flat = stacked.reshape(len(parts), -1)
    rounded = [
        _nearest(sum((Fraction(float(x)) for x in column), Fraction(0))) for column in flat.T
    ]
    return np.array(rounded).reshape(stacked.shape[1:])


def _nearest(exact: Fraction) -> float:
    """A fraction as float32, ties to even."""
    if not exact:
        return 0.0
    exponent = abs(exact.numerator).bit_length() - exact.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > abs(exact)
    unit = Fraction(2) ** (exponent - 23)
    return float(round(exact / unit) * unit)
