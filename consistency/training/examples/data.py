"""Numbers for the examples: data and initial weights from the bitstream, the same bits on every
machine, in every version of torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn

from ...generate.fill import fill

Module = TypeVar("Module", bound=nn.Module)


class SeededBits:
    """Hands out one window of the bitstream after the other, beginning at position ``start``."""

    def __init__(self, start: int) -> None:
        self._stop = start

    def uniform(self, *shape: int, low: float = -1.0, high: float = 1.0) -> torch.Tensor:
        """float32, even over [low, high]."""
        return self._next(shape, "float32", ("uniform", low, high))

    def normal(self, *shape: int, mean: float = 0.0, deviation: float = 1.0) -> torch.Tensor:
        """float32, normal-like."""
        return self._next(shape, "float32", ("normal", mean, deviation))

    def whole(self, *shape: int, low: int, high: int) -> torch.Tensor:
        """int64, low … high, both included."""
        return self._next(shape, "int64", ("integers", low, high))

    def shuffled(self, n: int) -> torch.Tensor:
        """int64, each of 0 … n - 1 once."""
        return self._next((n,), "int64", ("permutation",))

    def _next(self, shape: tuple[int, ...], dtype: str, kind: tuple[Any, ...]) -> torch.Tensor:
        n = math.prod(shape)
        self._stop += n
        return torch.from_numpy(fill(n, dtype, kind, self._stop).copy()).reshape(shape)


def built(make: Callable[[], Module], bits: SeededBits, gain: float = 1.0) -> Module:
    """The module that ``make`` builds, with weights from the bitstream; torch's own generator is
    left where it was.

    Matrices and filters are even over ±gain·√(1 / inputs of a unit), as torch's layers begin;
    biases over ±0.1; the weights of a normalization over 0.5 … 1.5.
    """
    with torch.random.fork_rng(devices=[]):
        module = make()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if parameter.ndim > 1:
                bound = gain * math.sqrt(1.0 / math.prod(parameter.shape[1:]))
                parameter.copy_(bits.uniform(*parameter.shape, low=-bound, high=bound))
            elif name.rpartition(".")[2].startswith("weight"):
                parameter.copy_(bits.uniform(*parameter.shape, low=0.5, high=1.5))
            else:
                parameter.copy_(bits.uniform(*parameter.shape, low=-0.1, high=0.1))
    return module


class Within(nn.Module):
    """A module whose forward runs inside of a context, such as ``torch.inference_mode()``."""

    def __init__(self, inner: nn.Module, context: Callable[[], Any]) -> None:
        super().__init__()
        self.inner, self.context = inner, context

    def forward(self, *inputs: torch.Tensor) -> Any:
        with self.context():
            return self.inner(*inputs)
