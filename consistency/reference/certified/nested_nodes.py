"""Nodes in the nested lists, tuples and dictionaries that calls take and return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .complex_numbers import Pair
from .nodes import Detached, Node, Unknown
from .storage_nodes import kind_of


@dataclass
class Written:
    """The result of an entry that also writes to arguments which the schema does not mark: their
    new values by name."""

    outputs: Any
    arguments: Mapping[str, Any] = field(default_factory=dict)


def detached(x: Any) -> Any:
    """A node through which no gradient flows; what is none stays as it is."""
    if isinstance(x, Pair):
        return Pair(Detached(x.re), Detached(x.im))
    return Detached(x) if isinstance(x, Node) else x


def nodes_in(arguments: Any) -> list[Node]:
    """All nodes among the arguments of a call."""
    if isinstance(arguments, Node):
        return [arguments]
    if isinstance(arguments, Pair):
        return [arguments.re, arguments.im]
    if type(arguments) not in (list, tuple, dict):
        return []
    return [
        node
        for x in (arguments.values() if type(arguments) is dict else arguments)
        for node in nodes_in(x)
    ]


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of a value, or of each leaf of nested lists, tuples and dictionaries."""
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return [mapped(function, x) for x in value]
    if type(value) is dict:
        return {name: mapped(function, x) for name, x in value.items()}
    return function(value)


def unknown(x: Any, why: str, inputs: Sequence[Node] = ()) -> Any:
    """The unknown node of a result ``x`` that an entry does not define; it depends on ``inputs``,
    whose gradients are unknown, too."""
    if not isinstance(x, torch.Tensor):
        return Unknown((), why, inputs=inputs)
    shape = tuple(x.shape)
    if x.dtype.is_complex:
        return Pair(Unknown(shape, why, inputs=inputs), Unknown(shape, why, inputs=inputs))
    return Unknown(shape, why, kind_of(x.dtype), inputs)
