"""Further publicly reported wrong results that torch 2.13's CPU still gives, as in
``still_in_torch.py``: collected later, before what the operators' inputs draw was looked at."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as functional
from torch import Tensor

from .still_in_torch import C64, F64, HALF, I64, INF, NAN, U8, Still, gradients
from .triggers import Call, F, call, t

I32 = torch.int32
# Elements of which some are in whole vectors and some behind them, in any format.
COUNT = 35


def _created(name: str, dtype: str, *args: float) -> Callable[[], Call]:
    """A call that creates a tensor of this dtype."""
    return lambda: (name, dtype, args, {"dtype": getattr(torch, dtype)})


def _filled(value: float, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.full((COUNT,), value, dtype=dtype)


def _repeated() -> Tensor:
    return t(0.0, NAN, 2.0, NAN, 2.0, 1.0, 0.0, 1.0, 2.0, 0.0)


def _rows(shift: float) -> Tensor:
    return torch.arange(32.0).reshape(4, 8) * 0.25 + shift


def _pixels() -> Tensor:
    return t([[[5.0, -4.0]], [[5.0, -4.0]], [[5.0, 0.0]], [[5.0, 0.0]]], dtype=HALF)


def _kernel() -> Tensor:
    return torch.full((4, 1, 1, 2), -9990.0, dtype=HALF)


def _indices() -> Tensor:
    return t([1, 1, 3], dtype=I64)


def _table() -> Tensor:
    return torch.ones(4, 2)


def _signs(result: Tensor) -> bool:
    """Whether zeros have another sign among whole vectors than behind them."""
    return bool(result[:16].signbit().all() != result[COUNT - 1].signbit())


LATER: tuple[Still, ...] = (
    # intermediates that leave the format
    Still(
        193753,
        "fmod is NaN in whole vectors where the quotient leaves the format",
        call("fmod", lambda: _filled(1e308, F64), lambda: _filled(0.5, F64), dtype="float64"),
        lambda: bool(torch.fmod(_filled(1e308, F64), _filled(0.5, F64))[0].isnan()),
    ),
    Still(
        193753,
        "remainder is NaN in whole vectors where the quotient leaves the format",
        call("remainder", lambda: _filled(1e308, F64), lambda: _filled(0.5, F64), dtype="float64"),
        lambda: bool(torch.remainder(_filled(1e308, F64), _filled(0.5, F64))[0].isnan()),
    ),
    Still(
        170869,
        "addcdiv multiplies by value before it divides, which may overflow",
        call(
            "addcdiv",
            lambda: t(1e-10),
            lambda: t(-2.84726048e38),
            lambda: t(-2.84726048e38),
            value=2.75,
        ),
        lambda: bool(
            torch.addcdiv(t(1e-10), t(-2.84726048e38), t(-2.84726048e38), value=2.75).isinf()
        ),
    ),
    Still(
        133265,
        "ldexp with exponents of a floating-point dtype is infinite where only the power of 2 is",
        call("ldexp", lambda: t(2**-10, dtype=HALF), lambda: t(20, dtype=HALF), dtype="float16"),
        lambda: bool(torch.ldexp(t(2**-10, dtype=HALF), t(20, dtype=HALF)).isinf()),
    ),
    Still(
        153700,
        "conv_transpose2d in float16 rounds each part of a sum: inf - inf where the sum is -inf",
        call(F + "conv_transpose2d", _pixels, _kernel, dtype="float16"),
        lambda: bool(functional.conv_transpose2d(_pixels(), _kernel()).isnan().any()),
    ),
    Still(
        187178,
        "triplet_margin_loss with a small p is the difference of two infinities",
        call(
            F + "triplet_margin_loss",
            lambda: _rows(0.0),
            lambda: _rows(1.0),
            lambda: _rows(2.0),
            margin=1.0,
            p=1e-6,
        ),
        lambda: bool(
            functional.triplet_margin_loss(
                _rows(0.0), _rows(1.0), _rows(2.0), margin=1.0, p=1e-6
            ).isnan()
        ),
    ),
    # complex numbers
    Still(
        127978,
        "addr of a complex number and infinite real vectors is NaN in its real part, too",
        call(
            "addr",
            lambda: t(1.1, dtype=C64),
            lambda: t(INF),
            lambda: t(1.0, 2.0),
            dtype="complex64",
        ),
        lambda: bool(torch.addr(t(1.1, dtype=C64), t(INF), t(1.0, 2.0)).real.isnan().all()),
    ),
    Still(
        173796,
        "poisson_nll_loss of a complex number whose exponential overflows has a NaN imaginary part",
        call(
            F + "poisson_nll_loss",
            lambda: t(100 + 0j, dtype=C64),
            lambda: t(0.0),
            log_input=True,
            dtype="complex64",
        ),
        lambda: bool(
            functional.poisson_nll_loss(t(100 + 0j, dtype=C64), t(0.0), log_input=True).imag.isnan()
        ),
    ),
    # gradients
    Still(
        186556,
        "the gradient of ldexp with negative whole exponents is 0",
        call("ldexp", lambda: t(3.0, 1.0), lambda: t(-1, -2, dtype=I32)),
        lambda: bool(
            gradients(lambda x: torch.ldexp(x, t(-1, -2, dtype=I32)), t(3.0, 1.0))[0][0] == 0
        ),
        "backward",
    ),
    Still(
        192407,
        "the gradient of exp2 at 1024 is infinite where it is representable",
        call("exp2", lambda: t(1024.0, dtype=F64), dtype="float64"),
        lambda: bool(gradients(torch.exp2, t(1024.0, dtype=F64))[0].isinf()),
        "backward",
    ),
    Still(
        192406,
        "the gradient of expm1 is 0 from -38 down",
        call("expm1", lambda: t(-40.0, dtype=F64), dtype="float64"),
        lambda: bool(gradients(torch.expm1, t(-40.0, dtype=F64))[0] == 0),
        "backward",
    ),
    Still(
        193040,
        "the gradient of atan2 of small numbers goes through an infinite reciprocal",
        call("atan2", lambda: t(2e-3, dtype=HALF), lambda: t(2e-3, dtype=HALF), dtype="float16"),
        lambda: bool(
            gradients(torch.atan2, t(2e-3, dtype=HALF), t(2e-3, dtype=HALF))[0].isinf()
        ),
        "backward",
    ),
    Still(
        190063,
        "embedding_bag divides a row's gradient by how often another row comes",
        call(F + "embedding_bag", _indices, _table, mode="sum", scale_grad_by_freq=True),
        lambda: (
            gradients(
                lambda w: functional.embedding_bag(
                    _indices(), w, mode="sum", scale_grad_by_freq=True
                ),
                _table(),
            )[0][3, 0]
            == 0.5
        ),
        "backward",
    ),
    # whole numbers and dtypes
    Still(
        194725,
        "isin finds numbers that another number is rounded to in the common dtype",
        call(
            "isin",
            lambda: t(4097, 4098, dtype=I32),
            lambda: torch.zeros(20, dtype=HALF),
            dtype="int32",
        ),
        lambda: bool(torch.isin(t(4097, 4098, dtype=I32), torch.zeros(20, dtype=HALF)).any()),
    ),
    Still(
        107702,
        "clamp of uint8 with a bound of -129 takes it for 127",
        call("clamp", lambda: t(3, 200, dtype=U8), min=-129, dtype="uint8"),
        lambda: bool(torch.clamp(t(3, dtype=U8), min=-129) == 127),
    ),
    Still(
        82242,
        "logspace of whole numbers rounds its ends first, but not with one step",
        _created("logspace", "int32", 4.3, 5.0, 2),
        lambda: bool(torch.logspace(4.3, 5.0, 2, dtype=I32)[0] != 19952),
    ),
    Still(
        95934,
        "arange of whole numbers rounds its end and step first, but returns another length",
        _created("arange", "int64", 0, 9.86, 1.3),
        lambda: len(torch.arange(0, 9.86, 1.3, dtype=I64)) != 8,
    ),
    # arguments and special values
    Still(
        126021,
        "histc between two equal bounds takes those of the data",
        call("histc", lambda: t(1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0), 5, 7.0, 7.0),
        lambda: bool(
            torch.histc(t(1.0, 2.0, 3.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0), 5, 7.0, 7.0).sum() > 1
        ),
    ),
    Still(
        95583,
        "unique along a dimension repeats numbers, unsorted, where there are NaNs",
        call("unique", _repeated, dim=0),
        lambda: len(torch.unique(_repeated(), dim=0)) > 5,
    ),
    Still(
        96236,
        "interpolate by a scale of 120 / 88 returns 119 elements of 88",
        call(F + "interpolate", lambda: torch.arange(88.0)[None, None], scale_factor=120 / 88),
        lambda: functional.interpolate(torch.arange(88.0)[None, None], scale_factor=120 / 88).shape
        == (1, 1, 119),
    ),
    Still(
        195851,
        "cumsum of negative zeros is positive",
        call("cumsum", lambda: t(-0.0, -0.0, 1.0), 0),
        lambda: not torch.cumsum(t(-0.0, -0.0, 1.0), 0)[0].signbit(),
    ),
    Still(
        193781,
        "the sign of maximum(0, -0) differs among whole vectors and behind them",
        call("maximum", lambda: _filled(0.0), lambda: _filled(-0.0)),
        lambda: _signs(torch.maximum(_filled(0.0), _filled(-0.0))),
    ),
    Still(
        193781,
        "the sign of minimum(0, -0) differs among whole vectors and behind them",
        call("minimum", lambda: _filled(0.0), lambda: _filled(-0.0)),
        lambda: _signs(torch.minimum(_filled(0.0), _filled(-0.0))),
    ),
)  # fmt: skip

# What is not judged as failing or known when it is handed to a run, and why.
_BOTH_INFINITE = "float64 has no finite number there either"
_ZEROS = "the sign of a zero is not compared where numbers are added or chosen"
MISSED_LATER: dict[str, str] = {
    f"187178 {F}triplet_margin_loss forward": _BOTH_INFINITE,
    "127978 addr forward": _BOTH_INFINITE,
    f"173796 {F}poisson_nll_loss forward": "complex numbers are not declared",
    "192406 expm1 backward": "torch's formula, result + 1, has this error; no other is demanded",
    "82242 logspace forward": "torch does not document how whole numbers are made of ends",
    f"96236 {F}interpolate forward": "the size is the documented floor of the product",
    "195851 cumsum forward": _ZEROS,
    "193781 maximum forward": _ZEROS,
    "193781 minimum forward": _ZEROS,
}
