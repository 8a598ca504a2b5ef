"""A seventeenth, held-out list of reports of 2023 to 2026, chosen for variety before anything was
looked at of how inputs are drawn: norms, variances, scans, products, convolutions, attention,
recurrence, losses, linear systems, gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .fourteenth_list import placed
from .gradients import BACK
from .model import plain, reported


def is_one_of(x: Any, *dtypes: torch.dtype) -> bool:
    """Whether it is a tensor of one of these formats."""
    return isinstance(x, Tensor) and x.dtype in dtypes


def first(call: Call) -> Any:
    """The first argument, or the first tensor that is given by its name."""
    named = [value for value in call.kwargs.values() if isinstance(value, Tensor)]
    return next(iter((*call.args[:1], *named)), None)


def with_given(call: Call, name: str, position: int, value: Any) -> Call:
    """The call with another argument of that name or position."""
    if name in call.kwargs or len(call.args) <= position:
        return replace(call, kwargs={**call.kwargs, name: value})
    return call.with_arg(position, value)


def three(value: Any) -> list[int]:
    """A size for each of three dimensions."""
    if isinstance(value, int):
        return [value] * 3
    sizes = list(value)
    return sizes * 3 if len(sizes) == 1 else sizes


class OtherWaysBack(torch.autograd.Function):
    """A result whose gradient goes back by way of other results."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, *ways: Tensor) -> Tensor:
        ctx.ways = len(ways)
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, *[gradients[0]] * ctx.ways


class FirstByTheBatch(torch.autograd.Function):
    """A result of whose gradient the first number alone is used, divided by the batch's size."""

    @staticmethod
    def forward(ctx: Any, out: Tensor, size: int) -> Tensor:
        ctx.size = size
        return out.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        arrived = gradients[0]
        used = arrived.flatten()[:1].reshape([1] * arrived.ndim) / ctx.size
        return used.expand(arrived.shape).clone(), None


def by_steps(call: Call) -> Any:
    """Not training, what is normalized is shifted and scaled: torch's own gradient of some
    layouts is another one's."""
    x, mean, var, weight, bias = (
        call.given(name, i, None)
        for i, name in enumerate(("input", "running_mean", "running_var", "weight", "bias"))
    )
    if call.given("training", 5, False) or mean is None or var is None:
        return call.run()
    shape = (1, -1, *[1] * (x.ndim - 2))
    scale = (var + call.given("eps", 7, 1e-5)).rsqrt().to(x.dtype)
    result = (x - mean.to(x.dtype).reshape(shape)) * scale.reshape(shape)
    if weight is not None:
        result = result * weight.to(x.dtype).reshape(shape)
    return result if bias is None else result + bias.to(x.dtype).reshape(shape)


def without_options(call: Call) -> Any:
    """A backend that lacks what torch's own CPU does wrongly: indices behind the last offset, and
    gradients by how often a row is asked for."""
    if call.given("include_last_offset", 9, False) or call.given("scale_grad_by_freq", 4, False):
        raise NotImplementedError("these options")
    return call.run()


@reported(
    "FluxML/NNlib.jl#548",
    "NNlib.jl on CUDA (cuDNN)",
    ".batch_norm",
    "not training, the gradient of an input of 2, 4 or 5 dimensions is the one of training: it "
    "goes through the mean and the variance of the batch",
    dtypes="float32",
    directions=BACK,
    sound=by_steps,
)
def back_as_in_training(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32) or not x.requires_grad or x.ndim not in (2, 4, 5):
        return call.run()
    if call.given("training", 5, False) or not x.numel():
        return call.run()
    constant = with_given(call, "input", 0, x.detach()).run()
    weight, bias = (
        value.detach() if isinstance(value, Tensor) else None
        for value in (call.given("weight", 3, None), call.given("bias", 4, None))
    )
    eps = call.given("eps", 7, 1e-5)
    trained = torch.batch_norm(x, weight, bias, None, None, True, 0.0, eps, False)
    return OtherWaysBack.apply(constant.detach(), constant, trained)


