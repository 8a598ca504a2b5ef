"""Whether products are rounded before they are added, in sums of products and in x·y + z.

(1+2^-p)(1+2^-q) − 1 − 2^-p − 2^-q is 2^-(p+q) without rounding. With p + q beyond the format's
bits a rounded product gives 0; an exact one gives 2^-(p+q) if it is added last, to the same running
sum, so the order and the distance of the four terms vary. Rounding is reported only if a positive
control shows that an exact product would have been visible.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ...core.dtypes import FORMATS
from .controls import joins
from .facts import Fact, unknown
from .gemm_probe import EVEN, Array, GemmProbe
from .query import Ask, NotAnswered, Request, call, doubles, numbers

_STEPS = {
    "float32": (9, 10, 12, 13),
    "float64": (24, 25, 27, 28),
    "float16": (4, 5, 6, 7),
    "bfloat16": (2, 3, 4, 5),
}
_STRIDES = (1, 2, 4, 8, 16, 32, 64)
_SLOTS = 4


def products(ask: Ask, form: str, dtype: str, factor: Fact | None) -> Iterator[Fact]:
    """``…/products``; ``factor`` is the fact on the multiplicand, which limits the factors."""
    question, steps = f"{form}/{dtype}/products", _STEPS[dtype]
    bits = int(factor.details.get("bits", "0")) if factor is not None and factor.known else 0
    if not bits:
        yield unknown(question, "how many bits of a factor are read is not known")
        return
    if bits <= steps[-1] and "in parts" not in (factor.answer if factor is not None else ""):
        yield unknown(question, f"of factors of {bits} bits every product is exact in float32")
        return
    bench = GemmProbe(ask, form, dtype, EVEN)
    try:
        yield _judged(question, bench, _grid(bench, steps), steps)
    except NotAnswered as reason:
        yield unknown(question, str(reason))


def _judged(question: str, bench: GemmProbe, results: Array, steps: tuple[int, ...]) -> Fact:
    """The fact for results [R, P, Q] of all arrangements, in units of the exact result. Raises
    NotAnswered."""
    full = FORMATS[bench.dtype].precision
    total = np.add.outer(np.array(steps), np.array(steps))
    exact, none = (results == 1.0).any(axis=0), (results == 0.0).all(axis=0)
    inside, beyond = total < full, total >= full
    text = (
        f"(1+2^-p)(1+2^-q) − 1 − 2^-p − 2^-q, p, q in {', '.join(map(str, steps))}, "
        f"{len(results)} arrangements of the four terms"
    )
    if exact.all():
        return Fact(
            question,
            "exact",
            f"{text}: all exact in at least one (as with FMA, or a wider sum)",
            usual=True,
        )
    if exact[inside].all() and not exact[beyond].any():
        text = f"{text}: exact up to p + q = {full - 1}, in none beyond"
        if not joins(bench, _arrangements()):
            return unknown(
                question,
                (
                    "in none of the arrangements is it sure that the product joins the sum of the "
                    "others"
                ),
                text,
            )
        return Fact(
            question,
            f"rounded to {full} bits",
            f"{text}, though the product itself joins the sum of the others",
        )
    max_total = int(total[exact].max()) if exact.any() else 0
    if (
        max_total >= full and exact[total <= max_total].all()
    ):  # smaller results exceed the accumulator
        return Fact(
            question,
            f"exact down to 2^-{max_total}",
            f"{text}: the sum has no room for what lies deeper",
        )
    if none[inside].any() and (exact | none)[inside].all():
        if not _sum_has_room(bench, total[inside]):
            return unknown(
                question, "the sum has no room for what an exact product would show", text
            )
        min_exponent = min(max(p, q) for p, q, is_zero in _pairs(steps, none & inside) if is_zero)
        return Fact(
            question,
            "those of low parts are left out",
            f"{text}: 0 from p = q = {min_exponent} on, where the sum has room for it",
        )
    return unknown(
        question,
        "exact for some and not for others",
        f"{text}: exact for {int(exact.sum())} of {exact.size} pairs",
    )


def _pairs(
    steps: tuple[int, ...], mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
) -> Iterator[tuple[int, int, bool]]:
    for i, p in enumerate(steps):
        for j, q in enumerate(steps):
            yield p, q, bool(mask[i, j])


def _arrangements() -> list[tuple[int, ...]]:
    """Positions of the four terms, for each distance and rotation."""
    places = [[3 + stride * i for i in range(_SLOTS)] for stride in _STRIDES]
    return [
        tuple(row[(i + turn) % _SLOTS] for i in range(_SLOTS))
        for row in places
        for turn in range(_SLOTS)
    ]


def _sum_has_room(bench: GemmProbe, depths: Array) -> bool:
    """Whether 1 + 2^-d − 1 is 2^-d in every arrangement, so that the accumulator can hold the
    result of an exact product."""
    tiny = 2.0 ** -np.unique(depths).astype(float)
    ones = np.ones_like(tiny)
    left = np.stack([ones, tiny, -ones, np.zeros_like(tiny)], axis=1)
    return bool((_rotated(bench, left, np.ones((1, _SLOTS)))[:, :, 0] == tiny).all())


def _grid(bench: GemmProbe, steps: tuple[int, ...]) -> Array:
    tiny = 2.0 ** -np.array(steps, dtype=float)
    ones = np.ones_like(tiny)
    left = np.stack([1.0 + tiny, -ones, -tiny, -ones], axis=1)
    right = np.stack([1.0 + tiny, ones, ones, tiny], axis=1)
    return _rotated(bench, left, right) / np.multiply.outer(tiny, tiny)


def _rotated(bench: GemmProbe, left: Array, right: Array) -> Array:
    """Sums of products of the rows (P, 4) and (Q, 4) in every arrangement: (R, P, Q)."""
    arrangements, k = _arrangements(), bench.shape.k
    together = max(1, min(bench.shape.m // len(left), bench.shape.n // len(right)))
    results: list[Array] = []
    for start in range(0, len(arrangements), together):
        chosen = arrangements[start : start + together]
        a, b = (np.zeros((len(chosen), len(rows), k)) for rows in (left, right))
        for i, slots in enumerate(chosen):
            a[i][:, slots], b[i][:, slots] = left, right
        got = bench.grid(a.reshape(-1, k), b.reshape(-1, k)).reshape(
            len(chosen), len(left), len(chosen), len(right)
        )
        results += [got[i, :, i] for i in range(len(chosen))]
    return np.stack(results)


def fused(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``addcmul/…/fma`` and, for float32 and float64, ``complex-mul/…/fma``: fused, separate, or
    different in the vector's tail."""
    half = {"float32": 12, "float64": 27, "float16": 6, "bfloat16": 4}[dtype]
    x, z = 1.0 + 2.0**-half, -(1.0 + 2.0 ** (1 - half))

    def sums(z: float) -> list[Request]:
        return [
            call("addcmul", dtype, *(numbers(np.full(n, v), dtype) for v in (z, x, x)))
            for n in _LENGTHS
        ]

    def complex_products(z: float) -> list[Request]:
        kind = {"float32": torch.complex64, "float64": torch.complex128}[dtype]
        pairs = [
            [torch.tensor(v, dtype=kind).repeat(n) for v in (complex(x, 1.0), complex(x, -z))]
            for n in _LENGTHS
        ]
        return [call("mul", str(kind).removeprefix("torch."), *pair) for pair in pairs]

    text = f"(1+2^-{half})² − (1+2^-{half - 1}), {' and '.join(map(str, _LENGTHS))} elements"
    yield _fusion(ask, f"addcmul/{dtype}/fma", sums(z), sums(z + 1.0), 2.0 ** (-2 * half), text)
    if dtype in ("float32", "float64"):
        yield _fusion(
            ask,
            f"complex-mul/{dtype}/fma",
            complex_products(z),
            complex_products(z + 1.0),
            2.0 ** (-2 * half),
            text,
        )


