"""Products over more than one pair of dimensions, or of more than two factors. S is the product of
absolute values."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch

from .declare import EVERY, UNIT, Call, Domain, Drawing, accumulated, call, one, products
from .hooks import Args, Kwargs, Tensors, hook
from .matmul import LINEAR, declare
from .parameter_sampling import summed

EQUATIONS = (
    "ij,jk->ik", "ij,kj->ik", "i,i->", "i,j->ij", "ij,ij->i", "ij->ji", "ij->", "ii->i",
    "bij,bjk->bik", "bij,bjk->ik",
    "bhqd,bhkd->bhqk", "...ij,...jk->...ik", "ij,jk,kl->il", "bn,anm,bm->ba",
    "ii->", "ij,ij->", "ij,jk->ki", "ij,k->ijk", "bij,bij->b", "ijk,kl->ijl", "i,ij,j->", "aab->b",
)  # fmt: skip


def einsum(d: Drawing) -> Call:
    """One of the usual equations; every letter gets a size, the ellipsis one dimension."""
    equation = d.choice(*EQUATIONS)
    operands = equation.split("->")[0].replace("...", "Z").split(",")
    max_size = {1: 65, 2: 65, 3: 9, 4: 6}[max(map(len, operands))]
    size = {letter: d.size(1, max_size) for letter in sorted(set("".join(operands)))}
    domain = summed(d, 64) if len(operands) < 3 else UNIT  # three factors: in any order
    return call(
        equation, *(d.tensor([size[letter] for letter in operand], domain) for operand in operands)
    )


def contracted(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """The product of the sizes of the letters that are summed away."""
    left, right = args[0].replace("...", "Z").split("->")
    size = {
        letter: n
        for operand, t in zip(left.split(","), args[1:], strict=True)
        for letter, n in zip(operand, t.shape, strict=True)
    }
    return math.prod((n for letter, n in size.items() if letter not in right), start=1.0)


def kron(d: Drawing) -> Call:
    """Contiguous: transposed operands raise in torch."""
    a, b = (d.shape(0, 3, most=9, elements=64) for _ in range(2))
    return call(d.tensor(a, summed(d, 1), layout=False), d.tensor(b, summed(d, 1), layout=False))


def tensordot(d: Drawing) -> Call:
    """``dims`` as a number, or as two lists."""
    shared = [d.size(1, 33) for _ in range(d.integer(0, 2))]
    a, b = (d.shape(0, 2, most=9, elements=12) for _ in range(2))
    domain = summed(d, math.prod(shared))
    if not d.flag():
        return call(
            d.tensor((*a, *shared), domain), d.tensor((*shared, *b), domain), dims=len(shared)
        )
    dims = [list(range(len(shared))), [len(b) + i for i in range(len(shared))]]
    return call(d.tensor((*shared, *a), domain), d.tensor((*b, *shared), domain), dims=dims)


@hook
def tensordot_terms(outputs: Tensors, x: Any, y: Any, *_: Any, **__: Any) -> float:
    return math.sqrt(max(x.numel() * y.numel() / max(outputs[0].numel(), 1), 1.0))


def factor(d: Drawing, terms: int) -> Domain:
    """The domain of one factor of three or more."""
    return UNIT if d.dtype == "float16" else summed(d, terms)


def multi_dot(d: Drawing) -> Call:
    """Two to five matrices; the first and the last may be vectors."""
    inside = [d.size(1, 33) for _ in range(d.integer(1, 4))]
    first = (inside[0],) if d.flag() else (d.size(1, 17), inside[0])
    last = (inside[-1],) if d.flag() else (inside[-1], d.size(1, 17))
    shapes = [first, *itertools.pairwise(inside), last]
    return call([d.tensor(shape, factor(d, 33)) for shape in shapes])


def bilinear(d: Drawing) -> Call:
    a, b, out = d.size(1, 17), d.size(1, 17), d.size(1, 9)
    before, domain = (
        d.shape(0, 2, most=9, elements=33),
        factor(d, 64),
    )
    bias = (d.tensor((out,), domain),) if d.flag() else ()
    return call(
        d.tensor((*before, a), domain),
        d.tensor((*before, b), domain),
        d.tensor((out, a, b), domain),
        *bias,
    )


def cross(d: Drawing) -> Call:
    shape = list(d.shape(1, 3, most=33, elements=1024))
    dim = d.dim(shape)
    shape[dim] = 3
    return call(d.tensor(shape, summed(d, 2)), d.tensor(shape, summed(d, 2)), dim=dim)


@hook
def cross_magnitude(
    outputs: Tensors, input: torch.Tensor, other: torch.Tensor, dim: int | None = -1
) -> torch.Tensor:
    """Of the products that are subtracted. Without a dimension it is the first of size 3."""
    a, b = input.abs(), other.abs()
    dim = list(outputs[0].shape).index(3) if dim is None else dim
    return a.roll(1, dim) * b.roll(2, dim) + a.roll(2, dim) * b.roll(1, dim)


@hook
def cross_of_any_dimension(
    outputs: Tensors, input: torch.Tensor, other: torch.Tensor, dim: int | None = None
) -> torch.Tensor:
    """As :func:`cross_magnitude`, whose default is another."""
    size: torch.Tensor = cross_magnitude((input, other, dim), {}, outputs)
    return size


@hook
def of_bilinear(outputs: Tensors, x: Any, y: Any, *_: Any, **__: Any) -> float:
    return float(x.shape[-1] * y.shape[-1] + 1)


@hook
def of_chain(outputs: Tensors, matrices: Any, *_: Any, **__: Any) -> float:
    return float(sum(matrix.shape[0] for matrix in matrices[1:]))


CROSS = accumulated(cross_magnitude, one)
CROSS_OF_ANY = accumulated(cross_of_any_dimension, one)
CHAINED = LINEAR | {"chained"}
OPERATORS = [
    declare(
        "einsum",
        einsum,
        products(contracted, integers_exact=True),
        traits=CHAINED,
        complex=True,
        unspecified_aliasing="of one operand, what only moves elements may be a view or a product",
    ),
    declare("kron", kron, products(one, integers_exact=True), EVERY, complex=True, out=True),
    declare(
        "tensordot",
        tensordot,
        products(tensordot_terms, integers_exact=True),
        complex=True,
        out=True,
    ),
    declare(
        "linalg.multi_dot",
        multi_dot,
        products(of_chain, integers_exact=True),
        traits=CHAINED,
        complex=True,
        out=True,
    ),
    declare(
        "nn.functional.bilinear",
        bilinear,
        products(of_bilinear),
        traits=CHAINED,
        complex=True,
        aten="bilinear",
    ),
    declare("cross", cross, CROSS_OF_ANY, complex=True, out=True),
    declare("linalg.cross", cross, CROSS, complex=True, out=True),
]
