"""What torch's recurrent networks are made of beside products and elementary functions."""

from __future__ import annotations

from typing import Any

from .. import complex_numbers as c
from ..movement import row_major, view
from . import entry


@entry("unsafe_split", "unsafe_split_with_sizes")
def unsafe_split(self: Any, dim: int = 0, split_size: int = 0, split_sizes: Any = None, result: Any = None) -> Any:
    dim %= self.ndim
    own = row_major(self.shape)
    made, begin = [], 0
    for part in result:
        shape = tuple(part.shape)
        made.append(c.each(lambda x, s=shape, b=begin: view(x, s, own, b * own[dim]), self))
        begin += shape[dim]
    return made
