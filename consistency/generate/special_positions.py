"""Which elements of a drawn tensor hold NaN, infinities and the other special values.

Operators that treat single numbers name the special values of their domain. Of all others, which
accumulate, NaN is owed as much: in every element that depends on it, and nowhere else. A share of
their cases therefore holds some, too. Infinities are not drawn there, because sound ways to add
differ: a compensated sum of an infinity is NaN.
"""

from __future__ import annotations

from typing import Protocol

from ..core import dtypes
from ..operators.declare import Domain, Operator

# Of the tensors of a named domain one in so many holds special values.
_SHARE, _SHARE_OF_EXTREMA = 5, 8
# Of twelve accumulating cases one holds NaN in every tensor, one in its first alone, and one in its
# second alone: a sixth of those of one tensor.
_CASES, _EVERY, _FIRST, _SECOND = 12, 12, 11, 10
MOST_IN_A_ROW = 8


class Choices(Protocol):
    """What :class:`SpecialPositions` draws from: a :class:`.strategies.Draw`."""

    def choice(self, *options: str) -> str: ...

    def integer(self, low: int, high: int) -> int: ...


class SpecialPositions:
    """Draws them for the tensors of one case, in the order in which these are drawn."""

    def __init__(self, choices: Choices, operator: Operator | None) -> None:
        self._choices = choices
        self._traits = operator.traits if operator is not None else frozenset()
        # Their steps may multiply with zeros what the function leaves out, and 0 · NaN is NaN.
        families = ("formulas", "derivatives")
        self._is_formula = operator is not None and operator.family in families
        self._accumulating = 0  # tensors that were drawn without named special values
        self._which = 0

    def draw(self, domain: Domain, dtype: str, elements: int) -> tuple[tuple[int, str], ...]:
        """Positions in the base of a tensor with ``elements`` numbers, and the values there.

        They stand alone, at the beginning, at the end, or in a row. Shrinks towards none, then
        towards one at the beginning.
        """
        if not elements or not dtypes.floats(dtype):
            return ()
        if domain.specials:
            # One NaN hides all other numbers among which an extremum is looked for.
            share = _SHARE_OF_EXTREMA if "extremum" in self._traits else _SHARE
            if self._choices.integer(1, share) < share:
                return ()
            return _positions(self._choices, domain.specials, elements)
        tokens = domain.propagated(alone="elementwise" in self._traits)
        if not tokens or self._is_formula or not self._is_chosen():
            return ()
        return _positions(self._choices, tokens, elements)

    def _is_chosen(self) -> bool:
        """Whether the next accumulating tensor of the case holds special values."""
        if not self._accumulating:
            self._which = self._choices.integer(1, _CASES)
        self._accumulating += 1
        return self._which == _EVERY or self._which == {1: _FIRST, 2: _SECOND}.get(
            self._accumulating
        )


def _positions(
    choices: Choices, tokens: tuple[str, ...], elements: int
) -> tuple[tuple[int, str], ...]:
    last = elements - 1
    match choices.choice("alone", "alone", "end", "row"):
        case "end":
            positions = [last]
        case "row":
            first = choices.integer(0, last)
            token = choices.choice(*tokens)
            stop = min(first + choices.integer(2, MOST_IN_A_ROW), elements)
            return tuple((position, token) for position in range(first, stop))
        case _:
            positions = [choices.integer(0, last) for _ in range(choices.integer(1, 3))]
    return tuple((position, choices.choice(*tokens)) for position in positions)
