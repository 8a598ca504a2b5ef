"""For each supported operator, the elements of its arguments that are the terms of each output
(:class:`.sums_in_operators.Layout`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from .sums_in_operators import Layout, NotAskedError

MOST_TERMS = 1 << 24  # limit of listed positions, over all outputs
MOST_SETS = 64  # enough for an 8 × 8 window with stride 1
Args = tuple[Any, ...]


def layout_of(operator: str, args: Args, kwargs: Mapping[str, Any]) -> Layout:
    """The layout of a call. Raises NotAskedError for an unsupported operator or argument."""
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
    layout = make(args, dict(kwargs))
    if layout.terms < 2:
        raise NotAskedError(f"a sum of {layout.terms} terms has no order")
    return layout


def _places(shape: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape)


def _products(left: Any, right: Any, **more: Any) -> Layout:
    """The layout of ``left`` [rows, terms] times ``right`` [columns, terms], one group."""
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
    all_rows = (np.arange(batch * rows),)
    return Layout(
        terms,
        left.reshape(-1, terms),
        right.transpose(0, 2, 1),
        group,
        all_rows,
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
    options = (
        dict(zip(("bias", "stride", "padding", "dilation", "groups"), args[2:], strict=False))
        | kwargs
    )
    groups, padding = options.get("groups", 1), options.get("padding", 0)
    if groups != 1 or isinstance(padding, str) or x.ndim != 4:
        raise NotAskedError(
            "only conv2d of a batch, without groups and with padding in numbers, is asked for"
        )
    stride, dilation = options.get("stride", 1), options.get("dilation", 1)
    numbered = torch.arange(1, x.numel() + 1, dtype=torch.float64).reshape(x.shape)
    columns = torch.nn.functional.unfold(
        numbered, w.shape[2:], dilation, padding, stride
    )  # [batch, terms, places]
    if columns.numel() > MOST_TERMS:
        raise NotAskedError(f"{columns.numel()} terms are too many to write down")
    batch, terms, places = columns.shape
    left = columns.permute(0, 2, 1).reshape(-1, terms).to(torch.int64).numpy() - 1
    unpadded_rows = np.flatnonzero((left >= 0).all(1))  # outputs that read no padding
    row_sets = _independent_row_sets(left, unpadded_rows, x.numel())
    channels = w.shape[0]
    bias = np.arange(channels) if options.get("bias") is not None else None
    if bias is not None and len(args) < 3:
        raise NotAskedError("give the bias of conv2d by position")
    return Layout(
        terms, left, _places(w.shape).reshape(1, channels, terms), np.zeros(len(left),
        dtype=np.int64), row_sets,
        lambda out: out.reshape(batch, channels, places).permute(0, 2, 1).reshape(-1, channels),
        bias=bias,
    )  # fmt: skip


def _independent_row_sets(left: Any, rows: Any, numbers: int) -> tuple[Any, ...]:
    """Sets of rows without shared inputs within a set; at most MOST_SETS."""
    sets: list[Any] = []
    while len(rows) and len(sets) < MOST_SETS:
        used, chosen = np.zeros(numbers, dtype=bool), np.zeros(len(rows), dtype=bool)
        for k, row in enumerate(rows.tolist()):
            if not used[left[row]].any():
                used[left[row]] = chosen[k] = True
        sets.append(rows[chosen])
        rows = rows[~chosen]
    return tuple(sets)


def _sum(args: Args, kwargs: dict[str, Any], *, scaled: bool = False) -> Layout:
    x = args[0]
    options = dict(zip(("dim", "keepdim"), args[1:], strict=False)) | kwargs
    if set(options) - {"dim", "keepdim"}:
        raise NotAskedError("a sum into another dtype is not asked for")
    dim = options.get("dim")
    dims = (
        range(x.ndim)
        if dim is None or dim == [] or dim == ()
        else [dim]
        if isinstance(dim, int)
        else dim
    )
    dims = sorted({d % x.ndim for d in dims}) if x.ndim else []
    left = np.moveaxis(_places(x.shape), dims, range(x.ndim - len(dims), x.ndim))
    terms = int(np.prod([x.shape[d] for d in dims], dtype=np.int64))
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
