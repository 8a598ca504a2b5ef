"""Gradients against given cotangents, without what ``torch.autograd.grad`` loads for them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

try:
    from torch.autograd.graph import _engine_run_backward as _run_backward
except ImportError:  # torch may move what is not public
    _run_backward = None  # type: ignore[assignment]


def vector_jacobian_product(
    roots: Sequence[torch.Tensor],
    leaves: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
    *,
    create_graph: bool = False,
    retain_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[torch.Tensor | None, ...]:
    """The gradients of ``roots`` against ``cotangents``, of the same shapes, one for each leaf.

    As ``torch.autograd.grad`` with ``grad_outputs``, which compares their shapes symbolically: that
    loads SymPy (0.65 s of processor time in every process, torch 2.13) and takes longer than the
    gradient of a small case. RuntimeError if a leaf is not part of the graph and ``allow_unused``
    is False.
    """
    if _run_backward is None:
        return torch.autograd.grad(
            roots, leaves, cotangents,
            create_graph=create_graph, retain_graph=retain_graph or create_graph,
            allow_unused=allow_unused,
        )  # fmt: skip
    found: tuple[torch.Tensor | None, ...] = _run_backward(
        tuple(roots),
        tuple(cotangents),
        retain_graph or create_graph,
        create_graph,
        tuple(leaves),
        allow_unreachable=allow_unused,
        accumulate_grad=False,
    )
    return found
