"""Which of several equal elements is chosen: the last one. A fault where torch documents the first,
healthy where it documents none."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .model import Call


def last_among_ties(call: Call) -> Any:
    """Selects from the reversed row, and counts the position from its end."""
    x, dim = call.args[0], call.given("dim", 1, None)
    if not x.ndim or not x.numel():
        return call.run()
    if dim is None:
        if call.operator.name not in ("argmax", "argmin") or call.kwargs.get("keepdim"):
            return call.run()
        return x.numel() - 1 - call.operator(x.reshape(-1).flip(0))
    found = call.with_arg(0, x.flip(dim)).run()
    if isinstance(found, Tensor):
        return x.shape[dim] - 1 - found
    return found[0], x.shape[dim] - 1 - found[1]
