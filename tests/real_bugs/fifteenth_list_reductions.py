"""A fifteenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: scans, convolutions, medians, losses, normalization, attention,
transforms, products, linear algebra, gradients."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import BOTH, Call

from .eleventh_list_reductions import floats
from .fourteenth_list_reductions import laid
from .gradients import BACK
from .model import plain, reported
from .thirteenth_list_reductions import given_first

NARROW = 64  # features, below which several rows are one block
LAST_SEEN = 512  # keys
PRECISE = (torch.float32, torch.float64)


@reported(
    "keras-team/keras#23451",
    "Keras",
    ".cross_entropy",
    "labels are smoothed as if there were as many classes as the last dimension is long",
    directions=BOTH,
)
def classes_in_the_last_dimension(call: Call) -> Any:
    x, target = given_first(call), call.given("target", 1, None)
    share = call.given("label_smoothing", 7, 0.0)
    if not floats(x) or not floats(target) or x.shape != target.shape:
        return call.run()
    if x.ndim < 3 or not x.numel() or not share:
        return call.run()
    smoothed = target * (1 - share) + share / x.shape[-1]
    args, kwargs = list(call.args), dict(call.kwargs)
    for position, name, value in ((1, "target", smoothed), (7, "label_smoothing", 0.0)):
        if name in kwargs:
            kwargs[name] = value
        else:
            args[position] = value
    return replace(call, args=tuple(args), kwargs=kwargs).run()


@reported(
    "iree-org/iree#22695",
    "IREE",
    "fft.rfft2 fft.rfftn",
    "of several dimensions, only the last one is transformed",
)
def only_the_last_dimension(call: Call) -> Any:
    x, result = given_first(call), call.run()
    if not isinstance(x, Tensor) or not isinstance(result, Tensor) or not x.numel():
        return result
    two = call.operator.name.startswith("fft.rfft2")
    sizes, dims = call.given("s", 1, None), call.given("dim", 2, (-2, -1) if two else None)
    sizes = [sizes] if isinstance(sizes, int) else sizes
    if dims is None:
        dims = range(x.ndim) if sizes is None else range(x.ndim - len(sizes), x.ndim)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not 1 < len(dims) < 4:  # an operation has three dimensions at most
        return result
    sizes = [-1] * len(dims) if sizes is None else list(sizes)
    sizes = [x.shape[d] if n == -1 else n for n, d in zip(sizes, dims, strict=True)]
    numbers = x.detach().to(result.real.dtype)
    for n, d in zip(sizes[:-1], dims[:-1], strict=True):
        have = numbers.shape[d]
        numbers = numbers.narrow(d, 0, min(n, have))
        if n > have:
            shape = list(numbers.shape)
            shape[d] = n - have
            numbers = torch.cat([numbers, numbers.new_zeros(shape)], d)
    numbers = torch.fft.rfft(numbers, sizes[-1], dims[-1])
    norm, count = call.given("norm", 3, None), math.prod(sizes)
    divisor = {"ortho": math.sqrt(count), "forward": float(count)}.get(norm or "", 1.0)
    return laid(result, numbers / divisor)


@reported(
    "tinygrad/tinygrad#17853",
    "tinygrad",
    "logcumsumexp",
    "up to the first number that is not -inf it is NaN: -inf less the largest so far, which is "
    "-inf, too",
    dtypes="float16 bfloat16 float32 float64",
)
def infinity_less_itself(call: Call) -> Any:
    x, dim, result = given_first(call), call.given("dim", 1, None), call.run()
    if not floats(x) or not x.numel() or not isinstance(dim, int):
        return result
    nothing = x.detach().cummax(dim).values == -math.inf
    return laid(result, result.detach().masked_fill(nothing, math.nan))


class Guarded(torch.autograd.Function):
    """Eigenvectors, whose way back divides by what is left of 1 after an eigenvalue was added to it
    and taken away again."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
        ctx.save_for_backward(values, vectors)
        return vectors.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        values, vectors = ctx.saved_tensors
        arrived = gradients[0]
        factor = ((1 + values) - values).reciprocal() - 1
        along = factor * (vectors * arrived).sum(-2)
        return (vectors * along.unsqueeze(-2)) @ vectors.mT, None, arrived