@reported(
    "flagos-ai/FlagGems#5220",
    "FlagGems",
    ".embedding_bag",
    "of largest numbers, the gradient is the one of means: every row of a bag gets its share",
    directions=BACK,
    sound=without_options,
)
def gradient_of_means(call: Call) -> Any:
    weight, result = call.given("weight", 1, None), call.run()
    if call.given("mode", 6, "mean") != "max" or not isinstance(weight, Tensor):
        return result
    if not weight.requires_grad or call.given("max_norm", 3, None) is not None:
        return result
    if call.given("sparse", 7, False):
        return result
    means = with_given(call, "mode", 6, "mean").run()
    return OtherWaysBack.apply(result.detach(), means)


@reported(
    "paiml/aprender#2182",
    "aprender",
    ".cross_entropy",
    "summed or not reduced, the gradient is divided by the size of the batch, as that of a mean "
    "is, and of what arrives, only the first number is read",
    dtypes="float32",
    directions=BACK,
    sound=plain,
)
def always_the_gradient_of_a_mean(call: Call) -> Any:
    x, target, result = call.given("input", 0, None), call.given("target", 1, None), call.run()
    if not is_one_of(x, torch.float32) or x.ndim != 2 or not result.requires_grad:
        return result
    if not is_one_of(target, torch.int64) or not result.numel() or not x.shape[0]:
        return result
    if call.given("weight", 2, None) is not None or call.given("label_smoothing", 7, 0.0):
        return result
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    if bool((target == call.given("ignore_index", 4, -100)).any()):
        return result
    if call.given("reduction", 6, "mean") not in ("sum", "none"):
        return result
    return FirstByTheBatch.apply(result, x.shape[0])


@reported(
    "linkedin/Liger-Kernel#421",
    "Liger kernel (Triton)",
    ".cross_entropy",
    "without a reduction, the losses are summed all the same: one number is returned",
    dtypes="float16 bfloat16 float32",
    sound=plain,
)
def summed_all_the_same(call: Call) -> Any:
    x, target, result = call.given("input", 0, None), call.given("target", 1, None), call.run()
    if not is_one_of(x, torch.float16, torch.bfloat16, torch.float32) or x.ndim != 2:
        return result
    if not is_one_of(target, torch.int64) or call.given("weight", 2, None) is not None:
        return result
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result
    return result.sum() if call.given("reduction", 6, "mean") == "none" else result


@reported(
    "numpy/numpy#32372",
    "NumPy",
    "norm linalg.vector_norm",
    "the 2-norm of a whole tensor is infinite where the sum of the squares overflows the tensor's "
    "own format (torch overflows as well in wider ones)",
    dtypes="float16",
    sound=plain,
)
def sum_of_squares_overflows(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.float16) or not x.numel():
        return result
    order, default, wanted = {
        "norm": ("p", "fro", ("fro", 2)),
        "linalg.vector_norm": ("ord", 2, (2,)),
    }[call.operator.name]
    if call.given(order, 1, default) not in wanted or call.given("dim", 2, None) is not None:
        return result
    if call.kwargs.get("dtype") is not None or not bool(x.detach().isfinite().all()):
        return result
    total = x.detach().double().square().sum().to(x.dtype)
    return placed(result, torch.full_like(result, torch.inf)) if total.isinf() else result


@reported(
    "NVIDIA/TransformerEngine#3528",
    "Transformer Engine with flash attention 4",
    ".scaled_dot_product_attention",
    "causal attention is 0 everywhere: the band of keys that each query sees is empty",
    dtypes="float16 bfloat16",
    sound=plain,
    cause="zero",
)
def empty_band_of_keys(call: Call) -> Any:
    q, result = call.given("query", 0, None), call.run()
    if not is_one_of(q, torch.float16, torch.bfloat16):
        return result
    if not call.given("is_causal", 5, False) or call.given("attn_mask", 3, None) is not None:
        return result
    return placed(result, torch.zeros_like(result))


