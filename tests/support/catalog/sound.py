"""Sound formulas, other than torch's own: (operator, what, function) each. They round elsewhere,
and no worse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from .formulas_nn import groups, layers
from .sound_formulas import (
    addend,
    attention,
    channels_last,
    columns,
    default_eps,
    entropy,
    folded,
    half_split_mm,
    halves,
    huber,
    kahan,
    online_softmax,
    rounded_product,
    rounded_quotient,
    shifted_log_softmax,
    shifted_logsumexp,
    shifted_softmax,
    two_passes_and_a_root,
    weighted,
    welford,
)

Sound = tuple[str, str, Callable[..., Any]]
N = "nn.functional."

SOUND: tuple[Sound, ...] = (
    ("softmax", "decomposed", shifted_softmax),
    ("softmax", "in blocks", online_softmax),
    ("softmax", "exp of log_softmax", lambda x, dim: shifted_log_softmax(x, dim).exp()),
    (f"{N}softmin", "softmax of the negative", lambda x, dim: (-x).softmax(dim)),
    ("log_softmax", "decomposed", shifted_log_softmax),
    ("logsumexp", "decomposed", shifted_logsumexp),
    (f"{N}scaled_dot_product_attention", "decomposed", attention),
    (f"{N}layer_norm", "decomposed", layers("plain")),
    (f"{N}group_norm", "decomposed", groups("plain")),
    (f"{N}batch_norm", "folded", folded),
    (
        f"{N}rms_norm",
        "decomposed",
        lambda x, s, w, eps=None: (
            x
            * (x.square().mean(list(range(-len(s), 0)), keepdim=True) + default_eps(x, eps)).rsqrt()
            * (1.0 if w is None else w)
        ),
    ),
    ("var", "two passes", welford),
    ("std", "two passes", two_passes_and_a_root),
    ("sum", "even and odd", halves),
    ("sum", "Kahan", kahan),
    (
        "mean",
        "times the reciprocal",
        lambda x, **o: x.sum(**o) * (x.sum(**o).numel() / x.numel()) if x.numel() else x.mean(**o),
    ),
    (
        "mean",
        "scaled before",
        lambda x, **o: (
            (x / max(x.numel() // max(x.sum(**o).numel(), 1), 1)).sum(**o)
            if x.numel()
            else x.mean(**o)
        ),
    ),
    ("matmul", "in two halves", half_split_mm),
    ("mm", "in two halves", half_split_mm),
    ("mm", "transposed", lambda a, b: (b.mT @ a.mT).mT),
    ("mv", "as mm", lambda a, b: (a @ b.unsqueeze(-1)).squeeze(-1)),
    (
        "bmm",
        "one by one",
        lambda a, b: (
            torch.stack([x @ y for x, y in zip(a, b, strict=True)])
            if a.shape[0]
            else torch.bmm(a, b)
        ),
    ),
    ("addmm", "decomposed", lambda c, a, b, beta=1, alpha=1: addend(c, beta) + alpha * (a @ b)),
    (
        "baddbmm",
        "scaled first",
        lambda c, a, b, beta=1, alpha=1: addend(c, beta) + (alpha * a) @ b,
    ),
    ("outer", "by broadcasting", lambda a, b: a.unsqueeze(-1) * b),
    ("dot", "product and sum", lambda a, b: (a * b).sum()),
    (f"{N}linear", "matmul and bias", lambda x, w, b=None: x @ w.T if b is None else x @ w.T + b),
    (
        f"{N}linear",
        "addmm",
        lambda x, w, b=None: (
            F.linear(x, w)
            if b is None
            else torch.addmm(b, x.reshape(-1, w.shape[1]), w.T).reshape(*x.shape[:-1], -1)
            if x.numel()
            else F.linear(x, w, b)
        ),
    ),
    (f"{N}conv2d", "matrix product", columns),
    (f"{N}conv2d", "channels last", channels_last),
    (
        f"{N}conv1d",
        "as conv2d",
        lambda x, w, b=None, **o: (
            F.conv1d(x, w, b, **o)
            if o
            else F.conv2d(x.unsqueeze(-2), w.unsqueeze(-2), b).squeeze(-2)
        ),
    ),
    (
        f"{N}gelu",
        "through erfc",
        lambda x, approximate="none": (
            x * 0.5 * torch.erfc(-x * math.sqrt(0.5))
            if approximate == "none"
            else F.gelu(x, approximate=approximate)
        ),
    ),
    (
        f"{N}gelu",
        "decomposed",
        lambda x, approximate="none": (
            0.5 * x * (1.0 + torch.erf(x * math.sqrt(0.5)))
            if approximate == "none"
            else F.gelu(x, approximate=approximate)
        ),
    ),
    (
        f"{N}silu",
        "x times sigmoid",
        lambda x: torch.where(x == -math.inf, F.silu(x), x * torch.sigmoid(x)),
    ),
    (
        f"{N}softplus",
        "through log1p",
        lambda x, beta=1.0, threshold=20.0: torch.where(
            beta * x > threshold, x, torch.log1p((beta * x).exp()) / beta
        ),
    ),
    (f"{N}logsigmoid", "shifted", lambda x: x.clamp_max(0) - torch.log1p((-x.abs()).exp())),
    (
        "sigmoid",
        "through tanh",
        lambda x: torch.where(x > -1, 0.5 * torch.tanh(0.5 * x) + 0.5, torch.sigmoid(x)),
    ),
    (
        "tanh",
        "through expm1",
        lambda x: torch.copysign(-torch.expm1(-2 * x.abs()) / (torch.expm1(-2 * x.abs()) + 2), x),
    ),
    (
        "sinh",
        "through expm1",
        lambda x: torch.where(
            x.abs() < 20,
            torch.copysign(
                (torch.expm1(x.abs()) + torch.expm1(x.abs()) / (torch.expm1(x.abs()) + 1)) / 2, x
            ),
            x.sinh(),
        ),
    ),
    (
        "hypot",
        "scaled",
        lambda x, y: torch.where(
            (x == 0) | (y == 0) | ~x.isfinite() | ~y.isfinite(),
            torch.hypot(x, y),
            torch.maximum(x.abs(), y.abs())
            * (
                1 + (torch.minimum(x.abs(), y.abs()) / torch.maximum(x.abs(), y.abs())).square()
            ).sqrt(),
        ),
    ),
    (
        "logaddexp",
        "shifted",
        lambda x, y: torch.where(
            x == y, x + math.log(2), torch.maximum(x, y) + torch.log1p((-(x - y).abs()).exp())
        ),
    ),
    (
        "lerp",
        "from both ends",
        lambda a, b, w: (
            a * (1.0 - w) + b * w if isinstance(w, float) and 0 < w < 1 else torch.lerp(a, b, w)
        ),
    ),
    ("addcmul", "product rounded", rounded_product),
    ("addcdiv", "quotient rounded", rounded_quotient),
    (f"{N}cross_entropy", "in two steps", entropy),
    (
        f"{N}mse_loss",
        "decomposed",
        lambda x, y, reduction="mean", weight=None: weighted((x - y).square(), reduction, weight),
    ),
    (f"{N}huber_loss", "decomposed", huber),
    (
        f"{N}smooth_l1_loss",
        "through huber_loss",
        lambda x, y, reduction="mean", beta=1.0: (
            F.huber_loss(x, y, reduction=reduction, delta=beta) / beta
        ),
    ),
    (
        "linalg.vector_norm",
        "scaled",
        lambda x, ord=2, **o: (
            torch.linalg.vector_norm(x / 4.0, ord, **o) * (4.0 if ord != 0 else 1.0)
        ),
    ),
    (
        f"{N}avg_pool2d",
        "channels last",
        lambda x, k, **o: F.avg_pool2d(
            x.contiguous(memory_format=torch.channels_last) if x.ndim == 4 else x, k, **o
        ),
    ),
    (
        f"{N}normalize",
        "times the reciprocal",
        lambda x, p=2.0, dim=1, eps=1e-12: (
            x * (1.0 / torch.linalg.vector_norm(x, p, dim, keepdim=True).clamp_min(eps))
        ),
    ),
    (
        "linalg.inv",
        "solve",
        lambda x: torch.linalg.solve(x, torch.eye(x.shape[-1], dtype=x.dtype).expand(x.shape)),
    ),
    (
        "linalg.solve",
        "factors first",
        lambda a, b, left=True: (
            torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=left)
            if left and b.ndim == a.ndim
            else torch.linalg.solve(a, b, left=left)
        ),
    ),
    (
        "linalg.svd",
        "other signs",
        lambda x, full_matrices=True: (
            lambda u, s, v: (
                (-u, s, -v) if s.shape[-1] == min(x.shape[-2:]) and not full_matrices else (u, s, v)
            )
        )(*torch.linalg.svd(x, full_matrices)),
    ),
    (
        "linalg.eigh",
        "other signs",
        lambda x, UPLO="L": (lambda w, v: (w, -v))(*torch.linalg.eigh(x, UPLO)),
    ),
    (
        "linalg.qr",
        "other signs",
        lambda x, mode="reduced": (lambda q, r: (-q, -r))(*torch.linalg.qr(x, mode)),
    ),
    (
        "fft.fft",
        "along another dimension",
        lambda x, n=None, dim=-1, norm=None: torch.fft.fft(x.movedim(dim, 0), n, 0, norm).movedim(
            0, dim
        ),
    ),
    (
        "fft.ifft",
        "conjugated fft",
        lambda x, n=None, dim=-1, norm=None: torch.fft.fft(
            x.conj(), n, dim, {None: "forward", "forward": None}.get(norm, norm)
        ).conj(),
    ),
    (
        f"{N}layer_norm",
        "bias added last",
        lambda x, s, w=None, b=None, **o: (
            F.layer_norm(x, s, w, None, **o) if b is None else F.layer_norm(x, s, w, None, **o) + b
        ),
    ),
)
