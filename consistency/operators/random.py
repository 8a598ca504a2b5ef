"""Random operators. Numbers differ from run to run; the judge compares whether they are possible,
and whether they are likely.

``observe`` turns every output into two: flags of elements whose value the distribution can give (0
or x/(1 − p) from dropout), and flags of the tests in :mod:`.distribution_tests` (how many are 0).
For a healthy result all are True, whatever the seed, except once in some 10⁸ runs. torch's
generator on the CPU is seeded from the case while such an operator runs, and restored afterwards,
so that a case gives the same numbers whatever ran before; generators of other devices are
untouched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..core.recipe import DType
from . import distribution_tests as likely
from .declare import EXACT, FLOATS, Call, Domain, Drawing, ErrorModel, Operator, Sample, call
from .hooks import Args, Kwargs, Tensors, hook
from .nonunique_results import argument, gather_or_nan
from .sampling import shape_of

RANDOM = frozenset({"random", "constant"})
PLAIN = Domain()
NUMBERS = Domain(-64.0, 64.0, wide=(-6, 4), propagates=())  # no distribution is one of NaN


def sizes(d: Drawing, low: int = 1, high: int = 3) -> tuple[int, ...]:
    """Half of the time enough numbers for conclusive tests. Shrinks towards few."""
    if not d.flag():
        return shape_of(d, low, high, elements=2048)
    return (*(d.integer(1, 9) for _ in range(low - 1)), d.size(256, 2049))


def flags(possible: torch.Tensor, *tests: torch.Tensor) -> Tensors:
    return possible, torch.stack(tests)


def events(d: Drawing) -> Call:
    return call(
        d.tensor(
            sizes(d),
            Domain(0.0, 1.0, points=(0.0, 1.0), propagates=()),
            values=d.choice(("uniform", 0.0, 1.0), None),
        )
    )


@hook
def of_events(outputs: Tensors, p: Any, *_: Any, **__: Any) -> Tensors:
    """0 or 1 (as p itself, where it is one of them), as often as p says among small and among large
    p."""
    out = outputs[0]
    possible = torch.where((p == 0.0) | (p == 1.0), out == p, (out == 0.0) | (out == 1.0))
    small = p < 0.5
    return flags(
        possible, *(likely.share(out[group] == 1.0, p[group]) for group in (small, ~small))
    )


def counting(d: Drawing) -> Call:
    return call(d.tensor(sizes(d), PLAIN, values=("uniform", 0.0, 8.0)))


@hook
def of_counts(outputs: Tensors, rate: Any, *_: Any, **__: Any) -> Tensors:
    """Whole numbers, 0 where the rate is; their sum; and how many are not above their rate."""
    out = outputs[0]
    possible = (out >= 0.0) & (out == out.floor()) & ((out == 0.0) | (rate > 0.0)) & out.isfinite()
    below = torch.special.gammaincc(rate.floor() + 1.0, rate)
    out = torch.where(possible, out, 0.0)
    return flags(possible, likely.total(out, rate), likely.share(out <= rate, below))


def choosing(d: Drawing) -> Call:
    """From up to 33 categories, of which at times up to three have no weight."""
    rows, count, replacement = d.integer(1, 64), d.size(4, 33), d.flag()
    shape = (rows, count) if d.flag() else (count,)
    weights = d.tensor(
        shape, Domain(specials=("0",)), values=("uniform", 0.125, 1.0), overlap=False
    )
    return call(weights, d.size(1, 512) if replacement else d.integer(1, count - 3), replacement)


def of_choices(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Categories that have a weight, no one twice unless replaced; the heavy ones as often as their
    weights say. Which ones follow where too few have a weight, torch does not say."""
    weights, chosen = (t if t.ndim > 1 else t.unsqueeze(0) for t in (args[0], outputs[0]))
    possible = gather_or_nan(weights, 1, chosen) > 0.0
    if not argument("replacement", 2, False, args, kwargs):
        possible |= (weights > 0.0).sum(1, keepdim=True) < chosen.shape[1]
        ordered, order = chosen.sort(1)
        twice = torch.cat(
            [torch.zeros_like(ordered[:, :1], dtype=torch.bool), ordered.diff(dim=1) == 0], 1
        )
        possible &= ~torch.zeros_like(twice).scatter(1, order, twice)
        chosen = chosen[:, :1]  # only the first is drawn from the weights as they are
    heavy = weights > weights.mean(1, keepdim=True)
    expected = (weights * heavy).sum(1, keepdim=True) / weights.sum(1, keepdim=True)
    hits = gather_or_nan(heavy, 1, chosen) == 1.0
    return flags(possible, likely.share(hits, expected.expand(hits.shape)))


