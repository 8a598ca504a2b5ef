"""Which elements of a drawn tensor hold NaN, infinities and the other special values.

Operators that treat single numbers name the special values of their domain. Of all others, which
accumulate, NaN and infinities are owed as much: what float64 makes of them on the same input, in
every element. A share of their tensors therefore holds some, too.
"""

from __future__ import annotations

from typing import Protocol

from ..core import dtypes
from ..operators.declare import Domain, Operator

# Of the tensors one in so many holds special values.
_SHARE, _SHARE_OF_EXTREMA, _SHARE_OF_SUMS = 5, 8, 5
MOST_IN_A_ROW = 8


class Choices(Protocol):
    """What :func:`special_values` draws from: a :class:`.strategies.Draw`."""

    def choice(self, *options: str) -> str: ...

    def integer(self, low: int, high: int) -> int: ...


def special_values(
    choices: Choices, operator: Operator | None, domain: Domain, dtype: str, elements: int
) -> tuple[tuple[int, str], ...]:
    """Positions in the base of a tensor with ``elements`` numbers, and the values there.

    They stand alone, at the beginning, at the end, or in a row. Shrinks towards none, then towards
    one at the beginning.
    """
    # A formula may multiply with zeros what its function leaves out, and 0 · NaN is NaN.
    formula = operator is not None and operator.family == "formulas"
    tokens = domain.specials or (() if formula else domain.propagated)
    if not tokens or not elements or not dtypes.floats(dtype):
        return ()
    if not domain.specials:
        share = _SHARE_OF_SUMS
    elif operator is not None and "extremum" in operator.traits:
        share = _SHARE_OF_EXTREMA  # one NaN hides all other numbers
    else:
        share = _SHARE
    if choices.integer(1, share) < share:
        return ()
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
