"""The NumPy implementations against torch in float64, and against their own promises about dtypes
and precision.

`SAMPLES` holds the arguments an operator is called with, tensors as arrays; of an operator that it
lacks they are drawn as its declaration says.
"""

import warnings
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map

from consistency import operators
from consistency.backends.numpy import IMPLEMENTATIONS, WIDE
from consistency.backends.numpy.backend import WRITING
from consistency.generate import search
from consistency.generate.materialize import prepare

RNG = np.random.default_rng(20240607)


class Call(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


SAMPLES: dict[str, list[Call]] = defaultdict(list)


def sample(names: str, *args: Any, **kwargs: Any) -> None:
    for name in names.split():
        SAMPLES[name].append(
            Call(
                tuple(np.asarray(one) if isinstance(one, np.generic) else one for one in args),
                kwargs,
            )
        )


def functional(names: str, *args: Any, **kwargs: Any) -> None:
    sample(" ".join(f"nn.functional.{name}" for name in names.split()), *args, **kwargs)


def real(*shape: int, low: float = -2, high: float = 2) -> Any:
    """Numbers that float32 holds exactly, so that every dtype starts from the same ones."""
    return np.asarray(RNG.uniform(low, high, shape), np.float32).astype(np.float64)


def positive(*shape: int) -> Any:
    return real(*shape, low=0.25, high=2)


def whole(*shape: int, low: int = 0, high: int = 4) -> Any:
    return np.asarray(RNG.integers(low, high, shape))


def truth(*shape: int) -> Any:
    return np.asarray(RNG.random(shape) < 0.5)


def spd(n: int) -> Any:
    """A symmetric positive definite matrix."""
    a = real(n, n)
    return (a @ a.T + n * np.eye(n)).astype(np.float32).astype(np.float64)


# --- pointwise

for shape in ((3, 5), ()):
    x, y, z = (real(*shape) for _ in range(3))
    sample(
        (
            "abs neg exp exp2 expm1 square sin cos tan asinh atan sinh cosh tanh sigmoid floor "
            "ceil trunc round frac"
        ),
        x,
    )
    sample(
        (
            "sign sgn signbit sinc deg2rad rad2deg nan_to_num positive erf erfc angle frexp conj "
            "conj_physical real"
        ),
        x,
    )
    sample(
        (
            "isnan isinf isposinf isneginf isfinite isreal logical_not special.ndtr resolve_conj "
            "resolve_neg clone"
        ),
        x,
    )
    sample("contiguous bool byte char short int long half float double", np.abs(x))
    sample("log log2 log10 log1p sqrt rsqrt reciprocal special.entr", positive(*shape))
    sample("asin acos atanh", real(*shape, low=-0.9, high=0.9))
    sample("acosh", real(*shape, low=1.1, high=5))
    sample("logit", real(*shape, low=0.1, high=0.9))
    sample(
        (
            "add sub rsub mul div true_divide maximum minimum fmax fmin atan2 hypot logaddexp "
            "logaddexp2 copysign"
        ),
        x,
        y,
    )
    sample(
        "nextafter heaviside isclose eq ne lt le gt ge logical_and logical_or logical_xor ldexp",
        x,
        y,
    )
    sample("floor_divide remainder fmod", x, y)
    sample("pow float_power xlogy special.xlog1py", positive(*shape), y)
    sample("lerp", x, y, positive(*shape))
    sample("addcmul addcdiv", x, y, z + 3, value=0.5)
    sample("clamp", x, y, np.abs(y) + 1)
    sample("where", truth(*shape), x, y)
    functional(
        (
            "relu relu6 selu silu mish hardsigmoid hardswish softsign tanhshrink logsigmoid gelu "
            "leaky_relu elu"
        ),
        x,
    )
    functional("celu softplus hardtanh hardshrink softshrink", x)
sample("add sub rsub", real(4), 1.5, alpha=3)
sample("mul div floor_divide remainder fmod maximum", real(4), np.asarray(0.75))
sample("add mul sub eq pow true_divide", whole(4) + 1, 2)
sample("div", real(4), real(4), rounding_mode="trunc")
sample("div", whole(6, low=-9, high=9), whole(6, low=1), rounding_mode="trunc")
sample("pow", 2.5, real(4))
sample("round", real(6) * 100, decimals=-1)
sample("round", real(6), decimals=2)
sample("logit", real(6, low=-0.2, high=1.2), eps=0.1)
sample("nan_to_num", np.array([np.nan, np.inf, -np.inf, 1]), nan=0.5, posinf=9.0)
sample("clamp", real(6), -0.5)
sample("clamp", real(6), max=0.5)
sample("clamp_min clamp_max", real(6), 0.25)
sample("where", truth(3, 1), real(4), 2.0)
sample("isclose", np.array([1, np.nan]), np.array([1.001, np.nan]), rtol=1e-2, equal_nan=True)
sample("lerp", real(4), real(4), 0.75)
sample(
    "bitwise_and bitwise_or bitwise_xor gcd lcm", whole(6, low=1, high=40), whole(6, low=1, high=40)
)
sample("bitwise_left_shift bitwise_right_shift", whole(6, high=99), whole(6))
sample("bitwise_not", truth(6))
sample("imag", real(4) + 1j * real(4))
sample("abs conj exp real square", real(4) + 1j * real(4))
sample("add mul matmul", real(4) + 1j * real(4), real(4) + 1j * real(4))
functional("gelu", real(8), approximate="tanh")
functional("leaky_relu", real(8), 0.2)
functional("elu celu", real(8), 1.5)
functional("softplus", real(8) * 8, beta=2, threshold=5)
functional("hardtanh", real(8), -0.5, 0.75)
functional("threshold", real(8), 0.1, 5.0)
functional("hardshrink softshrink", real(8), 0.25)
functional("prelu", real(2, 3, 4), real(3))
functional("glu", real(4, 3), dim=0)

# --- reductions, order, running

for keep in (False, True):
    sample("sum nansum mean nanmean amax amin", real(3, 4, 5), (0, 2), keep)
    sample("prod max min argmax argmin median nanmedian all any", real(3, 4, 5), 1, keep)
    sample("var std var_mean std_mean", real(3, 4, 5), (0, -1), keepdim=keep, correction=0)
    sample("linalg.vector_norm", real(3, 4, 5), 3, (0, 1), keep)
    sample("logsumexp", real(3, 4) * 30, 1, keep)
sample(
    "sum mean prod amax amin max min var std var_mean std_mean nansum nanmean median nanmedian",
    real(3, 70),
)
sample("argmax argmin all any count_nonzero norm linalg.vector_norm", real(3, 70))
sample("sum prod", whole(5))
sample("sum", real(5), dtype="float32")
sample("var std", real(4, 3), False)
sample("var std", real(4, 3), 0, True)
sample("nansum nanmean nanmedian median", np.array([1, np.nan, 3, 2]))
sample("aminmax", real(3, 4), dim=1, keepdim=True)
sample("max min", real(3, 4), real(4))
sample("count_nonzero", whole(4, 5, high=2), 0)
for order in (0, 1, 2, 2.5, float("inf"), float("-inf")):
    sample("linalg.vector_norm norm", real(3, 4), order, 1)
    sample("dist", real(3, 4), real(3, 4), order)
sample("sort argsort", real(4, 5), 0, True)
sample("sort argsort msort", real(4, 5))
sample("topk", real(4, 5), 3, 0, False)
sample("kthvalue", real(4, 5), 2, 0, True)
sample("cumsum cumprod cummax cummin logcumsumexp", real(4, 5), 1)
sample("cumsum", whole(4), 0, dtype="float64")
sample("diff", real(4, 5), 2, 0, prepend=real(1, 5))
sample("trapezoid trapz cumulative_trapezoid", real(4, 5), dx=0.5, dim=0)
sample("trapezoid trapz cumulative_trapezoid", real(4, 5), real(5))
sample("unique", whole(12), return_inverse=True, return_counts=True)
sample("unique", whole(6, 2, high=2), dim=0)
sample("searchsorted", np.sort(real(3, 8)), real(3, 4), right=True)
sample("bucketize", real(3, 4), np.sort(real(5)), out_int32=True)
sample("isin", whole(3, 4), whole(2), invert=True)
sample("bincount", whole(9), minlength=6)
sample("bincount", whole(9), real(9))
sample("histc", real(40), 7, -1.0, 1.5)
sample("histc", np.arange(116.0, 129.0), 151, 0.0, 151.0)

# --- linear algebra, convolution

sample("matmul", real(2, 3, 4), real(4, 5))
sample("matmul", real(4), real(2, 4, 3))
sample("mm", real(3, 4), real(4, 5))
sample("bmm", real(2, 3, 4), real(2, 4, 5))
sample("mv", real(3, 4), real(4))
sample("dot vdot inner outer", real(9), real(9))
sample("inner", real(2, 3, 4), real(5, 4))
sample("linalg.vecdot", real(3, 4), real(3, 4), dim=0)
sample("kron", real(2, 3), real(4))
sample("tensordot", real(3, 4, 5), real(4, 3, 6), ([0, 1], [1, 0]))
sample("einsum", "bij,bjk->bik", real(2, 3, 4), real(2, 4, 5))
sample("einsum", "i...,j...->ij...", real(3, 2, 4), real(5, 2, 4))
sample("linalg.multi_dot", [real(3, 4), real(4, 5), real(5)])
sample("trace", real(4, 5))
sample("cross linalg.cross", real(4, 3), real(4, 3))
for kwargs in ({}, {"beta": 0, "alpha": 2}, {"beta": 0.5}):
    sample("addmm", real(5), real(3, 4), real(4, 5), **kwargs)
    sample("addmv", real(3), real(3, 4), real(4), **kwargs)
    sample("baddbmm", real(1, 5), real(2, 3, 4), real(2, 4, 5), **kwargs)
    sample("addbmm", real(3, 5), real(2, 3, 4), real(2, 4, 5), **kwargs)
    sample("addr", real(3, 4), real(3), real(4), **kwargs)
functional("linear", real(2, 3, 4), real(5, 4), real(5))
functional("bilinear", real(2, 3), real(2, 4), real(5, 3, 4), real(5))
for n, side in ((1, 9), (2, 7), (3, 5)):
    image, kernel = (side,) * n, (3, 2, 2)[:n]
    functional(f"conv{n}d", real(2, 4, *image), real(6, 2, *kernel), real(6), 2, 1, 2, 2)
    functional(f"conv{n}d", real(4, *image), real(6, 4, *kernel), padding="same", dilation=2)
    functional(
        f"conv_transpose{n}d", real(2, 4, *image), real(4, 3, *kernel), real(6), 2, 1, 1, 2, 3
    )
    functional(f"conv_transpose{n}d", real(4, *image), real(4, 3, *kernel))
    functional(f"max_pool{n}d", real(2, 3, *image), 3, 2, 1, 2, ceil_mode=True)
    functional(f"avg_pool{n}d", real(2, 3, *image), 3, 2, 1, True, False)
    functional(f"avg_pool{n}d", real(2, 3, *image), 2, ceil_mode=True)
    functional(f"lp_pool{n}d", positive(2, 3, *image), 3, 2, ceil_mode=False)
    functional(f"adaptive_avg_pool{n}d adaptive_max_pool{n}d", real(2, 3, *image), 4)
functional("avg_pool2d", real(2, 3, 7, 7), (3, 2), divisor_override=5)
functional("adaptive_avg_pool2d", real(2, 3, 7, 6), (None, 5))
functional("unfold", real(2, 3, 6, 7), (2, 3), dilation=2, padding=1, stride=2)
functional("fold", real(2, 12, 20), (6, 7), (2, 2), stride=(1, 2), padding=(0, 1))
m = real(2, 4, 4)
sample(
    (
        "linalg.inv linalg.det linalg.slogdet linalg.svd linalg.svdvals linalg.qr linalg.eig "
        "linalg.eigvals svd qr"
    ),
    m,
)
sample("linalg.pinv pinverse linalg.matrix_rank", real(2, 4, 3))
sample("linalg.svd", real(5, 3), False)
sample("linalg.qr", real(5, 3), "complete")
sample("linalg.cholesky", spd(4), upper=True)
sample("linalg.cholesky", np.triu(spd(4)), upper=True)
sample("cholesky logdet", spd(4))
sample("cholesky_inverse", np.linalg.cholesky(spd(4)))
sample("cholesky_solve", real(4, 2), np.linalg.cholesky(spd(4)))
sample("linalg.eigh linalg.eigvalsh", spd(4), UPLO="U")
sample("linalg.solve", m, real(2, 4, 3))
sample("linalg.solve", real(3, 4, 4), real(3, 4))
sample("linalg.solve", m, real(2, 3, 4), left=False)
sample("linalg.solve_triangular", spd(4), real(4, 2), upper=True, unitriangular=True)
sample("triangular_solve", real(4, 2), spd(4), upper=False, transpose=True)
sample("triangular_solve", real(4, 2), spd(4), unitriangular=True)
sample("linalg.matrix_power", m, -3)
for matrix_order in ("fro", "nuc", 1, -1, 2, -2, float("inf")):
    sample("linalg.matrix_norm linalg.norm", real(4, 3), matrix_order)
sample("linalg.norm", real(2, 3, 4), 3, 1)
for norm in (None, "ortho", "forward"):
    sample("fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft", real(3, 8), 6, 0, norm)
    sample(
        "fft.fft2 fft.ifft2 fft.rfft2 fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn",
        real(3, 4, 6),
        norm=norm,
    )
sample("fft.fft2 fft.rfftn", real(3, 4, 6), (4, -1), (0, 2))
sample("fft.fft2 fft.rfft2 fft.irfft2 fft.rfftn fft.irfftn", real(4, 6), (-1, -1))
sample("fft.ifftn fft.irfftn", real(3, 4, 6), (5, -1), (0, 2))
sample("fft.fftshift fft.ifftshift", real(4, 5), 1)

# --- neural

sample("softmax log_softmax", real(3, 4, 5) * 20, 1)
sample("softmax", real(3, 4), 1, dtype="float64")
functional("softmin", real(3, 4, 5), 0)
functional("normalize", real(3, 4), 3.0, 1, 0.5)
functional("layer_norm", real(3, 4, 5), (4, 5), real(4, 5), real(4, 5), 1e-3)
functional("rms_norm", real(3, 4, 5), (4, 5), real(4, 5), 1e-3)
functional("group_norm", real(2, 6, 5), 3, real(6), real(6))
functional("instance_norm", real(2, 3, 5), weight=real(3), bias=real(3))
functional("batch_norm", real(4, 3, 5), real(3), positive(3), real(3), real(3))
functional("batch_norm", real(4, 3, 5), None, None, real(3), real(3), True)
functional("local_response_norm", real(2, 6, 5), 4, 0.1, 0.5, 2.0)
functional(
    "scaled_dot_product_attention", real(2, 3, 4), real(2, 5, 4), real(2, 5, 6), is_causal=True
)
functional(
    "scaled_dot_product_attention",
    real(2, 3, 4),
    real(2, 5, 4),
    real(2, 5, 6),
    real(3, 5),
    scale=0.3,
)
functional(
    "scaled_dot_product_attention",
    real(1, 3, 4),
    real(1, 2, 4),
    real(1, 2, 4),
    np.tri(3, 2, dtype=np.bool_),
)
functional("embedding", whole(2, 3), real(4, 5), 1)
for mode in ("sum", "mean", "max"):
    functional("embedding_bag", whole(7), real(4, 5), np.array([0, 3, 3]), mode=mode, padding_idx=1)
functional("embedding_bag", whole(2, 3), real(4, 5), mode="sum", per_sample_weights=real(2, 3))
functional("one_hot", whole(2, 3), 6)
for mode, n in (("nearest", 2), ("nearest-exact", 1), ("linear", 1), ("trilinear", 3), ("area", 2)):
    functional("interpolate", real(2, 3, *[4] * n), 7, mode=mode)
for corners in (False, True):
    functional("interpolate", real(2, 3, 4, 5), (7, 3), mode="bilinear", align_corners=corners)
    functional(
        "interpolate", real(2, 3, 4, 5), scale_factor=1.7, mode="bicubic", align_corners=corners
    )
functional("interpolate", real(2, 3, 5), scale_factor=1.5, recompute_scale_factor=True)
functional("upsample_nearest upsample_bilinear", real(2, 3, 4, 5), scale_factor=2)
functional("pixel_shuffle", real(2, 8, 3, 4), 2)
functional("pixel_unshuffle", real(2, 3, 4, 6), 2)
functional("channel_shuffle", real(2, 6, 3, 4), 3)
for mode in ("constant", "reflect", "replicate", "circular"):
    functional("pad", real(2, 3, 4, 5), (1, 2, -1, 2), mode)
functional("pad", real(2, 3), (1, 2), value=0.5)
for reduction in ("mean", "sum", "none"):
    how = {"reduction": reduction}
    functional("mse_loss l1_loss", real(3, 4), real(3, 4), **how)
    functional("smooth_l1_loss", real(3, 4), real(3, 4), beta=0.5, **how)
    functional("huber_loss", real(3, 4), real(3, 4), delta=0.5, **how)
    functional("kl_div", real(3, 4), real(3, 4), log_target=True, **how)
    functional("kl_div", real(3, 4), np.abs(real(3, 4)) * truth(3, 4), **how)
    functional("poisson_nll_loss", real(3, 4), positive(3, 4) * 3, full=True, **how)
    functional("poisson_nll_loss", positive(3, 4), positive(3, 4), log_input=False, **how)
    functional("gaussian_nll_loss", real(3, 4), real(3, 4), positive(3), full=True, **how)
    functional("nll_loss", real(5, 4, 2), whole(5, 2), positive(4), ignore_index=1, **how)
    functional(
        "cross_entropy",
        real(5, 4, 2),
        whole(5, 2),
        positive(4),
        label_smoothing=0.2,
        ignore_index=1,
        **how,
    )
    functional(
        "cross_entropy", real(5, 4) * 20, positive(5, 4), positive(4), label_smoothing=0.2, **how
    )
    functional("binary_cross_entropy", positive(3, 4) / 2, truth(3, 4) * 1.0, positive(4), **how)
    functional(
        "binary_cross_entropy_with_logits",
        real(3, 4),
        positive(3, 4),
        pos_weight=positive(4),
        **how,
    )
    functional("multi_margin_loss", real(5, 4), whole(5), 2, 0.5, positive(4), **how)
    functional("multilabel_soft_margin_loss", real(5, 4), truth(5, 4) * 1.0, positive(4), **how)
    functional("soft_margin_loss hinge_embedding_loss", real(3, 4), truth(3, 4) * 2.0 - 1, **how)
    functional("margin_ranking_loss", real(5), real(5), truth(5) * 2.0 - 1, 0.5, **how)
    functional("cosine_embedding_loss", real(5, 4), real(5, 4), truth(5) * 2.0 - 1, 0.1, **how)
    functional("triplet_margin_loss", real(5, 4), real(5, 4), real(5, 4), swap=True, **how)
functional("kl_div", real(3, 4), positive(3, 4), reduction="batchmean")
functional("kl_div", real(4), positive(3, 4), reduction="batchmean")
functional("multilabel_soft_margin_loss", real(4), truth(3, 4) * 1.0)
functional("multilabel_soft_margin_loss", real(3, 4), truth(2, 3, 4) * 1.0)
functional("pairwise_distance", real(5, 4), real(5, 4), 3.0, keepdim=True)
functional("cosine_similarity", real(5, 4), real(5, 4), 0)
functional("pdist", real(5, 4), 3.0)
sample("cdist", real(5, 4), real(3, 4), 1.0)
sample("cdist", real(2, 5, 4), real(2, 3, 4))

# --- indexing and movement

index = whole(2, 5, high=3)
sample("gather", real(3, 5), 0, index)
sample("scatter", real(3, 5), 0, index, 2.5)
sample("scatter", real(3, 5), 1, np.argsort(real(3, 5), 1), real(3, 5))
sample("scatter_add", real(3, 5), 0, index, real(4, 6))
for reduction in ("sum", "prod", "mean", "amax", "amin"):
    sample(
        "scatter_reduce",
        real(3, 5),
        0,
        index,
        real(2, 5),
        reduction,
        include_self=reduction != "mean",
    )
sample("index_select", real(3, 5), 1, whole(6))
sample("index_add", real(3, 5), 1, whole(6), real(3, 6), alpha=2)
sample("index_copy", real(3, 5), 1, np.array([4, 0]), real(3, 2))
sample("index_fill", real(3, 5), 1, np.array([4, 0]), 2.5)
sample("index_reduce", real(3, 5), 1, whole(6), real(3, 6), "amax", include_self=False)
sample("index_put", real(3, 5), (whole(4, high=3), whole(4)), real(4), accumulate=True)
sample("take", real(3, 5), whole(2, 4, high=15))
sample("put", real(3, 5), whole(4, high=15), real(4), accumulate=True)
sample("take_along_dim", real(3, 5), index, 0)
sample("take_along_dim", real(3, 5), whole(4, high=15))
sample("take_along_dim", real(3, 5), whole(3, 5, high=15), 0)  # modulo the size
sample("fft.fftn fft.ifftn mT", real())
sample("fft.fftn fft.ifftn", real(3, 4), None, ())  # along no dimension
sample("masked_fill", real(3, 5), truth(5), 2.5)
sample("masked_select", real(3, 5), truth(5))
sample("masked_scatter", real(3, 5), truth(3, 5), real(15))
sample("nonzero argwhere", truth(3, 5))
sample("nonzero", truth(3, 5), as_tuple=True)
sample("select", real(3, 5), 1, -2)
sample("select_scatter", real(3, 5), real(3), 1, -2)
sample("slice_scatter", real(3, 5), real(3, 2), 1, 1, 5, 2)
sample("diagonal_scatter", real(3, 5), real(2), -1)
sample("cat stack", [real(2, 3), real(2, 3)], 1)
sample("hstack vstack dstack column_stack", [real(3), real(3)])
sample("block_diag", real(2, 3), real(2))
sample("meshgrid", real(2), real(3), indexing="xy")
sample("cartesian_prod", real(2), real(3))
sample("broadcast_tensors", real(2, 1), real(3))
sample("split unsafe_split chunk unsafe_chunk tensor_split", real(7, 2), 3)
sample("split split_with_sizes", real(7, 2), [2, 5])
sample("tensor_split", real(2, 7), (1, -2), 1)
sample("hsplit vsplit dsplit", real(4, 4, 4), 2)
sample("unbind", real(2, 3), 1)
sample("reshape view", real(2, 6), (3, -1))
sample("reshape_as view_as", real(2, 6), real(3, 4))
sample("flatten", real(2, 3, 4), 1)
sample("unflatten", real(2, 12), 1, (3, -1))
sample("ravel t T", real(2, 3))
sample("H mH mT", real(2, 3))
sample("squeeze", real(1, 3, 1))
sample("squeeze unsqueeze", real(1, 3, 1), 0)
sample("expand broadcast_to", real(3, 1), (2, 3, 4))
sample("expand_as", real(3, 1), real(2, 3, 4))
sample("atleast_1d atleast_2d atleast_3d", real(3))
sample("transpose", real(2, 3, 4), 0, -1)
sample("permute", real(2, 3, 4), (2, 0, 1))
sample("movedim", real(2, 3, 4), (0, 1), (2, 0))
sample("flip", real(2, 3, 4), (0, 2))
sample("flip", real(2, 3, 4), dims=(1,))
sample("fliplr flipud rot90 tril triu diag diagflat diagonal diag_embed", real(3, 4))
sample("linalg.diagonal", real(2, 3, 4), offset=1)
sample("rot90", real(2, 3, 4), 3, (1, 2))
sample("tril triu diag diag_embed", real(4, 4), -1)
sample("roll", real(3, 4), (1, -2), (0, 1))
sample("roll", real(3, 4), 5)
sample("narrow narrow_copy", real(3, 4), 1, -3, 2)
sample("unfold", real(3, 7), 1, 3, 2)
sample("repeat tile", real(2, 3), (2, 1, 2))
sample("repeat_interleave", real(2, 3), np.array([1, 0, 2]), 1)

# --- creation

sample("zeros ones", 2, 3)
sample("zeros ones", (2, 3), dtype="int64")
sample("zeros_like ones_like", real(2, 3))
sample("new_zeros new_ones", real(1), (2, 3))
sample("full", (2, 3), 1.5)
sample("full", (2, 3), 7)
sample("full_like", real(2, 3), 1.5)
sample("new_full", real(1), (2, 3), 1.5)
sample("scalar_tensor", 3)
sample("eye", 3, 4, dtype="float64")
sample("arange", 2, 9, 3)
sample("arange", 0.5, 3, 0.25, dtype="float64")
sample("linspace", -1, 2, 7, dtype="float64")
sample("tril_indices triu_indices", 3, 4, -1)


# --- what is compared

# Decompositions are unique only up to signs, phases or order: these turn them into what is.
CANONICAL: dict[str, Callable[..., Any]] = {
    "linalg.svd": lambda u, s, vh: (
        (u[..., : s.shape[-1]] * s[..., None, :]) @ vh[..., : s.shape[-1], :],
        s,
    ),
    "svd": lambda u, s, v: ((u * s[..., None, :]) @ v.swapaxes(-1, -2), s),
    "linalg.qr": lambda q, r: (q @ r, np.abs(r)),
    "qr": lambda q, r: (q @ r, np.abs(r)),
    "linalg.eigh": lambda w, v: ((v * w[..., None, :]) @ v.swapaxes(-1, -2), w),
    "linalg.eig": lambda w, v: np.sort_complex(w),
    "linalg.eigvals": np.sort_complex,
}


def torch_callable(name: str) -> Callable[..., Any]:
    if name in ("T", "H", "mT", "mH"):
        return lambda x: getattr(x, name)
    found: Any = torch
    for part in name.split("."):
        found = getattr(found, part, None)
    function: Callable[..., Any] = found if callable(found) else getattr(torch.Tensor, name, None)
    return function or operators.get(name)


def to_torch(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    return (
        type(value)(to_torch(one) for one in value) if isinstance(value, (list, tuple)) else value
    )


def by_torch(name: str, call: Call) -> list[Any]:
    kwargs = {
        key: getattr(torch, one) if key == "dtype" else to_torch(one)
        for key, one in call.kwargs.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations, beta notices
        result = torch_callable(name)(*to_torch(call.args), **kwargs)
    several = isinstance(result, (list, tuple))
    return [one.resolve_conj().numpy() for one in (result if several else (result,))]


def by_numpy(name: str, call: Call) -> list[Any]:
    result = IMPLEMENTATIONS[name](*call.args, **call.kwargs)
    return list(result) if isinstance(result, tuple) else [result]


def canonical(name: str, outputs: list[Any]) -> list[Any]:
    if name not in CANONICAL:
        return outputs
    result = CANONICAL[name](*outputs)
    return list(result) if isinstance(result, tuple) else [result]


def cast(value: Any, dtype: type) -> Any:
    """The arguments with every float64 array in another dtype."""
    if isinstance(value, np.ndarray):
        return value.astype(dtype) if value.dtype == np.float64 else value
    if isinstance(value, dict):
        return {key: cast(one, dtype) for key, one in value.items()}
    return (
        type(value)(cast(one, dtype) for one in value)
        if isinstance(value, (list, tuple))
        else value
    )


def recast(call: Call, dtype: type) -> Call:
    return Call(cast(call.args, dtype), cast(call.kwargs, dtype))


def assert_close(actual: Any, expected: Any, tolerance: float) -> None:
    """Equal where not floating; else within `tolerance` × the largest finite element, NaN and
    infinities in place."""
    assert actual.shape == expected.shape
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(actual, expected)
        return
    size = np.max(np.abs(expected), where=np.isfinite(expected), initial=0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=float(tolerance * size))


def arrays_of(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    parts = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, (list, tuple))
        else ()
    )
    return [array for part in parts for array in arrays_of(part)]


# Programs write to their arguments and take steps in place of numbers;
# tests/operators/test_forms.py runs them beside torch.
# Since torch 2.14 these names only raise that they are removed; NumPy still answers older torches.
REMOVED = {"cholesky", "qr"} if torch.__version__ >= "2.14" else set()
every_operator = pytest.mark.parametrize("name", sorted(set(IMPLEMENTATIONS) - WRITING - REMOVED))


def samples(name: str) -> list[Call]:
    return SAMPLES[name] or drawn(name)


def drawn(name: str) -> list[Call]:
    """What the operator's declaration draws, for those that `SAMPLES` says nothing of."""
    found = []
    for case in search.batch(operators.get(name), "float64", 6):
        arguments = prepare(case).build("float64")
        found.append(Call(_arrays(arguments.args), _arrays(arguments.kwargs)))
    return found


def _arrays(value: Any) -> Any:
    return tree_map(lambda x: x.numpy() if isinstance(x, torch.Tensor) else x, value)


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_removed_names_raise(name: str) -> None:
    with pytest.raises(RuntimeError, match="now removed"):
        by_torch(name, samples(name)[0])


def test_samples_name_only_what_there_is() -> None:
    assert set(SAMPLES) <= set(IMPLEMENTATIONS)
    assert set(IMPLEMENTATIONS) >= WIDE


@every_operator
def test_agrees_with_torch_in_float64(name: str) -> None:
    for call in samples(name):
        before = [array.copy() for array in arrays_of(call)]
        actual, expected = by_numpy(name, call), by_torch(name, call)
        assert [one.dtype for one in actual] == [one.dtype for one in expected]
        assert len(actual) == len(expected)
        for ours, theirs in zip(canonical(name, actual), canonical(name, expected), strict=True):
            assert_close(ours, theirs, tolerance=2e-14)
        for array, copy in zip(arrays_of(call), before, strict=True):
            np.testing.assert_array_equal(array, copy, err_msg="an input was modified")


@every_operator
def test_float32_stays_float32(name: str) -> None:
    for call in samples(name):
        single = recast(call, np.float32)
        actual, expected = by_numpy(name, single), by_torch(name, single)
        assert [one.dtype for one in actual] == [one.dtype for one in expected]
        for ours, theirs in zip(canonical(name, actual), canonical(name, expected), strict=True):
            assert_close(ours, theirs, tolerance=2e-5)
        assert all(isinstance(one, np.ndarray) and one.flags.writeable for one in actual)


# --- long double

needs_64_bits = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="a long double is a double here"
)
every_wide_operator = pytest.mark.parametrize("name", sorted(WIDE))


def nudged(value: Any, amount: Any) -> Any:
    """Long doubles moved by up to `amount` of themselves, each by another share; whole numbers not
    at all."""
    if isinstance(value, np.ndarray) and value.dtype == np.longdouble:
        direction = np.mod(37 * value, 1)
        return np.asarray(value * (1 + amount * direction))
    if isinstance(value, dict):
        return {key: nudged(one, amount) for key, one in value.items()}
    return (
        type(value)(nudged(one, amount) for one in value)
        if isinstance(value, (list, tuple))
        else value
    )


@needs_64_bits
@every_wide_operator
def test_wide_is_long_double_throughout(name: str) -> None:
    """A nudge too small for float64 moves the result in proportion: no step on the way drops it."""
    for call in samples(name):
        wide = recast(call, np.longdouble)
        if not any(array.dtype == np.longdouble for array in arrays_of(wide)) or call.kwargs.get(
            "dtype"
        ):
            continue
        plain, double = by_numpy(name, wide), by_numpy(name, call)
        small, large = (
            by_numpy(name, Call(nudged(wide.args, amount), nudged(wide.kwargs, amount)))
            for amount in (np.longdouble(2) ** -55, np.longdouble(2) ** -40)
        )
        for zero, one, many, narrow in zip(plain, small, large, double, strict=True):
            assert_close(zero.astype(narrow.dtype), narrow, tolerance=2e-14)
            if narrow.dtype == np.float64:
                assert zero.dtype == np.longdouble
                effect = many - zero
                rounding = np.max(np.abs(zero), where=np.isfinite(zero), initial=0) * 2.0**-46
                within = np.max(np.abs(effect), where=np.isfinite(effect), initial=0) / 4 + rounding
                np.testing.assert_allclose((one - zero) * 2**15, effect, rtol=0, atol=float(within))


def exact(x: Any, mpmath: Any) -> Any:
    """A long double as an mpmath number."""
    mantissa, exponent = np.frexp(x)
    return mpmath.ldexp(int(np.ldexp(mantissa, 64)), int(exponent) - 64)


@needs_64_bits
@pytest.mark.parametrize(
    ("name", "formula"),
    [
        ("deg2rad", lambda m, x: x * m.pi / 180),
        ("rad2deg", lambda m, x: x * 180 / m.pi),
        ("angle", lambda m, x: m.pi if x < 0 else 0),
        ("sinc", lambda m, x: m.sincpi(x)),
        ("logaddexp2", lambda m, x: m.log(2**x + 2**x, 2)),
        ("sigmoid", lambda m, x: 1 / (1 + m.exp(-x))),
        ("nn.functional.softplus", lambda m, x: m.log1p(m.exp(x))),
        ("nn.functional.hardswish", lambda m, x: x * min(max(x + 3, 0), 6) / 6),
        (
            "nn.functional.selu",
            lambda m, x: (
                m.mpf("1.0507009873554804934193349852946")
                * (x if x > 0 else m.mpf("1.6732632423543772848170429916717") * m.expm1(x))
            ),
        ),
        ("nn.functional.gaussian_nll_loss", lambda m, x: m.log(4) / 2 + m.log(2 * m.pi) / 2),
        (
            "nn.functional.poisson_nll_loss",
            lambda m, x: m.exp(x) - 4 * x + 4 * m.log(4) - 4 + m.log(8 * m.pi) / 2,
        ),
    ],
)
def test_wide_constants_have_all_their_digits(
    name: str, formula: Callable[[Any, Any], Any]
) -> None:
    mpmath = pytest.importorskip("mpmath")
    x = real(50).astype(np.longdouble)
    more: dict[str, Any] = {
        "logaddexp2": {"other": x},
        "nn.functional.gaussian_nll_loss": {"target": x, "var": 4.0, "full": True,
            "reduction": "none"},
        "nn.functional.poisson_nll_loss": {"target": 4 + 0 * x, "full": True, "reduction": "none"},
    }  # fmt: skip
    result = IMPLEMENTATIONS[name](x, **more.get(name, {}))
    with mpmath.workdps(40):
        for one, value in zip(x, result, strict=True):
            expected = formula(mpmath, exact(one, mpmath))
            assert abs(exact(value, mpmath) - expected) <= 4 * 2.0**-63 * max(abs(expected), 1e-9)


# --- what PyTorch does at the edges

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(("name", "args", "expected"), [
    ("maximum", ([NAN, 1], [1, NAN]), [NAN, NAN]),
    ("fmin", ([NAN, 1], [1, NAN]), [1, 1]),
    ("clamp", ([NAN, 3, -3], 1.0, -1.0), [NAN, -1, -1]),
    ("sign", ([NAN, -0.0, -INF],), [0, 0, -1]),
    ("heaviside", ([NAN, 0], [5, 5]), [0, 5]),
    ("xlogy", ([0, 0, 1], [0, NAN, 0]), [0, NAN, -INF]),
    ("remainder", ([-4, 4, -1, 1], [3, -3, INF, -INF]), [2, -2, INF, -INF]),
    ("floor_divide", ([-1, 1, 5], [INF, 0, -2]), [-1, INF, -3]),
    ("logaddexp", ([-INF, INF, 1000], [-INF, 1, 1000]), [-INF, INF, 1000 + np.log(2)]),
    ("nn.functional.relu", ([NAN, -0.0, -INF],), [NAN, -0.0, 0]),
    ("nn.functional.gelu", ([NAN, INF, -5],), [NAN, INF, -1.4332578593959696e-6]),
    ("nn.functional.softplus", ([-800, 0, 800],), [0, np.log(2), 800]),
    ("nn.functional.logsigmoid", ([-800, INF],), [-800, 0]),
    ("sigmoid", ([-740, INF, -INF],), [4.2e-322, 1, 0]),
    ("sum", ([],), 0),
    ("mean", ([],), NAN),
    ("amax", ([1, NAN, 2],), NAN),
    ("nansum", ([1, NAN, 2],), 3),
    ("logsumexp", ([-INF, -INF], 0), -INF),
    ("logsumexp", ([1000, 1000], 0), 1000 + np.log(2)),
    ("softmax", ([-INF, 0, 1000], 0), [0, 0, 1]),
    ("softmax", ([-INF, -INF], 0), [NAN, NAN]),
    ("argmax", ([1, NAN, 2, NAN],), 1),
    ("var", ([1e8, 1e8, 1e8], 0), 0),
    ("var", ([5], 0), NAN),
    ("linalg.vector_norm", ([3e200, 4e200],), 5e200),
    ("linalg.vector_norm", ([3e-200, -4e-200],), 5e-200),
    ("linalg.vector_norm", ([NAN, INF],), NAN),
    ("prod", ([],), 1),
    ("cumsum", ([-0.0, 1], 0), [0.0, 1]),
])  # fmt: skip
def test_special_values(name: str, args: tuple[Any, ...], expected: Any) -> None:
    arrays = tuple(np.asarray(one, np.float64) if isinstance(one, list) else one for one in args)
    result = IMPLEMENTATIONS[name](*arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-14)
    number = ~np.isnan(result)  # a NaN's sign means nothing
    np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(expected)[number])


