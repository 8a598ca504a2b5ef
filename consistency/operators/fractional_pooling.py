"""Maxima over windows at pseudo-random places (Graham, "Fractional Max-Pooling", 2014). The random
numbers that decide the places are an argument here, and so the same on every backend."""

from __future__ import annotations

import math
from typing import Any

from ..core.recipe import Literal
from .declare import FLOATS, Call, Drawing, Sample, call, family
from .parameter_sampling import channels, given_numbers, per_dim, spread
from .pooling import MAXIMUM, PICKS, VALUES, at_maximum

# Window i begins at ⌊(i + r)·α⌋ − ⌊r·α⌋ with α = (size − kernel) / (windows − 1), computed in the
# tested format. With quarters r, and one more window than a power of two, every product is exact,
# in bfloat16 as well; no rounding moves a window.
QUARTERS = 4
COUNTS = (1, 2, 3, 5)
MOST = {2: 33, 3: 9}
IN_HALF = 8  # size − kernel, whose products with (i + r) have at most eight bits up to here


def quarters(d: Drawing, shape: tuple[int, ...]) -> Literal:
    """0, 1/4, 1/2 and 3/4 in turn, in any order. Shrinks to zeros."""
    first, step = d.integer(0, QUARTERS - 1), d.integer(0, QUARTERS - 1)
    numbers = [(first + i * step) % QUARTERS / QUARTERS for i in range(math.prod(shape))]
    return given_numbers(d, numbers, shape)


def fractional(rank: int) -> Sample:
    """Windows that overlap, touch, or leave numbers out; their count, or a ratio of a half to the
    size. Shrinks to one window of one number in a small image."""

    def sample(d: Drawing) -> Call:
        kernel = per_dim(d, rank, 1, 3)
        counts = [d.choice(*COUNTS) for _ in range(rank)]
        wide = d.dtype in ("float32", "float64")
        spatial = []
        for size, count in zip(spread(kernel, rank), counts, strict=True):
            least = size + count - (rank < 3)  # torch asks for one more in volumes
            most = max(least, MOST[rank] if wide else min(MOST[rank], size + IN_HALF))
            spatial.append(d.size(least, most) if least < most else least)
        how: dict[str, Any] = {
            "output_size": counts if len({*counts}) > 1 or d.flag() else counts[0]
        }
        if d.choice(False, False, True):
            spatial = [
                max(2 * count, size + count - (rank < 3))
                for size, count in zip(spread(kernel, rank), counts, strict=True)
            ]
            if all(size // 2 == count for size, count in zip(spatial, counts, strict=True)):
                how = {"output_ratio": 0.5 if rank == 3 and d.flag() else [0.5] * rank}
        batch = () if d.flag() else (d.size(1, 3),)
        planes = channels(d)
        x = d.tensor((*batch, planes, *spatial), VALUES, layout=bool(batch) or rank < 3)
        if d.flag():
            how["return_indices"] = True
        return call(x, kernel, **how, _random_samples=quarters(d, (*(batch or (1,)), planes, rank)))

    return sample


pool = family("pooling", prefix="nn.functional.", dtypes=FLOATS)
OPERATORS = [
    pool(
        f"fractional_max_pool{rank}d",
        fractional(rank),
        MAXIMUM,
        traits=PICKS,
        observe=at_maximum(rank),
        differentiable_inputs=(0,),
        aten=f"fractional_max_pool{rank}d",
    )
    for rank in (2, 3)
]
