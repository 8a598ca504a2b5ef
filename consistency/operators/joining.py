"""Joining, splitting, repeating, padding tensors, and writing one into a part of another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from ..core.dtypes import UNSIGNED
from ..core.recipe import Arg
from .declare import EVERY, EXACT, REAL, Call, Drawing, Operator, Sample, Tensors, call, hook
from .movement import LINEAR, Arguments, Shape, moved, two_dims
from .sampling import of_other_dtype, real_scalar, small


def several(
    join: Callable[[Drawing, Shape], tuple[list[Shape], Sequence[Arg]]],
    low: int = 1,
    high: int = 4,
    *,
    mixed: bool = False,
) -> Sample:
    """A list of tensors with the shapes that ``join`` derives from a first one; with ``mixed`` one
    of them perhaps of another dtype. Shrinks towards one dtype."""

    def sample(d: Drawing) -> Call:
        shapes, arguments = join(d, d.shape(low, high, most=32, elements=1024))
        tensors = [d.tensor(shape) for shape in shapes]
        if (
            mixed
            and len(shapes) > 1
            and d.dtype not in UNSIGNED
            and d.choice(False, False, False, True)
        ):
            numbers = REAL if d.floating else small(REAL)
            tensors = [d.tensor(shape, numbers) for shape in shapes]
            at = d.integer(0, len(shapes) - 1)
            tensors[at] = of_other_dtype(d, shapes[at], REAL)
        return call(tensors, *arguments)

    return sample


def along_dim(
    dim: int | None = None,
) -> Callable[[Drawing, Shape], tuple[list[Shape], Sequence[Arg]]]:
    """Shapes that differ in one dimension only: ``dim``, or a drawn one that is then an
    argument."""

    def join(d: Drawing, shape: Shape) -> tuple[list[Shape], Sequence[Arg]]:
        at = d.dim(shape) if dim is None else dim
        sizes = [shape[at], *(d.size(0, 33) for _ in range(d.integer(0, 3)))]
        shapes = [
            tuple(size if i == at % len(shape) else s for i, s in enumerate(shape))
            for size in sizes
        ]
        return shapes, () if dim is not None else (at,)

    return join


def same(d: Drawing, shape: Shape) -> tuple[list[Shape], Sequence[Arg]]:
    return [shape] * d.integer(1, 4), (d.integer(-len(shape) - 1, len(shape)),)


def unlike(d: Drawing, shape: Shape) -> tuple[list[Shape], Sequence[Arg]]:
    """Up to three tensors of other sizes, at most 8 each way."""
    return [tuple(d.integer(1, 8) for _ in shape) for _ in range(d.integer(1, 3))], ()


def spread(d: Drawing, shape: Shape) -> tuple[list[Shape], Sequence[Arg]]:
    return [shape, *(d.broadcastable(shape) for _ in range(d.integer(1, 2)))], ()


def one_by_one(sample: Sample) -> Sample:
    """For functions that take their tensors as separate arguments."""

    def separate(d: Drawing) -> Call:
        return call(*sample(d).args[0])

    return separate


def grid(d: Drawing) -> Call:
    axes = [d.tensor((d.size(1, 9),)) for _ in range(d.integer(1, 3))]
    return call(*axes, indexing=d.choice("ij", "xy") if len(axes) > 1 else "ij")


def pieces(d: Drawing, size: int) -> list[int]:
    """Lengths that add up to ``size``."""
    lengths = []
    while size:
        lengths.append(d.integer(1, size))
        size -= lengths[-1]
        if len(lengths) == 4 and size:
            return [*lengths, size]
    return lengths or [0]


def split_up(d: Drawing, shape: Shape) -> Sequence[Arg]:
    dim = d.dim(shape)
    return (d.integer(1, shape[dim] + 1) if d.flag() else pieces(d, shape[dim])), dim


def in_equal_parts(d: Drawing, shape: Shape) -> Sequence[Arg]:
    """The length of a part, and a dimension other than the first."""
    dim = d.integer(0, len(shape) - 1)
    return (d.integer(1, shape[dim] + 1), *([dim] if dim else []))


def in_pieces(d: Drawing, shape: Shape) -> Sequence[Arg]:
    dim = d.integer(0, len(shape) - 1)
    return (pieces(d, shape[dim]), *([dim] if dim else []))


def cuts(at: int | None = None) -> Arguments:
    """Positions to cut at, for the functions named …split."""

    def arguments(d: Drawing, shape: Shape) -> Sequence[Arg]:
        dim = d.dim(shape) if at is None else at
        places = sorted(d.integer(0, shape[dim]) for _ in range(d.integer(1, 3)))
        return (places,) if at is not None else (d.integer(1, 5) if d.flag() else places, dim)

    return arguments


def repeated(d: Drawing, shape: Shape) -> Sequence[Arg]:
    """How often along each dimension, and along new ones in front; at most 16 times altogether."""
    times = [1] * (len(shape) + d.integer(0, 2))
    for _ in range(2):
        if times:
            times[d.integer(0, len(times) - 1)] = d.choice(2, 3, 1, 4)
    return (times,)


def interleaved(d: Drawing) -> Call:
    """Each element, or each slice along a dim, as often as a number or a tensor of numbers says."""
    shape = d.shape(1, 3, most=32, elements=1024)
    dim = d.dim(shape)
    if d.flag():
        return call(
            d.tensor(shape),
            d.tensor((shape[dim],), dtype="int64", values=("integers", 0, 3)),
            dim=dim,
        )
    times = d.integer(1, 4)
    where = {"dim": dim} if d.flag() else {}
    if where and d.choice(True, True, False):
        where["output_size"] = times * shape[dim]
    return call(d.tensor(shape), times, **where)


def padded(d: Drawing) -> Call:
    """Every mode; negative padding crops. Constants may stand around every dimension, also around
    one of a single element. One row in thirty-two is longer than 2¹⁶ elements, which some kernels
    count in 16 bits. Shrinks to short rows."""
    mode = d.choice("constant", "reflect", "replicate", "circular") if d.floating else "constant"
    if mode != "constant" and d.integer(0, 31) == 31:
        row = d.tensor((1, 1, d.choice(65537, 70001, 65536)), layout=False)
        return call(row, [d.integer(0, 5), d.integer(0, 5)], mode=mode)
    dims = d.integer(1, 3)
    sizes = [d.size(2, 12) for _ in range(dims)]
    shape = (
        *((d.integer(1, 3),) if mode != "constant" or d.flag() else ()),
        d.integer(1, 4),
        *sizes,
    )
    if mode == "constant" and d.choice(False, False, True):
        sizes = [*sizes[:-1], 1] if d.flag() else sizes
        shape = tuple(sizes)
    pads: list[int] = []
    for size in reversed(sizes):
        max_padding = {"constant": 4, "reflect": size - 1, "replicate": 5, "circular": size}[mode]
        low = min(-(size // 2) + 1, 0)
        pads += [d.integer(low, max_padding), d.integer(low, max_padding)]
    least = 0.0 if d.dtype in UNSIGNED else -4.0
    value = {"value": real_scalar(d, least)} if mode == "constant" and d.flag() else {}
    if value and d.floating and d.choice(False, False, False, True):
        value = {"value": d.choice(0.1, -0.0, math.inf, -math.inf, math.nan)}
    if value and d.dtype == "int64" and d.flag():
        value = {"value": 2**53 + 1 + 2 * d.integer(0, 2**20)}  # no float64
    return call(d.tensor(shape), pads, mode=mode, **value)


def padded_exactly(
    x: torch.Tensor, pads: Any, mode: str = "constant", value: Any = None
) -> torch.Tensor:
    """pad, whose fill value keeps all its digits in a tensor of whole numbers; going round, what is
    left is repeated, of which torch copies memory that nobody wrote (docs/findings.md)."""
    if mode == "circular" and min(pads) < 0:
        return _padded_round(x, pads)
    if mode != "constant" or x.dtype != torch.int64 or not isinstance(value, int):
        return torch.nn.functional.pad(x, pads, mode, value)
    inside = torch.nn.functional.pad(torch.ones_like(x), pads).bool()
    return torch.where(inside, torch.nn.functional.pad(x, pads), torch.tensor(value))


def _padded_round(x: torch.Tensor, pads: Sequence[int]) -> torch.Tensor:
    """Each dimension cropped, then repeated, by the places of its elements."""
    for dim, (before, after) in enumerate(zip(pads[::2], pads[1::2], strict=True), 1):
        first, stop = max(-before, 0), x.shape[-dim] - max(-after, 0)
        wanted = torch.arange(x.shape[-dim] + before + after) - max(before, 0)
        x = x.index_select(-dim, first + wanted % (stop - first))
    return x


@hook
def read_most(
    outputs: Tensors, x: Any, pads: Any, mode: str = "constant", *_: Any, **__: Any
) -> float:
    """n: how often one element is read, most at a corner; its gradient adds up as many."""
    if mode == "constant":
        return 1.0
    sides = zip(pads[::2], pads[1::2], strict=True)
    return float(math.prod(1 + max(*side, 0) if mode == "replicate" else 3 for side in sides))


def written(
    into: Callable[[Drawing, Shape], tuple[Shape, Sequence[Arg]]], low: int, high: int = 4
) -> Sample:
    """select_scatter and its relatives: a tensor, and another one of the shape of the part it is
    written into.

    Never overlapping: torch (2.4 to 2.13, CPU) keeps the strides of ``x.unfold(…)`` for the result,
    and so writes to too much.
    """

    def sample(d: Drawing) -> Call:
        shape = d.shape(low, high, most=16)
        inner, arguments = into(d, shape)
        return call(d.tensor(shape, overlap=False), d.tensor(inner), *arguments)

    return sample


def into_selected(d: Drawing, shape: Shape) -> tuple[Shape, Sequence[Arg]]:
    dim = d.integer(0, len(shape) - 1)
    return (*shape[:dim], *shape[dim + 1 :]), (dim, d.integer(-shape[dim], shape[dim] - 1))


def into_slice(d: Drawing, shape: Shape) -> tuple[Shape, Sequence[Arg]]:
    dim = d.integer(0, len(shape) - 1)
    start, step = d.integer(0, shape[dim] - 1), d.integer(1, 3)
    end = d.integer(start + 1, shape[dim])
    ends = (None if start == 0 and d.flag() else start, None if end == shape[dim] else end)
    return (*shape[:dim], len(range(start, end, step)), *shape[dim + 1 :]), (dim, *ends, step)


def into_diagonal(d: Drawing, shape: Shape) -> tuple[Shape, Sequence[Arg]]:
    first, second = two_dims(d, shape)
    offset = d.integer(-min(3, shape[first] - 1), min(3, shape[second] - 1))
    length = min(shape[first] + min(offset, 0), shape[second] - max(offset, 0))
    return (*(s for i, s in enumerate(shape) if i not in (first, second)), length), (
        offset,
        first,
        second,
    )


def op(name: str, sample: Sample, traits: frozenset[str] = LINEAR, **more: Any) -> Operator:
    fields: dict[str, Any] = {"complex": True, "error": EXACT} | more
    return Operator(
        name=name,
        family="movement",
        sample=sample,
        dtypes=EVERY,
        traits=traits,
        **fields,
    )


SPLIT = moved(split_up, 1)
OPERATORS = [
    op("cat", several(along_dim(), mixed=True), out=True),
    op("stack", several(same, 0, 3, mixed=True), out=True),
    op("hstack", several(along_dim(1), 2, mixed=True), out=True),
    op("vstack", several(along_dim(0), 2), out=True),
    op("dstack", several(along_dim(2), 3), out=True),
    op("column_stack", several(along_dim(1), 2, 3), out=True),
    op("block_diag", one_by_one(several(unlike, 0, 2))),
    op("meshgrid", grid),
    op("broadcast_tensors", one_by_one(several(spread, 0, 4))),
    op("cartesian_prod", one_by_one(several(unlike, 1, 1))),
    op("combinations", moved(lambda d, s: [d.integer(1, 2), d.flag()], 1, 1, least=2)),
    op("split", SPLIT),
    op("unsafe_split", moved(in_equal_parts, 1)),
    op("split_with_sizes", moved(in_pieces, 1)),
    op("chunk", moved(lambda d, s: [d.integer(1, 5), d.dim(s)], 1)),
    op("unsafe_chunk", moved(lambda d, s: [d.integer(1, 5), d.dim(s)], 1)),
    op("tensor_split", moved(cuts(), 1)),
    op("hsplit", moved(cuts(1), 2)),
    op("vsplit", moved(cuts(0), 2)),
    op("dsplit", moved(cuts(2), 3)),
    op("unbind", moved(lambda d, s: [d.dim(s)], 1, 4, least=2)),
    op("repeat", moved(repeated), method=True),
    op("tile", moved(repeated)),
    op("repeat_interleave", interleaved),
    op(
        "nn.functional.pad",
        padded,
        error=replace(EXACT, terms=read_most),
        reference=padded_exactly,
    ),
    op("select_scatter", written(into_selected, 1)),
    op("slice_scatter", written(into_slice, 1)),
    op("diagonal_scatter", written(into_diagonal, 2)),
]