@pytest.mark.parametrize("name", ["max", "min", "sort", "topk", "median", "kthvalue"])
def test_nan_is_the_largest(name: str) -> None:
    rows = np.array([[2, NAN, 1], [NAN, 3, NAN], [1, 2, 3]])
    args = {"topk": (2,), "kthvalue": (2,), "sort": ()}.get(name, (1,))
    call = Call((rows, *args), {})
    np.testing.assert_array_equal(by_numpy(name, call)[0], by_torch(name, call)[0])


@pytest.mark.parametrize(("name", "args", "dtype"), [
    ("add", (np.ones(2, np.float32), 1.5), "float32"),
    ("add", (np.ones(2, np.int32), 1.5), "float32"),
    ("add", (np.ones(2, np.int32), True), "int32"),
    ("mul", (np.ones(2, np.float32), np.ones((), np.float64)), "float32"),
    ("mul", (np.ones((), np.float32), np.ones((), np.float64)), "float64"),
    ("mul", (np.ones(2, np.int64), np.ones(2, np.float16)), "float16"),
    ("mul", (np.ones(2, np.float32), 1j), "complex64"),
    ("div", (np.ones(2, np.int64), np.ones(2, np.int64)), "float32"),
    ("exp", (np.ones(2, np.int64),), "float32"),
    ("sum", (np.ones(2, np.int32),), "int64"),
    ("sum", (np.ones(2, np.bool_),), "int64"),
    ("all", (np.ones(2, np.uint8),), "uint8"),
    ("where", (np.ones(2, np.bool_), 1, 2.5), "float32"),
    ("softmax", (np.ones(2, np.float16), 0), "float16"),
    ("pow", (np.ones((), np.float32), 2), "float32"),
])  # fmt: skip
def test_promotes_as_torch_does(name: str, args: tuple[Any, ...], dtype: str) -> None:
    assert [one.dtype.name for one in by_numpy(name, Call(args, {}))] == [dtype]
    assert [one.dtype.name for one in by_torch(name, Call(args, {}))] == [dtype]


