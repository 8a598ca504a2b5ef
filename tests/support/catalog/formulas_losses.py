"""Wrong formulas of activations, losses, embeddings, recurrent cells and linear algebra: (operator,
what, function, cause) each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .formulas import Wrong
from .formulas_nn import N, without


def gates_exchanged(x: Tensor, hidden: Any, w_ih: Tensor, w_hh: Tensor, *biases: Any) -> Any:
    """The gates of an LSTM cell in another order."""

    def moved(w: Any) -> Any:
        return None if w is None else torch.cat([w.chunk(4)[i] for i in (0, 2, 1, 3)])

    return torch.lstm_cell(x, hidden, moved(w_ih), moved(w_hh), *[moved(b) for b in biases])


def embedding_means(indices: Tensor, table: Tensor, **options: Any) -> Tensor:
    """The default mean is a sum."""
    if "mode" not in options:
        options["mode"] = "sum"
    return F.embedding_bag(indices, table, **options)


def inverse_by_iteration(x: Tensor) -> Tensor:
    """Starts from an inverse of 8 bits; one step of Newton's gives 16."""
    rough = torch.linalg.inv(x.bfloat16().float() if x.dtype == torch.float32 else x)
    return rough @ (2.0 * torch.eye(x.shape[-1], dtype=x.dtype) - x @ rough)


LOSSES: tuple[Wrong, ...] = (
    ("lstm_cell", "gates exchanged", gates_exchanged, None),
    (f"{N}embedding_bag", "mean not divided", embedding_means, "argument-ignored|scaled"),
    (
        f"{N}embedding",
        "row before",
        lambda i, t, **o: F.embedding((i - 1).clamp_min(0), t, **o),
        "shifted",
    ),
    (
        f"{N}gelu",
        "approximation ignored",
        lambda x, approximate="none": F.gelu(x),
        "argument-ignored",
    ),
    (
        f"{N}gelu",
        "always the approximation",
        lambda x, approximate="none": F.gelu(x, approximate="tanh"),
        "argument-ignored|approximation",
    ),
    (
        f"{N}gelu",
        "sigmoid approximation",
        lambda x, approximate="none": x * torch.sigmoid(1.702 * x),
        "approximation",
    ),
    (
        f"{N}softplus",
        "threshold ignored",
        lambda x, beta=1.0, threshold=20.0: F.softplus(x, beta),
        "argument-ignored",
    ),
    (
        f"{N}softplus",
        "without a threshold",
        lambda x, beta=1.0, threshold=20.0: (1.0 + (beta * x).exp()).log() / beta,
        "early-overflow",
    ),
    (f"{N}logsigmoid", "log of sigmoid", lambda x: x.sigmoid().log(), None),
    (f"{N}elu", "alpha ignored", without("alpha", F.elu), "argument-ignored"),
    (
        f"{N}leaky_relu",
        "slope ignored",
        without("negative_slope", F.leaky_relu),
        "argument-ignored",
    ),
    (
        f"{N}relu",
        "NaN dropped",
        lambda x: torch.where(x > 0, x, torch.zeros_like(x)),
        "nan-dropped",
    ),
    (
        f"{N}glu",
        "halves exchanged",
        lambda x, dim: F.glu(torch.cat(x.chunk(2, dim)[::-1], dim), dim),
        None,
    ),
    (f"{N}prelu", "one slope for all", lambda x, w: F.prelu(x, w[:1]), None),
    (f"{N}huber_loss", "delta ignored", without("delta", F.huber_loss), "argument-ignored"),
    (f"{N}smooth_l1_loss", "beta ignored", without("beta", F.smooth_l1_loss), "argument-ignored"),
    (
        f"{N}mse_loss",
        "reduction ignored",
        lambda x, y, reduction="mean", **o: F.mse_loss(
            x, y, reduction="mean" if reduction == "sum" else reduction, **o
        ),
        "argument-ignored",
    ),
    (
        f"{N}kl_div",
        "logarithm of the target ignored",
        without("log_target", F.kl_div),
        "argument-ignored",
    ),
    (
        f"{N}cross_entropy",
        "smoothing ignored",
        without("label_smoothing", F.cross_entropy),
        "argument-ignored",
    ),
    (f"{N}cross_entropy", "weight ignored", without("weight", F.cross_entropy), "argument-ignored"),
    (f"{N}nll_loss", "weight ignored", without("weight", F.nll_loss), "argument-ignored"),
    (
        f"{N}binary_cross_entropy_with_logits",
        "positive weight ignored",
        without("pos_weight", F.binary_cross_entropy_with_logits),
        "argument-ignored",
    ),
    (
        f"{N}triplet_margin_loss",
        "swap ignored",
        without("swap", F.triplet_margin_loss),
        "argument-ignored",
    ),
)

LINEAR: tuple[Wrong, ...] = (
    ("addmm", "beta ignored", without("beta", torch.addmm), "argument-ignored"),
    ("baddbmm", "alpha ignored", without("alpha", torch.baddbmm), "argument-ignored"),
    ("cross", "operands exchanged", lambda a, b, **o: torch.cross(b, a, **o), "negated"),
    ("linalg.inv", "transposed", lambda x: torch.linalg.inv(x).mT, "transposed"),
    ("linalg.inv", "one step of Newton's", inverse_by_iteration, "approximation"),
    (
        "linalg.solve",
        "side ignored where it fits",
        lambda a, b, left=True: torch.linalg.solve(a, b, left=left or a.shape == b.shape),
        "argument-ignored",
    ),
    ("linalg.det", "sign lost", lambda x: torch.linalg.det(x).abs(), None),
    (
        "linalg.cholesky",
        "upper ignored",
        without("upper", torch.linalg.cholesky),
        "argument-ignored|transposed",
    ),
    (
        "linalg.svd",
        "singular values in another order",
        lambda x, full_matrices=True: (lambda u, s, v: (u, s.flip(-1), v))(
            *torch.linalg.svd(x, full_matrices)
        ),
        "flipped",
    ),
    (
        "linalg.eigh",
        "in descending order",
        lambda x, UPLO="L": tuple(t.flip(-1) for t in torch.linalg.eigh(x, UPLO)),
        "flipped",
    ),
    (
        "linalg.matrix_power",
        "once too often",
        lambda x, n: torch.linalg.matrix_power(x, n + 1),
        None,
    ),
    ("fft.fft", "norm ignored", without("norm", torch.fft.fft), "argument-ignored|scaled"),
    (
        "fft.ifft",
        "not divided",
        lambda x, norm=None, **o: torch.fft.ifft(x, norm="forward" if norm is None else norm, **o),
        "scaled|argument-ignored",
    ),
    ("fft.rfft", "conjugated", lambda x, **o: torch.fft.rfft(x, **o).conj(), None),
)
