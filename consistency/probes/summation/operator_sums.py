"""For each operator that sums: which elements of its arguments are the terms of which output
(:class:`.sums_in_operators.Layout`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from .sums_in_operators import Layout, NotAskedError

MOST_TERMS = 1 << 24  # of all outputs' positions that are written down
MOST_SETS = 64  # of places: a window of 8 × 8 that moves by one
Args = tuple[Any, ...]


def layout_of(operator: str, args: Args, kwargs: Mapping[str, Any]) -> Layout:
    """Raises NotAskedError for an operator, or a way to call it, whose sums are not known here."""
    make = _KNOWN.get(operator)
    if make is None:
        raise NotAskedError(
            f"which numbers {operator} adds up is not known here; known: {', '.join(_KNOWN)}"
        )
    for arg in (*args, *kwargs.values()):
        if isinstance(arg, torch.Tensor):
            if not arg.numel():
                raise NotAskedError("an argument has no elements")
            if 0 in arg.stride() and any(
                s == 0 and n > 1 for s, n in zip(arg.stride(), arg.shape, strict=True)
            ):
                raise NotAskedError(
                    "an argument is expanded: its elements cannot be marked one by one"
                )
            if arg.numel() > MOST_TERMS:
                raise NotAskedError(
                    f"an argument has {arg.numel()} elements, more than {MOST_TERMS}"
                )
    found = make(args, dict(kwargs))
    if found.terms < 2:
        raise NotAskedError(f"a sum of {found.terms} terms has no order")
    return found


def _places(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _products(left: Any, right: Any, **more: Any) -> Layout:
    """``left`` [rows, terms], ``right`` [columns, terms] of one group."""
    rows, terms = left.shape
    columns = right.shape[0]
    return Layout(
        terms,
        left,
        right[None],
        np.zeros(rows, dtype=np.int64),
        (np.arange(rows),),
        lambda out: out.reshape(rows, columns),
        **more,
    )


def _linear(args: Args, kwargs: dict[str, Any]) -> Layout:
    x, w = args[0], args[1]
    bias = args[2] if len(args) > 2 else kwargs.get("bias")
    if kwargs:
        raise NotAskedError("give the arguments of linear by position")
    more = {"bias": np.arange(w.shape[0])} if bias is not None else {}
    return _products(
        _places(x.shape).reshape(-1, x.shape[-1]), _places(w.shape).reshape(-1, w.shape[-1]), **more
    )


def _matmul(args: Args, kwargs: dict[str, Any]) -> Layout:
    a, b = args[0], args[1]
    if kwargs:
        raise NotAskedError("only plain products are asked for")
    left, right = _places(a.shape), _places(b.shape)
    left = left[None, :] if a.ndim == 1 else left
    right = right[:, None] if b.ndim == 1 else right
    if right.ndim == 2:
        return _products(left.reshape(-1, left.shape[-1]), right.T)
    if left.ndim != 3 or right.ndim != 3 or left.shape[0] != right.shape[0]:
        raise NotAskedError("products with broadcast batches are not asked for")
    batch, rows, terms = left.shape
    columns = right.shape[-1]
    group = np.repeat(np.arange(batch), rows)
    every = (np.arange(batch * rows),)
    return Layout(
        terms,
        left.reshape(-1, terms),
        right.transpose(0, 2, 1),
        group,
        every,
        lambda out: out.reshape(batch * rows, columns),
    )


def _addmm(args: Args, kwargs: dict[str, Any]) -> Layout:
    bias, a, b = args[:3]
    if any(float(value) != 1.0 for value in (*args[3:], *kwargs.values())):
        raise NotAskedError("only alpha = beta = 1 is asked for")
    columns = b.shape[1]
    if bias.numel() != columns or bias.shape[-1:] != (columns,):
        raise NotAskedError("only an input with one number for each column is asked for")
    return _products(
        _places(a.shape),
        _places(b.shape).T,
        argument=1,
        factor=2,
        bias=np.arange(columns),
        bias_at=0,
    )


def _conv2d(args: Args, kwargs: dict[str, Any]) -> Layout:
    x, w = args[0], args[1]
    given = (
        dict(zip(("bias", "stride", "padding", "dilation", "groups"), args[2:], strict=False))
        | kwargs
    )
    groups, padding = given.get("groups", 1), given.get("padding", 0)
    if groups != 1 or isinstance(padding, str) or x.ndim != 4:
        raise NotAskedError(
            "only conv2d of a batch, without groups and with padding in numbers, is asked for"
        )
    stride, dilation = given.get("stride", 1), given.get("dilation", 1)
    numbered = torch.arange(1, x.numel() + 1, dtype=torch.float64).reshape(x.shape)
    columns = torch.nn.functional.unfold(
        numbered, w.shape[2:], dilation, padding, stride
    )  # [batch, terms, places]
    if columns.numel() > MOST_TERMS:
        raise NotAskedError(f"{columns.numel()} terms are too many to write down")
    batch, terms, places = columns.shape
    left = columns.permute(0, 2, 1).reshape(-1, terms).to(torch.int64).numpy() - 1
    whole = np.flatnonzero((left >= 0).all(1))  # outputs that read no padding
    asked = _apart(left, whole, x.numel())
    channels = w.shape[0]
    bias = np.arange(channels) if given.get("bias") is not None else None
    if bias is not None and len(args) < 3:
        raise NotAskedError("give the bias of conv2d by position")
    return Layout(
        terms, left, _places(w.shape).reshape(1, channels, terms), np.zeros(len(left),
        dtype=np.int64), asked,
        lambda out: out.reshape(batch, channels, places).permute(0, 2, 1).reshape(-1, channels),
        bias=bias,
    )  # fmt: skip


def _apart(left: Any, rows: Any, numbers: int) -> tuple[Any, ...]:
    """The rows in sets, within which none shares a number with another; at most MOST_SETS."""
    sets: list[Any] = []
    while len(rows) and len(sets) < MOST_SETS:
        taken, kept = np.zeros(numbers, dtype=bool), np.zeros(len(rows), dtype=bool)
        for k, row in enumerate(rows.tolist()):
            if not taken[left[row]].any():
                taken[left[row]] = kept[k] = True
        sets.append(rows[kept])
        rows = rows[~kept]
    return tuple(sets)


def _sum(args: Args, kwargs: dict[str, Any], *, scaled: bool = False) -> Layout:
    x = args[0]
    given = dict(zip(("dim", "keepdim"), args[1:], strict=False)) | kwargs
    if set(given) - {"dim", "keepdim"}:
        raise NotAskedError("a sum into another dtype is not asked for")
    dim = given.get("dim")
    over = (
        range(x.ndim)
        if dim is None or dim == [] or dim == ()
        else [dim]
        if isinstance(dim, int)
        else dim
    )
    over = sorted({d % x.ndim for d in over}) if x.ndim else []
    left = np.moveaxis(_places(x.shape), over, range(x.ndim - len(over), x.ndim))
    terms = int(np.prod([x.shape[d] for d in over], dtype=np.int64))
    left = left.reshape(-1, terms)
    rows = left.shape[0]
    return Layout(
        terms,
        left,
        None,
        np.zeros(rows, dtype=np.int64),
        (np.arange(rows),),
        lambda out: out.reshape(rows, 1),
        scaled=scaled,
    )


def _mean(args: Args, kwargs: dict[str, Any]) -> Layout:
    return _sum(args, kwargs, scaled=True)


_KNOWN: dict[str, Callable[[Args, dict[str, Any]], Layout]] = {
    "nn.functional.linear": _linear, "matmul": _matmul, "mm": _matmul, "bmm": _matmul,
    "mv": _matmul, "dot": _matmul,
    "addmm": _addmm, "nn.functional.conv2d": _conv2d, "sum": _sum, "mean": _mean,
}  # fmt: skip
