"""Which operators also take complex numbers, and what is different there.

They are the same declarations in two dtypes more: both parts are drawn from the tape, S is made of
moduli and bounds the error of either part (:meth:`.declare.ErrorModel.of`). Named here are only
those whose draws or errors are others than those of real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from .declare import (
    COMPLEX,
    Call,
    Domain,
    Drawing,
    ErrorModel,
    Operator,
    Sample,
    accumulated,
    call,
    reduced,
)
from .inplace import alone
from .linear_algebra import square
from .sampling import along, operands, shape_of, unary
from .unary import MODERATE, gradient_of

_NAMES = {
    "elementwise functions, arithmetic and comparisons": """
        abs neg positive sgn square reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin
        cos tan asin acos atan sinh
        cosh tanh asinh acosh atanh sigmoid angle add sub rsub mul div true_divide __radd__
        __rsub__ __rmul__ __rdiv__
        __rpow__ pow float_power addcmul addcdiv lerp eq ne isclose allclose equal isnan isinf
        isfinite isreal logical_and
        logical_or logical_xor logical_not
    """,
    "sums and products": """
        sum mean prod sum_to_size trace all any count_nonzero norm linalg.vector_norm cumsum
        cumprod diff trapezoid
        cumulative_trapezoid matmul mm bmm mv dot vdot inner outer addmm addmv addr baddbmm addbmm
        nn.functional.linear
        linalg.vecdot einsum kron tensordot linalg.multi_dot cross linalg.cross
        nn.functional.bilinear nn.functional.conv1d
        nn.functional.conv2d nn.functional.conv3d nn.functional.conv_transpose1d
        nn.functional.conv_transpose2d
        nn.functional.conv_transpose3d scatter_add index_add index_put put
    """,
    "linear algebra": """
        linalg.inv linalg.inv_ex linalg.solve linalg.solve_ex linalg.solve_triangular linalg.lstsq
        linalg.det linalg.slogdet
        logdet linalg.cholesky linalg.cholesky_ex cholesky cholesky_inverse cholesky_solve
        linalg.pinv pinverse
        linalg.matrix_power linalg.matrix_exp matrix_exp linalg.matrix_norm linalg.norm linalg.cond
        linalg.tensorinv
        linalg.tensorsolve linalg.householder_product linalg.vander linalg.svd linalg.svdvals
        linalg.eigh linalg.eigvalsh
        linalg.eigvals linalg.eig linalg.qr linalg.lu linalg.lu_factor linalg.lu_factor_ex
    """,
    "transforms that take spectra, or anything": """
        fft.fft fft.ifft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.irfft fft.irfft2 fft.irfftn
        fft.hfft fft.hfft2 fft.hfftn
        fft.fftshift fft.ifftshift
    """,
    "in place": """
        add_ sub_ mul_ div_ pow_ __iadd__ __imul__ addcmul_ addcdiv_ lerp_ neg_ exp_ sqrt_ rsqrt_
        reciprocal_ sigmoid_ tanh_
        logical_not_ copy_ fill_ zero_ cumsum_ addmm_
    """,
    "moved, chosen, made": """
        gather take_along_dim index_select take __getitem__ masked_select where nonzero argwhere
        scatter index_copy index_fill
        masked_fill masked_scatter zeros ones full empty empty_strided zeros_like ones_like
        full_like empty_like new_zeros
        new_ones new_full new_empty scalar_tensor eye
    """,
}
TAKEN = frozenset(" ".join(_NAMES.values()).split())
FAMILIES = frozenset({"movement"})  # as a whole, but for
NOT_TAKEN = frozenset({"nn.functional.channel_shuffle"})

COMPUTED = ErrorModel("rounded", "output", backward="pointwise")
# Through logarithm and exponential: the error is relative to the exponent.
POWER = ErrorModel("rounded", "pointwise", backward="pointwise")
MEASURED = accumulated("output", reduced)
PLANE = Domain(wide=(-10, 10))
MODULUS = Domain(-4.0, 4.0)


def quotient(d: Drawing) -> Call:
    """Without rounding modes, which complex numbers do not have."""
    return call(*operands(d, PLANE, PLANE))


def power(d: Drawing) -> Call:
    """Any base with a whole exponent, a root or a square; or both tensors. No powers of zero."""
    shape = shape_of(d)
    base = Domain(wide=(-3, 2))
    match d.choice("whole", "root", "tensors", "base"):
        case "whole":
            return call(d.tensor(shape, base), d.choice(2, 3, -1, -2, 0, 1, 2.0))
        case "root":
            return call(d.tensor(shape, base), d.choice(0.5, -0.5, 2.5, complex(1.0, 0.5)))
        case "base":
            return call(d.choice(2.0, 0.5, complex(0.5, 1.0)), d.tensor(shape, MODULUS))
    return call(d.tensor(shape, base), d.tensor(d.broadcastable(shape), MODULUS))


def sloping(step: Any, magnitude: str = "output") -> ErrorModel:
    """Functions whose gradient is formed from their own rounded result, with ``step(x)`` what is
    lost on the way."""
    return ErrorModel("rounded", magnitude, backward=gradient_of(step))


def product(d: Drawing) -> Call:
    """Short enough that moduli of up to 1.5 stay in range."""
    shape = d.shape(0, 3, elements=128)
    return call(
        d.tensor(shape, MODULUS, values=("uniform", 0.9375, 1.0625)),
        **along(d, shape, several=False),
    )


ERRORS: dict[str, ErrorModel] = {
    **dict.fromkeys(("abs", "sgn", "angle"), COMPUTED),
    "tan": sloping(lambda x: 2.0 * torch.cos(x).abs() ** 2 + x.abs()),
    **dict.fromkeys(("tanh", "tanh_"), sloping(lambda x: 2.0 * torch.cosh(x).abs() ** 2 + x.abs())),
    # Near odd multiples of iπ, where 1 + exp(-x) vanishes, as relative as that is.
    **dict.fromkeys(
        ("sigmoid", "sigmoid_"),
        sloping(
            lambda x: 1 + torch.exp(x).abs() + 2.0 * x.abs() * (1 + torch.sigmoid(x).abs()),
            "pointwise",
        ),
    ),
    **dict.fromkeys(("exp2", "pow", "float_power", "__rpow__", "pow_"), POWER),
    **dict.fromkeys(("norm", "linalg.vector_norm"), MEASURED),
}
# Where the slopes of tan, tanh and the sigmoid, 1 - tanh² and the like, are still more than the
# rounding of float64.
STEEP = Domain(-8.0, 8.0, points=(0.625, 3.0), wide=(-24, 2))
SAMPLES: dict[str, Callable[[Any], Call]] = {
    "div": quotient, "pow": power, **dict.fromkeys(("tan", "tanh", "sigmoid", "expm1"),
    unary(STEEP)),
    # whose other part is an exponential: times a zero, overflow is NaN
    **dict.fromkeys(("sin", "cos"), unary(MODERATE)),
    "prod": product,
    **dict.fromkeys(("tanh_", "sigmoid_"), alone(STEEP)),
    "cholesky_inverse": square(17, definite=True, upper=(True,)),  # whose diagonal is real
}  # fmt: skip


def also_complex(operator: Operator) -> Operator:
    """The operator with complex dtypes beside its own, if it takes them."""
    taken = operator.name in TAKEN or (operator.family in FAMILIES and "bool" in operator.dtypes)
    if not taken or operator.name in NOT_TAKEN or set(COMPLEX) & set(operator.dtypes):
        return operator
    error = (
        replace(operator.error, in_complex=ERRORS[operator.name])
        if operator.name in ERRORS
        else operator.error
    )
    sample = (
        _either(operator.sample, SAMPLES[operator.name])
        if operator.name in SAMPLES
        else operator.sample
    )
    return replace(operator, dtypes=(*operator.dtypes, *COMPLEX), error=error, sample=sample)


def _either(real: Sample, plane: Sample) -> Sample:
    def sample(d: Drawing) -> Call:
        return plane(d) if d.complex else real(d)

    return sample
