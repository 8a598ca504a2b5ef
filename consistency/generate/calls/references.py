"""Float64 on the CPU for operators that exist only in the formats, or on the devices, that they
were written for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

_LSTM = 2  # what oneDNN's recurrent layer calls it


def batch_norm(read: Callable[..., Any], *args: Any) -> tuple[torch.Tensor, ...]:
    """The result, and the mean and 1/σ that are saved for the gradient, of a device's own batch
    norm.

    ``read`` gives (x, weight, bias, running mean, running variance, training, momentum, eps) of its
    arguments.
    """
    return tuple(torch.native_batch_norm(*read(args)))


def attention(read: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.Tensor]:
    """A fused attention kernel's result; ``read`` gives the mask, whether it is causal, and the
    scale, of its arguments."""
    return (F.scaled_dot_product_attention(*args[:3], **read(args, kwargs)),)


def attention_and_logarithm(
    read: Callable[..., Any], *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """What the CPU's fused attention returns, on another device: the result by its own kernel, and
    the logarithm of the sum of exponentials, which the CPU gives in float32 at least."""
    query, key, value = args[:3]
    given = read(args, kwargs)
    result = F.scaled_dot_product_attention(query, key, value, **given)
    heads = query.shape[1] // key.shape[1]
    key = key.repeat_interleave(heads, 1) if heads > 1 else key
    scores = (query @ key.mT) * (given["scale"] or query.shape[-1] ** -0.5)
    mask = given["attn_mask"]
    if given["is_causal"]:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = (
            scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
        )
    total = torch.logsumexp(scores, -1)
    return result, total if total.dtype == torch.float64 else total.float()


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
        given = torch.autograd.grad(
            [o for o, _ in pairs], leaves, [g.reshape(o.shape) for o, g in pairs], allow_unused=True
        )
    return tuple(
        torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, given, strict=True)
    )
