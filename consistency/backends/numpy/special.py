"""Special functions through the C library's erf and erfc, which Python's math module exposes in
double.

Within an ulp or two of float64, from which other dtypes are rounded; but not in long double, hence
not WIDE. (math.lgamma is Python's own, and near its zeros at 1 and 2 has an error of 60 ulp and
more: so no lgamma here.)
"""

import math
from collections.abc import Callable

import numpy as np

from consistency.backends.numpy.dtypes import Array, floating
from consistency.backends.numpy.implementations import implements


def _elementwise(function: Callable[[float], float]) -> Callable[[Array], Array]:
    by_element = np.frompyfunc(function, 1, 1)

    def call(x: Array) -> Array:
        return np.asarray(by_element(x.astype(np.float64))).astype(x.dtype)

    return call


erf = _elementwise(math.erf)
erfc = _elementwise(math.erfc)
# 1 + erf would cancel in the lower tail; this only magnifies the rounding of x/√2 there, by x².
normal_cdf = _elementwise(lambda x: math.erfc(-x * math.sqrt(0.5)) / 2)


def _entropy(x: Array) -> Array:
    return np.where(x == 0, 0, np.where(x < 0, -np.inf, -x * np.log(x)))


_TABLE: dict[str, Callable[[Array], Array]] = {
    "erf": erf,
    "erfc": erfc,
    "special.ndtr": normal_cdf,
}


def _offer(name: str, function: Callable[[Array], Array], wide: bool = False) -> None:
    @implements(name, wide=wide, pointwise=True)
    def call(input: Array) -> Array:
        return function(floating(input))


for _name, _function in _TABLE.items():
    _offer(_name, _function)
_offer("special.entr", _entropy, wide=True)