def test_half_is_rounded_once() -> None:
    x = np.array([1] + [2.0**-11] * 4, np.float16)  # in float16, 1 + 2⁻¹¹ is 1 again
    assert IMPLEMENTATIONS["sum"](x) == np.float16(1 + 4 * 2.0**-11)
    assert IMPLEMENTATIONS["sum"](x, dtype="float32").dtype == np.float32
    assert IMPLEMENTATIONS["sum"](x.astype(np.float32), dtype="float16") == np.float16(
        1 + 4 * 2.0**-11
    )
    np.testing.assert_array_equal(
        IMPLEMENTATIONS["nextafter"](x[:1], x[:1] * 2), np.array([1 + 2.0**-10], np.float16)
    )


def test_sums_pairwise_along_every_dimension() -> None:
    x = np.full((100_000, 2), 0.1, np.float32)
    expected = 100_000 * float(np.float32(0.1))
    np.testing.assert_allclose(IMPLEMENTATIONS["sum"](x, 0), expected, rtol=4e-7)
    np.testing.assert_allclose(IMPLEMENTATIONS["mean"](x, 0), np.float32(0.1), rtol=4e-7)


def test_accepts_any_strides_and_returns_plain_arrays() -> None:
    x = real(4, 6)[::-1, ::2].T
    for name in ("matmul", "add", "flip", "expand_as", "permute"):
        other = {"matmul": x.T, "flip": (0,), "permute": (1, 0)}.get(name, x)
        result = IMPLEMENTATIONS[name](x, other)
        assert result.flags.c_contiguous
        assert result.flags.writeable
        assert_close(result, by_torch(name, Call((np.ascontiguousarray(x), other), {}))[0], 1e-15)


