"""Forms of operators that ATen has beside the ones that their declarations ask for: ``out=`` and in
place, each an overload of its own, which compilers and optimizers call.

Both are judged by the rules of the operator, and drawn in one format: the arithmetic is the
operator's own, and what may be wrong is what is written where.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F

from ..core.recipe import Literal, TensorRecipe
from .call_forms import also_written, behind, empty, out_form
from .declare import Call, Drawing, Operator, Sample, resolve
from .nonunique_results import of_memory_too
from .variants import NO_VARIANTS, SHARED_TRAITS, DistinctElements, copied_back, declared

# With a kernel for out=, which Python's function need not take.
OUT = (
    "sgn", "round", "bitwise_not", "deg2rad", "rad2deg", "angle", "mvlgamma", "special.i1",
    "special.i1e", "special.ndtri", "special.log_ndtr", "special.bessel_j0", "special.bessel_j1",
    "special.bessel_y0", "special.bessel_y1", "special.modified_bessel_i0",
    "special.modified_bessel_i1", "special.modified_bessel_k0", "special.modified_bessel_k1",
    "special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1",
    "special.spherical_bessel_j0", "special.airy_ai", "rsub", "floor_divide", "minimum", "fmax",
    "fmin", "clamp_min", "clamp_max", "logaddexp2", "special.xlog1py", "special.zeta", "igammac",
    "gcd", "lcm", "lerp", "clamp", "isnan", "isinf", "isneginf", "isin", "bitwise_and",
    "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "sum", "trace",
    "prod", "amax", "amin", "count_nonzero", "dist", "nn.functional.relu",
    "nn.functional.hardtanh", "nn.functional.threshold", "nn.functional.leaky_relu",
    "nn.functional.elu", "nn.functional.celu", "nn.functional.silu", "nn.functional.mish",
    "nn.functional.hardsigmoid", "nn.functional.hardswish", "nn.functional.glu",
    "nn.functional.avg_pool1d", "nn.functional.adaptive_avg_pool1d", "index_fill", "masked_fill",
    "masked_scatter", "index_put", "put", "flip", "rot90", "clone", "nn.functional.pixel_shuffle",
    "nn.functional.pixel_unshuffle", "nn.functional.channel_shuffle", "repeat", "select_scatter",
    "slice_scatter", "diagonal_scatter", "linalg.matrix_exp", "fft.fft",
    "fft.ifft", "fft.rfft", "fft.irfft", "fft.hfft", "fft.ihfft", "fft.fft2", "fft.ifft2",
    "fft.rfft2", "fft.irfft2", "fft.hfft2", "fft.ihfft2", "fft.fftn", "fft.ifftn", "fft.rfftn",
    "fft.irfftn", "fft.hfftn", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
    "new_full", "conj_physical", "as_strided_scatter", "special.chebyshev_polynomial_t",
    "special.chebyshev_polynomial_u", "special.chebyshev_polynomial_v",
    "special.chebyshev_polynomial_w", "special.shifted_chebyshev_polynomial_t",
    "special.shifted_chebyshev_polynomial_u", "special.shifted_chebyshev_polynomial_v",
    "special.shifted_chebyshev_polynomial_w", "special.hermite_polynomial_h",
    "special.hermite_polynomial_he", "special.laguerre_polynomial_l",
    "special.legendre_polynomial_p", "complex", "polar",
)  # fmt: skip
# Floating-point functions that ATen writes into their first argument …
IN_PLACE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "deg2rad", "rad2deg", "erf",
    "erfc", "erfinv", "exp2", "expm1", "frac", "i0", "lgamma", "log", "log10", "log1p", "log2",
    "logit", "mvlgamma", "nan_to_num", "sin", "sinc", "sinh", "tan", "digamma", "sgn", "sign",
    "trunc", "square", "atan2", "copysign", "hypot", "igamma", "igammac", "ldexp", "xlogy", "fmod",
    "remainder", "floor_divide", "heaviside", "clamp_min", "clamp_max", "eq", "ne", "lt", "le",
    "gt", "ge", "cumprod", "masked_scatter", "put", "index_reduce", "addmv", "addbmm", "addr",
    "baddbmm", "nn.functional.elu", "nn.functional.celu", "nn.functional.selu",
    "nn.functional.hardtanh", "nn.functional.leaky_relu", "nn.functional.threshold",
)  # fmt: skip
# … those of whole numbers, and of complex ones.
WHOLE = (
    "gcd", "lcm", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "bitwise_left_shift",
    "bitwise_right_shift", "logical_and", "logical_or", "logical_xor",
)  # fmt: skip
COMPLEX_NUMBERS = ("conj_physical",)
# Whose gradient in place is made of the result, which cancels where it is near -alpha.
OF_THE_RESULT = {"nn.functional.elu", "nn.functional.celu", "nn.functional.selu"}
BY_ARGUMENT = {
    f"nn.functional.{name}": functools.partial(getattr(F, name), inplace=True)
    for name in ("hardsigmoid", "hardswish", "silu", "mish", "relu6")
}


def one(operator: Operator, *wanted: str) -> tuple[str, ...]:
    """The first of the ``wanted`` dtypes that the operator takes."""
    return tuple(d for d in (*wanted, *operator.dtypes) if d in operator.dtypes)[:1]


def kernel(operator: Operator) -> Callable[..., Any] | None:
    """ATen's packet of overloads if one of them takes out=, as Python's function need not; None
    where this version of torch has none."""
    module, _, base = operator.name.rpartition(".")
    name = operator.aten or (f"{module}_{base}" if module in ("fft", "linalg", "special") else base)
    packet = getattr(torch.ops.aten, name, None)
    schemas = [getattr(packet, each)._schema for each in packet.overloads()] if packet else []
    written = any(argument.is_out for schema in schemas for argument in schema.arguments)
    return packet if written else None


def with_out(operator: Operator) -> Operator:
    packet = kernel(operator)
    form = out_form(replace(operator, function=packet))
    return replace(
        form, form_of=operator, dtypes=one(operator, "float32", "int64"),
        sample=out_form(operator).sample,
        function=None if packet is None else form.function, observe=of_memory_too(operator.observe),
        reference=out_form(operator).reference,
    )  # fmt: skip


class _WholeFirst(DistinctElements):
    """Draws as ``d`` does, but no two elements of a tensor share memory, and the first shape that
    is broadcast is the whole one: that of the result."""

    def __init__(self, d: Drawing) -> None:
        super().__init__(d)
        self._whole = False

    def broadcastable(self, shape: Any) -> tuple[int, ...]:
        if self._whole:
            return self._d.broadcastable(shape)
        self._whole = True
        return tuple(shape)


def written_first(sample: Sample, d: Drawing) -> Call:
    """The operator's arguments, a tensor to be written to as the first one."""
    call = sample(_WholeFirst(d))
    first, *others = call.args
    if isinstance(first, TensorRecipe) and first.dtype != d.dtype:  # may not hold the result
        return Call((DistinctElements(d).tensor(empty(first).shape), *others), call.kwargs)
    if isinstance(first, (TensorRecipe, Literal)):
        return call
    return Call((others[0], first, *others[1:]), call.kwargs)  # a number that stood to the left


