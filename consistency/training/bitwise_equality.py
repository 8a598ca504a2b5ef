"""Are two models, or two moments of one, the same to the bit? And if not, what is the first that
differs?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch

from ..core.trees import tensors_in


def digest(value: Any) -> str:
    """A hash of the bits of all tensors in ``value`` (nested lists, tuples, dicts), with their
    shapes and dtypes."""
    total = hashlib.sha256()
    for tensor in tensors_in(value):
        total.update(f"{tensor.dtype}{tensor.layout}{tuple(tensor.shape)}".encode())
        plain = _plain(tensor)
        if plain is not None:
            total.update(plain.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    """The numbers on the CPU, one after the other; None of a tensor that has none at hand (meta, of
    a class of its own)."""
    try:
        found = tensor.detach()
        found = found.int_repr() if found.is_quantized else found
        found = found.to_dense() if found.layout != torch.strided else found
        return found.cpu().resolve_conj().resolve_neg().contiguous()
    except (RuntimeError, NotImplementedError):
        return None


def checksums(model: Any) -> dict[str, str]:
    """A digest of every parameter and buffer, by name."""
    return {name: digest(tensor) for name, tensor in named_tensors(model)}


def differing(first: Any, second: Any) -> str:
    """Which parameter or buffer of two models is the first that differs, in words; empty if none
    does."""
    one, two = dict(named_tensors(first)), dict(named_tensors(second))
    for name in (*one, *(n for n in two if n not in one)):
        if name not in one or name not in two:
            return f"{name} is only in the {'first' if name in one else 'second'}"
        a, b = one[name], two[name]
        if a.shape != b.shape:
            return (
                f"{name} has shape {list(a.shape)} in the first and {list(b.shape)} in the second"
            )
        if digest(a) != digest(b):
            count = sum(n in two and digest(one[n]) != digest(two[n]) for n in one)
            return f"{name}{_by(a, b)}" + (
                f", the first of {count} that differ" if count > 1 else ""
            )
    return ""


def _by(a: torch.Tensor, b: torch.Tensor) -> str:
    if a.dtype != b.dtype:
        return f" is {a.dtype} in the first and {b.dtype} in the second".replace("torch.", "")
    if not (a.is_floating_point() and a.numel()):
        return " differs"
    return (
        f" differs by up to "
        f"{float((a.detach().double().cpu() - b.detach().double().cpu()).abs().max()):.3g}"
    )


def named_tensors(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Parameters, then buffers, with their names."""
    for kind in ("named_parameters", "named_buffers"):
        named = getattr(model, kind, None)
        if callable(named):
            yield from named()
