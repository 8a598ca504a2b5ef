"""Activation functions, in terms of exponentials and products."""

from __future__ import annotations

import math
from typing import Any

import torch

from .declaration import FREE, OperatorFormula, Run, tensors


def gelu(call: Run, x: Any, *, approximate: str = "none") -> Any:
    if approximate != "none":
        raise NotImplementedError
    return call("mul", x, call("mul", call("special.erfc", call("mul", x, -math.sqrt(0.5))), 0.5))


def silu(call: Run, x: Any) -> Any:
    return call("div", x, call("add", call("exp", call("neg", x)), 1.0))


def sigmoid(call: Run, x: Any) -> Any:
    return call("reciprocal", call("add", call("exp", call("neg", x)), 1.0))


def tanh(call: Run, x: Any) -> Any:
    return call("sub", call("mul", call("sigmoid", call("mul", x, 2.0)), 2.0), 1.0)


def softplus(call: Run, x: Any) -> Any:
    return call("logaddexp", x, torch.zeros_like(x))


def mish(call: Run, x: Any) -> Any:
    return call("mul", x, call("tanh", call("nn.functional.softplus", x)))


FORMULAS = [
    # (1 + erf)/2 below 0 loses digits in float64, too.
    OperatorFormula(
        "gelu",
        "nn.functional.gelu",
        "x · erfc(−x/√2) / 2",
        gelu,
        tensors(FREE),
        dtypes=("float32",),
    ),
    OperatorFormula("silu", "nn.functional.silu", "x / (1 + exp(−x))", silu, tensors(FREE)),
    OperatorFormula("sigmoid", "sigmoid", "1 / (1 + exp(−x))", sigmoid, tensors(FREE)),
    # 1 − tanh² far from 0 loses digits in float64, too.
    OperatorFormula("tanh", "tanh", "2·sigmoid(2x) − 1", tanh, tensors(FREE), dtypes=("float32",)),
    OperatorFormula(
        "softplus", "nn.functional.softplus", "logaddexp(x, 0)", softplus, tensors(FREE)
    ),
    OperatorFormula("mish", "nn.functional.mish", "x · tanh(softplus(x))", mish, tensors(FREE)),
]
