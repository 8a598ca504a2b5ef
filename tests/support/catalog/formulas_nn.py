"""Wrong formulas of layers, losses and linear algebra: (operator, what, function, cause) each."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .formulas import Wrong


def _standardize(x: Tensor, dims: list[int], eps: float, how: str) -> Tensor:
    mean = x.mean(dims, keepdim=True)
    centered = x - mean
    if how == "one pass":
        return centered / ((x * x).mean(dims, keepdim=True) - mean * mean + eps).sqrt()
    variance = (centered * centered).mean(dims, keepdim=True)
    if how == "unbiased":
        n = math.prod(x.shape[d] for d in dims)
        variance = variance * (n / max(n - 1, 1))
    return centered / (variance.sqrt() + eps if how == "eps outside" else (variance + eps).sqrt())


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None, rank: int = 0) -> Tensor:
    if weight is not None:
        x = x * weight.reshape(*weight.shape, *[1] * rank)
    return x if bias is None else x + bias.reshape(*bias.shape, *[1] * rank)


def layers(how: str) -> Any:
    def layer_norm(
        x: Tensor, shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Tensor:
        return _affine(_standardize(x, list(range(-len(shape), 0)), eps, how), weight, bias)

    return layer_norm


def groups(how: str) -> Any:
    def group_norm(
        x: Tensor, count: int, weight: Any = None, bias: Any = None, eps: float = 1e-5
    ) -> Tensor:
        y = _standardize(x.reshape(x.shape[0], count, -1), [2], eps, how).reshape(x.shape)
        return _affine(y, weight, bias, x.ndim - 2)

    return group_norm


def batches(how: str) -> Any:
    """Batch normalization; ``how`` is a formula of the variance, or a mistake about the running
    statistics."""

    def batch_norm(
        x: Tensor,
        mean: Any,
        variance: Any,
        weight: Any,
        bias: Any,
        training: bool = False,
        momentum: float = 0.1,
        eps: float = 1e-5,
    ) -> Tensor:
        if how == "statistics untouched" and training:
            return F.batch_norm(
                x, mean.clone(), variance.clone(), weight, bias, True, momentum, eps
            )
        if how == "batch statistics" and not training and x.numel() > x.shape[1]:
            return F.batch_norm(x, None, None, weight, bias, True, momentum, eps)
        if how == "momentum ignored":
            return F.batch_norm(x, mean, variance, weight, bias, training, 0.1, eps)
        if how == "biased running variance" and training:
            n = x.numel() // x.shape[1]
            before = variance.clone()
            result = F.batch_norm(x, mean, variance, weight, bias, True, momentum, eps)
            update = (variance - before * (1 - momentum)) * ((n - 1) / n)
            variance.copy_(before * (1 - momentum) + update)
            return result
        if how == "weight ignored":
            return F.batch_norm(x, mean, variance, None, bias, training, momentum, eps)
        if training and how in ("one pass", "eps outside"):
            F.batch_norm(x, mean, variance, weight, bias, True, momentum, eps)
            dims = [0, *range(2, x.ndim)]
            return _affine(_standardize(x, dims, eps, how), weight, bias, x.ndim - 2)
        return F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps)

    return batch_norm


def rms_eps_outside(x: Tensor, shape: list[int], weight: Any, eps: float | None = None) -> Tensor:
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    return _affine(
        x / (x.square().mean(list(range(-len(shape), 0)), keepdim=True).sqrt() + eps), weight, None
    )


def attention(how: str) -> Any:
    def sdpa(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Any = None,
        is_causal: bool = False,
        scale: Any = None,
    ) -> Tensor:
        if how == "mask one off" and not is_causal:
            return F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
        factor = 1.0 / math.sqrt(q.shape[-1]) if scale is None else scale
        scores = q @ k.mT * factor
        if is_causal:
            step = 1 if how == "mask one off" else 0
            allowed = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(step)
            scores = scores.masked_fill(~allowed, -math.inf)
        if attn_mask is not None:
            scores = (
                scores.masked_fill(~attn_mask, -math.inf)
                if attn_mask.dtype == torch.bool
                else scores + attn_mask
            )
        weights = (
            scores.exp() / scores.exp().sum(-1, keepdim=True)
            if how == "no shift"
            else scores.softmax(-1)
        )
        return (weights.half().float() if how == "float16 weights" else weights) @ v

    return sdpa


def without_shift(x: Tensor, dim: int) -> Tensor:
    return x.exp() / x.exp().sum(dim, keepdim=True)


def corner_aligned(x: Tensor, **options: Any) -> Tensor:
    """Pixel centers where the corners should be, and the reverse."""
    if options.get("mode") in ("linear", "bilinear", "trilinear", "bicubic"):
        options["align_corners"] = not options.get("align_corners", False)
    if options.get("align_corners"):
        options.pop("antialias", None)
    return F.interpolate(x, **options)


def fixed_windows(x: Tensor, size: Any) -> Tensor:
    """Adaptive pooling with one kernel and stride for all windows, as fits divisible sizes."""
    sizes = [size] * 2 if isinstance(size, int) else list(size)
    wanted = [n if s is None else s for s, n in zip(sizes, x.shape[-2:], strict=True)]
    steps = [n // w for n, w in zip(x.shape[-2:], wanted, strict=True)]
    if min(steps) < 1:
        return F.adaptive_avg_pool2d(x, size)
    kernel = [n - (w - 1) * s for n, w, s in zip(x.shape[-2:], wanted, steps, strict=True)]
    return F.avg_pool2d(x, kernel, steps)


def last_row_dropped(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    short = weight.clone()
    if weight.shape[2] > 1:
        short[:, :, -1] = 0
    return F.conv2d(x, short, bias, **options)


def neighbors_filter(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    """Of a depthwise convolution: each channel meets the filter of the one before."""
    depthwise = options.get("groups", 1) > 1 and weight.shape[1] == 1
    return F.conv2d(x, weight.roll(1, 0) if depthwise else weight, bias, **options)


def other_groups(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    """The groups' filters in another order."""
    count = options.get("groups", 1)
    return F.conv2d(
        x,
        weight.unflatten(0, (count, -1)).flip(0).flatten(0, 1) if count > 1 else weight,
        bias,
        **options,
    )