def written_form(operator: Operator, dtypes: tuple[str, ...]) -> Operator:
    """The form that writes into its first argument; it must hold what the operator returns."""
    alternatives = operator.alternatives
    return replace(
        operator, name=f"{operator.name}_", family="inplace", form_of=operator, mutates=(0,),
        function=BY_ARGUMENT.get(operator.name) or resolve(f"{operator.name}_"),
        sample=functools.partial(written_first, operator.sample),
        error=behind(operator.error, leading=0), observe=of_memory_too(operator.observe),
        differentiable=operator.differentiable and operator.name not in OF_THE_RESULT,
        dtypes=dtypes, traits=(operator.traits & SHARED_TRAITS) | {"inplace"},
        reference=functools.partial(copied_back, operator.reference or operator),
        alternatives=None if alternatives is None else functools.partial(also_written,
        alternatives, leading=0),
        **NO_VARIANTS,
    )  # fmt: skip


def forms() -> list[Operator]:
    known = {operator.name: operator for operator in declared()}
    return [
        *(with_out(known[name]) for name in OUT),
        *(written_form(known[n], one(known[n], "float32")) for n in (*IN_PLACE, *BY_ARGUMENT)),
        *(written_form(known[n], one(known[n], "int64")) for n in WHOLE),
        *(written_form(known[n], ("complex64",)) for n in COMPLEX_NUMBERS),
    ]


OPERATORS = forms()
