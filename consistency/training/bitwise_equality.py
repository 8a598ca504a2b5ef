"""Bitwise equality of two models, or of one at two times, and the first difference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch

from ..core.moving import moved
from ..core.trees import tensors_in


def digest(value: Any) -> str:
    """A hash of the bits, shapes and dtypes of all tensors in ``value`` (nested lists, tuples,
    dicts)."""
    total = hashlib.sha256()
    for tensor in tensors_in(value):
        total.update(f"{tensor.dtype}{tensor.layout}{tuple(tensor.shape)}".encode())
        dense = _dense(tensor)
        if dense is not None:
            total.update(dense.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _dense(tensor: torch.Tensor) -> torch.Tensor | None:
    """The numbers as a contiguous CPU tensor; None if there are none (meta tensors, subclasses)."""
    try:
        dense = tensor.detach()
        dense = dense.int_repr() if dense.is_quantized else dense
        dense = dense.to_dense() if dense.layout != torch.strided else dense
        return dense.cpu().resolve_conj().resolve_neg().contiguous()
    except (RuntimeError, NotImplementedError):
        return None


def checksums(model: Any) -> dict[str, str]:
    """A digest of every parameter and buffer, by name."""
    return {name: digest(tensor) for name, tensor in named_tensors(model)}


def differing(first: Any, second: Any) -> str:
    """The first differing parameter or buffer of two models, in words; empty if none."""
    first_tensors, second_tensors = dict(named_tensors(first)), dict(named_tensors(second))
    for name in (*first_tensors, *(n for n in second_tensors if n not in first_tensors)):
        if name not in first_tensors or name not in second_tensors:
            return f"{name} is only in the {'first' if name in first_tensors else 'second'}"
        a, b = first_tensors[name], second_tensors[name]
        if a.shape != b.shape:
            return (
                f"{name} has shape {list(a.shape)} in the first and {list(b.shape)} in the second"
            )
        if digest(a) != digest(b):
            count = sum(
                n in second_tensors and digest(first_tensors[n]) != digest(second_tensors[n])
                for n in first_tensors
            )
            return f"{name}{_difference_text(a, b)}" + (
                f", the first of {count} that differ" if count > 1 else ""
            )
    return ""


def _difference_text(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.dtype != b.dtype:
        return f" is {a.dtype} in the first and {b.dtype} in the second".replace("torch.", "")
    if not (a.is_floating_point() and a.numel()):
        return " differs"
    first, second = (moved(t.detach(), "cpu", torch.float64) for t in (a, b))
    return f" differs by up to {float((first - second).abs().max()):.3g}"


def named_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, then buffers, with their names."""
    for kind in ("named_parameters", "named_buffers"):
        method = getattr(model, kind, None)
        if callable(method):
            yield from method()
