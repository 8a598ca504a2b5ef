"""Kernels of torch's own operators that are replaced through ``torch.library``."""

from __future__ import annotations

import gc
from typing import Any

import torch.library

from .state import State, shown

_registered: Any = torch.library._impls
_Library: Any = torch.library.Library


def _count() -> int:
    return len(_registered)


class ReplacedKernels:
    """The names under which ``torch.library`` holds kernels, such as ``aten/add.Tensor/CPU``."""

    def __init__(self) -> None:
        self._known: set[str] = set(_registered)
        self._last = (_count(), frozenset[str]())  # how many there were, and what was added

    def read(self) -> frozenset[str]:
        """The kernels for the CPU that were added to torch's own operators since this began."""
        if _count() != self._last[0]:
            added = frozenset(name for name in _registered - self._known if _replaces(name))
            self._last = (_count(), added)
        return self._last[1]

    def write(self, before: frozenset[str]) -> None:
        """Unregister what was added. torch keeps no list of libraries, so they are searched for
        among all objects."""
        added = self.read() - before
        for library in [one for one in gc.get_objects() if type(one) is _Library]:
            if added & getattr(library, "_op_impls", set()):
                library._destroy()


def _replaces(name: str) -> bool:
    """Whether a kernel changes what the CPU computes for an operator of torch."""
    namespace, _, rest = name.partition("/")
    key = rest.rpartition("/")[2]
    return namespace == "aten" and (
        "CPU" in key or "Autograd" in key or key.startswith("Composite")
    )


def _told(before: frozenset[str], after: frozenset[str]) -> str:
    return f"kernels replaced: {shown(', '.join(sorted(after - before)))}"


_kernels = ReplacedKernels()
STATES = (State("torch.library", _kernels.read, _kernels.write, _told),)
