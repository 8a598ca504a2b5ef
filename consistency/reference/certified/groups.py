"""Scatter reductions: the product or an extreme of all elements with the same label."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from . import balls
from .balls import Elements
from .elementwise import div, equal, mul, to_real, where
from .movement import Labels, Scatter, cat, gather, reshape, scatter
from .nodes import Constant, Node, Positions
from .sums import _largest, _product, _smallest

_OF = {"prod": _product, "amax": _largest, "amin": _smallest}


class GroupReduction(Scatter):
    """For each position the product, maximum or minimum (``how``) of the elements with its label,
    of which there must be at least one."""

    def __init__(
        self, how: str, source: Node, labels: Labels | Callable[[], Labels], shape: Sequence[int]
    ) -> None:
        super().__init__(source, labels, shape)
        self.how = how

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        _, starts = self._sorted
        values, results, begin = given[0].tolist(), [], 0
        for count in (starts[positions + 1] - starts[positions]).tolist():
            if not count:
                raise balls.Unknowable("a reduction of nothing")
            results.append(_OF[self.how](values[begin : begin + count]))
            begin += count
        return results

    def pull(self, gradient: Node) -> Sequence[Node | None]:
        """A factor receives the product of the other factors; the gradient of an extreme is shared
        evenly by all elements equal to it, as in torch."""
        source = self.inputs[0]
        if self.how == "prod":
            return (mul(self._spread(gradient), Others(source, self)),)
        is_extreme = where(equal(source, self._spread(self)), 1.0, 0.0)
        return (
            mul(
                is_extreme,
                self._spread(div(gradient, scatter(is_extreme, lambda: self.labels, self.shape))),
            ),
        )

    def _spread(self, per_place: Node) -> Node:
        return gather(per_place, lambda: self.labels, self.inputs[0].shape)


class Others(Node):
    """For each element the product of the other elements with the same label."""

    def __init__(self, source: Node, groups: GroupReduction) -> None:
        super().__init__(source.shape, (source,))
        self.groups = groups

    def _members(self, position: int) -> Labels:
        order, starts = self.groups._sorted
        place = self.groups.labels[position]
        members: Labels = order[starts[place] : starts[place + 1]] if place >= 0 else order[:0]
        others: Labels = members[members != position]
        return others

    def needs(self, positions: Positions) -> tuple[Positions, ...]:
        lists = [self._members(p) for p in positions.tolist()]
        return (np.concatenate(lists) if lists else np.empty(0, dtype=np.int64),)

    def compute(self, positions: Positions, given: Sequence[Elements]) -> Any:
        values, products, begin = given[0].tolist(), [], 0
        for p in positions.tolist():
            count = self._members(p).size
            products.append(_product(values[begin : begin + count]))
            begin += count
        return products


def reduced(
    how: str, below: Node, above: Node, labels: Callable[[], Labels], include_self: bool
) -> Node:
    """``below`` with the elements of ``above`` reduced into the positions ``labels``, with or
    without the previous elements (``include_self``), as torch's ``index_reduce`` does.

    Positions without a label keep their element. A mean counts the previous element if included.
    """
    below, above = to_real(below), to_real(above)

    @functools.cache
    def both() -> Labels:
        own, sources = np.arange(below.size), labels().reshape(-1)
        if not include_self:
            own[sources] = -1
        return np.concatenate([own, sources])

    together = cat([reshape(below, (-1,)), reshape(above, (-1,))], 0)
    if how not in ("sum", "mean"):
        return GroupReduction(how, together, both, below.shape)
    total = scatter(together, both, below.shape)
    return (
        total
        if how == "sum"
        else div(total, scatter(Constant(np.ones(together.shape)), both, below.shape))
    )
