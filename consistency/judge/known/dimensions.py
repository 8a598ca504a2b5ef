"""Named dimensions of operators, as in `consistency sweep`: K of a product, C of an image, N of
a row."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ... import operators
from ...core.model import Case

Shape = tuple[int, ...]


class Shapes(Protocol):
    """The part of a case that is needed here."""

    @property
    def case(self) -> Case: ...
    def shape(self, name: str) -> Shape | None: ...
    def named(self, name: str) -> Any: ...


Sizes = dict[str, int]


def _product(first: int, case: Shapes) -> Sizes:
    """a (…, M, K) @ b (…, K, N)."""
    a, b = case.shape(f"arg{first}"), case.shape(f"arg{first + 1}")
    if not a or not b:
        return {}
    return {"K": a[-1], "M": a[-2] if len(a) > 1 else 1, "N": b[-1] if len(b) > 1 else 1}


def _linear(case: Shapes) -> Sizes:
    """x (N rows, K) by W (M, K)."""
    x, w = case.shape("arg0"), case.shape("arg1")
    return {"N": math.prod(x[:-1]), "K": x[-1], "M": w[0] if len(w) > 1 else 1} if x and w else {}


def _convolution(transposed: bool, case: Shapes) -> Sizes:
    """x (N, C, H, W or fewer) by W (M, C ÷ groups, k, …), or (C, M ÷ groups, k, …); K is the
    number of terms of a sum."""
    x, w = case.shape("arg0"), case.shape("arg1")
    if not x or not w or len(w) < 3 or len(x) < len(w) - 1:
        return {}
    spatial = x[-(len(w) - 2) :]
    sizes = {"C": x[-(len(w) - 1)], "M": w[1 if transposed else 0], "k": w[-1], "W": spatial[-1]}
    sizes["K"] = math.prod(w[2:]) * w[0] if transposed else math.prod(w[1:])
    return sizes | ({"H": spatial[-2]} if len(spatial) > 1 else {})


def _reduced(case: Shapes) -> Sizes:
    """N, the number of elements per result: those along ``dim``, or all."""
    x, dim = case.shape("arg0"), case.named("dim")
    if x is None:
        return {}
    dims = (dim,) if type(dim) is int else dim if isinstance(dim, tuple) else ()
    if not all(type(d) is int and -len(x) <= d < len(x) for d in dims):
        return {}
    return {"N": math.prod(x[d] for d in dims) if dims else math.prod(x)}


def _normalized(case: Shapes) -> Sizes:
    """N, the number of elements that share a mean: the product of ``normalized_shape``."""
    x, shape = case.shape("arg0"), case.named("arg1")
    if not x or not isinstance(shape, tuple) or not all(type(size) is int for size in shape):
        return {}
    return {"N": math.prod(shape)}


def _grouped(case: Shapes) -> Sizes:
    """C channels; N elements of a group share a mean."""
    x, groups = case.shape("arg0"), case.named("arg1")
    if not x or len(x) < 2 or type(groups) is not int or groups < 1:
        return {}
    return {"C": x[1], "N": math.prod(x[1:]) // groups}


def _images(case: Shapes) -> Sizes:
    """x (N, C, …, H, W)."""
    x = case.shape("arg0")
    return (
        {"C": x[1], "W": x[-1]} | ({"H": x[-2]} if len(x) > 3 else {}) if x and len(x) > 2 else {}
    )


def _transformed(case: Shapes) -> Sizes:
    """N, the length of a Fourier transform, and P, its largest prime factor; of several
    transforms, the one with the largest P below N."""
    x, operator = case.shape("arg0"), case.case.operator
    if not x:
        return {}
    name = operator.rpartition(".")[2].removesuffix("_")
    size, dim = (
        _argument(case.case, *place)
        for place in (("s" if name[-1] in "2n" else "n", 1), ("dim", 2))
    )
    dims = (
        dim
        if isinstance(dim, tuple)
        else (dim,)
        if type(dim) is int
        else (-2, -1)
        if name.endswith("2")
        else (-1,)
    )
    if name.endswith("n") and not isinstance(dim, tuple):
        dims = tuple(range(-len(size), 0)) if isinstance(size, tuple) else tuple(range(-len(x), 0))
    if not all(type(d) is int and -len(x) <= d < len(x) for d in dims):
        return {}
    given_sizes = size if isinstance(size, tuple) else (size,) if type(size) is int else ()
    whole = [x[d] for d in dims]
    if name in _HALF_SPECTRUM and whole:
        whole[-1] = 2 * (whole[-1] - 1)
    lengths = list(given_sizes) if len(given_sizes) == len(dims) else whole
    lengths = [size if n == -1 else n for n, size in zip(lengths, whole, strict=True)]
    if not all(type(n) is int and n > 0 for n in lengths):
        return {}
    factors = [(n, _largest_prime(n)) for n in lengths]
    n, p = max(factors, key=lambda pair: (pair[0] != pair[1], pair[1]))
    return {"N": n, "P": p}


def _framed(case: Shapes) -> Sizes:
    """The same of a frame of a short-time transform."""
    n = _argument(case.case, "n_fft", 1)
    return {"N": n, "P": _largest_prime(n)} if type(n) is int and n > 0 else {}


def _argument(case: Case, name: str, position: int) -> Any:
    value = case.kwargs.get(name, case.args[position] if position < len(case.args) else None)
    return tuple(value) if isinstance(value, list) else value


_HALF_SPECTRUM = frozenset({"irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"})


@functools.lru_cache(maxsize=4096)
def _largest_prime(n: int) -> int:
    """The largest prime factor; 1 for 1."""
    largest, p = 1, 2
    while p * p <= n:
        while n % p == 0:
            largest, n = p, n // p
        p += 1
    return max(largest, n) if n > 1 else largest


_BY_NAME: Mapping[str, tuple[str, Callable[[Shapes], Sizes]]] = {
    **{
        name: ("K M N", functools.partial(_product, 0))
        for name in ("matmul", "mm", "bmm", "__rmatmul__", "dot", "vdot", "inner", "mv")
    },
    **{
        name: ("K M N", functools.partial(_product, 1))
        for name in ("addmm", "addmv", "addbmm", "baddbmm")
    },
    "nn.functional.linear": ("K M N", _linear),
    **{
        f"nn.functional.conv{d}d": ("C H K M W k", functools.partial(_convolution, False))
        for d in (1, 2, 3)
    },
    **{
        f"nn.functional.conv_transpose{d}d": ("C H K M W k", functools.partial(_convolution, True))
        for d in (1, 2, 3)
    },
    **{f"nn.functional.{name}_norm": ("N", _normalized) for name in ("layer", "rms")},
    "nn.functional.group_norm": ("C N", _grouped),
    "stft": ("N P", _framed),
}
_BY_FAMILY: Mapping[str, tuple[str, Callable[[Shapes], Sizes]]] = {
    **dict.fromkeys(("reduction", "softmax", "cumulative"), ("N", _reduced)),
    "fft": ("N P", _transformed),
    **dict.fromkeys(("pooling", "interpolate", "normalization"), ("C H W", _images)),
}
_NONE: tuple[str, Callable[[Shapes], Sizes]] = ("", lambda case: {})


@functools.lru_cache(maxsize=4096)
def _declared(operator: str) -> tuple[str, Callable[[Shapes], Sizes]]:
    if operator in _BY_NAME:
        return _BY_NAME[operator]
    known = operators.registry().get(operator)
    return (
        _BY_FAMILY.get(known.family, _NONE)
        if known is not None and known.form_of is None
        else _NONE
    )


def dimension_names(operator: str) -> tuple[str, ...]:
    """The names of an operator's dimensions, such as ``("K", "M", "N")``."""
    return tuple(_declared(operator)[0].split())


def dimensions_of(operator: str, case: Shapes) -> Sizes:
    """The named dimensions of a case; empty if there are none or its arguments do not fit."""
    return _declared(operator)[1](case)
