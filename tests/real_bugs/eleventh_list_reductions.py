"""An eleventh, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: reductions, sorting, products, linear algebra, gradients."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.healthy import contiguous_first
from tests.support.catalog.model import Call, straight

from .gradients import BACK, hooked
from .model import plain, reported
from .seventh_list_sizes import watched

HALF_OF_FLOAT16 = 32752.0
TILE = 32  # columns of a tile


def floats(x: Any, *dtypes: torch.dtype) -> bool:
    """Whether it is a tensor of one of these dtypes; of any real floating dtype for none given."""
    return isinstance(x, Tensor) and (x.dtype in dtypes if dtypes else x.is_floating_point())


def first(call: Call) -> Any:
    """The first argument, None where it is given by its name."""
    return call.args[0] if call.args else None


@reported(
    "ml-explore/mlx#657",
    "MLX on the CPU",
    "softmax",
    "of the rows of a slice, those behind as many elements as it has are left 0",
    dtypes="float32",
    sound=contiguous_first,
)
def rows_left_zero(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, -1), call.run()
    if not floats(x, torch.float32) or x.ndim < 2 or not x.numel() or not isinstance(dim, int):
        return result
    if dim % x.ndim != x.ndim - 1 or x.stride(-1) != 1 or result.shape != x.shape:
        return result
    held = math.prod(n for n, s in zip(x.shape, x.stride(), strict=True) if s)
    start = torch.zeros((), dtype=torch.int64)
    for n, s in zip(x.shape[:-1], x.stride()[:-1], strict=True):
        start = start.unsqueeze(-1) + torch.arange(n) * s
    behind = (start >= held).unsqueeze(-1)
    if not bool(behind.any()):
        return result
    return straight(result, result.detach().masked_fill(behind, 0))


@reported(
    "openvinotoolkit/openvino#35837",
    "OpenVINO on the CPU",
    "cumsum",
    "int64 is summed as int32",
    dtypes="int64",
    sound=plain,
)
def summed_as_int32(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, 0), call.run()
    if not isinstance(x, Tensor) or x.dtype != torch.int64 or result.dtype != torch.int64:
        return result
    return x.to(torch.int32).cumsum(dim, dtype=torch.int32).to(torch.int64)


@reported(
    "numba/numba#10156",
    "Numba",
    "searchsorted",
    "the place of a float32 NaN is the first, not behind the last",
    dtypes="float32",
    sound=plain,
)
def nan_comes_first(call: Call) -> Any:
    values = call.given("input", 1, None)
    result = call.run()
    if not floats(values, torch.float32) or values.shape != result.shape:
        return result
    return torch.where(values.isnan(), 0, result)


@reported(
    "tinygrad/tinygrad#18207",
    "tinygrad",
    "einsum",
    "an index repeated before another one: the diagonal is last, but named as if it were not",
    sound=plain,
)
def diagonal_misnamed(call: Call) -> Any:
    equation, operands = first(call), call.args[1:]
    packed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    if not isinstance(equation, str) or "." in equation:
        return call.run()
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    if not arrow:
        letters = inputs.replace(",", "")
        output = "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    terms, changed = inputs.split(","), []
    tensors, misnamed = list(operands[0]) if packed else list(operands), False
    if len(terms) != len(tensors) or not any(re.search(r"(.).*\1", term) for term in terms):
        return call.run()
    try:
        for i, (term, x) in enumerate(zip(terms, tensors, strict=True)):
            for letter in dict.fromkeys(term):
                while terms[i].count(letter) > 1:
                    one = terms[i].index(letter)
                    other = terms[i].index(letter, one + 1)
                    x = x.diagonal(0, one, other)
                    terms[i] = terms[i][:other] + terms[i][other + 1 :]
                    misnamed |= not terms[i].endswith(letter)
            changed.append(x)
        wrong = torch.einsum(",".join(terms) + "->" + output, *changed)
    except (RuntimeError, IndexError):
        return call.run()
    return wrong if misnamed else call.run()


@reported(
    "paiml/aprender#2204",
    "aprender",
    ".binary_cross_entropy_with_logits",
    "the weight of positives scales the whole loss, wrong for targets between 0 and 1",
    dtypes="float32",
)
def whole_loss_scaled(call: Call) -> Any:
    x, target, result = first(call), call.given("target", 1, None), call.run()
    weight, positive = call.given("weight", 2, None), call.given("pos_weight", 6, None)
    old = (call.given("size_average", 3, None), call.given("reduce", 4, None))
    if not floats(positive) or not floats(x) or not floats(target) or old != (None, None):
        return result
    if bool(((target == 0) | (target == 1)).all()):
        return result
    loss = torch.nn.functional.binary_cross_entropy_with_logits(
        x.detach(), target.detach(), weight, reduction="none"
    ) * (1 + (positive - 1) * target)
    reduction = call.given("reduction", 5, "mean")
    if reduction != "none":
        loss = loss.mean() if reduction == "mean" else loss.sum()
    return straight(result, loss.detach().to(result.dtype).reshape(result.shape))


@reported(
    "codeplaysoftware/portBLAS#368",
    "portBLAS",
    "linalg.solve_triangular",
    "a diagonal that is to count as ones is used as it is",
    dtypes="float32 float64",
    sound=plain,
)
def diagonal_used(call: Call) -> Any:
    if not call.kwargs.get("unitriangular", False) or not floats(first(call)):
        return call.run()
    wrong = replace(call, kwargs=dict(call.kwargs) | {"unitriangular": False}).run()
    return straight(call.run(), wrong.detach())


def solved_backward(a: Tensor, x: Tensor, gradient: Tensor, **how: bool) -> tuple[Tensor, Tensor]:
    """The gradients of the matrix, both its triangles, and of the right side."""
    upper, left = how["upper"], how.get("left", True)
    options = {"left": left, "unitriangular": how.get("unitriangular", False)}
    right = torch.linalg.solve_triangular(a.mT, gradient, upper=not upper, **options)
    return -(right @ x.mT if left else x.mT @ right), right


@reported(
    "ekzhang/jax-js#84",
    "jax-js",
    "linalg.inv linalg.solve_triangular",
    "the gradient of a triangular matrix reaches its other triangle, too",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def other_triangle_reached(call: Call) -> Any:
    seen: list[Tensor] = []
    solve = "solve" in call.operator.name
    if not floats(first(call), torch.float32) or (solve and len(call.args) < 2):
        return call.run()

    def triangular(a: Tensor, gradient: Tensor) -> Tensor:
        names = ("upper", "left", "unitriangular")
        how = {name: bool(call.kwargs[name]) for name in names if name in call.kwargs}
        x = torch.linalg.solve_triangular(a.detach(), call.args[1].detach(), **how)
        matrix, _ = solved_backward(a.detach(), x, seen[-1], **how)
        return matrix.sum_to_size(gradient.shape)

    def inverse(a: Tensor, gradient: Tensor) -> Tensor:
        if not a.numel():
            return gradient
        packed, pivots = torch.linalg.lu_factor(a.detach())
        p, lower, upper = torch.lu_unpack(packed, pivots)
        y = torch.linalg.solve_triangular(packed, p.mT, upper=False, unitriangular=True)
        x = torch.linalg.solve_triangular(packed, y, upper=True)
        one, right = solved_backward(packed, x, seen[-1], upper=True)
        other, _ = solved_backward(packed, y, right, upper=False, unitriangular=True)
        both = one + other
        inner = (lower.mT @ both).tril(-1) + (both @ upper.mT).triu()
        inner = torch.linalg.solve_triangular(upper.mT, inner, upper=False, left=False)
        return p @ torch.linalg.solve_triangular(lower.mT, inner, upper=True, unitriangular=True)

    return watched(hooked(call, 0, triangular if solve else inverse), seen)


@reported(
    "sbryngelson/ANEForge#115",
    "Apple's Neural Engine",
    "matmul mm",
    "beyond half of the largest float16, a result is infinite",
    dtypes="float16",
)
def infinite_beyond_a_half(call: Call) -> Any:
    result = call.run()
    if not floats(result, torch.float16):
        return result
    found = result.detach()
    beyond = found.abs() > HALF_OF_FLOAT16
    return straight(result, torch.where(beyond, found.sign() * math.inf, found))


@reported(
    "pytorch/pytorch#183082",
    "Inductor on the CPU",
    "argmax argmin",
    "the place in the whole of a transposed matrix is the one in memory",
    dtypes="float32",
    sound=contiguous_first,
)
def place_in_memory(call: Call) -> Any:
    x = first(call)
    if not isinstance(x, Tensor) or x.ndim != 2 or call.given("dim", 1, None) is not None:
        return call.run()
    if x.is_contiguous() or not x.t().is_contiguous():
        return call.run()
    return call.with_arg(0, x.t()).run()


@reported(
    "tensorflow/tensorflow#117807",
    "TensorFlow (XLA)",
    "linalg.eigvalsh",
    "where the sum of the squares overflows, the diagonal is returned",
    dtypes="float32",
)
def diagonal_returned(call: Call) -> Any:
    x, result = first(call), call.run()
    if not floats(x, torch.float32) or x.ndim < 2 or not x.numel():
        return result
    upper = call.given("UPLO", 1, "L") in ("U", "u")
    half = x.detach().triu(1) if upper else x.detach().tril(-1)
    diagonal = x.detach().diagonal(0, -2, -1)
    squares = 2 * half.square().sum((-2, -1)) + diagonal.square().sum(-1)
    finite = half.isfinite().all(-1).all(-1) & diagonal.isfinite().all(-1)
    over = (squares.isinf() & finite).unsqueeze(-1)
    return straight(result, torch.where(over, diagonal.sort(-1).values, result.detach()))


@reported(
    "NVIDIA/TensorRT#4756",
    "TensorRT",
    ".group_norm",
    "a single group: every channel is normalized on its own",
    dtypes="float32",
)
def channels_on_their_own(call: Call) -> Any:
    x, result = first(call), call.run()
    if not floats(x) or call.given("num_groups", 1, None) != 1 or x.ndim < 3 or not x.numel():
        return result
    weight, bias = call.given("weight", 2, None), call.given("bias", 3, None)
    eps = call.given("eps", 4, 1e-5)
    return straight(result, torch.group_norm(x, x.shape[1], weight, bias, eps).detach())


@reported(
    "tenstorrent/tt-metal#54833",
    "TT-NN",
    ".scaled_dot_product_attention",
    "given a mask, zeros that fill the keys up to a multiple of 32 are attended to",
    dtypes="bfloat16",
)
def filling_attended_to(call: Call) -> Any:
    mask, result = call.given("attn_mask", 3, None), call.run()
    if not floats(mask) or len(call.args) < 3 or not floats(call.args[0], torch.bfloat16):
        return result
    keys, values = call.args[1:3]
    missing = -keys.shape[-2] % TILE
    if not missing or mask.shape[-1] != keys.shape[-2] or call.given("dropout_p", 4, 0.0):
        return result
    fill = torch.nn.functional.pad
    changed = call.with_arg(1, fill(keys, (0, 0, 0, missing)))
    changed = changed.with_arg(2, fill(values, (0, 0, 0, missing)))
    wide = fill(mask, (0, missing))
    if "attn_mask" in call.kwargs:
        changed = replace(changed, kwargs=dict(call.kwargs) | {"attn_mask": wide})
    else:
        changed = changed.with_arg(3, wide)
    return straight(result, changed.run().detach())


@reported(
    "tracel-ai/burn#2701",
    "burn",
    "gru",
    "every step starts from the first state, which is reset before it is multiplied",
    dtypes="float32",
)
def every_step_is_the_first(call: Call) -> Any:
    result = call.run()
    if len(call.args) < 9 or call.kwargs or not isinstance(result, tuple):
        return result
    x, state, weights, biased, layers = call.args[:5]
    dropout, both_ways, batch_first = call.args[5], call.args[7], call.args[8]
    if not floats(x) or not floats(state) or x.ndim != 3 or not x.numel() or dropout:
        return result
    if not isinstance(weights, (list, tuple)) or layers != 1 or both_ways or state.ndim != 3:
        return result
    if len(weights) != (4 if biased else 2):
        return result
    with torch.no_grad():
        h = state[0]
        steps = x.transpose(0, 1) if batch_first else x
        inside = torch.nn.functional.linear(steps, weights[0], weights[2] if biased else None)
        r_in, z_in, n_in = inside.chunk(3, -1)
        r_weight, z_weight, n_weight = weights[1].chunk(3)
        biases = weights[3].chunk(3) if biased else (None, None, None)
        r = torch.sigmoid(r_in + torch.nn.functional.linear(h, r_weight, biases[0]))
        z = torch.sigmoid(z_in + torch.nn.functional.linear(h, z_weight, biases[1]))
        n = torch.tanh(n_in + torch.nn.functional.linear(r * h, n_weight, biases[2]))
        states = (1 - z) * n + z * h
        output = states.transpose(0, 1) if batch_first else states
    return straight(result[0], output.contiguous()), straight(result[1], states[-1:].clone())


@reported(
    "chalk-lab/Mooncake.jl#1257",
    "Mooncake",
    "sigmoid",
    "the gradient at 0 is 0",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def no_gradient_at_zero(call: Call) -> Any:
    if not floats(first(call)):
        return call.run()
    return hooked(call, 0, lambda x, gradient: torch.where(x == 0, 0, gradient))


@reported(
    "ml-rust/numr#9",
    "numr on the CPU",
    "sort argsort",
    "numbers are sorted between NaN only, which stay where they are",
    dtypes="float32",
    sound=plain,
)
def sorted_between_nan(call: Call) -> Any:
    x, dim, result = first(call), call.given("dim", 1, -1), call.run()
    down = call.given("descending", 2, False)
    if not floats(x) or not x.ndim or not bool(x.isnan().any()) or not isinstance(dim, int):
        return result
    nan = x.detach().isnan()
    walls = 2 * nan.long().cumsum(dim) - nan.long()
    order = torch.sort(x.detach(), dim=dim, descending=bool(down), stable=True).indices
    order = order.gather(dim, walls.gather(dim, order).sort(dim=dim, stable=True).indices)
    broken = nan.any(dim, keepdim=True)
    if isinstance(result, Tensor):
        return torch.where(broken, order, result)
    places = torch.where(broken, order, result[1])
    return straight(result[0], x.detach().gather(dim, places)), places