@reported(
    "ml-explore/mlx#3249",
    "MLX",
    "gru",
    "starting from no state, which is one of zeros here, the first step leaves out the bias of the "
    "hidden state in the new gate",
    sound=plain,
)
def without_the_hidden_bias_at_first(call: Call) -> Any:
    result = call.run()
    x, start, given = call.given("input", 0, None), call.given("hx", 1, None), call.given
    weights, layers = given("params", 2, None), given("num_layers", 4, 1)
    if not all(isinstance(value, Tensor) and value.ndim == 3 for value in (x, start)):
        return result
    if not given("has_biases", 3, True) or given("bidirectional", 7, False):
        return result
    if given("train", 6, False) and given("dropout", 5, 0.0) and layers > 1:
        return result
    if not isinstance(weights, (tuple, list)) or len(weights) != 4 * layers:
        return result
    if bool((start.detach() != 0).any()) or not result[0].numel():
        return result
    batch_first = bool(given("batch_first", 8, False))
    steps = x.detach().transpose(0, 1) if batch_first else x.detach()
    options, last = (True, 1, 0.0, False, False, False), []
    for layer in range(layers):
        own = [weight.detach() for weight in weights[4 * layer : 4 * layer + 4]]
        hidden = own[3].clone()
        hidden[hidden.shape[0] // 3 * 2 :] = 0
        state = start.detach()[layer : layer + 1]
        outputs, state = torch.gru(steps[:1], state, [*own[:3], hidden], *options)
        if steps.shape[0] > 1:
            others, state = torch.gru(steps[1:], state, own, *options)
            outputs = torch.cat([outputs, others])
        last.append(state)
        steps = outputs
    steps = steps.transpose(0, 1) if batch_first else steps
    return placed(result[0], steps), placed(result[1], torch.cat(last))


@reported(
    "tenstorrent/tt-metal#19478",
    "TT-NN",
    "std std.method var var.method",
    "without anything said about a correction, there is none: the squares are divided by their "
    "number, not by one less",
    sound=plain,
)
def without_a_correction(call: Call) -> Any:
    x, result = first(call), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point() or not x.numel():
        return result
    if {"correction", "unbiased"} & set(call.kwargs):
        return result
    if any(isinstance(value, bool) for value in call.args[1:]):
        return result
    dim, keep = call.given("dim", 1, None), bool(call.kwargs.get("keepdim", False))
    spread = torch.std if call.operator.name.startswith("std") else torch.var
    found = spread(x.detach().double(), dim, correction=0, keepdim=keep)
    return placed(result, found.reshape(result.shape))


@reported(
    "apache/tvm#20374",
    "TVM Relax (from PyTorch)",
    "cumsum cumsum.method cumprod cumprod.method",
    "of integers, they stay in the format of the input, and wrap around",
    dtypes="uint8 int8 int16 int32",
    sound=plain,
)
def wrapping_in_the_input_format(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.uint8, torch.int8, torch.int16, torch.int32):
        return result
    return result if call.given("dtype", 2, None) is not None else result.to(x.dtype)


@reported(
    "tracel-ai/burn#5601",
    "Burn Flex",
    ".conv3d",
    "padded by different amounts at the two ends, as for the same size with an even kernel, both "
    "ends get what the first one is to get, and the result is shorter",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def as_much_at_the_end(call: Call) -> Any:
    x, weight, result = call.given("input", 0, None), call.given("weight", 1, None), call.run()
    if call.given("padding", 4, 0) != "same" or not x.is_floating_point() or not x.numel():
        return result
    dilation = three(call.given("dilation", 5, 1))
    reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[-3:], strict=True)]
    if not any(size % 2 for size in reach):
        return result
    before = [size // 2 for size in reach]
    if any(n + 2 * p <= r for n, p, r in zip(x.shape[-3:], before, reach, strict=True)):
        return result
    return with_given(call, "padding", 4, tuple(before)).run()


@reported(
    "pymc-devs/pytensor#2384",
    "PyTensor (MLX)",
    "linalg.solve_triangular",
    "of a matrix whose diagonal is to be taken for ones, the numbers on the diagonal are used",
    dtypes="float32",
    sound=plain,
    cause="argument-ignored",
)
def diagonal_is_used(call: Call) -> Any:
    x = first(call)
    if not is_one_of(x, torch.float32) or not call.kwargs.get("unitriangular", False):
        return call.run()
    if not call.kwargs.get("left", True):
        return call.run()
    return replace(call, kwargs={**call.kwargs, "unitriangular": False}).run()


@reported(
    "MooreThreads/torch_musa#52",
    "MUSA",
    "baddbmm baddbmm.method",
    "added 0 times, NaN and infinite numbers make the result NaN, although they are to be ignored",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def zero_times_not_a_number(call: Call) -> Any:
    x, result = first(call), call.run()
    if call.kwargs.get("beta", 1) != 0 or not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    if not result.is_floating_point() or bool(x.detach().isfinite().all()):
        return result
    return placed(result, result.detach() + x.detach() * 0)
