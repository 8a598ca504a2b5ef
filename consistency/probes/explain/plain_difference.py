"""Differences that need no order of summation: one of the arguments, a number, or a factor in every
element."""

from __future__ import annotations

from collections.abc import Mapping

import torch

FEW = 4  # fewer elements may agree by chance
ROUNDINGS = 8  # of the larger result, that the difference may be off by


def plain_difference(
    a: torch.Tensor, b: torch.Tensor, names: tuple[str, str], arguments: Mapping[str, torch.Tensor]
) -> str:
    """``F.linear is x @ W.T plus b in every row``; empty if nothing as plain explains all of it.

    ``a`` and ``b`` are the results, called ``names``; ``arguments`` those of the operator by their
    names in a formula.
    """
    if a.numel() < FEW or not (a.is_floating_point() and b.is_floating_point()):
        return ""
    left, right = a.double(), b.double()
    if not bool(torch.isfinite(left).all() and torch.isfinite(right).all()):
        return ""
    eps = max(torch.finfo(a.dtype).eps, torch.finfo(b.dtype).eps)
    room = ROUNDINGS * eps * float(torch.maximum(left.abs(), right.abs()).max())
    gap = left - right

    def is_all(expected: torch.Tensor) -> bool:
        return bool((gap - expected).abs().max() <= room)

    if is_all(torch.zeros_like(gap)):
        return ""  # rounding
    for name, tensor in arguments.items():
        if not tensor.is_floating_point() or not _spreads(tensor, gap):
            continue
        wide = tensor.double().expand_as(gap)
        where = "" if tensor.shape == gap.shape else " in every row"
        if is_all(wide):
            return f"{names[0]} is {names[1]} plus {name}{where}"
        if is_all(-wide):
            return f"{names[1]} is {names[0]} plus {name}{where}"
    mean = gap.mean()
    if is_all(mean.expand_as(gap)):
        sign = "-" if mean < 0 else "+"
        return f"{names[0]} is {_term(names[1])} {sign} {abs(float(mean)):.6g} in every element"
    factor = float((left * right).sum() / right.square().sum()) if bool(right.any()) else 0.0
    if factor and is_all((factor - 1.0) * right):
        return f"{names[0]} is {factor:.6g} × {_term(names[1])} in every element"
    return ""


def _term(name: str) -> str:
    return f"({name})" if " " in name else name


def _spreads(tensor: torch.Tensor, gap: torch.Tensor) -> bool:
    """Whether a tensor can be added to every row, and says more than a number would."""
    if tensor.dim() == 0 or tensor.dim() > gap.dim() or not bool(tensor.any()):
        return False
    return tensor.shape == gap.shape[gap.dim() - tensor.dim() :]
