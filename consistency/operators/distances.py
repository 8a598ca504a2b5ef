"""Distances and similarities between rows, and the losses made of them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .declare import FLOAT, FLOATS, HALF, Call, Domain, Drawing, accumulated, call, family
from .hooks import Args, Kwargs, Tensors, hook
from .loss_magnitudes import finite_size, reduce
from .losses import MARGINS
from .magnitudes import finite, joint_maximum, peak
from .parameter_sampling import PLAIN, optional_arguments
from .regression_losses import REDUCTIONS

VECTORS = Domain(wide=(-8, 8), sums=True, squares=True)
NEARBY = Domain(-4.0, 4.0, wide=(-8, 2))
DISTANT = Domain(28.0, 36.0)
APART = Domain(wide=(-8, 2), squares=True)
EPSILON = 1e-6  # the default of pairwise_distance
EPSILONS = (0.5, 2.0**-20, 64.0)
# Simplest first; of the others the smallest is a power of a power, and 0 counts what is not 0.
ORDERS = (1.0, 3.0, math.inf, 2.0, 0.5, 1.5, 0.25, 0.0)


def rows(d: Drawing) -> tuple[int, int]:
    """How many rows, and how long."""
    length = d.size(1, 512)
    return d.size(1, max(1, min(33, 8192 // length))), length


def similarity(d: Drawing) -> Call:
    """Along any dim of two tensors that broadcast."""
    shape = (*d.shape(0, 2, most=9, elements=16), d.size(1, 512))
    if d.flag():
        return call(
            d.tensor(shape, VECTORS),
            d.tensor(shape, VECTORS),
            dim=d.dim(shape),
            **optional_arguments(d, eps=EPSILONS),
        )
    return call(
        d.tensor(shape, VECTORS),
        d.tensor((*d.broadcastable(shape[:-1]), shape[-1]), VECTORS),
        dim=-1,
        **optional_arguments(d, eps=EPSILONS),
    )


def row_distance(d: Drawing) -> Call:
    """Rows, or a single one on either side; in any norm. Where the largest or smallest difference
    is taken, or those that are not 0 are counted, those of the half formats hold whole numbers:
    which difference rounding makes the largest, or 0, nothing promises."""
    shape = rows(d)[d.integer(0, 1) :]
    left, right = d.choice((shape, shape), (shape, shape[-1:]), (shape[-1:], shape))
    options = optional_arguments(
        d, p=(*ORDERS, 100.0, -math.inf), eps=(0.0, 0.5, -1.0), keepdim=(True,)
    )
    exact: dict[str, Any] = {}
    if d.dtype in HALF and options.get("p", 2.0) in (0.0, math.inf, -math.inf):
        exact["values"] = ("integers", -16, 16)
        options["eps"] = options.get("eps", 0.0)
    return call(d.tensor(left, APART, **exact), d.tensor(right, NEARBY, **exact), **options)


def cross_distance(d: Drawing) -> Call:
    """At most 25 rows, above which the default for p = 2 is a matrix product that cancels; or that
    product declined or asked for, or points far from the origin, where it cancels. Batches
    broadcast, one row in sixteen is empty or long. Shrinks to few short rows."""
    many = d.flag()
    n = [d.size(1, 65 if many else 25) for _ in range(2)]
    length = d.choice(0, 1025) if d.integer(0, 15) == 15 else d.size(1, 65)
    batch = d.shape(0, 1, most=3)
    if d.choice(*[False] * 9, True):
        counts = (d.size(1, 65), d.size(26, 65))
        values = ("offset", 1024.0, 1.0)
        return call(*(d.tensor((*batch, k, length), values=values) for k in counts))
    batches = (batch, d.broadcastable(batch))
    n = [min(count, 9) if length > 65 else count for count in n]
    tensors = [
        d.tensor((*each, count, length), NEARBY) for each, count in zip(batches, n, strict=True)
    ]
    mode = {"compute_mode": "donot_use_mm_for_euclid_dist"} if many else {}
    if not many and d.integer(0, 15) == 15:
        mode = {"compute_mode": "use_mm_for_euclid_dist"}
    return call(*tensors, **optional_arguments(d, p=ORDERS), **mode)


def own_distances(d: Drawing) -> Call:
    return call(
        d.tensor((d.size(2, 33), d.size(1, 65)), NEARBY),
        **optional_arguments(d, p=ORDERS),
    )


def triplet(d: Drawing) -> Call:
    """Any norm and eps; torch refuses margins at or below 0. In half precision the rounding of two
    distances decides on which side of 0 their difference and the margin lie, where either slope is
    right: gradients are asked for where what is called positive is the farther one by much."""
    shape = rows(d)[d.integer(0, 1) :]
    margin = {"margin": d.choice(*MARGINS, 64.0, 2.0**-20)} if d.flag() else {}
    options = optional_arguments(
        d, p=ORDERS, swap=(True,), reduction=REDUCTIONS, eps=(2.0**-10, 0.0, 0.5)
    )
    half, order = d.dtype in HALF, options.get("p", 2.0)
    if half and order in (1.0, 2.0, 3.0) and d.flag():
        domains = (NEARBY, DISTANT, NEARBY)
        return call(*(d.tensor(shape, domain) for domain in domains), **margin, **options)
    exact: dict[str, Any] = {}
    if half and order in (0.0, math.inf):
        exact["values"], options["eps"] = ("integers", -16, 16), 0.0
    tensors = [d.tensor(shape, NEARBY, **exact) for _ in range(3)]
    return call(*(replace(t, leaf=not half) for t in tensors), **margin, **options)


def triplet_of_default(d: Drawing) -> Call:
    """With the distance that is used where none is given: the Euclidean one."""
    drawn = triplet(d)
    return call(*drawn.args, **{k: v for k, v in drawn.kwargs.items() if k not in ("p", "eps")})


def cosine_embedding(d: Drawing) -> Call:
    shape = rows(d)[d.integer(0, 1) :]
    target = d.tensor(shape[:-1], PLAIN, values=("tokens", 1.0, 1.0, "-1", "-1", "1"))
    return call(
        d.tensor(shape, VECTORS),
        d.tensor(shape, VECTORS),
        target,
        **optional_arguments(d, margin=(0.25, -0.25, 1.0, -1.0), reduction=REDUCTIONS),
    )


def row_length(*operands: Any) -> int:
    """The length of the rows that operands are spread to: one may hold a single number for each."""
    tensors = (operand for operand in operands if isinstance(operand, torch.Tensor))
    return max((tensor.shape[-1] for tensor in tensors if tensor.ndim), default=1)


@hook
def of_norm(
    outputs: Tensors, x: Any, y: Any = None, *_: Any, p: float = 2.0, eps: float = 0.0, **__: Any
) -> torch.Tensor:
    """|ref|, and the length of the eps that is added to every difference, which may cancel it; a
    root other than the square root carries the rounding of its exponent, times the logarithm of
    what is under it, and one of p < 1 the p-th part of the sum's."""
    length = outputs[0].abs()
    if p != 0.0:
        terms = row_length(x, y)
        length = length + abs(eps) * (terms ** max(1.0 / p, 0.0) if terms else 0.0)
    if p in (0.0, 1.0, 2.0, math.inf, -math.inf):
        return length
    return length * (2.0 + finite(length.log()).abs()) * max(1.0, 1.0 / p)


