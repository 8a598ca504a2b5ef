"""The leaves of nested results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def flatten(result: Any) -> Iterator[Any]:
    """The leaves of what an operator returned: tensors and scalars in order, through tuples, lists
    and dictionaries."""
    if isinstance(result, (tuple, list)):
        for item in result:
            yield from flatten(item)
    elif isinstance(result, Mapping):
        for item in result.values():
            yield from flatten(item)
    else:
        yield result