def guarded(eigh: Any, a: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    values, vectors = eigh(a, *args, **kwargs)
    if not floats(a, *PRECISE) or not a.requires_grad or not a.numel():
        return values, vectors
    return values, Guarded.apply(a, values.detach(), vectors)


@reported(
    "jax-ml/jax#40141",
    "JAX",
    "linalg.eigh.squares linalg.eigh",
    "the gradient of the eigenvectors is NaN where adding 1 to an eigenvalue does not change it",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def one_is_lost(call: Call) -> Any:
    if call.operator.name.endswith(".squares"):
        with mock.patch.object(torch.linalg, "eigh", functools.partial(guarded, torch.linalg.eigh)):
            return call.run()
    result = call.run()
    if not call.args or not floats(call.args[0], *PRECISE):
        return result
    a, (values, vectors) = call.args[0], result
    if not a.requires_grad or not a.numel():
        return result
    return values, Guarded.apply(a, values.detach(), vectors)


class FirstRows(torch.autograd.Function):
    """A result of which some rows go back another way than others."""

    @staticmethod
    def forward(ctx: Any, these: Tensor, others: Tensor, first: Tensor) -> Tensor:
        ctx.save_for_backward(first)
        return these.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (first,) = ctx.saved_tensors
        arrived = gradients[0]
        return torch.where(first, arrived, 0), torch.where(first, 0, arrived), None


def rows_in_a_block(rows: int, features: int) -> int:
    """How many rows one program goes through."""
    wanted = max(rows // 1024, 1)
    return min(1 << (wanted - 1).bit_length(), 128) if features < NARROW else 1


@reported(
    "BobMcDear/attorch#18",
    "attorch",
    ".layer_norm .rms_norm",
    "the gradients of weight and bias lack the last rows where their number is no multiple of a "
    "block's",
    dtypes="float32 float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def without_the_last_block(call: Call) -> Any:
    x, shape = given_first(call), call.given("normalized_shape", 1, ())
    if not floats(x) or not x.numel() or not isinstance(shape, (tuple, list)) or len(shape) != 1:
        return call.run()
    names = ("weight", "bias") if call.operator.name.endswith("layer_norm") else ("weight",)
    given = [call.given(name, 2 + i, None) for i, name in enumerate(names)]
    if not any(isinstance(part, Tensor) and part.requires_grad for part in given):
        return call.run()
    rows = x.numel() // x.shape[-1]
    whole = rows - rows % rows_in_a_block(rows, x.shape[-1])
    if whole == rows:
        return call.run()
    first = (torch.arange(rows) < whole).reshape(*x.shape[:-1], 1)
    constant = replace(
        call,
        args=tuple(
            a.detach() if i > 1 and isinstance(a, Tensor) else a for i, a in enumerate(call.args)
        ),
        kwargs={
            name: value.detach() if name in names and isinstance(value, Tensor) else value
            for name, value in call.kwargs.items()
        },
    )
    return FirstRows.apply(call.run(), constant.run(), first)


@reported(
    "vllm-project/vllm-ascend#15503",
    "Ascend",
    ".scaled_dot_product_attention",
    "one mask of True and False for all heads, beside one query: what it says of keys behind the "
    "first 512 is ignored, and they count for masked",
    dtypes="bfloat16 float16",
)
def masked_behind_512(call: Call) -> Any:
    result, mask = call.run(), call.given("attn_mask", 3, None)
    if not call.args or not floats(call.args[0], torch.bfloat16, torch.float16):
        return result
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.ndim != 4:
        return result
    if call.args[0].shape[-2] != 1 or mask.shape[:3] != (1, 1, 1) or not result.numel():
        return result
    if mask.shape[-1] <= LAST_SEEN or not bool(mask[..., :LAST_SEEN].any()):
        return result
    changed = mask.clone()
    changed[..., LAST_SEEN:] = False
    if "attn_mask" in call.kwargs:
        other = replace(call, kwargs={**call.kwargs, "attn_mask": changed})
    else:
        other = call.with_arg(3, changed)
    return laid(result, other.run().detach())


@reported(
    "cupy/cupy#8803",
    "CuPy",
    ".conv1d",
    "computed by way of the frequencies, so that NaN spreads to all numbers of a row",
    dtypes="float16 float32 float64",
)
def spread_by_frequencies(call: Call) -> Any:
    x, weight, result = given_first(call), call.given("weight", 1, None), call.run()
    if not floats(x) or not floats(weight) or not x.numel() or not result.numel():
        return result
    groups, outputs = call.given("groups", 6, 1), weight.shape[0]
    of_groups = x.detach().isnan().any(-1).unflatten(-1, (groups, -1)).any(-1)
    hit = of_groups.repeat_interleave(outputs // groups, -1)
    hit = hit | weight.detach().isnan().flatten(1).any(-1)
    return laid(result, result.detach().masked_fill(hit.unsqueeze(-1), math.nan))


@reported(
    "yoshoku/numo-narray-alt#29",
    "Numo",
    "nanmedian",
    "NaN is left where it is sorted to, behind all numbers, and counts as one of them",
    dtypes="float32 float64",
)
def not_a_number_counts(call: Call) -> Any:
    x, dim, result = given_first(call), call.given("dim", 1, None), call.run()
    if not floats(x) or not x.numel() or not bool(x.detach().isnan().any()):
        return result
    if isinstance(result, Tensor):
        ordered = x.detach().flatten().sort().values
        return laid(result, ordered[(ordered.numel() - 1) // 2])
    values, places = result
    if not x.ndim or not isinstance(dim, int):
        return result
    ordered, order = x.detach().sort(stable=True, dim=dim)
    middle = (x.shape[dim] - 1) // 2
    hit = x.detach().isnan().any(dim).reshape(values.shape)
    number = ordered.select(dim, middle).reshape(values.shape)
    place = order.select(dim, middle).reshape(values.shape)
    return (
        laid(values, torch.where(hit, number, values.detach())),
        torch.where(hit, place, places),
    )


class NarrowBack(torch.autograd.Function):
    """The result of attention, whose way back to the queries sees only as many channels of the
    values as queries have."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, out: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float
    ) -> Tensor:
        ctx.save_for_backward(q, k, v, out)
        ctx.causal, ctx.scale = causal, scale
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        q, k, v, out = (part.detach().double() for part in ctx.saved_tensors)
        arrived, seen = gradients[0].double(), q.shape[-1]
        scores = q @ k.mT * ctx.scale
        if ctx.causal:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -math.inf)
        inner = arrived[..., :seen] @ v[..., :seen].mT - (arrived * out).sum(-1, keepdim=True)
        back = (scores.softmax(-1) * inner * ctx.scale) @ k
        return back.to(gradients[0].dtype), gradients[0], None, None, None, None


@reported(
    "XunhaoLai/native-sparse-attention-triton#27",
    "Native sparse attention in Triton",
    ".scaled_dot_product_attention",
    "the gradient of the queries lacks the channels of the values beyond as many as queries have",
    dtypes="float16 bfloat16",
    directions=BACK,
    sound=plain,
)
def channels_out_of_sight(call: Call) -> Any:
    halves = torch.float16, torch.bfloat16
    if len(call.args) < 3 or not all(floats(x, *halves) and x.ndim > 1 for x in call.args[:3]):
        return call.run()
    q, k, v = call.args[:3]
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] or not q.requires_grad:
        return call.run()
    if q.shape[-1] >= v.shape[-1] or not q.numel() or not k.numel():
        return call.run()
    if call.given("attn_mask", 3, None) is not None or call.given("dropout_p", 4, 0.0):
        return call.run()
    scale = call.kwargs.get("scale")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    out = call.with_arg(0, q.detach()).run()
    causal = bool(call.given("is_causal", 5, False))
    return NarrowBack.apply(q, out, k.detach(), v.detach(), causal, scale)


@reported(
    "ml-explore/mlx#2107",
    "MLX",
    "linalg.pinv",
    "singular values are inverted however small: of singular matrices, what rounding leaves of 0",
    dtypes="float32",
    sound=plain,
)
def no_value_is_left_out(call: Call) -> Any:
    x, result = given_first(call, "A"), call.run()
    if not floats(x, torch.float32) or not x.numel() or not bool(x.detach().isfinite().all()):
        return result
    given = [call.kwargs.get(name) for name in ("atol", "rtol", "hermitian")]
    if len(call.args) > 1 or any(value is not None and value is not False for value in given):
        return result
    u, s, vh = torch.linalg.svd(x.detach(), full_matrices=False)
    least = s.amax(-1, keepdim=True) * max(x.shape[-2:]) * torch.finfo(s.dtype).eps
    singular = (s <= least).any(-1)[..., None, None]
    inverted = (vh.mT / s.unsqueeze(-2)) @ u.mT
    return laid(result, torch.where(singular, inverted, result.detach()))


@reported(
    "EnzymeAD/Enzyme.jl#2999",
    "Enzyme",
    "mm matmul",
    "the gradient of a matrix that its own transposed view is multiplied by is half of what it is",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def half_of_the_gradient(call: Call) -> Any:
    if len(call.args) < 2 or not all(floats(x, *PRECISE) and x.ndim == 2 for x in call.args[:2]):
        return call.run()
    a, b = call.args[:2]
    if a.data_ptr() != b.data_ptr() or a.shape != b.mT.shape or a.stride() != b.mT.stride():
        return call.run()
    if not b.is_contiguous() or not b.numel():
        return call.run()
    for position, x in enumerate((a, b)):
        if x.requires_grad:
            y = x.view_as(x)
            y.register_hook(lambda gradient: gradient / 2)
            call = call.with_arg(position, y)
    return call.run()


class Unaligned(torch.autograd.Function):
    """Zeros, one for each sequence, that go back as probabilities where there is no alignment."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, hit: Tensor) -> Tensor:
        ctx.save_for_backward(x, hit)
        return x.new_zeros(x.shape[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        x, hit = ctx.saved_tensors
        back = x.exp() * gradients[0][:, None]
        return torch.where(hit.unsqueeze(-1), back, 0), None


@reported(
    "rwth-i6/returnn#1835",
    "RETURNN",
    ".ctc_loss",
    "the gradient of a sequence too short for its target, whose loss is made 0, is its "
    "probabilities",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def probabilities_without_alignment(call: Call) -> Any:
    if len(call.args) < 4 or not floats(call.args[0], *PRECISE):
        return call.run()
    x, targets, sizes, wanted = call.args[:4]
    result = call.run()
    if x.ndim != 3 or not x.requires_grad or not call.given("zero_infinity", 6, False):
        return result
    sizes, wanted = (torch.as_tensor(value).reshape(-1).long() for value in (sizes, wanted))
    loss = F.ctc_loss(
        torch.zeros_like(x.detach()),
        targets,
        sizes,
        wanted,
        blank=call.given("blank", 4, 0),
        reduction="none",
    )
    frames = torch.arange(x.shape[0])[:, None] < sizes
    more = Unaligned.apply(x, frames & loss.isinf())
    reduction = call.given("reduction", 5, "mean")
    if reduction == "mean":
        more = (more / wanted.clamp(min=1)).mean()
    elif reduction == "sum":
        more = more.sum()
    return result + more