def slope(x: torch.Tensor, y: torch.Tensor, dim: int, eps: float) -> torch.Tensor:
    """Of cos(x, y) by x, with cotangents of at most 1: (y/‖y‖ − cos·x/‖x‖)/‖x‖, all as precise as a
    sum."""
    of_x, of_y = (torch.linalg.vector_norm(t, 2, dim, keepdim=True).clamp(min=eps) for t in (x, y))
    return math.sqrt(x.shape[dim]) * (y.abs() / of_y + 2.0 * x.abs() / of_x) / of_x  # type: ignore[no-any-return]


@hook
def of_cosine(
    gradients: Tensors, x: torch.Tensor, y: torch.Tensor, dim: int = 1, eps: float = 1e-8
) -> list[torch.Tensor]:
    shape = np.broadcast_shapes(x.shape, y.shape, (1,))
    x, y = x.expand(shape), y.expand(shape)
    sizes = (slope(x, y, dim, eps), slope(y, x, dim, eps))
    return [size.sum_to_size(g.shape) for size, g in zip(sizes, gradients, strict=True)]


@hook
def of_cosines_slope(
    gradients: Tensors,
    x: torch.Tensor,
    y: torch.Tensor,
    target: torch.Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
) -> list[torch.Tensor]:
    # Each row belongs to all targets that it is spread over.
    shape = np.broadcast_shapes((*target.shape, 1), x.shape, y.shape)
    rows = max(math.prod(shape[:-1]), 1)
    x, y = x.expand(shape), y.expand(shape)
    share = 1.0 / rows if reduction == "mean" else 1.0
    sizes = (slope(x, y, -1, EPSILON) * share, slope(y, x, -1, EPSILON) * share)
    return [size.sum_to_size(g.shape) for size, g in zip(sizes, gradients, strict=True)]


