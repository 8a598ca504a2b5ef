"""Activation functions."""

from __future__ import annotations

from typing import Any

from .. import activation_functions as a
from .. import movement
from ..balls import Unsure
from ..complex_numbers import Pair
from ..elementwise import div, mul, node_of, to_real
from ..functions import sigmoid
from ..integers import maximum, minimum, whole
from ..movement import reshape, view
from ..nodes import Node, Unknown
from . import entry


@entry("relu")
def relu(self: Any) -> Any:
    return maximum(self, 0) if whole(self) else a.relu(self)


@entry("hardtanh")
def hardtanh(self: Any, min_val: Any = -1, max_val: Any = 1) -> Any:
    return (
        minimum(maximum(self, min_val), max_val)
        if whole(self, min_val, max_val)
        else a.hardtanh(self, min_val, max_val)
    )


@entry("relu6")
def relu6(self: Any) -> Any:
    return hardtanh(self, 0, 6)


@entry("threshold")
def threshold(self: Any, threshold: Any, value: Any) -> Any:
    return a.threshold(self, threshold, value)


@entry("hardshrink")
def hardshrink(self: Any, lambd: Any = 0.5) -> Any:
    return a.hardshrink(self, lambd)


@entry("softshrink")
def softshrink(self: Any, lambd: Any = 0.5) -> Any:
    return a.softshrink(self, lambd)


@entry("leaky_relu")
def leaky_relu(self: Any, negative_slope: Any = 0.01) -> Any:
    return a.leaky_relu(self, negative_slope)


@entry("elu")
def elu(self: Any, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Any:
    if (alpha, scale) == a.SELU_AS_CALLED:
        alpha, scale = a.documented_selu()
    return a.elu(self, alpha, scale, input_scale)


@entry("celu")
def celu(self: Any, alpha: Any = 1.0) -> Any:
    return a.elu(self, alpha, 1, div(1.0, node_of(alpha)))


@entry("gelu")
def gelu(self: Any, approximate: str = "none") -> Any:
    return a.gelu_by_tanh(self) if approximate == "tanh" else a.gelu(self)


@entry("silu")
def silu(self: Any) -> Any:
    if isinstance(self, Pair):
        raise Unsure("silu of complex numbers")
    return a.silu(self)


@entry("mish")
def mish(self: Any) -> Any:
    return a.mish(self)


@entry("softplus")
def softplus(self: Any, beta: Any = 1, threshold: Any = 20) -> Any:
    return a.softplus_of(self, beta, threshold)


@entry("log_sigmoid", "log_sigmoid_forward")
def log_sigmoid(self: Any, result: Any) -> Any:
    """The second result is an internal buffer of torch."""
    value = a.log_sigmoid(self)
    return (
        (value, Unknown(tuple(result[1].shape), "a buffer"))
        if isinstance(result, (list, tuple))
        else value
    )


@entry("hardsigmoid")
def hardsigmoid(self: Any) -> Any:
    return a.hardsigmoid(self)


@entry("hardswish")
def hardswish(self: Any) -> Any:
    return a.hardswish(self)


@entry("prelu", "_prelu_kernel")
def prelu(self: Any, weight: Any) -> Any:
    if weight.ndim < self.ndim and weight.size > 1:
        weight = reshape(weight, (weight.size, *(1,) * (self.ndim - 2)))
    return a.prelu(self, weight)


@entry("glu")
def glu(self: Any, dim: int = -1) -> Any:
    """The first half times the sigmoid of the second."""
    x = to_real(self)
    first, second = halves(x, dim)
    return mul(first, sigmoid(second))


def halves(x: Node, dim: int) -> tuple[Node, Node]:
    strides = movement.row_major(x.shape)
    shape = list(x.shape)
    shape[dim] //= 2
    return view(x, shape, strides), view(x, shape, strides, shape[dim] * strides[dim])
