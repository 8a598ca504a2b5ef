"""Masks and blends of two tensors, in terms of arithmetic."""

from __future__ import annotations

from typing import Any

import torch

from ..declare import Call, Drawing, call
from .declaration import APART, FREE, OperatorFormula, Run, tensors


def where_arguments(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, dtype="bool"), d.tensor(shape, FREE), d.tensor(shape, FREE))


def masked_fill_arguments(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, FREE), d.tensor(shape, dtype="bool"), d.number(-4, 4))


def lerp_arguments(d: Drawing) -> Call:
    shape = d.shape(0, 3)
    return call(d.tensor(shape, FREE), d.tensor(shape, FREE), d.choice(0.25, 0.75, d.number(-1, 2)))


def masked_fill(call: Run, x: Any, mask: Any, value: Any) -> Any:
    return call("where", mask, torch.as_tensor(value, dtype=x.dtype, device=x.device), x)


def where(call: Run, mask: Any, x: Any, y: Any) -> Any:
    weight = mask.to(x.dtype)
    return call("add", call("mul", x, weight), call("mul", y, call("rsub", weight, 1.0)))


def lerp(call: Run, x: Any, y: Any, weight: float) -> Any:
    return call("add", x, call("mul", call("sub", y, x), weight))


def hypot(call: Run, x: Any, y: Any) -> Any:
    return call("sqrt", call("add", call("mul", x, x), call("mul", y, y)))


FORMULAS = [
    OperatorFormula("where", "where", "products with the mask", where, where_arguments),
    OperatorFormula(
        "masked_fill",
        "masked_fill",
        "torch.where(mask, value, x)",
        masked_fill,
        masked_fill_arguments,
    ),
    OperatorFormula("lerp", "lerp", "x + weight·(y − x)", lerp, lerp_arguments),
    OperatorFormula("hypot", "hypot", "√(x² + y²)", hypot, tensors(APART, APART)),
]