@hook
def of_triplet(
    outputs: Tensors, anchor: torch.Tensor, positive: torch.Tensor, negative: torch.Tensor,
    margin: float = 1.0, p: float = 2.0,
    eps: float = EPSILON, swap: bool = False, reduction: str = "mean",
) -> torch.Tensor:  # fmt: skip
    near, far = (((anchor - other).abs() + abs(eps)).norm(p, -1) for other in (positive, negative))
    return reduce(
        near + far + finite_size(margin) + ((positive - negative).norm(p, -1) if swap else 0.0),
        reduction,
    )


@hook
def of_cosines(
    outputs: Tensors,
    x: torch.Tensor,
    y: torch.Tensor,
    target: torch.Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
) -> torch.Tensor:
    """At most 1 + Σ|x·y|/(‖x‖·‖y‖) + margin, and the middle term is at most 1."""
    return reduce(torch.full_like(target, 2.0 + finite_size(margin)), reduction)


def of_rows(args: Args, kwargs: Kwargs, gradients: Tensors) -> float:
    """Differences divided by their length, which is as precise as a sum; where one gradient
    cancels, another does not."""
    return math.sqrt(row_length(*args[:2])) * float(joint_maximum(args, kwargs, gradients))


def of_slopes(args: Args, kwargs: Kwargs, gradients: Tensors) -> Any:
    """Of |d|ᵖ⁻¹·D¹⁻ᵖ with the distance D = s^(1/p): D¹⁻ᵖ is off by |1 − p|/p times as much as the
    sum s, relative to it."""
    p = kwargs.get("p", 2.0)
    steepness = abs(1.0 - p) / p if p and math.isfinite(p) else 1.0
    return tuple(size * max(steepness, 1.0) for size in peak(args, kwargs, gradients))


@hook
def last(
    outputs: Tensors, x: Any, y: Any = None, *_: Any, reduction: str = "mean", **__: Any
) -> float:
    """n: the length of a row, and of a batch that is reduced."""
    per_row = x.numel() / max(outputs[0].numel(), 1) if reduction != "none" else 1.0
    return max(float(row_length(x, y)), per_row)


@hook
def along_dim(outputs: Tensors, x: Any, y: Any, *_: Any, dim: int = 1, **__: Any) -> float:
    shape = np.broadcast_shapes(x.shape, y.shape)
    return float(shape[dim]) if shape else 1.0


distance = family("loss", dtypes=FLOAT)
in_half = family("loss", dtypes=FLOATS)


OPERATORS = [
    in_half(
        "nn.functional.cosine_similarity",
        similarity,
        accumulated("products", along_dim, backward=of_cosine, wide_accumulation=False),
    ),
    in_half(
        "nn.functional.pairwise_distance",
        row_distance,
        accumulated(of_norm, last, backward=of_rows, wide_accumulation=False),
        complex=True,
    ),
    distance("cdist", cross_distance, accumulated(of_norm, last, backward=of_slopes)),
    distance("nn.functional.pdist", own_distances, accumulated(of_norm, last, backward=of_slopes)),
    in_half(
        "nn.functional.triplet_margin_loss",
        triplet,
        accumulated(of_triplet, last, backward=of_rows, wide_accumulation=False),
    ),
    in_half(
        "nn.functional.triplet_margin_with_distance_loss",
        triplet_of_default,
        accumulated(of_triplet, last, backward=of_rows, wide_accumulation=False),
    ),
    in_half(
        "nn.functional.cosine_embedding_loss",
        cosine_embedding,
        accumulated(of_cosines, last, backward=of_cosines_slope, wide_accumulation=False),
        differentiable_inputs=(0, 1),
        whole=(2,),
    ),
]
