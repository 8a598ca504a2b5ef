"""Samples of every tensor that the reference computed, and the distances of other model runs;
tensors themselves are not kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from ..core.moving import moved
from ..judge.metrics import Doubles

KINDS = (
    "output",
    "loss",
    "gradient",
    "parameter gradient",
    "buffer",
    "optimizer state",
    "parameter",
)
LARGEST, SMALLEST = 4096, 64  # numbers kept per tensor
ROOM = 32 << 20  # bytes kept in total


class Key(NamedTuple):
    """A computed quantity: the step (from 1), its kind (one of :data:`KINDS`), and a name."""

    step: int
    kind: str
    name: str


Tap = Callable[[Key, torch.Tensor], None]


class TensorSampler:
    """Takes evenly spaced elements of tensors, within the memory limit for ``steps`` steps."""

    def __init__(self, steps: int) -> None:
        self._steps, self._count, self.size = steps, 0, LARGEST

    def expect(self, tensors: int) -> None:
        """Set the sample size for that many tensors per step."""
        self.size = max(SMALLEST, min(LARGEST, ROOM // (8 * max(tensors, 1) * self._steps)))

    def of(self, tensor: torch.Tensor) -> Doubles:
        """Up to ``size`` numbers as float64; both parts of complex ones."""
        tensor = tensor.detach()
        if tensor.layout != torch.strided:  # gradient of an embedding with sparse=True
            tensor = tensor.to_dense()
        if tensor.is_complex():
            tensor = torch.view_as_real(tensor.resolve_conj())
        flat = (
            tensor.reshape(-1)
            if tensor.is_contiguous() or tensor.numel() <= self.size
            else _dense(tensor)
        )
        if flat.numel() > self.size:
            flat = flat[
                :: -(-flat.numel() // self.size) | 1
            ]  # an odd step samples all remainders modulo powers of two
        return moved(flat, "cpu", torch.float64).numpy().copy()


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    """Flatten; of a large tensor only rows sampled along the first dimension, to avoid a full
    copy."""
    if tensor.ndim > 1 and tensor.shape[0] > 1 and tensor.numel() > 1 << 20:
        rows = max(1, (1 << 20) // max(tensor[0].numel(), 1))
        tensor = tensor[:: max(1, tensor.shape[0] // rows)]
    return tensor.reshape(-1)


@dataclass
class ReferenceTrace:
    """The reference's samples by key, in the order of computation. A tap."""

    samples: TensorSampler
    by_key: dict[Key, Doubles] = field(default_factory=dict)

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        if key not in self.by_key:
            self.by_key[key] = self.samples.of(tensor)

    def steps(self) -> list[int]:
        return sorted({key.step for key in self.by_key})


@dataclass
class Distances:
    """The distances of a model run from the reference, by key: the norm of the difference of the
    samples. A tap.

    ``missing`` are keys that the reference lacks, or has in another shape. ``values`` are the
    losses.
    """

    reference: ReferenceTrace
    by_key: dict[Key, float] = field(default_factory=dict)
    values: dict[int, float] = field(default_factory=dict)
    missing: list[Key] = field(default_factory=list)

    def __call__(self, key: Key, tensor: torch.Tensor) -> None:
        if key not in self.by_key:
            self.add(key, self.reference.samples.of(tensor))

    def add(self, key: Key, got: Doubles) -> None:
        """Add samples of a quantity, possibly from another process."""
        expected = self.reference.by_key.get(key)
        if expected is None or got.shape != expected.shape:
            self.missing.append(key)
            return
        if key.kind == "loss":
            self.values[key.step] = float(got.reshape(-1)[0]) if got.size else math.nan
        self.by_key[key] = distance(got, expected)


def distance(got: Doubles, want: Doubles) -> float:
    """The norm of the difference; infinite if NaN or infinities differ."""
    with np.errstate(all="ignore"):
        equal = (got == want) | (np.isnan(got) & np.isnan(want))
        difference = np.where(equal, 0.0, got - want)
    if not np.isfinite(difference).all():
        return math.inf
    return norm(difference)


def norm(values: Doubles) -> float:
    """The root of the sum of squares of the finite values, without overflow."""
    finite = values[np.isfinite(values)]
    largest = float(np.abs(finite).max()) if finite.size else 0.0
    return largest * float(np.sqrt(np.square(finite / largest).sum())) if largest > 0.0 else 0.0


def joint(found: Mapping[Key, float], kind: str) -> dict[int, float]:
    """By step, the norm over all quantities of one kind."""
    total: dict[int, float] = {}
    for key, value in found.items():
        if key.kind == kind:
            total[key.step] = math.hypot(total.get(key.step, 0.0), value)
    return total


def sizes(trace: ReferenceTrace, kind: str) -> Iterator[tuple[int, float]]:
    """By step, the norm of the reference itself for one kind."""
    norms = {key: norm(values) for key, values in trace.by_key.items() if key.kind == kind}
    yield from joint(norms, kind).items()
