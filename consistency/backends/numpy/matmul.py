"""Matrix products and what is built from them, through np.matmul in the dtype of the inputs."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from consistency.backends.numpy.dimensions import axis, count
from consistency.backends.numpy.dtypes import Array, Scalar, constant, unify
from consistency.backends.numpy.implementations import implements


@implements("matmul", wide=True, complex=True)
def matmul(input: Array, other: Array) -> Array:
    # Some NumPy versions leave BLAS for a slow and differently rounding loop when the strides are
    # unusual.
    return np.asarray(np.matmul(np.ascontiguousarray(input), np.ascontiguousarray(other)))


@implements("mm", "bmm", wide=True, complex=True)
def mm(input: Array, mat2: Array) -> Array:
    return matmul(input, mat2)


@implements("mv", wide=True, complex=True)
def mv(input: Array, vec: Array) -> Array:
    return matmul(input, vec)


@implements("dot", wide=True, complex=True)
def dot(input: Array, tensor: Array) -> Array:
    return matmul(input, tensor)


@implements("inner", wide=True, complex=True)
def inner(input: Array, other: Array) -> Array:
    """Over the last dimension of both; a 0-d operand multiplies."""
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    return tensordot(input, other, [[-1], [-1]])


@implements("vdot", wide=True, complex=True)
def vdot(input: Array, other: Array) -> Array:
    return inner(np.conj(input), other)


@implements("linalg.vecdot", wide=True, complex=True)
def vecdot(x: Array, y: Array, *, dim: int = -1) -> Array:
    x, y = np.broadcast_arrays(x, y)
    if not x.ndim:  # torch takes numbers for vectors of one element
        x, y = x[None], y[None]
    a, b = (np.moveaxis(one, dim, -1) for one in (x, y))
    return matmul(np.conj(a)[..., None, :], b[..., :, None])[..., 0, 0]


@implements("outer", wide=True, complex=True)
def outer(input: Array, vec2: Array) -> Array:
    x, y = unify(input, vec2)
    return x[:, None] * y[None, :]


@implements("kron", wide=True, complex=True, one_dtype=True)
def kron(input: Array, other: Array) -> Array:
    x, y = unify(input, other)
    ndim = max(x.ndim, y.ndim)
    x, y = (one.reshape((1,) * (ndim - one.ndim) + one.shape) for one in (x, y))
    ones = [1] * (2 * ndim)
    left, right = list(ones), list(ones)
    left[0::2], right[1::2] = x.shape, y.shape
    shape = tuple(a * b for a, b in zip(x.shape, y.shape, strict=True))
    return np.asarray(x.reshape(left) * y.reshape(right)).reshape(shape)


@implements("tensordot", wide=True, complex=True)
def tensordot(a: Array, b: Array, dims: int | Sequence[Sequence[int]] = 2) -> Array:
    if isinstance(dims, int):
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    summed_a, summed_b = (
        [axis(d, one.ndim) for d in which] for one, which in zip((a, b), dims, strict=True)
    )
    free_a, free_b = (
        [d for d in range(one.ndim) if d not in summed]
        for one, summed in ((a, summed_a), (b, summed_b))
    )
    if [a.shape[d] for d in summed_a] != [b.shape[d] for d in summed_b]:
        raise NotImplementedError("contracting dimensions of different sizes")
    rows, columns = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    length = count(a.shape[d] for d in summed_a)
    left = a.transpose(*free_a, *summed_a).reshape(count(rows), length)
    right = b.transpose(*summed_b, *free_b).reshape(length, count(columns))
    return matmul(left, right).reshape(rows + columns)


def _drops_letters(equation: str) -> bool:
    """Whether a letter of ``"ij->i"`` is summed away; without an arrow those are that occur
    twice."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    return (
        any(letter not in output for letter in inputs) if arrow else len(set(inputs)) < len(inputs)
    )


@implements("einsum", wide=True, complex=True)
def einsum(equation: str | Array, *operands: Any) -> Array:
    if not isinstance(equation, str):
        raise NotImplementedError("einsum in the sublist format")
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if "..." in equation and "->" in equation and "..." not in equation.split("->")[1]:
        raise NotImplementedError("an ellipsis that is summed over")
    if len(operands) == 1 and operands[0].dtype.kind in "iub" and _drops_letters(equation):
        return np.asarray(
            np.einsum(equation, *operands, dtype=np.int64, optimize=False)
        )  # a sum, and sums of integers are int64
    # An optimized order goes through np.dot and BLAS; a single pass over all operands is the plain
    # definition.
    return np.asarray(np.einsum(equation, *operands, optimize=False))