@pytest.mark.parametrize(("name", "args", "kwargs", "reason"), [
    ("nn.functional.max_pool1d", (real(1, 1, 4), 2), {"return_indices": True}, "return_indices"),
    ("nn.functional.batch_norm", (real(2, 3), real(3), real(3)), {"training": True}, "in place"),
    ("nn.functional.embedding", (whole(2), real(4, 3)), {"max_norm": 1.0}, "in place"),
    ("nn.functional.mse_loss", (real(2), real(2)), {"size_average": False}, "deprecated"),
    ("nn.functional.mish", (whole(3),), {}, "nn.functional.mish of integers"),
    ("atan2", (1j * real(3), real(3)), {}, "atan2 of complex numbers"),
    ("sum", (real(3),), {"dtype": "bfloat16"}, "NumPy has no dtype 'bfloat16'"),
    ("nn.functional.rms_norm", (real(3).astype(np.longdouble), (3,)), {},
        "another number in every dtype"),
    ("zeros", (3,), {"out": real(3)}, "the arguments out"),
])  # fmt: skip
def test_says_what_it_does_not_offer(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str
) -> None:
    if name == "nn.functional.rms_norm" and np.finfo(np.longdouble).nmant < 63:
        pytest.skip("a long double is a double here")
    with pytest.raises(NotImplementedError, match=reason):
        IMPLEMENTATIONS[name](*args, **kwargs)


