"""What torch's schema says of an operator, read once: asking it anew at every call costs more than
many a call."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Signature:
    """An operator ``space::name``.

    ``parameters`` are (name, whether only by keyword, default or None). ``written`` are the
    arguments that are written to, ``only_written`` those of them that merely take results
    (``out=``, or under the names of several results). ``is_view`` is true where a result shares its
    memory with an argument that is not written.
    """

    space: str
    name: str
    parameters: tuple[tuple[str, bool, Any], ...]
    written: tuple[str, ...]
    only_written: frozenset[str]
    is_view: bool

    def __str__(self) -> str:
        return f"{self.space}::{self.name}"

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by the schema's names, defaults filled in."""
        found, given = {}, len(args)
        for position, (name, keyword, default) in enumerate(self.parameters):
            found[name] = (
                args[position] if position < given and not keyword else kwargs.get(name, default)
            )
        return found


@functools.cache
def signature(function: Any) -> Signature:
    """That of an overload, ``torch.ops.aten.add.Tensor`` for instance."""
    schema = function._schema
    space, _, name = schema.name.partition("::")
    arguments = schema.arguments
    writes = [a for a in arguments if a.alias_info is not None and a.alias_info.is_write]
    return Signature(
        space,
        name,
        tuple(
            (a.name, a.kwarg_only, a.default_value if a.has_default_value() else None)
            for a in arguments
        ),
        tuple(a.name for a in writes),
        frozenset(a.name for a in writes if a.kwarg_only),
        any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns),
    )
