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
from .gradient_magnitudes import (
    gradient_of,
    one_minus_sigmoid,
    one_minus_tanh_squared,
    one_more_than_expm1,
)
from .hooks import Args, Kwargs, Tensors, hook
from .nonunique_results import zeros_aside

TERM = Domain(wide=(-8, 7))
DIVISOR = Domain(2.0**-4, 16.0, wide=(-4, 3))
EXPONENT = Domain(-20.0, 20.0)
BASE, EXPONENTS = Domain(0.25, 4.0), Domain(-4.0, 4.0)
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
    tensors: bool = False,
) -> Sample:
    """One list per domain, of tensors of equal shapes; and a number, instead of the last list or in
    addition: one for all tensors, one for each, or, in place, with ``tensors`` as a tensor (torch
    has no gradients of that form); with ``factor`` perhaps a power of two by which the last
    list is multiplied."""

    def sample(d: Drawing) -> Call:
        shapes = [d.shape(0, 3, elements=512) for _ in range(d.integer(1, MOST))]
        tensor_lists: list[Any] = [
            [tensor(d, shape, domain, overlap or position > 0) for shape in shapes]
            for position, domain in enumerate(domains)
        ]
        if number is None:
            return call(*tensor_lists)
        kind = d.choice("one", "each", *["tensor"] * (tensors and not overlap))
        if keyword:
            beside = numbers(d, kind, len(shapes), number) if d.flag() else None
            if beside is None or kind == "one":
                return call(*tensor_lists, **({} if beside is None else {keyword: beside}))
            return call(*tensor_lists, beside)
        if len(domains) > 1 and not d.flag():
            scaled = factor and d.flag()
            return call(*tensor_lists, **({"alpha": d.choice(2.0, 0.5)} if scaled else {}))
        if kind == "tensor":
            low, high = number
            beside = tensor(d, (), Domain(low, high), True)
        else:
            beside = numbers(d, kind, len(shapes), number)
        return call(*tensor_lists[: max(len(domains) - 1, 1)], beside)

    return sample


def numbers(d: Drawing, kind: str, count: int, bounds: tuple[float, float]) -> Any:
    """A number, a list of ``count`` numbers, or a tensor of them."""
    if kind == "one":
        return d.number(*bounds)
    if kind == "tensor":
        return d.tensor((count,), Domain(*bounds), layout=False)
    return [d.number(*bounds) for _ in range(count)]


def tensor(d: Drawing, shape: tuple[int, ...], domain: Domain, overlap: bool) -> TensorRecipe:
    return d.tensor(shape, domain, overlap=overlap)


def mixed(overlap: bool) -> Sample:
    """lerp: two lists, and a weight for all, for each, or for each element."""

    def sample(d: Drawing) -> Call:
        match d.choice("one", "each", "list"):
            case "list":
                return lists(TERM, TERM, Domain(-1.0, 2.0), overlap=overlap)(d)
            case "each":
                both = lists(TERM, TERM, overlap=overlap)(d)
                return call(*both.args, [d.number(-1, 2) for _ in both.args[0]])
        both = lists(TERM, TERM, overlap=overlap)(d)
        return call(*both.args, d.choice(0.25, 0.75, d.number(-1, 2)))

    return sample


def raised(overlap: bool) -> Sample:
    """pow: a list and exponents, or a number and a list of exponents."""
    powers = lists(BASE, EXPONENTS, number=(-2, 3), overlap=overlap)

    def sample(d: Drawing) -> Call:
        if overlap and d.choice(False, False, True):
            return call(d.number(0.25, 4), *lists(EXPONENTS)(d).args)
        return powers(d)

    return sample


def measured(d: Drawing) -> Call:
    """A list, and perhaps the order of its norms."""
    return call(*lists(TERM)(d).args, *([d.choice(1, float("inf"))] if d.flag() else []))


def copied(d: Drawing) -> Call:
    """Two lists of tensors of equal shapes; the first is written to."""
    return lists(TERM, TERM, overlap=False)(d)


def in_place(name: str) -> Callable[..., Any] | None:
    """The lists after the call, which returns None."""
    function = getattr(torch, name, None)
    if function is None:
        return None

    def write(first: Any, *rest: Any, **kwargs: Any) -> Any:
        function(first, *map(_on_the_host, rest), **kwargs)
        return first

    return write


def _on_the_host(argument: Any) -> Any:
    """A tensor that holds one number for each tensor of the lists must be the CPU's, wherever those
    are (pytorch#88157)."""
    of_numbers = isinstance(argument, torch.Tensor) and argument.ndim == 1
    return argument.cpu() if of_numbers else argument


def both(
    name: str, sample: Callable[..., Sample], error: ErrorModel = ROUND, **more: Any
) -> list[Operator]:
    """The functional operator, and the one that writes into its first list."""
    functional = Operator(
        name=f"_foreach_{name}", family="foreach", sample=sample(overlap=True), error=error,
        dtypes=FLOAT, **more
    )  # fmt: skip
    return [functional, writing(name, sample(overlap=False), error, observe=functional.observe)]


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


ONE = Domain(-0.9375, 0.9375)
ANGLE = Domain(-8.0, 8.0)
# Functions of single elements, and where.
UNARY = {
    "acos": ONE, "asin": ONE, "atan": TERM, "cos": ANGLE, "cosh": EXPONENT, "erf": ANGLE,
    "erfc": ANGLE, "lgamma": Domain(0.25, 20.0), "log": POSITIVE,
    "log10": POSITIVE, "log1p": Domain(-0.9375, 1000.0), "log2": POSITIVE, "rsqrt": POSITIVE,
    "sin": ANGLE, "sinh": EXPONENT, "tan": Domain(-1.5, 1.5),
}  # fmt: skip
STEPS = ("ceil", "floor", "frac", "round", "trunc")

OPERATORS = [
    *both("add", over(TERM, TERM, number=(-4, 4), factor=True, tensors=True)),
    *both("sub", over(TERM, TERM, number=(-4, 4), factor=True)),
    *both("mul", over(TERM, TERM, number=(-4, 4), tensors=True)),
    *both("div", over(TERM, DIVISOR, number=(1, 4), tensors=True)),
    *both("addcmul", over(TERM, TERM, TERM, number=(-4, 4), keyword="value", tensors=True), SUMS),
    *both(
        "addcdiv", over(TERM, TERM, DIVISOR, number=(-4, 4), keyword="value", tensors=True), SUMS
    ),
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
    *both("maximum", over(TERM, TERM, number=(-4, 4)), EXACT, observe=zeros_aside),
    *both("minimum", over(TERM, TERM, number=(-4, 4)), EXACT, observe=zeros_aside),
    *both("clamp_max", over(TERM, TERM, number=(-4, 4)), EXACT, observe=zeros_aside),
    *both("clamp_min", over(TERM, TERM, number=(-4, 4)), EXACT, observe=zeros_aside),
    *both("pow", raised),
    *(form for name, domain in UNARY.items() for form in both(name, over(domain), SUMS)),
    *both("expm1", over(EXPONENT), replace(SUMS, backward=each_gradient(one_more_than_expm1))),
    *(form for name in STEPS for form in both(name, over(TERM), EXACT, differentiable=False)),
    Operator(name="_foreach_norm", family="foreach", sample=measured, error=NORM, dtypes=FLOAT,
    differentiable=False),
    Operator(name="_foreach_max", family="foreach", sample=lists(TERM), error=EXACT, dtypes=FLOAT,
    differentiable=False),
    writing("copy", copied, EXACT),
    writing("zero", lists(TERM, overlap=False), EXACT, traits=frozenset({"constant"})),
]  # fmt: skip