@pytest.mark.parametrize("name", ["gather", "scatter", "index_select", "index_add"])
def test_refuses_negative_positions(name: str) -> None:
    """NumPy would count them from the end, and an operator that PyTorch refuses would seem to
    work."""
    more = {"scatter": (2.5,), "index_add": (real(1),)}.get(name, ())
    call = Call((real(3), 0, np.array([-1]), *more), {})
    for run in (by_numpy, by_torch):
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            run(name, call)


@pytest.mark.parametrize(
    ("equation", "dtype"),
    [("ij->", "int64"), ("ij->i", "int64"), ("ii->i", "int32"), ("ij->ji", "int32")],
)
def test_einsum_sums_integers_as_sum_does(equation: str, dtype: str) -> None:
    call = Call((equation, np.ones((3, 3), np.int32)), {})
    assert [one.dtype.name for one in by_numpy("einsum", call)] == [dtype]
    assert [one.dtype.name for one in by_torch("einsum", call)] == [dtype]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.0), (0.0, 1.0), (-0.0, 1.0), (-1.0, -0.0)])
def test_hardtanh_keeps_the_sign_of_a_zero_within_bounds(low: float, high: float) -> None:
    call = Call((np.array([0.0, -0.0, 5.0, -5.0]), low, high), {})
    np.testing.assert_array_equal(
        np.signbit(by_numpy("nn.functional.hardtanh", call)),
        np.signbit(by_torch("nn.functional.hardtanh", call)),
    )


def test_hardtanh_refuses_bounds_in_the_wrong_order() -> None:
    with pytest.raises(ValueError, match="min_val"):
        IMPLEMENTATIONS["nn.functional.hardtanh"](np.zeros(2), 1.5, 1.0)


@pytest.mark.parametrize(
    ("name", "shape"), [("layer_norm", [4]), ("group_norm", 2), ("instance_norm", None)]
)
def test_the_result_of_normalization_has_the_format_of_its_input(name: str, shape: Any) -> None:
    """float32 weights beside float16 numbers do not make it float32."""
    x, weight = np.ones((2, 4, 4), np.float16), np.ones(4, np.float32)
    args = (x, shape, weight) if shape is not None else (x, None, None, weight)
    assert IMPLEMENTATIONS[f"nn.functional.{name}"](*args).dtype == np.float16


def test_a_smoothed_mean_over_a_weight_of_zero_is_nan() -> None:
    """As torch's: the mean without smoothing is 0 ÷ 0."""
    scores, weight = np.asarray([[0.5, 1.0]]), np.asarray([0.0, 1.0])
    loss = IMPLEMENTATIONS["nn.functional.cross_entropy"](
        scores, np.asarray([0]), weight, label_smoothing=0.125
    )
    assert np.isnan(loss)
