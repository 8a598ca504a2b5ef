"""What the tests of certified calls share: a call traced, the nodes of its gradients, and numbers
of mpmath's as exact balls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import torch
from flint import arb, fmpz

from consistency.reference.certified import balls
from consistency.reference.certified.certificate import _flat_leaf, _real_pairs, _reshape_gradient
from consistency.reference.certified.gradients import gradients
from consistency.reference.certified.tracing import CallTrace


def followed(call: Callable[..., Any], *arguments: Any) -> tuple[Any, CallTrace]:
    """What a call gives, and its trace."""
    trace = CallTrace()
    with torch.no_grad(), trace:
        return call(*arguments), trace


def gradient_nodes(
    call: Callable[..., Any],
    cotangent: Callable[[torch.Tensor], torch.Tensor],
    *tensors: torch.Tensor,
) -> tuple[list[Any], CallTrace]:
    """Nodes of the gradients of Σ cotangent·result by every tensor, in its shape; ``cotangent`` is
    asked for every result's."""
    trace = CallTrace(gradients=True)
    leaves = [
        t.detach().clone(memory_format=torch.contiguous_format).requires_grad_(True)
        for t in tensors
    ]
    nodes = [trace.leaf(leaf) for leaf in leaves]
    with torch.enable_grad(), trace:
        made = call(*leaves)
    roots: list[Any] = []
    for out in made if isinstance(made, tuple) else (made,):
        roots += _real_pairs(trace.node(out), trace.node(cotangent(out.detach())))
    flat = gradients(roots, [_flat_leaf(node) for node in nodes])
    return [
        _reshape_gradient(g, tuple(t.shape), t.is_complex())
        for g, t in zip(flat, tensors, strict=True)
    ], trace


def exactly(x: mpmath.mpf) -> arb:
    """A number of mpmath's as it is: mpf(x) would round it to the context's precision."""
    sign, mantissa, exponent, _ = mpmath.mpf(x)._mpf_ if isinstance(x, (int, float)) else x._mpf_
    with balls.precision(max(4096, int(mantissa).bit_length())):
        return arb(fmpz(-int(mantissa) if sign else int(mantissa))) * arb(2) ** int(exponent)
