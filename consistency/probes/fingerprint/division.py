"""Whether quotients and square roots are correctly rounded, as IEEE 754 requires."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ...core.dtypes import FORMATS
from . import samples
from .exact_pairs import two_product
from .facts import Fact, unknown
from .gemm_probe import Array
from .query import Ask, NotAnswered, Request, call, doubles, from_words

COUNT = 1 << 16
_DIVISOR = 3.0


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``div``, ``div-by-number`` (a Python number), ``reciprocal``, ``sqrt`` and ``rsqrt``."""
    spread = 3 if dtype == "float16" else 20
    x, y = (
        doubles(from_words(samples.between(dtype, COUNT, -spread, spread, turn), dtype))
        for turn in (0, 1)
    )
    a, b = (torch.from_numpy(v).to(_torch(dtype)) for v in (x, y))
    requests: dict[str, tuple[Request, Array, Array, str]] = {
        "div": (call("div", dtype, a, b), x, y, "quotient"),
        "div-by-number": (call("div", dtype, a, _DIVISOR), x, np.full(COUNT, _DIVISOR), "quotient"),
        "reciprocal": (call("reciprocal", dtype, b), np.ones(COUNT), y, "quotient"),
        "sqrt": (call("sqrt", dtype, a), x, x, "root"),
    }
    for name, (request, top, bottom, kind) in requests.items():
        yield _fact(ask, f"{name}/{dtype}/rounding", request, top, bottom, kind)


def _torch(dtype: str) -> torch.dtype:
    return getattr(torch, dtype)  # type: ignore[no-any-return]


def _fact(ask: Ask, question: str, request: Request, top: Array, bottom: Array, kind: str) -> Fact:
    try:
        got = doubles(ask(request.operator, request.dtype, *request.args))
    except NotAnswered as reason:
        return unknown(question, str(reason))
    bits = FORMATS[request.dtype].precision
    if not np.isfinite(got).all() or (got <= 0).any():
        return unknown(
            question,
            (
                "of positive numbers that are neither large nor small, not all results are "
                "positive and finite"
            ),
        )
    error = _errors(got, top, bottom, kind, bits)
    wrong = error > 0.5
    if not wrong.any():
        return Fact(
            question,
            "correctly rounded",
            f"{len(got)} random numbers, at most {error.max():.4f} ulp",
            usual=True,
        )
    share = 100.0 * float(wrong.mean())
    answer = f"within {_rounded_up(float(error.max()))} ulp"
    return Fact(
        question,
        answer,
        (
            f"{share:.2g}% of {len(got)} random numbers are not correctly rounded, by up to "
            f"{error.max():.4f} ulp"
        ),
    )


def _rounded_up(value: float) -> str:
    """A bound with one decimal digit, rounded up."""
    return f"{np.ceil(value * 10.0) / 10.0:.1f}"


def _errors(got: Array, top: Array, bottom: Array, kind: str, bits: int) -> Array:
    """Errors in ulp, from residuals with a relative error of 2^-100: top − got · bottom, or
    top − got²."""
    ulp = np.ldexp(1.0, np.frexp(got)[1] - bits)
    factor = bottom if kind == "quotient" else got
    high, low = two_product(got, factor)
    residual = (top - high) - low
    slope = np.abs(bottom) if kind == "quotient" else 2.0 * got
    error = np.abs(residual) / slope / ulp
    # The second-order term of a root's residual could decide only a tie, and no root is a tie.
    return np.where(np.abs(error - 0.5) < 1e-12, 0.5, error)
