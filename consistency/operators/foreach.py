"""``torch._foreach_*``: one call over lists of tensors, each laid out on its own; functional, and
in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from ..core.recipe import TensorRecipe
from .declare import (
    EXACT,
    FLOAT,
    POSITIVE,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    one,
)
from .gradient_magnitudes import gradient_of, one_minus_sigmoid, one_minus_tanh_squared
from .hooks import Args, Kwargs, Tensors, hook

TERM = Domain(wide=(-8, 7))
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
EXPONENT = Domain(-20.0, 20.0)
MOST = 4
ROUND = ErrorModel("rounded", "pointwise", backward="pointwise")
SUMS = accumulated("pointwise", one, backward="pointwise")


def each_gradient(
    step: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[Args, Kwargs, Tensors], tuple[torch.Tensor, ...]]:
    """S of the gradients by a list of tensors, each made of its own rounded result."""
    of_one = gradient_of(step)
    return lambda args, kwargs, outputs: tuple(
        of_one((x,), {}, (y,)) for x, y in zip(args[0], outputs, strict=False)
    )


@hook
def longest(outputs: Tensors, tensors: Any, *_: Any, **__: Any) -> float:
    """n: the elements of the longest tensor."""
    return float(max(tensor.numel() for tensor in tensors))


NORM = accumulated("output", longest, backward="pointwise")


def lists(
    *domains: Domain,
    number: tuple[float, float] | None = None,
    keyword: str = "",
    overlap: bool = True,
    factor: bool = False,
) -> Sample:
    """One list per domain, of tensors of equal shapes; and a number, instead of the last list or in
    addition; with ``factor`` perhaps a power of two by which the last list is multiplied."""

    def sample(d: Drawing) -> Call:
        shapes = [d.shape(0, 3, elements=512) for _ in range(d.integer(1, MOST))]
        tensor_lists: list[Any] = [
            [tensor(d, shape, domain, overlap or position > 0) for shape in shapes]
            for position, domain in enumerate(domains)
        ]
        if number is None:
            return call(*tensor_lists)
        if keyword:
            return call(*tensor_lists, **({keyword: d.number(*number)} if d.flag() else {}))
        if len(domains) > 1 and not d.flag():
            scaled = factor and d.flag()
            return call(*tensor_lists, **({"alpha": d.choice(2.0, 0.5)} if scaled else {}))
        return call(*tensor_lists[: max(len(domains) - 1, 1)], d.number(*number))

    return sample


def tensor(d: Drawing, shape: tuple[int, ...], domain: Domain, overlap: bool) -> TensorRecipe:
    return d.tensor(shape, domain, overlap=overlap)


def mixed(overlap: bool) -> Sample:
    """lerp: two lists, and a weight for all."""

    def sample(d: Drawing) -> Call:
        both = lists(TERM, TERM, overlap=overlap)(d)
        return call(*both.args, d.choice(0.25, 0.75, d.number(-1, 2)))

    return sample


def measured(d: Drawing) -> Call:
    """A list, and perhaps the order of its norms."""
    return call(*lists(TERM)(d).args, *([d.choice(1, float("inf"))] if d.flag() else []))


def in_place(name: str) -> Callable[..., Any] | None:
    """The lists after the call, which returns None."""
    function = getattr(torch, name, None)
    if function is None:
        return None

    def write(first: Any, *rest: Any, **kwargs: Any) -> Any:
        function(first, *rest, **kwargs)
        return first

    return write


def both(
    name: str, sample: Callable[..., Sample], error: ErrorModel = ROUND, **more: Any
) -> list[Operator]:
    """The functional operator, and the one that writes into its first list."""
    functional = Operator(
        name=f"_foreach_{name}", family="foreach", sample=sample(overlap=True), error=error,
        dtypes=FLOAT, **more
    )  # fmt: skip
    return [functional, writing(name, sample(overlap=False), error)]


def writing(name: str, sample: Sample, error: ErrorModel, **more: Any) -> Operator:
    """The mutated positions are those of the longest first list; of a shorter one, other lists'
    tensors are compared as well."""
    full = f"_foreach_{name}_"
    return Operator(
        name=full, family="foreach", sample=sample, function=in_place(full), error=error,
        dtypes=FLOAT, differentiable=False,
        mutates=tuple(range(MOST)), traits=frozenset({"inplace"}) | more.pop("traits", frozenset()),
        **more,
    )  # fmt: skip


def over(*domains: Domain, **options: Any) -> Callable[..., Sample]:
    return lambda overlap: lists(*domains, overlap=overlap, **options)


OPERATORS = [
    *both("add", over(TERM, TERM, number=(-4, 4), factor=True)),
    *both("sub", over(TERM, TERM, number=(-4, 4), factor=True)),
    *both("mul", over(TERM, TERM, number=(-4, 4))),
    *both("div", over(TERM, DIVISOR, number=(1, 4))),
    *both("addcmul", over(TERM, TERM, TERM, number=(-4, 4), keyword="value"), SUMS),
    *both("addcdiv", over(TERM, TERM, DIVISOR, number=(-4, 4), keyword="value"), SUMS),
    *both("lerp", mixed, SUMS),
    *both("sqrt", over(POSITIVE)),
    *both("exp", over(EXPONENT)),
    *both("abs", over(TERM), EXACT),
    *both("neg", over(TERM), EXACT),
    *both("sign", over(TERM), EXACT, differentiable=False),
    *both("reciprocal", over(DIVISOR)),
    *both("sigmoid", over(EXPONENT), replace(SUMS, backward=each_gradient(one_minus_sigmoid))),
    *both("tanh", over(Domain(-4.0, 4.0)), replace(SUMS,
    backward=each_gradient(one_minus_tanh_squared))),
    *both("maximum", over(TERM, TERM, number=(-4, 4)), EXACT),
    *both("minimum", over(TERM, TERM, number=(-4, 4)), EXACT),
    *both("pow", over(Domain(0.25, 4.0), Domain(-4.0, 4.0), number=(-2, 3))),
    Operator(name="_foreach_norm", family="foreach", sample=measured, error=NORM, dtypes=FLOAT,
    differentiable=False),
    writing("zero", lists(TERM, overlap=False), EXACT, traits=frozenset({"constant"})),
]  # fmt: skip
