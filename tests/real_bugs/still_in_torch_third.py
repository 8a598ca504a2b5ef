"""Held-out reports of wrong results that torch 2.13's CPU still gives, as in ``still_in_torch.py``:
collected without a look at how inputs are drawn, nor at what is known. Of thirteen these six are
kept: four are about second derivatives, which no run computes, two need 2²⁴ addends, and one
multiplies into its own factor."""

from __future__ import annotations

import torch
import torch.nn.functional as functional
from torch import Tensor

from .still_in_torch import BF16, HALF, INF, Still
from .triggers import F, call, t

I32 = torch.int32
C128 = torch.complex128


def _pair(value: float) -> Tensor:
    return torch.full((2,), value, dtype=BF16)


def _gelu_tail() -> Tensor:
    return t(-4.0, -5.0, -5.5, -6.0, -8.0, -10.0)


def _addends() -> Tensor:
    made = torch.Generator().manual_seed(42)
    return torch.randn((2, 4, 256, 256), generator=made).to(HALF)


def _places() -> Tensor:
    return torch.arange(4).view(1, 4, 1, 1).expand(2, 4, 256, 256)


def _infinite() -> Tensor:
    return t(complex(INF, 0), complex(0, INF), complex(INF, INF), dtype=C128)


THIRD: tuple[Still, ...] = (
    # low precision
    Still(
        193754,
        "floor_divide in bfloat16 rounds the dividend less its remainder: 560 // 3 is 187",
        call("floor_divide", lambda: _pair(560.0), lambda: _pair(3.0), dtype="bfloat16"),
        lambda: bool(torch.floor_divide(_pair(560.0), _pair(3.0))[0] == 187),
    ),
    Still(
        156173,
        "index_put that accumulates in float16 rounds after each of 131072 addends",
        call(
            "index_put",
            lambda: torch.zeros(4, dtype=HALF),
            [_places()],
            _addends,
            accumulate=True,
            dtype="float16",
        ),
        lambda: bool(
            (
                torch.zeros(4, dtype=HALF).index_put([_places()], _addends(), accumulate=True)
                - _addends().double().sum((0, 2, 3))
            )
            .abs()
            .max()
            > 2
        ),
    ),
    # tails
    Still(
        187806,
        "gelu of negative numbers cancels: 57 percent too much at -5.5, and 0 at -6",
        call(F + "gelu", _gelu_tail, approximate="none"),
        lambda: bool(functional.gelu(_gelu_tail())[3] == 0),
    ),
    # intermediates that leave the format
    Still(
        171249,
        "softplus with a large beta and threshold is infinite where only the exponential is",
        call(F + "softplus", lambda: t(0.5, -1.0, 2.0), 1e30, 1e30),
        lambda: bool(functional.softplus(t(0.5, -1.0, 2.0), 1e30, 1e30)[0].isinf()),
    ),
    Still(
        141487,
        "the mean of complex infinities is NaN, though their sum is infinite",
        call("mean", _infinite, dtype="complex128"),
        lambda: bool(torch.view_as_real(torch.mean(_infinite())).isnan().all()),
    ),
    # nothing to choose from
    Still(
        95756,
        "nanmedian of no whole numbers is the least one",
        call("nanmedian", lambda: t(dtype=I32), dtype="int32"),
        lambda: bool(torch.nanmedian(t(dtype=I32)) == torch.iinfo(I32).min),
    ),
)

MISSED_THIRD: dict[str, str] = {
    "193754 floor_divide forward": "a quotient that is rounded before it is cut is admitted",
    "156173 index_put forward": "any order of the addends is admitted, each sum rounded",
    f"187806 {F}gelu forward": "1 + erf(x) may cancel, as it does in every framework",
    f"171249 {F}softplus forward": "float64 is infinite, too, and only what differs is proved",
    "141487 mean forward": "what complex infinities give is not compared",
    "95756 nanmedian forward": "the median of no whole numbers is not defined",
}
