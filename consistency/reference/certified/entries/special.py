"""Special functions."""

from __future__ import annotations

from typing import Any

from .. import bessel_functions as b
from .. import complex_functions as cf
from .. import complex_numbers as c
from .. import error_functions as ef
from .. import gamma_functions as g
from .. import logarithms as lg
from ..balls import Unsure
from ..elementwise import Function
from . import ENTRIES, entry

_ONE = {
    "erf": ef.erf, "erfc": ef.erfc, "special_erfcx": ef.erfcx, "erfinv": ef.erfinv,
    "special_ndtr": ef.ndtr,
    "special_ndtri": ef.ndtri, "special_log_ndtr": ef.log_ndtr, "lgamma": g.lgamma,
    "digamma": g.digamma, "i0": b.i0,
    "special_i0e": b.i0e, "special_i1": b.i1, "special_i1e": b.i1e, "special_bessel_j0": b.j0,
    "special_bessel_j1": b.j1,
    "special_bessel_y0": b.y0, "special_bessel_y1": b.y1, "special_modified_bessel_i0": b.i0,
    "special_modified_bessel_i1": b.i1,
    "special_modified_bessel_k0": b.k0, "special_modified_bessel_k1": b.k1,
    "special_scaled_modified_bessel_k0": b.k0e,
    "special_spherical_bessel_j0": b.spherical_j0, "special_airy_ai": b.airy_ai,
    "special_scaled_modified_bessel_k1": b.k1e,
    "special_entr": lg.entropy, "sinc": lg.sinc,
}  # fmt: skip


def _of_one(of: Function) -> Any:
    def one(self: Any = None, x: Any = None) -> Any:
        return of(self if self is not None else x)

    return one


for _name, _of in _ONE.items():
    ENTRIES[_name] = _of_one(_of)


@entry("polygamma")
def polygamma(n: int, self: Any) -> Any:
    return g.polygamma(n)(self)


@entry("mvlgamma")
def mvlgamma(self: Any, p: int) -> Any:
    return g.multivariate(p)(self)


@entry("special_zeta")
def zeta(self: Any, other: Any) -> Any:
    return g.zeta(self, other)


@entry("igamma", "special_gammainc")
def igamma(self: Any, other: Any) -> Any:
    return g.igamma(self, other)


@entry("igammac", "special_gammaincc")
def igammac(self: Any, other: Any) -> Any:
    return g.igammac(self, other)


@entry("logaddexp")
def logaddexp(self: Any, other: Any) -> Any:
    if c.is_complex(self) or c.is_complex(other):
        return cf.logaddexp(self, other)
    return lg.logaddexp(self, other)


@entry("logaddexp2")
def logaddexp2(self: Any, other: Any) -> Any:
    return lg.logaddexp2(self, other)


@entry("xlogy")
def xlogy(self: Any, other: Any) -> Any:
    return lg.xlogy(self, other)


@entry("special_xlog1py")
def xlog1py(self: Any, other: Any) -> Any:
    return lg.xlog1py(self, other)


@entry("logit")
def logit(self: Any, eps: float | None = None) -> Any:
    if eps is not None and not 0 <= eps <= 1:
        raise Unsure("logit between numbers outside [0, 1]")
    return lg.logit(self) if eps is None else lg.logit_between(eps)(self)
