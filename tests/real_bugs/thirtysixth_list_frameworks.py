"""A thirty-sixth, held-out list: what other frameworks computed wrongly in operators that torch
has, too, reported or repaired in 2024 to 2026, taken as a search gave them, family by family of
operators, before anything was looked at of how inputs are drawn: a constant added to a size instead
of a variance, weights read at the place of the input, formats and shapes of results, a mean over
what is ignored, memory for a result that stays as it was, steps in memory that are not regarded, a
transposed matrix that is not conjugated, the least number of a format, and a product by way of
logarithms."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.catalog.model import Call

from .eighteenth_list import is_one_of
from .model import plain, reported
from .seventeenth_list_reductions import with_given
from .thirtysecond_list_frameworks import BACK, BATCHED, PLANE, of_each
from .twentyfirst_list import in_memory
from .twentysecond_list import argument, arrived, before

COMPLEX = (torch.complex64, torch.complex128)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
LANES = 4  # channels that a shader multiplies at once
CHUNK = 3  # rows and columns of a block of the report's matrix
SEQUENCES = 3  # dimensions of a batch of sequences


@reported(
    "xlite-dev/LeetCUDA#317",
    "LeetCUDA",
    ".layer_norm",
    "the constant is added to the number of elements that the sum of squares is divided by, not to "
    "the variance: of a row of equal numbers the norm is NaN, of nearly equal ones too large",
    dtypes="float32",
    sound=plain,
)
def added_to_the_size(call: Call) -> Any:
    x, sizes = call.given("input", 0, None), call.given("normalized_shape", 1, None)
    result = call.run()
    # LeetCUDA has rows only.
    if not is_one_of(x, torch.float32) or not x.numel() or len(sizes) != 1:
        return result
    weight, bias, eps = (
        call.given(name, position, default)
        for name, position, default in (("weight", 2, None), ("bias", 3, None), ("eps", 4, 1e-5))
    )
    numbers = x.detach()
    apart = numbers - numbers.mean(-1, keepdim=True)
    count = torch.tensor(float(x.shape[-1])) + eps
    numbers = apart * (apart.square().sum(-1, keepdim=True) / count).rsqrt()
    if weight is not None:
        numbers = numbers * weight.detach()
    if bias is not None:
        numbers = numbers + bias.detach()
    return arrived(call, result, numbers)


@reported(
    "microsoft/onnxruntime#27749",
    "ONNX Runtime (WebGPU)",
    ".conv_transpose2d",
    "with one channel out of an odd number of at least 5 in each group, weights are read from "
    "where the input is in its memory, and channels behind the last four have no weight",
    dtypes="float16 float32",
    sound=plain,
)
def weights_where_the_input_is(call: Call) -> Any:
    x, weight, bias = (
        call.given(n, i, None) for n, i in (("input", 0), ("weight", 1), ("bias", 2))
    )
    result = call.run()
    if not is_one_of(x, torch.float16, torch.float32) or x.ndim != BATCHED or not result.numel():
        return result
    stride, padding, more, groups, dilation = (
        call.given(name, position, default)
        for name, position, default in (
            ("stride", 3, 1),
            ("padding", 4, 0),
            ("output_padding", 5, 0),
            ("groups", 6, 1),
            ("dilation", 7, 1),
        )
    )
    channels = x.shape[1] // groups
    # An even number is read two or four at once, in another way, which is right.
    if weight.shape[1] != 1 or channels < LANES or channels % 2 == 0:
        return result
    # Both lie in memory with their channels last.
    image = x.detach().double().permute(0, 2, 3, 1)
    held = weight.detach().double().permute(2, 3, 0, 1).flatten()
    # WebGPU keeps an index that leads out of a buffer inside of it.
    places = torch.arange(x.numel()).clamp(max=held.numel() - 1)
    factors = held[places].reshape(image.shape).unflatten(-1, (groups, channels)).clone()
    factors[..., channels // LANES * LANES :] = 1
    # It is the same for every element of the kernel.
    products = (image.unflatten(-1, (groups, channels)) * factors).sum(-1).permute(0, 3, 1, 2)
    ones = torch.ones(groups, 1, *weight.shape[2:], dtype=torch.float64)
    own = None if bias is None else bias.detach().double()
    numbers = F.conv_transpose2d(
        products, ones, own, stride, padding, more, groups=groups, dilation=dilation
    )
    return arrived(call, result, numbers)


@reported(
    "tinygrad/tinygrad#7726",
    "tinygrad",
    ".max_pool2d",
    "with padding, which is done with minus infinity, the result of whole numbers is float32",
    dtypes="uint8 int8 int16 int32 int64",
    sound=plain,
)
def padded_with_infinity(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not is_one_of(x, *INTEGERS) or not isinstance(result, Tensor):
        return result  # tinygrad had no indices
    padded = any(of_each(call.given("padding", 3, 0), PLANE))
    return result.to(torch.float32) if padded else result


@reported(
    "numpy/numpy#30910",
    "NumPy 2.0 to 2.4",
    "fft.hfft.out fft.ifft2.out fft.irfft2.out",
    "the memory that is given for the result stays as it was: what is returned is a new tensor",
    dtypes="float32 float64 complex64 complex128",
    sound=plain,
)
def memory_stays_as_it_was(call: Call) -> Any:
    transforms: dict[str, Any] = {
        "fft.hfft.out": torch.fft.hfft,
        "fft.ifft2.out": torch.fft.ifft2,
        "fft.irfft2.out": torch.fft.irfft2,
    }
    return transforms[call.operator.name](*call.args[1:], **call.kwargs)


@reported(
    "PaddlePaddle/Paddle#76033",
    "Paddle",
    ".cross_entropy",
    "if the ignored class is a negative number, the sum is divided by the number of all targets, "
    "not of those that are not ignored",
    dtypes="float32 float64",
    directions=("forward", "backward"),
    sound=plain,
)
def divided_by_all(call: Call) -> Any:
    x, target, result = call.given("input", 0, None), call.given("target", 1, None), call.run()
    if not is_one_of(x, torch.float32, torch.float64) or not is_one_of(target, torch.int64):
        return result
    ignored = call.given("ignore_index", 4, -100)
    if ignored >= 0 or not bool((target == ignored).any()):
        return result
    # Weights are summed up in another way, which is right; with smoothing, targets are no classes.
    if call.given("weight", 2, None) is not None or call.given("label_smoothing", 7, 0.0):
        return result
    if call.given("size_average", 3, None) is not None or call.given("reduce", 5, None) is not None:
        return result  # Paddle has neither
    if call.given("reduction", 6, "mean") != "mean":
        return result
    return with_given(call, "reduction", 6, "sum").run() / target.numel()


@reported(
    "HomericIntelligence/Odyssey#5572",
    "ProjectOdyssey (Mojo)",
    "argmax argsort topk",
    "a view that is not contiguous is read as if its elements were side by side in memory",
    sound=plain,
    cause="strides-ignored",
)
def read_side_by_side(call: Call) -> Any:
    x, result = call.given("input", 0, None), call.run()
    if not isinstance(x, Tensor) or x.is_contiguous():
        return result
    # Where there is not so much memory, as if expanded, nothing is told.
    other = in_memory(x, torch.empty(x.shape, device="meta").stride())
    if other is None:
        return result
    wrong = with_given(call, "input", 0, other).run()
    if isinstance(wrong, Tensor):
        return wrong
    values, places = wrong
    return arrived(call, result[0], values), places


def in_chunks(matrix: Tensor) -> tuple[Tensor, Tensor] | None:
    """Both triangles of a Cholesky decomposition by blocks that are transposed without being
    conjugated; None where a block has none."""
    count = matrix.shape[0] // CHUNK
    block = [slice(i * CHUNK, (i + 1) * CHUNK) for i in range(count)]
    lower, upper = torch.zeros_like(matrix), torch.zeros_like(matrix)
    for row in range(count):
        own, behind = block[row], slice(row * CHUNK, None)
        # Of what comes before, rows are multiplied by columns.
        done = slice(0, row * CHUNK)
        rest = matrix[own, behind] - lower[own, done] @ upper[done, behind]
        root, info = torch.linalg.cholesky_ex(rest[:, :CHUNK])
        if info:
            return None
        lower[own, own], upper[own, own] = root, root.mT
        for column in range(row + 1, count):
            begin = (column - row) * CHUNK
            right = rest[:, begin : begin + CHUNK]
            solved = torch.linalg.solve_triangular(root, right, upper=False)
            upper[own, block[column]], lower[block[column], own] = solved, solved.mT
    return lower, upper


@reported(
    "dask/dask#12335",
    "Dask",
    "cholesky linalg.cholesky",
    "of a complex matrix in more than one block (here of 3 rows and columns), blocks of the other "
    "triangle are transposed without being conjugated, and so is what is subtracted from the next",
    dtypes="complex64 complex128",
    sound=plain,
)
def transposed_only(call: Call) -> Any:
    x, result = before(call), call.run()
    # Dask has no batches, and no blocks of different sizes.
    if not is_one_of(x, *COMPLEX) or x.ndim != PLANE:
        return result
    if x.shape[0] <= CHUNK or x.shape[0] % CHUNK:
        return result
    upper = call.given("upper", 1, False)
    # Torch reads one triangle, Dask both: they are those of one matrix.
    half = x.mH if upper else x
    both = in_chunks(half.tril() + half.tril(-1).mH)
    return result if both is None else arrived(call, result, both[int(upper)])


@reported(
    "tenstorrent/tt-metal#49589",
    "TT-NN",
    "amin amin.method amin.out min",
    "as the least of whole numbers is the negative of the greatest of their negatives, and the "
    "least number of int32 has none, that is not found beside greater ones",
    dtypes="int32",
    sound=plain,
)
def least_without_a_negative(call: Call) -> Any:
    x, result = before(call), call.run()
    # With a dimension or another tensor, `min` gives something else than TT-NN.
    if not is_one_of(x, torch.int32) or not isinstance(result, Tensor):
        return result
    if call.operator.name == "min":
        if len(call.args) > 1 or set(call.kwargs) - {"input"}:
            return result
        return arrived(call, result, -(-x).max())
    dim, keep = argument(call, "dim", 1, ()), argument(call, "keepdim", 2, False)
    return arrived(call, result, -(-x).amax(dim, keepdim=keep))


@reported(
    "huggingface/candle#2542",
    "candle",
    "gru",
    "what comes out of the steps is put side by side in one dimension: the steps have none of "
    "their own",
    dtypes="float32 float64",
    sound=plain,
)
def steps_side_by_side(call: Call) -> Any:
    x, hx, result = call.given("input", 0, None), call.given("hx", 1, None), call.run()
    # A packed sequence has whole numbers here.
    if not is_one_of(x, torch.float32, torch.float64) or is_one_of(hx, torch.int64):
        return result
    # candle has one layer in one direction, for batches that come first.
    if call.given("num_layers", 4, 1) != 1 or call.given("bidirectional", 7, False):
        return result
    if not call.given("batch_first", 8, False) or x.ndim != SEQUENCES:
        return result
    output, last = result
    return output.flatten(1), last


@reported(
    "tracel-ai/burn#5106",
    "Burn (autodiff)",
    "prod prod.method",
    "where gradients are asked for, a product is a power of e of the sum of logarithms: it and its "
    "gradients are NaN with a negative number, and the gradient of a zero is NaN",
    dtypes="float32 float64",
    directions=BACK,
    sound=plain,
)
def product_by_logarithms(call: Call) -> Any:
    x = call.given("input", 0, None)
    if not is_one_of(x, torch.float32, torch.float64) or not x.requires_grad or not x.numel():
        return call.run()
    dim, keep = call.given("dim", 1, None), call.given("keepdim", 2, False)
    # Burn has no format of a result; of positive numbers, only the last digits differ.
    if call.kwargs.get("dtype") is not None or not bool((x <= 0).any()):
        return call.run()
    logarithms = x.log()
    if dim is None:
        return logarithms.sum().exp()
    return logarithms.sum(dim, keepdim=keep).exp()
