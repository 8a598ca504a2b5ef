"""Error models of the operators that stand in traces of models and that torch's public functions
write otherwise.

Convolution in one operator, normalisations that also return their statistics, softmax, attention
kernels, and the backward operators, which are called with all that they need and so are operators
of their own here. An :class:`Entry` says whose rules hold, what is summed, which outputs mean
something, and where need be how to compute them in float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from ... import operators
from ...core.model import Case
from ...core.recipe import Literal, TensorRecipe
from ...operators._shared import Args, Kwargs, Outputs, largest
from ...operators._standardised import by_channel, channel_sizes, weighted
from ...operators.attention import ATTENTION, of_keys, weighing
from ...operators.declare import EXACT, ErrorModel, Terms, accumulated, one, products
from . import references


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of one operator. ``rules`` is the declaration whose c and λ hold; ``kept``
    counts the outputs that mean something, from the first. ``elsewhere`` is what a device calls
    that lacks a kernel of the CPU's."""

    error: ErrorModel
    rules: str = ""
    kept: int | None = None
    reference: Callable[..., Any] | None = None
    traits: frozenset[str] = frozenset()
    observe: Callable[..., Any] | None = None
    elsewhere: Callable[..., Any] | None = None


def entry_of(base: str, case: Case) -> Entry | None:
    """The entry of ``aten::base`` in a case, if there is one."""
    if base == "convolution":
        weight, transposed = (case.args[i] if len(case.args) > i else None for i in (1, 6))
        rank = _dimensions(weight) - 2
        return _convolution(rank, bool(transposed)) if 1 <= rank <= 3 else None
    return _entries().get(base)


def _dimensions(tensor: Any) -> int:
    """How many dimensions an argument has, which is a literal tensor or a recipe; 0 of anything
    else."""
    if isinstance(tensor, TensorRecipe):
        strided = tensor.view[-1] if tensor.view and tensor.view[-1][0] == "as_strided" else ()
        return (len(strided) - 2) // 2 if strided else len(tensor.base)
    return len(tensor.shape) if isinstance(tensor, Literal) else 0


def named(base: str) -> Entry | None:
    """The entry of ``aten::base`` where it does not depend on the arguments, as that of a
    convolution does."""
    return _entries().get(base)


def is_pointwise(base: str) -> bool:
    """Whether ``aten::base`` is a derivative of a function of single elements."""
    return base in _POINTWISE or base == "gelu_backward"


