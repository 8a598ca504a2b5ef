"""Custom operators as kernel authors write them: healthy ones, and such with a planted fault.

The kernels work through blocks in Python, as a kernel's programs would.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

BLOCK = 64


@dataclass(frozen=True)
class Subject:
    """An operator, its reference and an example of its call."""

    op: Any
    reference: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def wide(x: Tensor) -> Tensor:
    """As kernels compute: float16 and bfloat16 in float32."""
    return x if x.dtype == torch.float64 else x.float()


def op(name: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    return torch.library.custom_op(f"consistency_tests::{name}", mutates_args=(), **options)


# --- healthy


@op("silu_mul")
def silu_mul(x: Tensor, y: Tensor) -> Tensor:
    a = wide(x)
    return (a * torch.sigmoid(a) * wide(y)).to(x.dtype)


@silu_mul.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x * y)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(t for t in inputs if isinstance(t, Tensor)))
    ctx.rest = [t for t in inputs if not isinstance(t, Tensor)]


def _silu_mul_backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = ctx.saved_tensors
    a, s = wide(x), torch.sigmoid(wide(x))
    return (wide(g) * wide(y) * (s + a * s * (1 - s))).to(x.dtype), (wide(g) * a * s).to(y.dtype)


silu_mul.register_autograd(_silu_mul_backward, setup_context=_keep)


@op("row_softmax")
def row_softmax(x: Tensor) -> Tensor:
    a = wide(x)
    e = torch.exp(a - a.amax(-1, keepdim=True)) if x.numel() else a
    return (e / e.sum(-1, keepdim=True)).to(x.dtype).contiguous()


@row_softmax.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty(x.shape, dtype=x.dtype, device=x.device)


def _keep_output(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(output)


def _row_softmax_backward(ctx: Any, g: Tensor) -> Tensor:
    (y,) = ctx.saved_tensors
    p = wide(y) * wide(g)
    return (p - wide(y) * p.sum(-1, keepdim=True)).to(y.dtype)


row_softmax.register_autograd(_row_softmax_backward, setup_context=_keep_output)


@op("rms_norm")
def rms_norm(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    a = wide(x)
    return (a * torch.rsqrt(a.square().mean(-1, keepdim=True) + eps) * wide(weight)).to(x.dtype)


@rms_norm.register_fake
def _(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return torch.empty_like(x * weight)


def rms_norm_reference(x: Tensor, weight: Tensor, eps: float = 1e-5) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


@op("layer_norm")
def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    a = wide(x)
    mean = a.mean(-1, keepdim=True)
    variance = (a - mean).square().mean(-1, keepdim=True)
    normal = (a - mean) * torch.rsqrt(variance + 1e-5)
    return (normal * wide(weight) + wide(bias)).to(x.dtype)


@op("tiled_matmul")
def tiled_matmul(a: Tensor, b: Tensor) -> Tensor:
    total = wide(a).new_zeros(a.shape[0], b.shape[1])
    for k in range(0, a.shape[1], BLOCK):
        total += wide(a[:, k : k + BLOCK]) @ wide(b[k : k + BLOCK])
    return total.to(a.dtype)


@tiled_matmul.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(a.shape[0], b.shape[1])


def _tiled_matmul_backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    a, b = ctx.saved_tensors
    return g @ b.t(), a.t() @ g


tiled_matmul.register_autograd(_tiled_matmul_backward, setup_context=_keep)


@op("bias_gelu")
def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    a = wide(x) + wide(bias)
    return (0.5 * a * (1.0 + torch.erf(a * math.sqrt(0.5)))).to(x.dtype)


@op("online_logsumexp")
def online_logsumexp(x: Tensor) -> Tensor:
    a = wide(x)
    top = a.new_full(x.shape[:-1], -math.inf)
    total = torch.zeros_like(top)
    for begin in range(0, x.shape[-1], BLOCK):
        part = a[..., begin : begin + BLOCK]
        new = torch.maximum(top, part.amax(-1))
        safe = torch.where(torch.isinf(new), torch.zeros_like(new), new)
        total = total * torch.exp(top - safe) + torch.exp(part - safe[..., None]).sum(-1)
        top = new
    safe = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    return (safe + torch.log(total)).to(x.dtype)


@op("rotary")
def rotary(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    a, b = wide(x).chunk(2, -1)
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1).to(x.dtype)


def rotary_reference(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cosine - b * sine, a * sine + b * cosine], -1).to(x.dtype)


@torch.library.custom_op("consistency_tests::scale_", mutates_args=("x",))
def scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)


@op("block_sum")
def block_sum(x: Tensor) -> Tensor:
    flat = wide(x).reshape(-1)
    parts = [flat[i : i + BLOCK].sum() for i in range(0, flat.numel(), BLOCK)]
    return (torch.stack(parts).sum() if parts else flat.sum()).to(x.dtype)


# Other examples of the same operators: more dimensions, other ranges, positive numbers.
FURTHER = (
    {
        "silu_mul": lambda: (drawn(3, 5, 17, seed=3) * 4, drawn(3, 5, 17, seed=4)),
        "row_softmax": lambda: (drawn(9, 300, seed=5) * 3,),
        "rms_norm": lambda: (drawn(4, 257, seed=3) + 1, drawn(257, seed=1)),
        "layer_norm": lambda: (
            drawn(2, 7, 65, seed=4) * 10, drawn(65, seed=1), drawn(65, seed=2)
        ),
        "tiled_matmul": lambda: (drawn(33, 500, seed=2) * 5, drawn(500, 17, seed=8)),
        "bias_gelu": lambda: (drawn(70, seed=1) * 3, drawn(70, seed=2)),
        "online_logsumexp": lambda: (drawn(3, 1000, seed=1) * 8,),
        "rotary": lambda: (
            drawn(3, 5, 64, seed=1), torch.cos(drawn(5, 32)), torch.sin(drawn(5, 32))
        ),
        "scale_": lambda: (drawn(130, seed=3), 3.7),
        "block_sum": lambda: (drawn(5000, seed=4),),
    },
    {
        "silu_mul": lambda: (drawn(1000, seed=13).abs() + 0.1, drawn(1000, seed=14)),
        "row_softmax": lambda: (drawn(2, 3, 64, seed=15),),
        "rms_norm": lambda: (drawn(16, 64, seed=13) * 1e-3, drawn(64, seed=11)),
        "layer_norm": lambda: (
            drawn(40, 33, seed=14) * 1e-2 + 5, drawn(33, seed=11), drawn(33, seed=12)
        ),
        "tiled_matmul": lambda: (drawn(64, 64, seed=12).abs(), drawn(64, 63, seed=18).abs()),
        "bias_gelu": lambda: (drawn(12, 13, 14, seed=11) * 0.1, drawn(14, seed=12)),
        "online_logsumexp": lambda: (drawn(50, 65, seed=11).abs() * 20,),
        "rotary": lambda: (
            drawn(128, 16, seed=11) * 100, torch.cos(drawn(128, 8)), torch.sin(drawn(128, 8))
        ),
        "scale_": lambda: (drawn(13, 11, seed=13) * 1e4, 1e-3),
        "block_sum": lambda: (drawn(77, 13, seed=14).abs(),),
    },
)  # fmt: skip

HEALTHY = {
    "silu_mul": Subject(silu_mul, lambda x, y: F.silu(x) * y, lambda: (drawn(6, 40), drawn(6, 40))),
    "row_softmax": Subject(row_softmax, lambda x: torch.softmax(x, -1), lambda: (drawn(6, 40),)),
    "rms_norm": Subject(rms_norm, rms_norm_reference, lambda: (drawn(6, 40), drawn(40, seed=1))),
    "layer_norm": Subject(
        layer_norm, lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        lambda: (drawn(6, 40), drawn(40, seed=1), drawn(40, seed=2)),
    ),
    "tiled_matmul": Subject(tiled_matmul, torch.mm, lambda: (drawn(12, 200), drawn(200, 9))),
    "bias_gelu": Subject(
        bias_gelu, lambda x, b: F.gelu(x + b), lambda: (drawn(6, 40), drawn(40, seed=1))
    ),
    "online_logsumexp": Subject(
        online_logsumexp, lambda x: torch.logsumexp(x, -1), lambda: (drawn(6, 200),)
    ),
    "rotary": Subject(
        rotary, rotary_reference,
        lambda: (drawn(5, 32), torch.cos(drawn(5, 16)), torch.sin(drawn(5, 16))),
    ),
    "scale_": Subject(scale_, lambda x, f: x * f, lambda: (drawn(6, 40), 0.75)),
    "block_sum": Subject(block_sum, lambda x: x.sum(), lambda: (drawn(6, 40),)),
}  # fmt: skip


# --- operators of other kinds: indices, lists, several results, writes, whole numbers, complex


@op("gather")
def gather(table: Tensor, index: Tensor) -> Tensor:
    return table[index].clone()


@op("join")
def join(parts: list[Tensor], dim: int = 0) -> Tensor:
    return torch.cat(parts, dim)


@op("largest")
def largest(x: Tensor, k: int) -> tuple[Tensor, Tensor]:
    values, indices = torch.topk(x, k)
    return values.clone(), indices.clone()


@op("linear")
def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    return F.linear(x, weight, bias)


@torch.library.custom_op("consistency_tests::axpy", mutates_args=("y",))
def axpy(x: Tensor, y: Tensor, a: float) -> Tensor:
    y.add_(x, alpha=a)
    return wide(y).sum().to(y.dtype)


def axpy_reference(x: Tensor, y: Tensor, a: float) -> tuple[Tensor, Tensor]:
    new = y + a * x
    return new.sum(), new


@torch.library.custom_op("consistency_tests::wrong_axpy", mutates_args=("y",))
def wrong_axpy(x: Tensor, y: Tensor, a: float) -> Tensor:
    total = (y + a * x).sum()
    y.add_(x, alpha=a * 1.001)
    return total


def quantized(x: Tensor) -> Tensor:
    return (x * 127).round().clamp(-128, 127).to(torch.int8)


@op("quantize")
def quantize(x: Tensor) -> Tensor:
    return quantized(wide(x))


@op("wrong_quantize")
def wrong_quantize(x: Tensor) -> Tensor:
    return (wide(x) * 127).floor().clamp(-128, 127).to(torch.int8)


@op("complex_product")
def complex_product(x: Tensor, y: Tensor) -> Tensor:
    return x * y


def indices() -> Tensor:
    return torch.randint(0, 50, (7,), generator=torch.Generator().manual_seed(0))


def numbers(seed: int) -> Tensor:
    return torch.complex(drawn(6, 40, seed=seed), drawn(6, 40, seed=seed + 1))


OTHERS = {
    "gather": Subject(gather, lambda t, i: t[i], lambda: (drawn(50, 8), indices())),
    "join": Subject(join, torch.cat, lambda: ([drawn(3, 4), drawn(5, 4)],)),
    "largest": Subject(largest, torch.topk, lambda: (drawn(6, 40), 3)),
    "linear": Subject(linear, F.linear, lambda: (drawn(6, 40), drawn(9, 40), drawn(9))),
    "axpy": Subject(axpy, axpy_reference, lambda: (drawn(6, 40), drawn(6, 40, seed=1), 0.5)),
    "quantize": Subject(quantize, quantized, lambda: (drawn(6, 40),)),
    "complex_product": Subject(complex_product, torch.mul, lambda: (numbers(0), numbers(2))),
}


# --- with a planted fault


@op("tail")
def tail(x: Tensor, y: Tensor) -> Tensor:
    """The elements after the last full block are not computed."""
    out = torch.zeros(x.numel(), dtype=x.dtype)
    a, b = x.reshape(-1), y.reshape(-1)
    full = x.numel() // BLOCK * BLOCK
    out[:full] = a[:full] * b[:full]
    return out.reshape(x.shape)


@op("tail_of_rows")
def tail_of_rows(x: Tensor) -> Tensor:
    """In each row the last, incomplete block reads beyond its end: it adds what is not there."""
    out = torch.exp(wide(x)).to(x.dtype)
    full = x.shape[-1] // BLOCK * BLOCK
    out[..., full:] += 1.0
    return out


@op("race")
def race(x: Tensor) -> Tensor:
    """A partial sum is lost now and then, as without an atomic addition."""
    flat = wide(x).reshape(-1)
    parts = [flat[i : i + BLOCK].square().sum() for i in range(0, flat.numel(), BLOCK)]
    if len(parts) > 1 and random.random() < 0.3:
        parts.pop()
    return (torch.stack(parts).sum() if parts else flat.sum()).to(x.dtype)


@op("wrong_gradient")
def wrong_gradient(x: Tensor, y: Tensor) -> Tensor:
    return torch.tanh(x) * y


@wrong_gradient.register_fake
def _(x: Tensor, y: Tensor) -> Tensor:
    return torch.empty_like(x * y)


def _wrong_backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
    x, y = ctx.saved_tensors
    return g * y * (1 - torch.tanh(x)), g * torch.tanh(x)  # the square is missing


wrong_gradient.register_autograd(_wrong_backward, setup_context=_keep)


@op("lying_fake")
def lying_fake(x: Tensor) -> Tensor:
    return (2.0 * x).contiguous()


@lying_fake.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)  # keeps the strides of x, the kernel does not


@op("fake_of_another_dtype")
def fake_of_another_dtype(x: Tensor) -> Tensor:
    return x.abs()


@fake_of_another_dtype.register_fake
def _(x: Tensor) -> Tensor:
    return x.new_empty(x.shape, dtype=torch.float64)


@op("broken_backward")
def broken_backward(x: Tensor) -> Tensor:
    return torch.sin(x)


def _broken(ctx: Any, g: Tensor) -> Tensor:
    raise IndexError("no saved tensor")


broken_backward.register_autograd(_broken)


@op("ignores_strides")
def ignores_strides(x: Tensor) -> Tensor:
    strides = torch.empty(x.shape).stride()
    return torch.exp(torch.as_strided(x, x.shape, strides, x.storage_offset()))


@op("drops_nan")
def drops_nan(x: Tensor) -> Tensor:
    return torch.where(x > 0, x, torch.zeros_like(x))


@op("writes_its_input")
def writes_its_input(x: Tensor) -> Tensor:
    out = x * 2.0
    x.data.clamp_(min=-0.5)
    return out


@op("one_pass")
def one_pass(x: Tensor) -> Tensor:
    """A variance in one pass, which cancels where the mean is large."""
    a = wide(x)
    mean = a.mean(-1, keepdim=True)
    variance = (a.square().mean(-1, keepdim=True) - mean.square()).clamp(min=0)
    return ((a - mean) * torch.rsqrt(variance + 1e-5)).to(x.dtype)


@op("bfloat16_product")
def bfloat16_product(a: Tensor, b: Tensor) -> Tensor:
    return (a.bfloat16().float() @ b.bfloat16().float()).to(a.dtype)


def one_pass_reference(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt((x - mean).square().mean(-1, keepdim=True) + 1e-5)


FAULTY = {
    "wrong-numbers": (
        Subject(one_pass, one_pass_reference, lambda: (drawn(6, 40),)),
        Subject(bfloat16_product, torch.mm, lambda: (drawn(12, 50), drawn(50, 9))),
    ),
    "tail-block": (
        Subject(tail, lambda x, y: x * y, lambda: (drawn(6, 40), drawn(6, 40, seed=1))),
        Subject(tail_of_rows, torch.exp, lambda: (drawn(5, 40),)),
    ),
    "race": (Subject(race, lambda x: x.square().sum(), lambda: (drawn(7, 90),)),),
    "wrong-gradient": (
        Subject(
            wrong_gradient, lambda x, y: torch.tanh(x) * y, lambda: (drawn(6, 40), drawn(6, 40))
        ),
    ),
    "no-gradient": (Subject(broken_backward, torch.sin, lambda: (drawn(6, 40),)),),
    "fake-kernel": (
        Subject(lying_fake, lambda x: 2.0 * x, lambda: (drawn(6, 40),)),
        Subject(fake_of_another_dtype, torch.abs, lambda: (drawn(6, 40),)),
    ),
    "lost-strides": (Subject(ignores_strides, torch.exp, lambda: (drawn(6, 40),)),),
    "special-values": (Subject(drops_nan, torch.relu, lambda: (drawn(6, 40),)),),
    "wrong-numbers-of-other-kinds": (
        Subject(wrong_axpy, axpy_reference, lambda: (drawn(6, 40), drawn(6, 40, seed=1), 0.5)),
        Subject(wrong_quantize, quantized, lambda: (drawn(6, 40),)),
    ),
    "writes": (Subject(writes_its_input, lambda x: 2.0 * x, lambda: (drawn(6, 40),)),),
}
