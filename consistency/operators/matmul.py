"""Matrix products. S is the product of absolute values, n the length of the contracted
dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import (
    EVERY,
    FLOATS,
    NUMERIC,
    Call,
    Domain,
    Drawing,
    InPlaceVariant,
    call,
    family,
    one,
    products,
)
from .hooks import Tensors, hook
from .parameter_sampling import extent, scaling, summed
from .write_destinations import multiplied

LINEAR = frozenset({"linear"})


@hook
def inner(outputs: Tensors, x: Any, *_: Any, **__: Any) -> float:
    """The last dimension of the first factor."""
    return float(x.shape[-1] if x.ndim else 1)


@hook
def inner_in_place(outputs: Tensors, x: Any, mat1: Any, *_: Any, **__: Any) -> float:
    """n of ``addmm_``: the number of terms of the product."""
    return float(mat1.shape[-1])


@hook
def inner_added(outputs: Tensors, x: Any, first: Any, *_: Any, **__: Any) -> float:
    """The same where the first argument is added to the product of the others; ``addbmm`` also sums
    over the batch."""
    out = outputs[0]
    return (
        float(first.shape[-1] * (first.shape[0] if first.ndim > out.ndim else 1) + 1)
        if first.ndim > 1
        else 2.0
    )


def sizes(d: Drawing, most: int = 65) -> tuple[int, int, int]:
    """m, k and n of a product: k up to 2048, and at most 6000 elements in an operand; seldom all
    equal, seldom many long sums, whose errors show how they are accumulated, and rarely none."""
    kind = d.integer(0, 9)
    if kind == 9:
        square = d.size(2, min(most, 33))
        return square, square, square
    if kind == 8:
        return d.size(9, 17), d.size(256, 1025), d.size(9, 17)
    k = 0 if kind == 7 and d.integer(0, 3) == 3 else d.size(1, 2048)
    most = max(1, min(most, 6000 // max(k, 1)))
    return extent(d, most), k, d.size(1, most)


def matmul(d: Drawing) -> Call:
    """All combinations of ranks; batches broadcast."""
    m, k, n = sizes(d, 33)
    left, right = d.choice(
        (2, 2),
        (1, 2),
        (2, 1),
        (1, 1),
        (3, 3),
        (3, 2),
        (2, 3),
        (3, 1),
        (1, 3),
        (4, 4),
        (4, 3),
        (2, 4),
        (4, 1),
    )
    a = {1: (k,), 2: (m, k)}.get(left, (min(m, 8), k))
    b = {1: (k,), 2: (k, n)}.get(right, (k, min(n, 8)))
    if max(left, right) > 2:
        batch = d.shape(1, 1 + (max(left, right) == 4), most=3, elements=4)
        a = (*d.broadcastable(batch), *a) if left > 2 else a
        b = (*d.broadcastable(batch), *b) if right > 2 else b
    domain = summed(d, k)
    return call(d.tensor(a, domain), d.tensor(b, domain))


def mm(d: Drawing) -> Call:
    m, k, n = sizes(d)
    return call(d.tensor((m, k), summed(d, k)), d.tensor((k, n), summed(d, k)))


def bmm(d: Drawing) -> Call:
    batch, (m, k, n) = d.size(1, 3), sizes(d, 17)
    return call(d.tensor((batch, m, k), summed(d, k)), d.tensor((batch, k, n), summed(d, k)))


def mv(d: Drawing) -> Call:
    m, k, _ = sizes(d)
    return call(d.tensor((m, k), summed(d, k)), d.tensor((k,), summed(d, k)))


def dot(d: Drawing) -> Call:
    k = d.size(1, 4095)
    return call(d.tensor((k,), summed(d, k)), d.tensor((k,), summed(d, k)))


def inner_product(d: Drawing) -> Call:
    """Any ranks; the last dimensions agree."""
    k = d.size(1, 512)
    a, b = (d.shape(0, 2, most=9, elements=16) for _ in range(2))
    return call(d.tensor((*a, k), summed(d, k)), d.tensor((*b, k), summed(d, k)))


def outer(d: Drawing) -> Call:
    return call(d.tensor((extent(d, 129),), summed(d, 1)), d.tensor((d.size(1, 65),), summed(d, 1)))


def addend(
    d: Drawing, shape: tuple[int, ...], domain: Domain, scales: dict[str, Any]
) -> TensorRecipe:
    """What is added to a product: where beta is 0 it is ignored, even NaN."""
    ignored = scales.get("beta") == 0 and d.dtype in FLOATS
    return d.tensor(
        shape, domain, values=("tokens", -1.0, 1.0, "nan", "inf", "1") if ignored else None
    )


def factor(domain: Domain, scales: dict[str, Any]) -> Domain:
    """The domain of both factors: whether 0 times a product that is NaN is ignored, too, nobody
    says."""
    return replace(domain, propagates=()) if scales.get("alpha") == 0 else domain


def addmm(d: Drawing) -> Call:
    (m, k, n), scales = sizes(d, 33), scaling(d)
    domain = summed(d, k)
    return call(
        addend(d, d.broadcastable((m, n)), domain, scales),
        d.tensor((m, k), factor(domain, scales)),
        d.tensor((k, n), factor(domain, scales)),
        **scales,
    )


def addmv(d: Drawing) -> Call:
    (m, k, _), scales = sizes(d), scaling(d)
    domain = summed(d, k)
    return call(
        addend(d, d.broadcastable((m,)), domain, scales),
        d.tensor((m, k), factor(domain, scales)),
        d.tensor((k,), factor(domain, scales)),
        **scales,
    )


def added_product(
    input: torch.Tensor, mat: torch.Tensor, vec: torch.Tensor, **scales: Any
) -> torch.Tensor:
    """``addmv`` with the input already broadcast: torch omits this for empty matrices
    (docs/findings.md)."""
    return torch.addmv(input.expand(mat.shape[0]), mat, vec, **scales)


def addr(d: Drawing) -> Call:
    m, n, domain, scales = d.size(1, 65), d.size(1, 65), summed(d, 1), scaling(d)
    return call(
        addend(d, d.broadcastable((m, n)), domain, scales),
        d.tensor((m,), factor(domain, scales)),
        d.tensor((n,), factor(domain, scales)),
        **scales,
    )


def baddbmm(d: Drawing) -> Call:
    batch, (m, k, n) = d.size(1, 3), sizes(d, 17)
    domain, added = summed(d, k), d.broadcastable((batch, m, n))
    scales = scaling(d)
    return call(
        addend(d, added, domain, scales),
        d.tensor((batch, m, k), factor(domain, scales)),
        d.tensor((batch, k, n), factor(domain, scales)),
        **scales,
    )


def addbmm(d: Drawing) -> Call:
    batch, (m, k, n) = d.size(1, 3), sizes(d, 17)
    domain, added, scales = summed(d, k * batch), d.broadcastable((m, n)), scaling(d)
    return call(
        addend(d, added, domain, scales),
        d.tensor((batch, m, k), factor(domain, scales)),
        d.tensor((batch, k, n), factor(domain, scales)),
        **scales,
    )


def linear(d: Drawing) -> Call:
    """Up to three dimensions of rows; few results of many numbers, and the other way around."""
    k, out = d.size(1, 1024), d.size(1, 17)
    if d.integer(0, 7) == 7:
        k, out = d.size(1, 17), d.size(1, 513)
    before = d.shape(0, 3, most=17, elements=max(1, 6000 // max(k, out)))
    bias = (d.tensor((out,), summed(d, k)),) if d.flag() else ()
    return call(d.tensor((*before, k), summed(d, k)), d.tensor((out, k), summed(d, k)), *bias)


def vecdot(d: Drawing) -> Call:
    """Broadcasts; along any dimension."""
    shape = (*d.shape(0, 2, most=9, elements=16), d.size(1, 513))
    if d.flag():
        return call(
            d.tensor(shape, summed(d, 512)), d.tensor(shape, summed(d, 512)), dim=d.dim(shape)
        )
    other = (*d.broadcastable(shape[:-1]), shape[-1])
    return call(d.tensor(shape, summed(d, 512)), d.tensor(other, summed(d, 512)))


declare = family("matmul", dtypes=NUMERIC, traits=LINEAR)


EXACT_ON_INTEGERS = products(inner, integers_exact=True)
ADDED = products(inner_added)

OPERATORS = [
    declare("matmul", matmul, EXACT_ON_INTEGERS, complex=True, out=True, method=True),
    declare("mm", mm, EXACT_ON_INTEGERS, complex=True, out=True, method=True),
    declare("bmm", bmm, EXACT_ON_INTEGERS, complex=True, out=True, method=True),
    declare("mv", mv, EXACT_ON_INTEGERS, complex=True, out=True, method=True),
    declare("dot", dot, EXACT_ON_INTEGERS, complex=True, out=True, method=True),
    declare("vdot", dot, EXACT_ON_INTEGERS, complex=True, out=True),
    declare("inner", inner_product, EXACT_ON_INTEGERS, complex=True, out=True),
    declare(
        "outer",
        outer,
        products(one, integers_exact=True),
        EVERY,
        complex=True,
        out=True,
        method=True,
    ),
    declare(
        "addmm",
        addmm,
        ADDED,
        complex=True,
        out=True,
        method=True,
        inplace=InPlaceVariant(
            "addmm_", multiplied, error=products(inner_in_place, integers_exact=True)
        ),
    ),
    declare("addmv", addmv, ADDED, reference=added_product, complex=True, out=True),
    declare("addr", addr, ADDED, complex=True, out=True),
    declare("baddbmm", baddbmm, ADDED, complex=True, out=True, method=True),
    declare("addbmm", addbmm, ADDED, complex=True, out=True),
    declare(
        "nn.functional.linear", linear, EXACT_ON_INTEGERS, complex=True, aten="linear", out=True
    ),
    declare("linalg.vecdot", vecdot, EXACT_ON_INTEGERS, FLOATS, complex=True, out=True),
]
