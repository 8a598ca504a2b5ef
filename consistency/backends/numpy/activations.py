"""Activation functions. `inplace` is accepted and ignored: nothing here changes its input."""

from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dtypes import Array, constant
from consistency.backends.numpy.implementations import implements
from consistency.backends.numpy.special import normal_cdf
from consistency.backends.numpy.unary import sigmoid


def softplus_of(x: Array) -> Array:
    """log(1 + eˣ) without overflow: max(x, 0) + log1p(exp(−|x|))."""
    return np.maximum(x, constant(0, x)) + np.log1p(np.exp(-np.abs(x)))


def _selu(x: Array) -> Array:
    alpha = constant("1.6732632423543772848170429916717", x)
    scale = constant("1.0507009873554804934193349852946", x)
    return scale * np.where(x > 0, x, alpha * np.expm1(x))


_SIMPLE: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.where(
        x < 0, constant(0, x), x
    ),  # which of two equal zeros np.maximum gives is open
    "relu6": lambda x: np.where(x < 0, constant(0, x), np.minimum(x, constant(6, x))),
    "selu": _selu,
    "silu": lambda x: x * sigmoid(x),
    "mish": lambda x: x * np.tanh(softplus_of(x)),
    "hardsigmoid": lambda x: np.minimum(np.maximum(x + 3, 0), 6) / 6,
    "hardswish": lambda x: x * (np.minimum(np.maximum(x + 3, 0), 6) / 6),
}


def _offer_simple(name: str, function: Callable[[Array], Array]) -> None:
    @implements(
        f"nn.functional.{name}", wide=True, integers=name.startswith("relu"), pointwise=True
    )
    def call(input: Array, inplace: bool = False) -> Array:
        return function(input)


for _name, _function in _SIMPLE.items():
    _offer_simple(_name, _function)

_ALL_BUT_INPLACE: dict[str, Callable[[Array], Array]] = {
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "logsigmoid": lambda x: np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))),
}


def _offer_without_inplace(name: str, function: Callable[[Array], Array]) -> None:
    @implements(f"nn.functional.{name}", wide=True, integers=False, pointwise=True)
    def call(input: Array) -> Array:
        return function(input)


for _name, _function in _ALL_BUT_INPLACE.items():
    _offer_without_inplace(_name, _function)


@implements("nn.functional.gelu", integers=False, pointwise=True)
def gelu(input: Array, approximate: str = "none") -> Array:
    """x Φ(x), or with ½ (1 + tanh(y)) for Φ, written as the sigmoid of 2y because it cancels for
    negative y."""
    if approximate == "none":
        return input * normal_cdf(input)
    if approximate != "tanh":
        raise ValueError(f"approximate must be 'none' or 'tanh', not {approximate!r}")
    root = constant("0.79788456080286535587989211986876373695", input)  # √(2/π)
    cubic = input + constant("0.044715", input) * (input * input * input)
    return input * sigmoid(2 * root * cubic)


@implements("nn.functional.leaky_relu", wide=True, integers=False, pointwise=True)
def leaky_relu(input: Array, negative_slope: float = 0.01, inplace: bool = False) -> Array:
    return np.where(input > 0, input, input * constant(negative_slope, input))


@implements("nn.functional.prelu", wide=True, integers=False)
def prelu(input: Array, weight: Array) -> Array:
    """One slope, or one for each channel (dimension 1)."""
    channels = (1, -1) + (1,) * (input.ndim - 2)
    slope = weight.reshape(channels) if weight.size != 1 and input.ndim >= 2 else weight.reshape(())
    return np.where(input > 0, input, slope * input)


@implements("nn.functional.elu", wide=True, integers=False, pointwise=True)
def elu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    return np.where(input > 0, input, constant(alpha, input) * np.expm1(input))


@implements("nn.functional.celu", wide=True, integers=False, pointwise=True)
def celu(input: Array, alpha: float = 1.0, inplace: bool = False) -> Array:
    slope = constant(alpha, input)
    return np.where(input > 0, input, slope * np.expm1(input / slope))


@implements("nn.functional.softplus", wide=True, integers=False, pointwise=True)
def softplus(input: Array, beta: float = 1, threshold: float = 20) -> Array:
    steepness = constant(beta, input)
    scaled = input * steepness
    return np.where(scaled > threshold, input, softplus_of(scaled) / steepness)


@implements("nn.functional.hardtanh", wide=True, integers=False, pointwise=True)
def hardtanh(
    input: Array, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Array:
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    low, high = constant(min_val, input), constant(max_val, input)
    return np.where(
        input < low, low, np.where(input > high, high, input)
    )  # which of two equal zeros np.maximum gives is open


@implements("nn.functional.threshold", wide=True, pointwise=True)
def threshold(input: Array, threshold: float, value: float, inplace: bool = False) -> Array:
    return np.where(input <= threshold, constant(value, input), input)


@implements("nn.functional.hardshrink", wide=True, integers=False, pointwise=True)
def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    return np.where(np.abs(input) <= constant(lambd, input), constant(0, input), input)


@implements("nn.functional.softshrink", wide=True, integers=False, pointwise=True)
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    width = constant(lambd, input)
    return np.where(
        input > width, input - width, np.where(input < -width, input + width, input * 0)
    )


@implements("nn.functional.glu", wide=True, integers=False)
def glu(input: Array, dim: int = -1) -> Array:
    value, gate = np.split(input, 2, dim)
    return value * sigmoid(gate)
