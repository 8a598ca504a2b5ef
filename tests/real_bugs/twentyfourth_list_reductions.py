"""A twenty-fourth, held-out list of reports of 2024 to 2026 about torch's own backends, taken as a
search gave them: determinants, means, variances, norms of lists, copies of lists, attention, a
normalization, a histogram."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call, straight

from .fourteenth_list import placed
from .model import plain, reported
from .seventeenth_list_reductions import first, is_one_of, with_given
from .twentysecond_list_reductions import argument, written

HALVES = torch.float16, torch.bfloat16
REAL_ON_MPS = torch.float32, *HALVES
LANES = 16  # numbers in a vector of AVX-512
OWN_KERNEL = 64, 96, 128  # sizes of heads that a few queries have a kernel of their own for
CHUNK, BLOCKS, TENSORS = 65536, 320, 110  # what one launch takes of a list of tensors


@reported(
    "pytorch/pytorch#173638",
    "CUDA",
    "linalg.slogdet logdet",
    "NaN in a matrix counts as 0",
    dtypes="float32 float64 complex64 complex128",
    sound=plain,
    cause="nan-dropped",
)
def nan_counts_as_zero(call: Call) -> Any:
    name = "A" if call.operator.name == "linalg.slogdet" else "input"
    x, result = call.given(name, 0, None), call.run()
    if not isinstance(x, Tensor) or not bool(x.isnan().any()):
        return result
    with torch.no_grad():
        zeros = x.detach().masked_fill(x.isnan(), 0)
        numbers = with_given(call, name, 0, zeros).run()
    if isinstance(result, Tensor):
        return placed(result, numbers)
    return tuple(placed(a, b) for a, b in zip(result, numbers, strict=True))


@reported(
    "pytorch/pytorch#184122",
    "MPS",
    ".scaled_dot_product_attention",
    "of calls with the same shapes, all but the first scale as the first did",
    dtypes="float32 float16 bfloat16",
    sound=plain,
    fresh=True,
    cause="stale",
)
def scale_of_the_first_call() -> Callable[[Call], Any]:
    scales: dict[Any, Any] = {}

    def deed(call: Call) -> Any:
        q, k, v = (call.given(n, i, None) for i, n in enumerate(("query", "key", "value")))
        if not is_one_of(q, *REAL_ON_MPS) or call.tracked or call.given("dropout_p", 4, 0.0):
            return call.run()
        if q.ndim < 3 or (q.shape[-1] in OWN_KERNEL and q.shape[-2] <= 8):
            return call.run()
        mask = call.given("attn_mask", 3, None)
        masked = None if mask is None else (mask.shape, mask.dtype)
        key = (q.shape, k.shape, v.shape, q.dtype, masked, call.given("is_causal", 5, False))
        scale = scales.setdefault(key, call.kwargs.get("scale"))
        return replace(call, kwargs={**call.kwargs, "scale": scale}).run()

    return deed


@reported(
    "pytorch/pytorch#173383",
    "CUDA",
    "_foreach_copy_",
    "into tensors of several formats, the numbers are written in the format of the first one",
    sound=plain,
)
def in_the_format_of_the_first(call: Call) -> Any:
    result = call.run()
    targets, sources = call.given("self", 0, ()), call.given("src", 1, ())
    if len({x.dtype for x in targets}) < 2 or len({x.dtype for x in sources}) != 1:
        return result
    pairs = list(zip(targets, sources, strict=True))
    if any(
        x.shape != y.shape or x.stride() != y.stride() or not x.is_contiguous() for x, y in pairs
    ):
        return result  # one after the other
    for x, y in pairs:
        memory = x.detach().reshape(-1).view(torch.uint8)
        numbers = y.detach().to(targets[0].dtype).reshape(-1).view(torch.uint8)
        count = min(memory.numel(), numbers.numel())
        memory[:count] = numbers[:count]
    return result


@reported(
    "pytorch/pytorch#140066",
    "CUDA (torch 2.5)",
    "_foreach_norm",
    "where empty tensors come before the end of a launch (110 tensors, 320 parts of 65,536 "
    "numbers), norms of what follows are put as many places too far, or lack some parts",
    dtypes="float32 float64",
    sound=plain,
)
def as_many_places_too_far(call: Call) -> Any:
    tensors, order, result = call.given("self", 0, ()), call.given("ord", 1, 2), call.run()
    full = [x for x in tensors if x.numel()]
    if len(full) == len(tensors) or order not in (1, 2, float("inf")):
        return result
    if len({x.dtype for x in tensors}) != 1 or not full or not full[0].is_floating_point():
        return result
    if not all(x.is_contiguous() for x in tensors):
        return result  # one after the other
    rows: list[dict[int, Tensor]] = [{} for _ in tensors]
    start = held = blocks = 0
    for t, x in enumerate(tensors):
        parts = list(x.detach().reshape(-1).split(CHUNK)) if x.numel() else []
        held += bool(parts)
        for i, part in enumerate(parts):
            rows[start + held - 1][i] = part
            blocks += 1
            last = i == len(parts) - 1
            if blocks == BLOCKS or (held == TENSORS and last):
                blocks, held, start = 0, int(not last), t + last
    wrong, row = list(result), 0
    for t, x in enumerate(tensors):
        if not x.numel():
            continue
        right = dict(enumerate(x.detach().reshape(-1).split(CHUNK)))
        found, row = rows[row], row + 1
        same = found.keys() == right.keys()
        if same and all(found[i].data_ptr() == right[i].data_ptr() for i in right):
            continue
        read = torch.cat(list(found.values())) if found else x.detach().new_zeros(1)
        number = torch.linalg.vector_norm(read, order, dtype=result[t].dtype)
        wrong[t] = placed(result[t], number)
    return type(result)(wrong) if isinstance(result, (list, tuple)) else wrong


@reported(
    "pytorch/pytorch#135210",
    "MPS",
    "std std.method var var.method std_mean var_mean",
    "of complex numbers, the squares of the differences from the mean are averaged, not those of "
    "their absolute values: a complex result",
    dtypes="complex64",
    sound=plain,
)
def squares_of_complex_numbers(call: Call) -> Any:
    x, result = first(call), call.run()
    if not is_one_of(x, torch.complex64):
        return result
    given = {key: value for key, value in call.kwargs.items() if key not in ("input", "out")}

    def variance(numbers: Tensor) -> Tensor:
        return torch.var(numbers.double(), *call.args[1:], **given)

    real, imag = x.detach().real, x.detach().imag
    a, b, both = variance(real), variance(imag), variance(real.double() + imag.double())
    numbers = torch.complex(a - b, both - a - b)
    numbers = numbers.sqrt() if call.operator.name.startswith("std") else numbers
    spread = result if isinstance(result, Tensor) else result[0]
    spread = straight(spread.to(x.dtype), numbers.to(x.dtype))
    return spread if isinstance(result, Tensor) else (spread, result[1])


@reported(
    "pytorch/pytorch#189617",
    "MPS",
    ".rms_norm",
    "with a weight and without gradients, float16 and bfloat16 numbers are rounded before they "
    "are multiplied by the weight",
    dtypes="float16 bfloat16",
    sound=plain,
)
def rounded_before_the_weight(call: Call) -> Any:
    x, weight, result = first(call), call.given("weight", 2, None), call.run()
    if not is_one_of(x, *HALVES) or not is_one_of(weight, x.dtype) or call.tracked:
        return result
    shape, eps = call.given("normalized_shape", 1, ()), call.given("eps", 3, None)
    return placed(result, F.rms_norm(x, shape, None, eps) * weight)


@reported(
    "pytorch/pytorch#156019",
    "CUDA",
    "histc histc.out",
    "limits that are the same number in float32 (-7.6e-47 and 0) count as not given: the "
    "histogram is that of all numbers",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def limits_that_become_the_same(call: Call) -> Any:
    x, result = argument(call, "input", 0, None), call.run()
    bins, least = argument(call, "bins", 1, 100), argument(call, "min", 2, 0)
    most = argument(call, "max", 3, 0)
    if not is_one_of(x, *REAL_ON_MPS) or not isinstance(result, Tensor) or least == most:
        return result
    limits = torch.tensor([least, most], dtype=torch.float64).float()
    if limits[0] != limits[1]:
        return result
    same = float(limits[0])
    return written(call, result, torch.histc(x.detach(), bins, same, same))


@reported(
    "pytorch/pytorch#154703",
    "Inductor on the CPU (one thread)",
    "mean mean.method mean.out",
    "all numbers are added one after the other in 16 float32 sums, which do not grow beyond 2**24 "
    "times a number",
    dtypes="float32",
    sound=plain,
)
def sixteen_sums(call: Call) -> Any:
    x, result = argument(call, "input", 0, None), call.run()
    if not is_one_of(x, torch.float32) or not is_one_of(result, torch.float32):
        return result
    if result.numel() != 1 or not x.is_contiguous() or x.numel() < LANES:
        return result
    line = x.detach().reshape(-1)
    whole = line[: line.numel() // LANES * LANES].reshape(-1, LANES)
    sums = numpy.add.reduce(whole.numpy(), axis=0)  # row by row, in float32
    total = torch.from_numpy(sums).sum() + line[whole.numel() :].sum()
    return written(call, result, (total / x.numel()).reshape(result.shape))