def longest(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n for sums whose length nobody says: the longest dimension of a tensor."""
    return float(
        max((max(t.shape, default=1) for t in args if isinstance(t, torch.Tensor)), default=1)
    )


# Convolution.


@functools.cache
def _convolution(rank: int, transposed: bool) -> Entry:
    name = f"nn.functional.conv{'_transpose' if transposed else ''}{rank}d"
    return Entry(products(_of_kernel), name, traits=operators.get(name).traits)


def _of_kernel(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n: input channels of a group × kernel; of a transposed one, whose weight begins with the
    input channels, at most that."""
    weight, transposed, groups = args[1], args[6], args[8]
    return float(weight[:, 0].numel() / groups if transposed else weight[0].numel())


def _of_gradients(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n of the longest of three sums: over the kernel for the input, over all places of all images
    for weight and bias."""
    gradient, weight = args[0], args[2]
    return float(
        max(gradient.numel() / max(gradient.shape[1], 1), weight[:, 0].numel(), weight[0].numel())
    )


# Normalisation.


def _spread(x: torch.Tensor, dims: list[int], eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    """S of a mean: mean|x|. S of 1/σ: 1/σ · (1 + |mean|/σ), because a variance loses as many digits
    as the mean is large."""
    mean, variance = x.mean(dims, keepdim=True), x.var(dims, keepdim=True, unbiased=False)
    inverse = (variance + eps).rsqrt()
    return x.abs().mean(dims, keepdim=True), inverse * (1.0 + mean.abs() * inverse)


def _shaped(sizes: list[torch.Tensor], outputs: Outputs) -> list[Any]:
    return [
        s.reshape(o.shape) if s.numel() == o.numel() else largest(s)
        for s, o in zip(sizes, outputs, strict=False)
    ]


def _of_layers(args: Args, kwargs: Kwargs, outputs: Outputs) -> list[Any]:
    x, shape, weight, bias, eps = args
    values: Any = operators.get("nn.functional.layer_norm").error.magnitude
    return _shaped(
        [
            values((x, shape, weight, bias, eps), {}, outputs[:1]),
            *_spread(x, list(range(-len(shape), 0)), eps),
        ],
        outputs,
    )


def _of_layer(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(math.prod(args[1]))


def _of_groups(args: Args, kwargs: Kwargs, outputs: Outputs) -> list[Any]:
    x, weight, bias, count, _channels, _pixels, groups, eps = args
    values: Any = operators.get("nn.functional.group_norm").error.magnitude
    return _shaped(
        [
            values((x, groups, weight, bias, eps), {}, outputs[:1]),
            *_spread(x.reshape(count, groups, -1), [-1], eps),
        ],
        outputs,
    )


def _of_group(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0][0].numel() // args[6]) if len(args[0]) else 1.0


def batches(args: Args, base: str) -> tuple[torch.Tensor, Any, Any, Any, Any, bool, float, float]:
    """(x, weight, bias, running mean, running variance, training, momentum, eps) of each way to
    write batch norm."""
    x, weight, bias = args[:3]
    match base:
        case "_native_batch_norm_legit" if isinstance(
            args[3], bool
        ):  # the overload without running statistics
            return x, weight, bias, None, None, args[3], args[4], args[5]
        case "_native_batch_norm_legit_no_training":
            return x, weight, bias, args[3], args[4], False, args[5], args[6]
        case "_batch_norm_with_update":
            return x, weight, bias, args[3], args[4], True, args[5], args[6]
        case "_batch_norm_no_update":
            return x, weight, bias, args[3], args[4], False, args[5], args[6]
    return x, weight, bias, args[3], args[4], args[5], args[6], args[7]


def _of_batches(base: str) -> Callable[..., Any]:
    def size(args: Args, kwargs: Kwargs, outputs: Outputs) -> list[Any]:
        x, weight, bias, mean, variance, training, _, eps = batches(args, base)
        dims = [0, *range(2, x.ndim)]
        sizes, _ = channel_sizes(x, mean, variance, eps, training, False)
        found: list[Any] = [weighted(sizes, by_channel(x), weight, bias)]
        # What is saved for the gradient, and then the running statistics that were written.
        saved = 0 if base == "batch_norm" else 2
        found += (
            _shaped(list(_spread(x, dims, eps)), outputs[1:3])
            if training
            else [largest(o) for o in outputs[1:3]]
        )[:saved]
        centre = x.mean(dims, keepdim=True).abs()
        moved = (
            largest(x.abs().mean(dims)),
            2.0 * largest((x**2).mean(dims) + (centre * x.abs()).mean(dims)),
        )
        return found + [m + largest(o) for m, o in zip(moved, outputs[1 + saved :], strict=False)]

    return size


def _of_batch(base: str) -> Terms:
    def terms(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
        x = args[0]
        return float(x.numel() / max(x.shape[1], 1)) if batches(args, base)[5] else 1.0

    return terms


def _batch_norm(base: str) -> Entry:
    error = accumulated(_of_batches(base), _of_batch(base))
    elsewhere = base not in (
        "batch_norm",
        "native_batch_norm",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit_no_training",
    )
    reference = (
        functools.partial(references.batch_norm, functools.partial(batches, base=base))
        if elsewhere
        else None
    )
    kept = None if base == "batch_norm" else 3
    return Entry(error, "nn.functional.batch_norm", kept, reference)


def _shortened(name: str, count: int) -> Entry:
    """As declared, of the first ``count`` arguments."""
    declared: Any = operators.get(name).error
    return Entry(
        accumulated(
            lambda a, k, o: declared.magnitude(a[:count], k, o),
            lambda a, k, o: declared.terms(a[:count], k, o),
        ),
        name,
    )


# Reductions whose dimension comes in a list.


def _in_one_dimension(name: str) -> Entry:
    declared: Any = operators.get(name).error

    def single(args: Args) -> Args:
        if len(args[1]) != 1:
            raise TypeError("the declaration reduces one dimension")
        return (args[0], args[1][0], *args[2:])

    return Entry(
        accumulated(
            lambda a, k, o: declared.magnitude(single(a), k, o),
            lambda a, k, o: declared.terms(single(a), k, o),
        ),
        name,
    )


# Softmax.


def _like_softmax(name: str) -> Entry:
    declared: Any = operators.get(name).error
    return Entry(
        accumulated(
            lambda a, k, o: declared.magnitude(a[:2], {}, o),
            lambda a, k, o: declared.terms(a[:2], {}, o),
        ),
        name,
    )


def _of_softmax_slope(args: Args, kwargs: Kwargs, outputs: Outputs) -> torch.Tensor:
    """(g − Σ g·y)·y for what was returned, y."""
    gradient, y, dim = args[:3]
    size: torch.Tensor = y.abs() * (gradient.abs() + (gradient * y).abs().sum(dim, keepdim=True))
    return size


def _of_logarithm_slope(args: Args, kwargs: Kwargs, outputs: Outputs) -> Any:
    """g − exp(y)·Σ g; an exponential is as precise as |y| + 1."""
    gradient, y, dim = args[:3]
    share = torch.nan_to_num(y.exp() * (1.0 + y.abs()), nan=0.0)
    return gradient.abs() + share * gradient.abs().sum(dim, keepdim=True)


def _along(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0].shape[args[2]]) if args[0].ndim else 1.0


# Attention: (query, key, value, …), a mask, and the logarithm of the sum of exponentials beside the
# result.


def _attention(base: str, mask_at: int | str | None, causal_at: int, kept: int = 1) -> Entry:
    read = functools.partial(_read_attention, mask_at=mask_at, causal_at=causal_at)

    def size(args: Args, kwargs: Kwargs, outputs: Outputs) -> list[Any]:
        given = read(args, kwargs)
        values: Any = ATTENTION.magnitude
        found = [values(args[:3], given, outputs[:1])]
        if len(outputs) > 1:
            query, key = args[0], args[1]
            heads = query.shape[1] // key.shape[1] if query.ndim == 4 else 1
            key = key.repeat_interleave(heads, 1) if heads > 1 else key
            _, errors = weighing(
                query,
                key,
                given["attn_mask"],
                given["is_causal"],
                given["scale"] or query.shape[-1] ** -0.5,
            )
            found.append(largest(errors) + largest(outputs[1]))
        return found

    error, rules = accumulated(size, of_keys), "nn.functional.scaled_dot_product_attention"
    if base == "for_cpu":
        return Entry(
            error,
            rules,
            kept,
            elsewhere=functools.partial(references.attention_and_logarithm, read),
        )
    return Entry(error, rules, kept, reference=functools.partial(references.attention, read))


def _read_attention(
    args: Args, kwargs: Kwargs, mask_at: int | str | None, causal_at: int
) -> Kwargs:
    """The keyword arguments of ``scaled_dot_product_attention`` that say the same."""
    mask = (
        kwargs.get(mask_at)
        if isinstance(mask_at, str)
        else args[mask_at]
        if mask_at is not None
        else None
    )
    causal = (
        bool(args[causal_at]) if len(args) > causal_at else bool(kwargs.get("is_causal", False))
    )
    return {"attn_mask": mask, "is_causal": causal, "scale": kwargs.get("scale")}


# Recurrent layers of oneDNN, which know no float64.


def _of_gates(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return float(args[0].shape[-1] + args[5].shape[-1])


def _of_sequences(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n of each gate, of ``lstm(input, (h, c), …)`` and its kin."""
    state = args[1][0] if isinstance(args[1], (list, tuple)) else args[1]
    return float(args[0].shape[-1] + state.shape[-1])


def _of_steps(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    return _of_gates(args, kwargs, outputs) * float(args[0].shape[0])


def _gradients(args: Args, kwargs: Kwargs, outputs: Outputs) -> Outputs:
    """Without the scratch space, which the kernel writes to."""
    return outputs[:7]


# Each derivative is a product of rounded factors of single elements.
_POINTWISE = (
    "elu_backward", "hardshrink_backward", "hardsigmoid_backward", "hardswish_backward",
    "hardtanh_backward",
    "leaky_relu_backward", "log_sigmoid_backward", "logit_backward", "mish_backward",
    "sigmoid_backward", "silu_backward",
    "softplus_backward", "softshrink_backward", "tanh_backward", "native_dropout_backward",
    "_prelu_kernel_backward",
)  # fmt: skip
# Linear in the cotangent, which comes first; what else they take are positions and sizes.
_LINEAR = (
    "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward",
    "adaptive_max_pool2d_backward", "avg_pool2d_backward",
    "avg_pool3d_backward", "embedding_dense_backward", "max_pool2d_with_indices_backward",
    "max_pool3d_with_indices_backward",
    "nll_loss_backward", "nll_loss2d_backward", "reflection_pad1d_backward",
    "reflection_pad2d_backward",
    "replication_pad1d_backward", "replication_pad2d_backward", "replication_pad3d_backward",
    "unfold_backward",
    "upsample_bicubic2d_backward", "upsample_bilinear2d_backward", "upsample_linear1d_backward",
    "upsample_nearest1d_backward",
    "upsample_nearest2d_backward", "upsample_nearest3d_backward", "upsample_trilinear3d_backward",
)  # fmt: skip
_MOVED = ("select_backward", "slice_backward", "diagonal_backward", "threshold_backward")
_CONSTANT = frozenset({"constant"})  # most of a gradient may be zero


def _of_gelu(args: Args, kwargs: Kwargs, outputs: Outputs) -> Any:
    """g·(Φ(x) + x·φ(x)), where Φ is half of 1 + erf, and so never more precise than 1; nor is 1 −
    tanh², times the inner slope."""
    gradient, x = args[:2]
    slope = (
        x.abs() * (1.0 + 0.14 * x * x)
        if kwargs.get("approximate") == "tanh"
        else x.abs() * torch.exp(-0.5 * x * x)
    )
    return 2.0 * gradient.abs() * (1.0 + slope)


def _summed(terms: Terms) -> ErrorModel:
    """Sums of products; gradients of half precision are rounded to it in between."""
    return products(terms, wide_accumulation=False)


# (the declaration, outputs that mean something: a factorisation that is only on the way depends on
# the choice of pivots)
_SAME: dict[str, tuple[str, int | None]] = {
    "max_pool2d_with_indices": ("nn.functional.max_pool2d", None),
    "max_pool3d_with_indices": ("nn.functional.max_pool3d", None),
    "_adaptive_avg_pool2d": ("nn.functional.adaptive_avg_pool2d", None),
    "_linalg_eigh": ("linalg.eigh", None), "_linalg_svd": ("linalg.svd", None),
    "_linalg_eigvals": ("linalg.eigvals", None),
    "_linalg_det": ("linalg.det", 1), "_linalg_slogdet": ("linalg.slogdet", 2),
    "_linalg_solve_ex": ("linalg.solve", 1),
}  # fmt: skip


def _as_declared(name: str, kept: int | None) -> Entry:
    declared = operators.get(name)
    return Entry(declared.error, name, kept, traits=declared.traits, observe=declared.observe)


def _of_positions(args: Args, kwargs: Kwargs, outputs: Outputs) -> float:
    """n: at most as many rows are added up as there are positions."""
    return float(max(args[1].numel(), 1))


@functools.cache
def _entries() -> dict[str, Entry]:
    pointwise = accumulated("pointwise", one, wide_accumulation=False)
    found = {name: Entry(pointwise, traits=_CONSTANT) for name in _POINTWISE}
    found |= {name: Entry(_summed(longest), traits=_CONSTANT) for name in _LINEAR}
    found |= {name: Entry(EXACT, traits=_CONSTANT) for name in _MOVED}
    found["gelu_backward"] = Entry(
        accumulated(_of_gelu, one, wide_accumulation=False), traits=_CONSTANT
    )
    found["embedding_dense_backward"] = Entry(_summed(_of_positions), traits=_CONSTANT)
    # Behind the result is what its gradient needs, which each kernel fills in as far as it does.
    found |= {
        name: Entry(_summed(_of_positions), kept=1)
        for name in ("_embedding_bag", "_embedding_bag_forward_only")
    }
    found["embedding"] = Entry(EXACT, "nn.functional.embedding", traits=_CONSTANT)
    found["convolution_backward"] = Entry(_summed(_of_gradients), traits=_CONSTANT)
    found["native_layer_norm"] = Entry(
        accumulated(_of_layers, _of_layer), "nn.functional.layer_norm", 3
    )
    found["native_group_norm"] = Entry(
        accumulated(_of_groups, _of_group), "nn.functional.group_norm", 3
    )
    for name in (
        "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
        "_batch_norm_with_update",
        "_batch_norm_no_update", "batch_norm", "cudnn_batch_norm", "miopen_batch_norm",
    ):  # fmt: skip
        found[name] = _batch_norm(name)
    found |= {"_softmax": _like_softmax("softmax"), "_safe_softmax": _like_softmax("softmax")}
    found["_log_softmax"] = _like_softmax("log_softmax")
    found["logsumexp"] = _in_one_dimension("logsumexp")
    # The same as torch's own functions, but for a switch at the end.
    for name in ("layer_norm", "group_norm"):
        found[name] = _shortened(f"nn.functional.{name}", 5)
    found["lstm"] = Entry(accumulated("normwise", _of_sequences, growth="linear"), "lstm")
    found |= {name: Entry(found["lstm"].error, name) for name in ("gru", "rnn_tanh", "rnn_relu")}
    found["_softmax_backward_data"] = Entry(
        accumulated(_of_softmax_slope, _along, wide_accumulation=False), "softmax"
    )
    found["_log_softmax_backward_data"] = Entry(
        accumulated(_of_logarithm_slope, _along, wide_accumulation=False), "log_softmax"
    )
    found["_scaled_dot_product_flash_attention_for_cpu"] = _attention("for_cpu", "attn_mask", 4, 2)
    found["_scaled_dot_product_flash_attention"] = _attention("flash", None, 4)
    found["_scaled_dot_product_efficient_attention"] = _attention("efficient", 3, 6)
    found["_scaled_dot_product_cudnn_attention"] = _attention("cudnn", 3, 6)
    found |= {name: _as_declared(*same) for name, same in _SAME.items()}
    found["mkldnn_rnn_layer"] = Entry(
        accumulated("normwise", _of_gates, growth="linear", wide_accumulation=False),
        "lstm",
        3,
        reference=references.recurrent_layer,
    )
    found["mkldnn_rnn_layer_backward"] = Entry(
        accumulated("normwise", _of_steps, wide_accumulation=False),
        "lstm",
        7,
        references.recurrent_layer_backward,
        observe=_gradients,
        elsewhere=references.recurrent_layer_backward,
    )
    return found