def repeated_edge(x: Tensor, weight: Tensor, bias: Any = None, **options: Any) -> Tensor:
    """Padding repeats the edge in place of zeros."""
    padding = options.get("padding", 0)
    if isinstance(padding, str) or not x.numel() or x.ndim < 3:
        return F.conv1d(x, weight, bias, **options)
    options["padding"] = 0
    amount = padding if isinstance(padding, int) else padding[0]
    return F.conv1d(
        F.pad(x, [amount, amount], "replicate") if amount else x, weight, bias, **options
    )


def largest_with_zeros(x: Tensor, kernel: Any, **options: Any) -> Any:
    """Max pooling whose padding counts as zeros."""
    result = F.max_pool2d(x, kernel, **options)
    return (
        result if not options.get("padding") or isinstance(result, tuple) else result.clamp_min(0)
    )


def without(name: str, function: Any) -> Any:
    """``function`` as if the keyword argument ``name`` had not been given."""
    return lambda *args, **kwargs: function(
        *args, **{key: value for key, value in kwargs.items() if key != name}
    )


N = "nn.functional."
LAYERS: tuple[Wrong, ...] = (
    *(
        (f"{N}layer_norm", how, layers(how), cause)
        for how, cause in (
            ("one pass", "one-pass-variance"),
            ("eps outside", "eps-misplaced"),
            ("unbiased", None),
        )
    ),
    *(
        (f"{N}group_norm", how, groups(how), cause)
        for how, cause in (("one pass", "one-pass-variance"), ("eps outside", "eps-misplaced"))
    ),
    *(
        (f"{N}batch_norm", how, batches(how), cause)
        for how, cause in (
            ("one pass", "one-pass-variance"),
            ("eps outside", "eps-misplaced"),
            ("statistics untouched", None),
            ("batch statistics", None),
            ("momentum ignored", "argument-ignored"),
            ("biased running variance", None),
            ("weight ignored", "argument-ignored"),
        )
    ),
    (f"{N}rms_norm", "eps outside", rms_eps_outside, "eps-misplaced"),
    (f"{N}layer_norm", "eps ignored", without("eps", F.layer_norm), "argument-ignored"),
    (
        f"{N}layer_norm",
        "bias ignored",
        lambda x, s, w=None, b=None, **o: F.layer_norm(x, s, w, None, **o),
        "argument-ignored",
    ),
    (
        f"{N}instance_norm",
        "statistics of the batch",
        lambda x, m, v, w, b, use_input_stats=True, **o: F.instance_norm(x, m, v, w, b, True, **o),
        "argument-ignored",
    ),
    (
        f"{N}normalize",
        "eps added",
        lambda x, p=2.0, dim=1, eps=1e-12: (
            x / (torch.linalg.vector_norm(x, p, dim, keepdim=True) + eps)
        ),
        "eps-misplaced",
    ),
    *(
        (f"{N}scaled_dot_product_attention", how, attention(how), cause)
        for how, cause in (
            ("no shift", "no-max-shift"),
            ("mask one off", None),
            ("float16 weights", None),
        )
    ),
    *(
        (
            f"{N}scaled_dot_product_attention",
            f"{name} ignored",
            without(name, F.scaled_dot_product_attention),
            "argument-ignored",
        )
        for name in ("attn_mask", "scale")
    ),
    ("softmax", "no shift", without_shift, "no-max-shift"),
    ("log_softmax", "log of softmax", lambda x, dim: x.softmax(dim).log(), None),
    (
        "log_softmax",
        "no shift",
        lambda x, dim: x - x.exp().sum(dim, keepdim=True).log(),
        "no-max-shift",
    ),
    (f"{N}softmin", "of the inputs themselves", lambda x, dim: x.softmax(dim), None),
    (f"{N}interpolate", "wrong pixel center", corner_aligned, "argument-ignored"),
    (
        f"{N}grid_sample",
        "wrong pixel center",
        lambda x, g, align_corners=False, **o: F.grid_sample(
            x, g, align_corners=not align_corners, **o
        ),
        "argument-ignored",
    ),
    (
        f"{N}grid_sample",
        "padding ignored",
        without("padding_mode", F.grid_sample),
        "argument-ignored",
    ),
    (f"{N}adaptive_avg_pool2d", "fixed windows", fixed_windows, None),
    (
        f"{N}avg_pool2d",
        "padding counted",
        without("count_include_pad", F.avg_pool2d),
        "argument-ignored",
    ),
    (
        f"{N}avg_pool2d",
        "divisor ignored",
        without("divisor_override", F.avg_pool2d),
        "argument-ignored|scaled",
    ),
    (f"{N}max_pool2d", "padding of zeros", largest_with_zeros, None),
    (
        f"{N}lp_pool2d",
        "without the root",
        lambda x, p, *a, **o: F.lp_pool2d(x, p, *a, **o) ** p,
        None,
    ),
    (f"{N}conv2d", "last kernel row dropped", last_row_dropped, "terms-dropped"),
    (f"{N}conv2d", "neighbor's filter", neighbors_filter, None),
    (f"{N}conv2d", "other group's filters", other_groups, None),
    (
        f"{N}conv2d",
        "true convolution",
        lambda x, w, b=None, **o: F.conv2d(x, w.flip(-1, -2), b, **o),
        "flipped",
    ),
    (
        f"{N}conv2d",
        "bias ignored",
        lambda x, w, b=None, **o: F.conv2d(x, w, None, **o),
        "argument-ignored",
    ),
    (f"{N}conv1d", "edge repeated", repeated_edge, None),
    (f"{N}linear", "bias ignored", lambda x, w, b=None: F.linear(x, w), "argument-ignored"),
)
