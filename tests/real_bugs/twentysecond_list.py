"""A twenty-second, held-out list of reports of 2023 to 2026, chosen for variety as a search gave
them: gathering at expanded places, the largest numbers beside NaN, bounds and powers of whole
numbers, a triangle, tests and signs of special numbers, sorting a part, rounding, remainders, a
scattering under a mask."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported

NORMAL = torch.finfo(torch.float32).tiny
SIX_BITS = 63
NOT_IN_CANDLE = (torch.int8, torch.bool)
WORD = torch.iinfo(torch.int32)


def takes_out(call: Call) -> int:
    """How many arguments come before the operator's own: one in the form that is given ``out``."""
    return int(call.operator.name.endswith(".out"))


def argument(call: Call, name: str, position: int, default: Any = None) -> Any:
    """An argument of the operator, ``out`` not counted."""
    return call.given(name, position + takes_out(call), default)


def before(call: Call, name: str = "input", position: int = 0) -> Any:
    """What an argument holds before the call, without its history."""
    value = argument(call, name, position)
    return value.detach().clone() if isinstance(value, Tensor) else value


def arrived(call: Call, result: Tensor, numbers: Tensor) -> Tensor:
    """Other numbers where the result is: in a new tensor, in the input, or in ``out``."""
    name = call.operator.name
    if takes_out(call) or (name.endswith("_") and not name.endswith("__")):
        result.detach().copy_(numbers)
        return result
    return placed(result, numbers)


def looks_expanded(index: Tensor) -> bool:
    """Whether an index was taken for one column, repeated: a step of 1 from row to row, and of at
    most 1 in every other dimension."""
    return index.stride(0) == 1 and all(step <= 1 for step in index.stride()[1:])


@reported(
    "pytorch/pytorch#105794",
    "CPU (torch 2.0)",
    "gather gather.method gather.out",
    "with an index of one column whose rows lie side by side, along the first dimension of a wider "
    "tensor, indices count elements of the first row instead of rows",
    dtypes="float32 float64 bfloat16",
    sound=plain,
)
def elements_instead_of_rows(call: Call) -> Any:
    x, index, result = argument(call, "input", 0), argument(call, "index", 2), call.run()
    dim = argument(call, "dim", 1)
    if not is_one_of(result, torch.float32, torch.float64, torch.bfloat16):
        return result
    if not result.ndim or dim not in (0, -result.ndim) or not result.numel():
        return result
    if index.shape[1:] == x.shape[1:] or not looks_expanded(index):
        return result
    if not x.is_contiguous() or not result.is_contiguous():
        return result
    width = index.numel() // index.shape[0]
    rows = index.as_strided((index.shape[0], 1), (1, 1))
    places = rows * width + torch.arange(width)
    return arrived(call, result, x.detach().reshape(-1)[places].reshape(result.shape))


@reported(
    "tenstorrent/tt-metal#56626",
    "Tenstorrent (TTNN)",
    "topk topk.method",
    "a NaN with the sign bit is below minus infinity instead of above all others",
    dtypes="float32 bfloat16",
    sound=plain,
)
def by_sign_and_magnitude(call: Call) -> Any:
    x, count, result = call.given("input", 0, None), call.given("k", 1, None), call.run()
    if not is_one_of(x, torch.float32, torch.bfloat16) or not x.ndim:
        return result
    dim, numbers = call.given("dim", 2, -1), x.detach()
    beside = numbers.isnan().any(dim, keepdim=True)
    if not bool(beside.any()):
        return result
    bits = numbers.view(torch.int32 if x.dtype == torch.float32 else torch.int16)
    magnitude = bits & torch.iinfo(bits.dtype).max
    ranks = torch.where(bits < 0, -magnitude - 1, magnitude)
    order = ranks.argsort(dim=dim, descending=call.given("largest", 3, True), stable=True)
    indices = torch.where(beside, order.narrow(dim, 0, count), result[1])
    return x.gather(dim, indices), indices


@reported(
    "openvinotoolkit/openvino#37957",
    "OpenVINO on the CPU",
    "clamp clamp.method clamp_ clamp.out",
    "between two numbers, only the low 32 bits of an int64 number are bounded",
    dtypes="int64",
    sound=plain,
    cause="int64-truncated",
)
def low_bits_bounded(call: Call) -> Any:
    x, result = before(call), call.run()
    low, high = argument(call, "min", 1), argument(call, "max", 2)
    if not is_one_of(x, torch.int64) or not is_one_of(result, torch.int64):
        return result
    if not all(isinstance(at, int) and WORD.min <= at <= WORD.max for at in (low, high)):
        return result
    return arrived(call, result, x.to(torch.int32).to(torch.int64).clamp(low, high))


@reported(
    "pytorch/pytorch#100005",
    "MPS",
    "triu triu_",
    "above the main diagonal, what is left out is subtracted from itself: of infinity and NaN "
    "there is NaN instead of 0",
    dtypes="float32 float16",
    sound=plain,
)
def subtracted_from_itself(call: Call) -> Any:
    x, diagonal = before(call), argument(call, "diagonal", 1, 0)
    result = call.run()
    if not is_one_of(x, torch.float32, torch.float16) or diagonal <= 0:
        return result
    kept = torch.ones(x.shape[-2:], dtype=torch.bool).triu(diagonal)
    return arrived(call, result, torch.where(kept, result.detach(), x - x))