@implements("linalg.multi_dot", wide=True, complex=True)
def multi_dot(tensors: Sequence[Array]) -> Array:
    """In the cheapest order, as torch does it: with infinities the order decides what is NaN."""
    shapes = [tensor.shape for tensor in tensors]
    first = 1 if len(shapes[0]) == 1 else shapes[0][0]
    sizes = [first, *(shape[0] for shape in shapes[1:])]
    sizes += [shapes[-1][1] if len(shapes[-1]) > 1 else 1]

    @cache
    def cheapest(begin: int, end: int) -> tuple[int, int]:
        """The fewest products for these factors, and minus the first of the second half: of equal
        costs the last one counts, as in torch."""
        if end - begin == 1:
            return 0, 0
        outer = sizes[begin] * sizes[end]
        return min(
            (cheapest(begin, k)[0] + cheapest(k, end)[0] + outer * sizes[k], -k)
            for k in range(begin + 1, end)
        )

    def product(begin: int, end: int) -> Array:
        if end - begin == 1:
            return tensors[begin]
        split = -cheapest(begin, end)[1]
        return matmul(product(begin, split), product(split, end))

    return product(0, len(tensors))


@implements("trace", wide=True, complex=True)
def trace(input: Array) -> Array:
    diagonal = np.diagonal(input)
    return np.asarray(diagonal.sum(dtype=np.int64 if input.dtype.kind in "iub" else input.dtype))


@implements("cross", wide=True, complex=True)
def cross(input: Array, other: Array, dim: int | None = None) -> Array:
    if dim is None:  # torch.cross: the first dimension of size 3
        dim = next(
            d for d, size in enumerate(np.broadcast_shapes(input.shape, other.shape)) if size == 3
        )
    return linalg_cross(input, other, dim=dim)


@implements("linalg.cross", wide=True, complex=True)
def linalg_cross(input: Array, other: Array, *, dim: int = -1) -> Array:
    x, y = (np.moveaxis(one, dim, -1) for one in np.broadcast_arrays(input, other))
    after, before = [1, 2, 0], [2, 0, 1]
    return np.moveaxis(x[..., after] * y[..., before] - x[..., before] * y[..., after], -1, dim)


# --- product plus something


def _blend(input: Array, product: Array, beta: Scalar, alpha: Scalar) -> Array:
    """beta · input + alpha · product. With beta 0 the input is ignored, NaN included, as PyTorch
    documents."""
    scaled = product if alpha == 1 else constant(alpha, product) * product
    if beta == 0:
        return scaled + np.zeros(input.shape, input.dtype)
    return (input if beta == 1 else constant(beta, product) * input) + scaled


@implements("addmm", wide=True, complex=True)
def addmm(input: Array, mat1: Array, mat2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _blend(input, matmul(mat1, mat2), beta, alpha)


@implements("addmv", wide=True, complex=True)
def addmv(input: Array, mat: Array, vec: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _blend(input, matmul(mat, vec), beta, alpha)


@implements("baddbmm", wide=True, complex=True)
def baddbmm(
    input: Array, batch1: Array, batch2: Array, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Array:
    return _blend(input, matmul(batch1, batch2), beta, alpha)


@implements("addbmm", wide=True, complex=True)
def addbmm(
    input: Array, batch1: Array, batch2: Array, *, beta: Scalar = 1, alpha: Scalar = 1
) -> Array:
    """The sum over the batch as one product with the batch folded into the inner dimension."""
    return _blend(input, tensordot(batch1, batch2, [[0, 2], [0, 1]]), beta, alpha)


@implements("addr", wide=True, complex=True)
def addr(input: Array, vec1: Array, vec2: Array, *, beta: Scalar = 1, alpha: Scalar = 1) -> Array:
    return _blend(input, outer(vec1, vec2), beta, alpha)


@implements("nn.functional.linear", wide=True, complex=True)
def linear(input: Array, weight: Array, bias: Array | None = None) -> Array:
    product = tensordot(input, weight, [[-1], [-1]])
    return product if bias is None else product + bias


@implements("nn.functional.bilinear", wide=True)
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """y_o = Σ_ij x1_i W_oij x2_j + b_o, summed over both indices at once."""
    pairs = input1[..., :, None] * input2[..., None, :]
    product = tensordot(pairs, weight, [[-2, -1], [1, 2]])
    return product if bias is None else product + bias