def made(d: Drawing) -> Call:
    return call(list(sizes(d)), dtype=DType(d.dtype))


def like(d: Drawing) -> Call:
    """Of the shape and the dtype of a tensor, whatever its layout."""
    return call(d.tensor(sizes(d), NUMBERS))


def of_uniform(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    return flags((outputs[0] >= 0.0) & (outputs[0] < 1.0), likely.uniform(outputs[0]))


def of_normal(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    return flags(outputs[0].isfinite(), likely.normal(outputs[0]))


def normal(d: Drawing) -> Call:
    """Means, and deviations of the same shape, one for all, or of 1."""
    shape = sizes(d)
    means = d.tensor(shape, PLAIN, values=("uniform", -2.0, 2.0))
    match d.choice("each", "each", "all", "default"):
        case "all":
            return call(means, d.choice(0.5, 3.0))
        case "default":
            return call(means)
    return call(means, d.tensor(shape, PLAIN, values=("uniform", 0.5, 4.0)))


@hook
def of_standardized(
    outputs: Tensors, mean: Any, deviation: Any = 1.0, *_: Any, **__: Any
) -> Tensors:
    return flags(outputs[0].isfinite(), likely.normal((outputs[0] - mean) / deviation))


def integers(d: Drawing) -> Call:
    low = d.integer(-100, 100)
    return call(low, low + d.integer(1, 100), list(sizes(d)), dtype=DType(d.dtype))


def integers_like(d: Drawing) -> Call:
    low = d.integer(-100, 100)
    return call(d.tensor(sizes(d), PLAIN), low, low + d.integer(1, 100))


def of_integers_like(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    return flags(*between(outputs[0], *args[1:]))


@hook
def of_integers(outputs: Tensors, low: Any, high: Any, *_: Any, **__: Any) -> Tensors:
    return flags(*between(outputs[0], low, high))


def between(out: torch.Tensor, low: int, high: int) -> Tensors:
    """Of low … high − 1, all alike: which are possible, and whether they are likely."""
    out = out.to(torch.float64)
    below: Callable[[torch.Tensor], torch.Tensor] = lambda x: ((x - low) / (high - low)).clamp(  # noqa: E731
        0.0, 1.0
    )
    possible = (out >= low) & (out < high) & (out == out.floor())
    return possible, likely.follows(out, lambda x: below(x + 1.0), below)


def waited(out: torch.Tensor, p: float) -> torch.Tensor:
    """Whether the first success at the k-th trial is as likely as (1 − p)ᵏ⁻¹·p says."""
    until: Callable[[torch.Tensor], torch.Tensor] = lambda x: 1.0 - (1.0 - p) ** x.clamp(min=0.0)  # noqa: E731
    return likely.follows(out.to(torch.float64), until, lambda x: until(x - 1.0))


def permutation(d: Drawing) -> Call:
    return call(d.integer(0, 16) if not d.flag() else d.size(64, 2049), dtype=DType(d.dtype))


@hook
def of_permutation(outputs: Tensors, n: Any, *_: Any, **__: Any) -> Tensors:
    """Each of 0 … n − 1 once; in the first half as many of the upper half as chance has it
    (Hoeffding)."""
    order = outputs[0]
    possible = order.sort().values == torch.arange(n)
    upper = order[: n // 2] >= n - n // 2
    return flags(possible, likely.share(upper, (n // 2) / n if n else 0.5))


def filling(*numbers: tuple[float, ...]) -> Sample:
    """A tensor to be overwritten, often a part of another, and parameters."""

    def sample(d: Drawing) -> Call:
        return call(
            d.tensor(sizes(d), NUMBERS, overlap=False), *(d.choice(*options) for options in numbers)
        )

    return sample


def filled(possible: Callable[..., torch.Tensor], test: Callable[..., torch.Tensor]) -> Any:
    """Of what is written in place: as for other numbers, and nothing beside the tensor's own
    elements may change.

    Both functions take the numbers and the parameters.
    """

    def observe(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
        (x, *parameters), out = args, outputs[0]
        plausible = flags(possible(out, *parameters), test(out, *parameters))
        if len(outputs) < 2:
            return plausible
        before = x.as_strided((outputs[1].numel(),), (1,), 0).to(outputs[1].dtype)
        after = before.clone()
        after.as_strided(x.shape, x.stride(), x.storage_offset()).copy_(out)
        memory_intact = torch.isclose(
            outputs[1].reshape(-1), after, rtol=0.0, atol=0.0, equal_nan=True
        ).all()
        return plausible[0], torch.cat([plausible[1], memory_intact.reshape(1)])

    return observe


def op(name: str, sample: Sample, observe: Any, error: ErrorModel = EXACT, **more: Any) -> Operator:
    settings: dict[str, Any] = {
        "family": "random",
        "dtypes": FLOATS,
        "traits": RANDOM,
        "differentiable": False,
    } | more
    return Operator(name=name, sample=sample, observe=observe, error=error, **settings)


# fmt: off
OPERATORS = [
    op("bernoulli", events, of_events),
    op("poisson", counting, of_counts),
    op("multinomial", choosing, of_choices),
    op("normal", normal, of_standardized),
    op("rand", made, of_uniform),
    op("randn", made, of_normal),
    op("randint", integers, of_integers, dtypes=("int64", "int32", "float32")),
    op(
        "uniform_", filling((0.0, -1.0), (1.0, 4.0)),
        filled(lambda x, low, high: (x >= low) & (x <= high), lambda x, low,
        high: likely.uniform((x - low) / (high - low))),
        mutates=(0,),
    ),
    op(
        "normal_", filling((0.0, -1.0), (1.0, 0.5)),
        filled(lambda x, mean, deviation: x.isfinite(), lambda x, mean,
        deviation: likely.normal((x - mean) / deviation)),
        mutates=(0,),
    ),
    op(
        "exponential_", filling((1.0, 0.25, 4.0)),
        filled(lambda x, rate: (x >= 0.0) & x.isfinite(), lambda x,
        rate: likely.uniform(-torch.expm1(-rate * x))),
        mutates=(0,),
    ),
    op(
        "log_normal_", filling((0.0, -1.0), (1.0, 0.5)),
        filled(lambda x, mean, deviation: (x > 0.0) & x.isfinite(), lambda x, mean,
        deviation: likely.normal((x.log() - mean) / deviation)),
        mutates=(0,),
    ),
    op(
        "cauchy_", filling((0.0, -2.0), (1.0, 0.5)),
        filled(lambda x, median, width: ~x.isnan(), lambda x, median,
        width: likely.uniform(0.5 + ((x - median) / width).atan() / math.pi)),
        mutates=(0,),
    ),
    op(
        "geometric_", filling((0.5, 0.25, 0.875)),
        filled(lambda x, p: (x >= 1) & (x == x.floor()) & x.isfinite(), waited),
        dtypes=(*FLOATS, "int64", "int32"), mutates=(0,),
    ),
    op(
        "bernoulli_", filling((0.5, 0.125, 0.0, 1.0)),
        filled(lambda x, p: (x == 0) | (x == 1), lambda x, p: likely.share(x == 1, p)),
        dtypes=(*FLOATS, "int64", "int32", "uint8", "bool"), mutates=(0,),
    ),
    op(
        "random_", filling((0, -100), (1, 2, 100)),
        filled(lambda x, low, high: between(x, low, high)[0], lambda x, low,
        high: between(x, low, high)[1]),
        dtypes=(*FLOATS, "int64", "int32"), mutates=(0,),
    ),
    op("rand_like", like, of_uniform),
    op("randn_like", like, of_normal),
    op("randint_like", integers_like, of_integers_like, dtypes=("int64", "int32", "float32")),
    op("randperm", permutation, of_permutation, dtypes=("int64", "int32")),
]
