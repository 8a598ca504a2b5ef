"""The aten operators that a call reaches, according to the dispatcher."""

from __future__ import annotations

from typing import Any

import torch

from ..core.dispatch_mode import PlainDispatchMode
from ..core.zero_tensors import with_memory
from .catalog.signature import signature


class AtenCallRecorder(PlainDispatchMode):
    """A context that records calls: ``names`` without overloads, ``overloads`` with them,
    ``random`` those tagged as possibly random.

    With ``seed`` torch's generator is reset before each of these, whatever state it was left in.
    """

    def __init__(self, seed: int | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seed = seed
        self.names: set[str] = set()
        self.overloads: set[str] = set()
        self.random: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name
        self.overloads.add(func.name())
        if name not in self.names:
            self.names.add(name)
            if signature(func).is_random:
                self.random.add(name)
        if self.seed is not None and name in self.random:
            torch.default_generator.manual_seed(self.seed)
        return with_memory(func(*args, **(kwargs or {})))
