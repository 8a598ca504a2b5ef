"""Conversions between dtypes, sometimes beyond an integer's range: integers wrap there, C++ leaves
floats undefined.

:mod:`consistency.reference.integer_casts` lists what is admissible there.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..core.recipe import DType
from .declare import EVERY, EVERYWHERE, EXACT, Call, Domain, Drawing, Operator, Sample, call
from .definitions import ordered
from .hooks import Tensors, hook
from .sampling import shape_of, unary

TRAITS = frozenset({"elementwise", "linear", "cast"})
ANY = Domain(specials=EVERYWHERE, wide=(-24, 24), tiny=True)


def whole(low: float, high: float, beyond: float) -> Sample:
    """Fractions of either sign within [low, high]: conversion truncates, it does not round. A few
    reach as far as ±``beyond``."""

    def sample(d: Drawing) -> Call:
        if not d.floating and d.dtype != "bool":
            inside, outside = (round(low), round(high)), (-round(beyond), round(beyond))
            reach = inside if beyond > 2.0**60 else d.choice(inside, outside)
            return call(d.tensor(shape_of(d), values=("integers", *reach)))
        widest = 60000.0 if d.dtype == "float16" else math.inf
        bottom, top, far = max(low, -widest), min(high, widest), min(beyond, widest)
        overflowing = ("tokens", -far, far, "nan", "inf", "-inf", "max", "-max", "1")
        values = d.choice(None, ("uniform", bottom, top), None, overflowing) if d.floating else None
        near_one = Domain(max(bottom, -9.0), 9.0, points=(1.0, -1.0, 0.5))
        return call(
            d.tensor(
                shape_of(d),
                d.choice(Domain(bottom, top, points=(bottom, top)), near_one),
                values=values,
            )
        )

    return sample


def converted(d: Drawing) -> Call:
    """``to`` an integer or bool dtype, or from one floating-point format to another. Shrinks
    towards int64."""
    if d.floating and not d.complex and d.flag():
        into = d.choice("float32", "float16", "bfloat16", "float64")
        return call(d.tensor(shape_of(d), ANY), DType(into))
    (x,) = whole(0.0, 127.0, 2.0**17)(d).args
    into = DType(d.choice("int64", "uint8", "int32", "int16", "uint8", "bool", "int8"))
    return call(x, into, **({"copy": True} if d.choice(False, False, True) else {}))


def rounded_once(dtype: torch.dtype | None = None) -> Any:
    """The nearest number of ``dtype``, or of the half precision that the call names: torch rounds
    float64 to float32 first, which breaks about one tie in 2¹³ the wrong way."""

    @hook
    def alternatives(outputs: Tensors, x: Any, *args: Any, **kwargs: Any) -> list[Tensors]:
        named = (arg for arg in (*args, *kwargs.values()) if isinstance(arg, torch.dtype))
        into = dtype or next(named, None)
        if into not in (torch.float16, torch.bfloat16) or x.is_complex():
            return []
        x = x.int() if x.dtype == torch.bool else ordered(x)
        single = x.float()
        bits = single.view(torch.int32) - (single.double().abs() > x.abs()).int()  # toward zero …
        odd = (bits | (single.double() != x).int()).view(
            torch.float32
        )  # … and odd if anything was lost: no tie is left to break
        return [(odd.to(into),)]

    return alternatives


def op(name: str, sample: Sample, **more: Any) -> Operator:
    return Operator(
        name=name,
        family="cast",
        sample=sample,
        error=EXACT,
        dtypes=EVERY,
        complex=True,
        **{"traits": TRAITS} | more,
    )


BIG = 2.0**30
OPERATORS = [
    op("float", unary(ANY), function=torch.Tensor.float),
    op("double", unary(ANY), function=torch.Tensor.double),
    op("cfloat", unary(ANY), function=torch.Tensor.cfloat),  # type: ignore[attr-defined]
    op("cdouble", unary(ANY), function=torch.Tensor.cdouble),  # type: ignore[attr-defined]
    op("half", unary(ANY), function=torch.Tensor.half, alternatives=rounded_once(torch.float16)),
    op(
        "bfloat16",
        unary(ANY),
        function=torch.Tensor.bfloat16,
        alternatives=rounded_once(torch.bfloat16),
    ),
    op("int", whole(-BIG, BIG, 2.0**33), function=torch.Tensor.int, differentiable=False),
    op("long", whole(-BIG, BIG, 2.0**65), function=torch.Tensor.long, differentiable=False),
    op(
        "short",
        whole(-32000.0, 32000.0, 2.0**17),
        function=torch.Tensor.short,
        differentiable=False,
    ),
    op("char", whole(-127.0, 127.0, 1000.0), function=torch.Tensor.char, differentiable=False),
    op("byte", whole(0.0, 255.0, 1000.0), function=torch.Tensor.byte, differentiable=False),
    op("bool", unary(ANY), function=torch.Tensor.bool, differentiable=False),
    op(
        "to",
        converted,
        function=torch.Tensor.to,
        differentiable=False,
        alternatives=rounded_once(),
    ),
]