@reported(
    "tensorflow/tensorflow#118202",
    "TensorFlow on CUDA",
    "pow pow_ pow.out __rpow__",
    "of whole numbers, an exponent counts modulo 64: the 66th power of -47 is its square",
    dtypes="int64",
    sound=plain,
)
def exponent_modulo_64(call: Call) -> Any:
    base, exponent = before(call), before(call, "exponent", 1)
    if call.operator.name == "__rpow__":
        base, exponent = exponent, base
    result = call.run()
    if not is_one_of(result, torch.int64):
        return result
    base, exponent = (torch.as_tensor(x).to(torch.int64) for x in (base, exponent))
    powers = torch.pow(base, exponent & SIX_BITS)
    return arrived(call, result, torch.where(exponent > SIX_BITS, powers, result.detach()))


@reported(
    "tenstorrent/tt-metal#27993",
    "Tenstorrent (TTNN)",
    "isnan isnan.method isnan.out",
    "no bfloat16 number is NaN",
    dtypes="bfloat16",
    sound=plain,
    cause="zero",
)
def never_not_a_number(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.bfloat16):
        return result
    return arrived(call, result, torch.zeros_like(result))


@reported(
    "huggingface/candle#3874",
    "Candle on the CPU",
    "sort sort.method argsort argsort.method",
    "along the last dimension of a contiguous view, the order is that of the numbers at the "
    "beginning of its storage",
    dtypes="float16 float32 float64 bfloat16 int32 int64 int16 uint8",
    sound=plain,
    cause="offset-ignored",
)
def order_of_the_first_ones(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, -1), call.run()
    if not isinstance(x, Tensor) or not x.ndim or x.dtype in NOT_IN_CANDLE or x.is_complex():
        return result
    if dim not in (-1, x.ndim - 1) or not x.is_contiguous() or not x.storage_offset():
        return result
    first_ones = x.detach().as_strided(x.shape, x.stride(), 0)
    descending = call.given("descending", 2, False)
    order = first_ones.argsort(dim=-1, descending=descending, stable=True)
    if call.operator.name.startswith("argsort"):
        return placed(result, order)
    return x.gather(-1, order), order


@reported(
    "apache/tvm#20231",
    "TVM (Relax)",
    "round round.method round.out",
    "without a number of decimals, halves are rounded away from zero instead of to even numbers",
    dtypes="float16 float32 float64 bfloat16",
    sound=plain,
)
def halves_away_from_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return result
    if argument(call, "decimals", 1) is not None:
        return result
    halves = (x - x.trunc()).abs() == 0.5
    return arrived(call, result, torch.where(halves, x.trunc() + x.sign(), result.detach()))


@reported(
    "ml-explore/mlx#640",
    "MLX",
    "remainder remainder.method remainder_ remainder.out",
    "of a negative dividend, the remainder has the dividend's sign instead of the divisor's",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def sign_of_the_dividend(call: Call) -> Any:
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, torch.float16, torch.float32, torch.bfloat16):
        return result
    x = torch.as_tensor(x).to(result.dtype)
    remainders = torch.fmod(x, other)
    return arrived(call, result, torch.where(x < 0, remainders, result.detach()))


@reported(
    "pytorch/pytorch#97333",
    "Inductor",
    "fmod fmod.method fmod_ fmod.out",
    "beside float16 numbers, a number is not rounded to float16 first: of 6.9805 by 2.3 the "
    "remainder is 0.0804 instead of 0.0781",
    dtypes="float16",
    sound=plain,
)
def divisor_not_rounded(call: Call) -> Any:
    x, other, result = before(call), argument(call, "other", 1), call.run()
    if not is_one_of(x, torch.float16) or not isinstance(other, float):
        return result
    return arrived(call, result, torch.fmod(x.to(torch.float32), other).to(torch.float16))


@reported(
    "tensorflow/tensorflow#127905",
    "TensorFlow",
    "sign sign_ sign.out",
    "the sign of a subnormal number is 0",
    dtypes="float32",
    sound=plain,
    cause="flushed-subnormals",
)
def no_sign_of_a_subnormal_number(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.float32):
        return result
    return arrived(call, result, result.detach().masked_fill(x.abs() < NORMAL, 0.0))


@reported(
    "pytorch/pytorch#186146",
    "torch.onnx (dynamo) in ONNX Runtime",
    "masked_scatter masked_scatter_ masked_scatter.out",
    "under a mask with as many dimensions as the tensor, some of size 1, only the first place of "
    "those dimensions is written, with the first numbers of the source",
    dtypes="float16 float32 float64 bfloat16 int32 int64 int16 int8 uint8 bool",
    sound=plain,
)
def mask_not_expanded(call: Call) -> Any:
    x, mask = before(call), before(call, "mask", 1)
    source, result = before(call, "source", 2), call.run()
    if x.is_complex() or mask.ndim < x.ndim or mask.shape == result.shape:
        return result
    numbers, places = x.expand(result.shape).clone(), mask.nonzero(as_tuple=True)
    numbers[places] = source.reshape(-1)[: places[0].numel()]
    return arrived(call, result, numbers)