_LENGTHS = (1, 67)


def _real(answer: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(answer)[..., 0] if answer.is_complex() else answer


def _fusion(
    ask: Ask,
    question: str,
    test_calls: list[Request],
    control: list[Request],
    exact: float,
    text: str,
) -> Fact:
    """``control`` is the same call with z + 1, whose result must be 1 either way: zeros alone prove
    nothing."""
    try:
        results, controls = (
            [doubles(_real(a)) for a in ask.many(requests)] for requests in (test_calls, control)
        )
    except NotAnswered as reason:
        return unknown(question, str(reason))
    if any((s != 1.0).any() for s in controls):
        return unknown(
            question,
            (
                "the same with 1 more gives "
                f"{float(next(s for s in controls if (s != 1.0).any())[0])!r}, not 1"
            ),
            text,
        )
    results = [s / exact for s in results]
    if any(not np.isin(s, (0.0, 1.0)).all() for s in results):
        return unknown(
            question, f"neither 0 nor the exact result: {results[0].reshape(-1)[0] * exact!r}", text
        )
    kinds = [{0.0: "separate", 1.0: "fused"}[float(v)] for v in (results[0][0], results[1][0])]
    if (results[1] != results[1][0]).any():
        return Fact(
            question,
            "fused in vectors, separate in their tail"
            if results[1][0]
            else "separate in vectors, fused in their tail",
            text,
        )
    return Fact(
        question, kinds[0] if kinds[0] == kinds[1] else f"{kinds[1]}; {kinds[0]} alone", text
    )
