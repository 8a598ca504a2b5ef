"""What a call promises beside the numbers of its results, as data: what its results share memory
with, their strides, whether they track gradients, and which arguments were written to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

MAX_RETURNED = 1 << 16
MAX_RANK = 64
NONE = -1  # in place of a position: there is none
_LIMIT = 1 << 62

# Kinds of differences: the strides of a view; and of a result with memory of its own those that
# torch's documentation promises, or that only its shape functions state, or that the CPU chose.
STRIDES, DOCUMENTED, STATED = "strides", "documented-strides", "stated-strides"
CHOSEN = "chosen-strides"


@dataclass(frozen=True, slots=True)
class Returned:
    """One returned tensor. Positions of arguments count tensors in materializing order; −1: none.

    ``argument``: the argument that it is, as the same object. ``storage``: the argument whose
    memory it lies in. ``sibling``: the earliest return value with which it shares memory, itself
    (its own position) where there is none. ``strides`` are in elements, −1 for dimensions of one
    element at most, whose strides mean nothing. ``tracks``: whether it requires gradients, and
    ``leaf``, whether it does so without a history.
    """

    argument: int
    storage: int
    sibling: int
    offset: int
    strides: tuple[int, ...]
    tracks: bool = False
    leaf: bool = False


@dataclass(frozen=True, slots=True)
class Contract:
    """What was observed of one call: its return values (None: not a tensor), and the arguments
    whose version counters moved, which is how autograd learns of a write."""

    returned: tuple[Returned | None, ...]
    written: tuple[int, ...] = ()


def contract_to_json(contract: Contract) -> dict[str, Any]:
    """As compact JSON data: one list per return value."""
    rows = [
        None
        if item is None
        else [
            item.argument,
            item.storage,
            item.sibling,
            item.offset,
            int(item.tracks) + 2 * int(item.leaf),
            *item.strides,
        ]
        for item in contract.returned
    ]
    return {"returned": rows, "written": list(contract.written)}


def contract_from_json(data: Any) -> Contract:
    """The contract that parsed JSON describes. Raises KeyError, TypeError or ValueError for invalid
    data."""
    rows, written = data["returned"], data["written"]
    if not isinstance(rows, list) or not isinstance(written, list):
        raise TypeError("a contract holds two lists")
    if max(len(rows), len(written)) > MAX_RETURNED:
        raise ValueError("a contract of too many values")
    return Contract(
        tuple(None if row is None else _returned(row) for row in rows),
        tuple(_position(item, 0) for item in written),
    )


def _returned(row: Any) -> Returned:
    if not isinstance(row, list) or not 5 <= len(row) <= 5 + MAX_RANK:
        raise TypeError("a return value of a contract is a list of whole numbers")
    argument, storage, sibling, offset, flags, *strides = (_position(item, NONE) for item in row)
    return Returned(
        argument, storage, sibling, offset, tuple(strides), bool(flags & 1), bool(flags & 2)
    )


def _position(item: Any, least: int) -> int:
    if type(item) is not int or not least <= item < _LIMIT:
        raise ValueError(f"{item!r:.40} is no position or stride")
    return item
