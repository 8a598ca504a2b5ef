"""Operators over lists of tensors (``torch._foreach_*``), evaluated tensor by tensor with the entry
of the operator for one tensor."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from .balls import Unsure
from .complex_numbers import Pair
from .movement import view
from .nodes import Node

# Operators for lists whose operator for one tensor has another name.
_ENTRY = {"norm": "linalg_vector_norm"}
# Names of the numbers beside the lists in the schema of the operator for one tensor, if not
# ``other``.
_NUMBER = {
    "addcmul": "value",
    "addcdiv": "value",
    "clamp_min": "min",
    "clamp_max": "max",
    "lerp": "weight",
    "pow": "exponent",
}


def each_of(name: str) -> Callable[[Mapping[str, Any], Any], Any] | None:
    """The entry of ``_foreach_<name>``; None if the operator for one tensor has none."""
    from .entries import ENTRIES, call_entry

    single = ENTRIES.get(_ENTRY.get(name, name))
    if single is None:
        return None
    return functools.partial(_each, functools.partial(call_entry, single), name)


def _each(
    single: Callable[[Mapping[str, Any], Any], Any],
    name: str,
    arguments: Mapping[str, Any],
    result: Any,
) -> Any:
    first = (
        arguments["self"] if isinstance(arguments["self"], (list, tuple)) else arguments["exponent"]
    )  # a number to powers that are a list
    count = len(first)
    results = []
    for i in range(count):
        item_arguments = {
            _singular(name, argument): _at(value, i, count, argument)
            for argument, value in arguments.items()
        }
        results.append(
            single(item_arguments, result[i] if isinstance(result, (list, tuple)) else None)
        )
    return results


def _at(value: Any, i: int, count: int, argument: str) -> Any:
    if isinstance(value, (list, tuple)):
        if len(value) != count:
            raise Unsure(f"lists of {count} and {len(value)}")
        return value[i]
    if (
        argument == "scalars" and isinstance(value, Node) and value.shape == (count,)
    ):  # numbers as one tensor
        return view(value, (), (), i)
    if argument == "scalars" and isinstance(value, (Node, Pair)):
        raise Unsure("numbers of another count than the lists")
    return value


def _singular(name: str, argument: str) -> str:
    if argument in ("scalar", "scalars"):
        return _NUMBER.get(name, "other")
    if name == "lerp" and argument in ("tensors1", "weights"):
        return "end" if argument == "tensors1" else "weight"
    if name in ("clamp_min", "clamp_max", "pow") and argument == "other":
        return _NUMBER[name]
    return argument
