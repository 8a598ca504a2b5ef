"""An eighth, held-out list of reports of 2024 to 2026 (see :mod:`.eighth_list`), chosen for
variety before anything was looked at of how inputs are drawn: sizes, precision, gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .gradients import BACK, hooked
from .model import plain, reported
from .seventh_list_sizes import viewed, watched
from .sixth_list_sizes import in_turn

F = torch.nn.functional
ROWS = 1 << 20  # elements that two levels of a scan reach: 1024 by 1024
GRID = 1 << 16


def pair(value: Any) -> tuple[Any, Any]:
    """The value for rows and that for columns."""
    return (value[0], value[-1]) if isinstance(value, (tuple, list)) else (value, value)


@reported(
    "pytorch/pytorch#196113",
    "MPS",
    "linalg.lstsq",
    "fewer equations than unknowns, 8,192 numbers or more: the matrix is conjugated",
    dtypes="complex64",
    sound=plain,
)
def conjugated_system(call: Call) -> Any:
    a = call.args[0]
    if a.shape[-2] >= a.shape[-1] or a.numel() < 8192 or a.dtype != torch.complex64:
        return call.run()
    return call.with_arg(0, a.conj().resolve_conj()).run()


@reported(
    "pytorch/pytorch#190064",
    "MPS",
    ".adaptive_max_pool2d",
    "sizes that do not divide: an ordinary pooling with one size of window and one step",
    dtypes="float32 float16 bfloat16",
    sound=plain,
)
def one_window(call: Call) -> Any:
    x, given = call.args[0], pair(call.given("output_size", 1, None))
    sizes = x.shape[-2:]
    wanted = [n if want is None else want for n, want in zip(sizes, given, strict=True)]
    if not x.numel() or not all(wanted) or (sizes[0] - wanted[0]) * (sizes[1] - wanted[1]) < 0:
        return call.run()
    ends = [sorted(both) for both in zip(sizes, wanted, strict=True)]
    step = [large // small for small, large in ends]
    window = [large - (small - 1) * s for (small, large), s in zip(ends, step, strict=True)]
    if window[0] > sizes[0] or window[1] > sizes[1]:
        return call.run()
    places = bool(call.given("return_indices", 2, False))
    return F.max_pool2d(x, window, step, return_indices=places)


@reported(
    "IntelPython/dpnp#3063",
    "dpnp",
    "cumsum",
    "several rows of more than 1,048,576 elements: what comes before such a block is added in the "
    "first row only, from all of them",
    dtypes="float32",
    sound=plain,
)
def added_in_the_first_row(call: Call) -> Any:
    dim, result = call.given("dim", 1, 0), call.run()
    if not result.ndim or result.shape[dim] <= ROWS or result.numel() == result.shape[dim]:
        return result
    rows = result.movedim(dim, -1)
    flat = rows.reshape(-1, rows.shape[-1])
    wrong = flat.clone()
    for start in range(ROWS, flat.shape[1], ROWS):
        before = flat[:, start - 1 : start]
        wrong[:, start : start + ROWS] -= before
        wrong[0, start : start + ROWS] += before.sum()
    return wrong.reshape(rows.shape).movedim(-1, dim)


@reported(
    "IntelPython/mkl_fft#370",
    "mkl_fft",
    "fft.irfftn fft.irfft2",
    "without sizes, with a norm: scaled for the last dimension of the input, not of the result",
    dtypes="complex64 complex128",
    sound=plain,
)
def scaled_for_the_input(call: Call) -> Any:
    x, norm = call.args[0], call.given("norm", 3, None)
    if norm not in ("forward", "ortho") or call.given("s", 1, None) is not None:
        return call.run()
    default = (-2, -1) if call.operator.name.endswith("2") else None
    dims = call.given("dim", 2, default)
    size = x.shape[-1 if not dims else dims[-1]]
    if size < 2:
        return call.run()
    share = size / (2 * (size - 1))
    return call.run() * (share if norm == "forward" else math.sqrt(share))


@reported(
    "ml-explore/mlx#3800",
    "MLX on Metal",
    ".conv2d",
    "with groups and a stride, the gradient of the image comes from a kernel without groups",
    dtypes="float32",
    directions=BACK,
)
def gradient_without_groups(call: Call) -> Any:
    weight, groups, stride = call.args[1], call.given("groups", 6, 1), call.given("stride", 3, 1)
    if groups == 1 or max(pair(stride)) == 1 or not weight.numel():
        return call.run()
    padding, dilation = call.given("padding", 4, 0), call.given("dilation", 5, 1)
    padding, seen = 0 if isinstance(padding, str) else padding, list[Tensor]()
    full = weight.detach().repeat(1, groups, 1, 1)

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        image = (x if x.ndim == 4 else x.unsqueeze(0)).shape
        cotangent = seen[-1] if x.ndim == 4 else seen[-1].unsqueeze(0)
        wrong = torch.nn.grad.conv2d_input(
            image, full, cotangent, pair(stride), pair(padding), pair(dilation), 1
        )
        return wrong.reshape(gradient.shape)

    return watched(hooked(call, 0, change), seen)


@reported(
    "pytorch/pytorch#196949",
    "MPS",
    ".pad",
    "reflected rows of more than 65,536 elements: only the remainder gets its gradient",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def remainder_only(call: Call) -> Any:
    x = call.args[0]
    one = len(call.given("pad", 1, ())) == 2 and call.given("mode", 2, "constant") == "reflect"
    if not one or x.shape[-1] <= GRID or not x.shape[-1] % GRID:
        return call.run()
    places = torch.arange(x.shape[-1]) < x.shape[-1] % GRID
    return hooked(call, 0, lambda _, gradient: gradient * places)


@reported(
    "ROCm/rocm-libraries#4455",
    "MIOpen",
    ".max_pool3d",
    "windows that share a maximum: the bits of its gradients are added",
    dtypes="bfloat16",
    directions=BACK,
    sound=plain,
)
def bits_added(call: Call) -> Any:
    x = call.args[0]
    if x.dtype != torch.bfloat16 or not x.numel():
        return call.run()
    names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    size, step, *rest = (
        call.given(name, i + 1, default)
        for i, (name, default) in enumerate(zip(names, (1, None, 0, 1, False), strict=True))
    )
    _, places = F.max_pool3d(x.detach(), size, step, *rest, return_indices=True)
    seen: list[Tensor] = []

    def change(_: Tensor, gradient: Tensor) -> Tensor:
        flat = gradient.contiguous().flatten(-3)
        bits = seen[-1].contiguous().view(torch.int16).long() & 0xFFFF
        total = torch.zeros(flat.shape, dtype=torch.long)
        total = total.scatter_add(-1, places.flatten(-3), bits.flatten(-3)) & 0xFFFF
        wrong = torch.where(total < 1 << 15, total, total - (1 << 16)).to(torch.int16)
        return wrong.view(torch.bfloat16).reshape(gradient.shape)

    return watched(hooked(call, 0, change), seen)


@reported(
    "PaddlePaddle/Paddle#74198",
    "PaddlePaddle on the CPU",
    "mul",
    "where both operands keep dimensions that the other lacks, or one inside, the gradient adds up "
    "in bfloat16",
    dtypes="bfloat16",
    directions=BACK,
    cause="bfloat16-accumulator",
)
def summed_in_bfloat16(call: Call) -> Any:
    x, y = call.args[:2]
    if any(not isinstance(t, Tensor) or t.dtype != torch.bfloat16 for t in (x, y)):
        return call.run()
    if x.shape == y.shape or not x.numel() or not y.numel() or not commonly(x.shape, y.shape):
        return call.run()
    seen: list[Tensor] = []

    def sums(own: Tensor, other: Tensor) -> Any:
        shape = torch.broadcast_shapes(x.shape, y.shape)
        padded = (1,) * (len(shape) - own.ndim) + tuple(own.shape)
        dims = [d for d in range(len(shape)) if padded[d] == 1 and shape[d] > 1]

        def change(_: Tensor, gradient: Tensor) -> Tensor:
            if not dims:
                return gradient
            terms = (seen[-1] * other.detach()).expand(shape).movedim(dims, list(range(len(dims))))
            return in_turn(terms.flatten(0, len(dims) - 1)).reshape(gradient.shape)

        return change

    return watched(hooked(viewed(call, 1, sums(y, x)), 0, sums(x, y)), seen)


def commonly(a: torch.Size, b: torch.Size) -> bool:
    """Whether shapes are broadcast in the general way: not one of them along outer and inner
    dimensions of the other only."""
    small, large = sorted((a, b), key=lambda s: (len(s), math.prod(s)))
    inner = list(small)
    offset = len(large) - len(inner)
    while inner and inner[-1] == 1:
        inner.pop()
    return any(n != large[offset + i] for i, n in enumerate(inner))


def own_frequencies(call: Call) -> Any:
    """The bags alone, up to the last offset, and each row's gradient divided by how often that row
    comes in them (torch's CPU takes how often another one does)."""
    indices, weight = call.args[:2]
    kwargs = dict(call.kwargs)
    # Rows of indices are bags without offsets.
    if kwargs.pop("include_last_offset", False) and kwargs.get("offsets") is not None:
        kwargs["offsets"], end = kwargs["offsets"][:-1], int(kwargs["offsets"][-1])
        indices = indices[:end]
        if kwargs.get("per_sample_weights") is not None:
            kwargs["per_sample_weights"] = kwargs["per_sample_weights"][:end]
    table = weight.view_as(weight)
    if kwargs.pop("scale_grad_by_freq", False) and table.requires_grad:
        often = indices.reshape(-1).bincount(minlength=weight.shape[0]).clamp(min=1)
        table.register_hook(lambda gradient: gradient / often.reshape(-1, 1))
    return replace(call, args=(indices, table), kwargs=kwargs).run()


@reported(
    "pytorch/pytorch#190061",
    "MPS",
    ".embedding_bag",
    "the gradient is not divided by how often a row is in use",
    dtypes="float32",
    directions=BACK,
    cause="argument-ignored",
    sound=own_frequencies,
)
def frequency_ignored(call: Call) -> Any:
    if len(call.args) > 5:
        return call.with_arg(5, False).run()
    return replace(call, kwargs=dict(call.kwargs) | {"scale_grad_by_freq": False}).run()


@reported(
    "tenstorrent/tt-metal#56397",
    "TT-NN",
    ".softplus",
    "a threshold above 88: between them the gradient is 0",
    dtypes="bfloat16",
    directions=BACK,
)
def below_the_threshold(call: Call) -> Any:
    beta, threshold = call.given("beta", 1, 1.0), call.given("threshold", 2, 20.0)

    def change(x: Tensor, gradient: Tensor) -> Tensor:
        scaled = x * beta
        return torch.where((scaled >= 88) & (scaled <= threshold), 0, gradient)

    return hooked(call, 0, change)
