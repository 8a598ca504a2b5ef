"""A thirty-second, held-out list of reports of 2023 to 2026 about torch's own MPS, CUDA, XPU, POWER
and Inductor, taken as a search by families of operators gave them, before anything was looked at of
how inputs are drawn: powers of a complex zero, the shape of a deviation, long tensors in a list,
products of complex vectors, sums of booleans, systems in a batch of batches, writing into expanded
tensors, states of layers, shifts by too much, a mask read with another's steps."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .fourteenth_list import placed
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .twentysecond_list import argument, arrived, before

COMPLEX = (torch.complex64, torch.complex128)
CHUNK = 65_536  # numbers of a tensor that a group of threads reads
BITS = {torch.int16: 16, torch.int32: 32, torch.int64: 64}
PAIR = 512  # bits in a pair of vectors, on POWER
FEW_QUERIES, MANY_KEYS = 8, 1024  # between which attention takes one pass
HEADS = (64, 96, 128)  # sizes that have a kernel
BATCHES, SYSTEMS = 3, 2  # dimensions


@reported(
    "pytorch/pytorch#194813",
    "MPS",
    "pow pow_ pow.out",
    "every power of a complex zero, the zeroth too, is NaN in both parts",
    dtypes="complex64",
    sound=plain,
)
def power_of_a_complex_zero(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.complex64) or not is_one_of(result, torch.complex64):
        return result
    nothing = torch.tensor(complex(math.nan, math.nan), dtype=x.dtype)
    return arrived(call, result, torch.where(x == 0, nothing, result.detach()))


@reported(
    "pytorch/pytorch#107116",
    "MPS (torch 2.0)",
    "std std.method var var.method",
    "along a dimension that is counted from the end, the result has the sizes of the first "
    "dimensions, as if the last one were reduced",
    dtypes="float16 float32",
    sound=plain,
)
def sizes_of_the_first_dimensions(call: Call) -> Any:
    x, dim, result = call.given("input", 0, None), call.given("dim", 1, None), call.run()
    if not is_one_of(x, torch.float16, torch.float32) or not x.ndim:
        return result
    if dim is None or isinstance(dim, bool) or call.given("keepdim", 3, False):
        return result
    dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims:
        return result
    left = [size for i, size in enumerate(x.shape) if i not in dims][: x.ndim - len(dims)]
    if left == list(result.shape):
        return result
    numbers = result.reshape(-1)
    numbers = torch.cat([numbers, numbers.new_zeros(max(0, math.prod(left) - numbers.numel()))])
    return numbers[: math.prod(left)].reshape(left)


@reported(
    "pytorch/pytorch#91844",
    "CUDA (torch 1.13)",
    "_foreach_norm",
    "of a tensor with more than 65,536 numbers, only the first 65,536 count",
    dtypes="float32 float64",
    sound=plain,
    cause="terms-dropped",
)
def first_part_of_a_long_tensor(call: Call) -> Any:
    tensors, order, results = call.given("self", 0, []), call.given("ord", 1, 2), call.run()
    if order not in (1, 2) or not all(
        is_one_of(x, torch.float32, torch.float64)
        and x.dtype == tensors[0].dtype
        and x.is_contiguous()
        for x in tensors
    ):
        return results  # one by one
    return type(results)(
        [
            placed(result, torch.linalg.vector_norm(x.detach().reshape(-1)[:CHUNK], order))
            if x.numel() > CHUNK
            else result
            for x, result in zip(tensors, results, strict=True)
        ]
    )


@reported(
    "intel/torch-xpu-ops#2870",
    "XPU (built without oneMKL)",
    "dot dot.method dot.out matmul matmul.method matmul.out",
    "in the product of two complex vectors, the numbers of the first are conjugated",
    dtypes="complex64 complex128",
    sound=plain,
)
def first_vector_conjugated(call: Call) -> Any:
    one, result = before(call), call.run()
    two = before(call, "tensor" if call.operator.name.startswith("dot") else "other", 1)
    if not is_one_of(one, *COMPLEX) or one.ndim != 1 or two.ndim != 1:
        return result
    return arrived(call, result, torch.vdot(one, two))


@reported(
    "intel/torch-xpu-ops#225",
    "XPU",
    "index_add index_add_ index_put index_put_",
    "a boolean that is added to one, or to others at the same place, is written there instead: "
    "true and false make false",
    dtypes="bool",
    sound=plain,
)
def written_instead_of_added(call: Call) -> Any:
    x, result = before(call), call.run()
    if not is_one_of(x, torch.bool):
        return result
    if call.operator.name.startswith("index_put"):
        if not call.given("accumulate", 3, False):
            return result
        return with_given(call, "accumulate", 3, False).run()
    dim, index = call.given("dim", 1, 0), call.given("index", 2, None)
    source = call.given("source", 3, None).detach()
    if not call.kwargs.get("alpha", 1):
        source = torch.zeros_like(source)
    written = x.clone()
    if x.ndim:
        for place, at in enumerate(index.reshape(-1).tolist()):
            written.select(dim, at).copy_(source.select(dim, place) if source.ndim else source)
    elif index.numel():
        written.copy_(source.reshape(-1)[-1])
    return arrived(call, result, written)


@reported(
    "pytorch/pytorch#144545",
    "MPS (torch 2.5)",
    "linalg.solve_triangular linalg.solve_triangular.out triangular_solve",
    "in a batch of more than one dimension, as many systems are solved as the first of them is "
    "long",
    dtypes="float32",
    sound=plain,
)
def only_the_first_batch(call: Call) -> Any:
    result = call.run()
    solutions = result[0] if isinstance(result, tuple) else result
    if not is_one_of(solutions, torch.float32) or solutions.ndim <= BATCHES:
        return result
    if not solutions.numel():
        return result
    systems = solutions.detach().clone(memory_format=torch.contiguous_format)
    systems.view(-1, *solutions.shape[-SYSTEMS:])[solutions.shape[0] :] = 0.0
    if isinstance(result, tuple):
        return placed(solutions, systems), *result[1:]
    return arrived(call, result, systems)


def places_in_memory(x: Tensor) -> tuple[Tensor, Tensor]:
    """The numbers that an expanded tensor holds, and which of them stands at each place."""
    held = x.detach()
    for dim, step in enumerate(x.stride()):
        if step == 0:
            held = held.narrow(dim, 0, 1)
    return held.clone(), torch.arange(held.numel()).reshape(held.shape).expand(x.shape)


@reported(
    "pytorch/pytorch#183986",
    "Inductor",
    "index_add index_add.method index_copy index_fill index_put index_put.method",
    "what is written into a copy of an expanded tensor goes to the numbers that it repeats, and is "
    "seen wherever they are",
    sound=plain,
)
def written_where_it_repeats(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    name = call.operator.name.partition(".")[0]
    if not isinstance(x, Tensor) or not x.numel():
        return result
    if not any(step == 0 and n > 1 for step, n in zip(x.stride(), x.shape, strict=True)):
        return result
    held, places = places_in_memory(x)
    adds = name == "index_add"
    if name == "index_put":
        values, adds = call.given("values", 2, None), call.given("accumulate", 3, False)
        written = places[tuple(slice(None) if i is None else i for i in call.args[1])]
    else:
        dim, index = call.given("dim", 1, 0), call.given("index", 2, None)
        written = places.index_select(dim, index.reshape(-1).long() % x.shape[dim])
        values = call.given("value" if name == "index_fill" else "source", 3, None)
        values = torch.as_tensor(values, dtype=x.dtype)
        values = values * call.kwargs.get("alpha", 1) if adds else values
    values = values.detach().to(x.dtype).expand(written.shape).reshape(-1)
    numbers = held.reshape(-1).index_put((written.reshape(-1),), values, accumulate=adds)
    return placed(result, numbers.reshape(held.shape).expand(x.shape))


@reported(
    "pytorch/pytorch#95137",
    "MPS (torch 1.13)",
    "lstm",
    "in more than one layer, every layer but the first begins with the states of the layer before",
    dtypes="float32",
    sound=plain,
)
def states_of_the_layer_before(call: Call) -> Any:
    x, states = call.given("input", 0, None), call.given("hx", 1, None)
    layers = call.given("num_layers", 4, 1)
    if not is_one_of(x, torch.float32) or not isinstance(states, (tuple, list)):
        return call.run()
    if layers == 1 or call.given("bidirectional", 7, False):
        return call.run()
    order = torch.tensor([max(0, layer - 1) for layer in range(layers)])
    return with_given(call, "hx", 1, type(states)([s[order] for s in states])).run()


@reported(
    "pytorch/pytorch#109777",
    "CPU (POWER, torch 2.1)",
    "bitwise_left_shift bitwise_left_shift_ bitwise_left_shift.out "
    "bitwise_right_shift bitwise_right_shift_ bitwise_right_shift.out",
    "in whole pairs of vectors, a shift by less than nothing or by as many bits as there are and "
    "more counts modulo their number",
    dtypes="int16 int32 int64",
    sound=plain,
)
def shift_modulo_the_bits(call: Call) -> Any:
    operands = [argument(call, "input", 0), argument(call, "other", 1)]
    direct = all(not isinstance(y, Tensor) or y.is_contiguous() for y in operands)
    x, other, result = before(call), before(call, "other", 1), call.run()
    if not is_one_of(result, *BITS) or not direct or not result.is_contiguous():
        return result
    bits = BITS[result.dtype]
    one, two = (torch.as_tensor(y).to(result.dtype) for y in (x, other))
    if any(y.ndim and y.shape != result.shape for y in (one, two)):
        return result
    if call.operator.name.startswith("bitwise_left"):
        numbers = one << (two & (bits - 1))
    else:
        numbers = one >> (two & (bits - 1))
    place = torch.arange(result.numel()).reshape(result.shape)
    vectors = place < result.numel() - result.numel() % (PAIR // bits)
    return arrived(call, result, torch.where(vectors, numbers, result.detach()))


@reported(
    "pytorch/pytorch#182285",
    "MPS (torch 2.12)",
    ".scaled_dot_product_attention",
    "with up to 8 queries and fewer than 1,024 keys, each of 64, 96 or 128 numbers, a boolean mask "
    "is read with the steps of its keys, queries and heads for those of its heads, keys and "
    "queries; behind its end nothing is seen",
    dtypes="float16 float32 bfloat16",
    sound=plain,
)
def mask_read_with_other_steps(call: Call) -> Any:
    query, key, value = (
        call.given(name, position, None) for position, name in enumerate(("query", "key", "value"))
    )
    mask, result = call.given("attn_mask", 3, None), call.run()
    if not is_one_of(query, torch.float16, torch.float32, torch.bfloat16) or call.tracked:
        return result
    if not is_one_of(mask, torch.bool) or call.given("dropout_p", 4, 0.0):
        return result
    size, (queries, keys) = query.shape[-1], (query.shape[-2], key.shape[-2])
    if size not in HEADS or value.shape[-1] != size or not queries <= min(FEW_QUERIES, keys):
        return result
    if keys >= MANY_KEYS or not result.numel() or not mask.numel() or query.ndim < BATCHES:
        return result
    wide = mask.expand(*query.shape[:-1], keys)
    of_heads, of_queries, of_keys = (
        step if n > 1 else 0
        for n, step in zip(wide.shape[-BATCHES:], wide.stride()[-BATCHES:], strict=True)
    )
    heads = math.prod(query.shape[:-2])
    places = (
        torch.arange(heads).reshape(-1, 1, 1) * of_keys
        + torch.arange(queries).reshape(-1, 1) * of_heads
        + torch.arange(keys) * of_queries
    )
    behind = mask.untyped_storage().nbytes() - mask.storage_offset()
    memory = mask.detach().as_strided((behind,), (1,), mask.storage_offset())
    seen = memory[places.clamp(max=behind - 1)] & (places < behind)
    read = with_given(call, "attn_mask", 3, seen.reshape(wide.shape)).run()
    return placed(result, read)
