"""Recurrent layers; those of oneDNN know no float64."""

from __future__ import annotations

import functools
from typing import Any

import torch

from ....core.gradients import vector_jacobian_product
from ....operators.declare import accumulated
from ....operators.hooks import Args, Kwargs, Tensors
from .declaration import KernelDeclaration

_LSTM = 2  # what oneDNN's recurrent layer calls it


def _terms_of_gates(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return float(args[0].shape[-1] + args[5].shape[-1])


def _terms_of_sequences(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    """n of each gate, of ``lstm(input, (h, c), …)`` and its kin."""
    state = args[1][0] if isinstance(args[1], (list, tuple)) else args[1]
    return float(args[0].shape[-1] + state.shape[-1])


def _terms_of_steps(args: Args, kwargs: Kwargs, outputs: Tensors) -> float:
    return _terms_of_gates(args, kwargs, outputs) * float(args[0].shape[0])


def _gradients(args: Args, kwargs: Kwargs, outputs: Tensors) -> Tensors:
    """Without the scratch space, which the kernel writes to."""
    return outputs[:7]


def _lstm(
    x: Any, weights: list[Any], hx: Any, cx: Any, reverse: bool, mode: int, biases: bool
) -> tuple[torch.Tensor, ...]:
    """One layer in one direction over (steps, batch, width)."""
    if mode != _LSTM:
        raise NotImplementedError("of oneDNN's recurrent layers the LSTM is known in float64")
    inputs = x.flip(0) if reverse else x
    states = [state.reshape(1, x.shape[1], -1) for state in (hx, cx)]
    output, hy, cy = torch.lstm(
        inputs, states, weights[: 4 if biases else 2], biases, 1, 0.0, False, False, False
    )
    return output.flip(0) if reverse else output, hy, cy


def recurrent_layer(*args: Any) -> tuple[torch.Tensor, ...]:
    """``mkldnn_rnn_layer`` without its scratch space."""
    x, w0, w1, w2, w3, hx, cx, reverse, _sizes, mode, _hidden, _layers, biases, *_ = args
    output, hy, cy = _lstm(x, [w0, w1, w2, w3], hx, cx, reverse, mode, biases)
    return output, hy.reshape(hx.shape), cy.reshape(cx.shape)


def recurrent_layer_backward(*args: Any) -> tuple[torch.Tensor, ...]:
    """``mkldnn_rnn_layer_backward``: the gradients of input, weights, biases and states, from the
    inputs alone."""
    (
        x,
        w0,
        w1,
        w2,
        w3,
        hx,
        cx,
        _output,
        _hy,
        _cy,
        of_output,
        of_hy,
        of_cy,
        reverse,
        mode,
        _hidden,
        _layers,
        biases,
        *_,
    ) = args
    with torch.enable_grad():
        leaves = [tensor.detach().requires_grad_(True) for tensor in (x, w0, w1, w2, w3, hx, cx)]
        output, hy, cy = _lstm(leaves[0], leaves[1:5], leaves[5], leaves[6], reverse, mode, biases)
        pairs = [
            (o, g) for o, g in ((output, of_output), (hy, of_hy), (cy, of_cy)) if g is not None
        ]
        gradients = vector_jacobian_product(
            [o for o, _ in pairs], leaves, [g.reshape(o.shape) for o, g in pairs], allow_unused=True
        )
    return tuple(
        torch.zeros_like(leaf) if g is None else g
        for leaf, g in zip(leaves, gradients, strict=True)
    )


@functools.cache
def kernels() -> dict[str, KernelDeclaration]:
    by_sequence = accumulated("normwise", _terms_of_sequences, growth="linear")
    result = {
        name: KernelDeclaration(by_sequence, name)
        for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    }
    result["mkldnn_rnn_layer"] = KernelDeclaration(
        accumulated("normwise", _terms_of_gates, growth="linear", wide_accumulation=False),
        "lstm",
        3,
        recurrent_layer,
    )
    result["mkldnn_rnn_layer_backward"] = KernelDeclaration(
        accumulated("normwise", _terms_of_steps, wide_accumulation=False),
        "lstm",
        7,
        recurrent_layer_backward,
        observe=_gradients,
        substitute=recurrent_layer_backward,
    )
    return result
