"""torch's own float64 off in one element: a dispatch mode that changes what one ATen operator gives
in float64.

Whoever computes inside of :func:`correct_float64` (a backend that stands for another library) is
not touched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

import consistency

WIDE = (torch.float64, torch.complex128)
RELATIVE = 1e-10


class WrongFloat64(TorchDispatchMode):
    """The largest element of the ``skip``-th wide result of ``names`` is off by 1e-10 of itself;
    ``done`` counts how often."""

    def __init__(self, names: Sequence[str], relative: float = RELATIVE) -> None:
        super().__init__()
        self.names, self.relative, self.done = frozenset(names), relative, 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func._schema.name.removeprefix("aten::") in self.names:
            for tensor in found if isinstance(found, (tuple, list)) else [found]:
                if isinstance(tensor, torch.Tensor) and tensor.dtype in WIDE and tensor.numel():
                    self.done += self._spoil(tensor)
                    break
        return found

    def _spoil(self, tensor: torch.Tensor) -> bool:
        size = tensor.abs().nan_to_num(nan=0.0, posinf=0.0)
        place = int(size.reshape(-1).argmax())
        if not float(size.reshape(-1)[place]):
            return False
        index = (
            [int(i) for i in torch.unravel_index(torch.tensor(place), tensor.shape)]
            if tensor.ndim
            else []
        )
        element = tensor[tuple(index)]
        element.mul_(1.0 + self.relative)
        return True


@contextmanager
def correct_float64() -> Iterator[None]:
    """Outside of every mode, as another library would be."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


class Honest(consistency.Backend):
    """Another implementation: torch's CPU as it really is."""

    name = "honest"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        with correct_float64():
            return super().call(operator, args, kwargs)

    def run(self, *args: Any, **kwargs: Any) -> Any:
        with correct_float64():
            return super().run(*args, **kwargs)
