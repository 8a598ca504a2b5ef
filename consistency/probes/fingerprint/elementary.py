"""Accuracy and implementation of elementary functions: the largest error, and a hash of all result
bits.

float32: every exponent × 2048 mantissas, and points around the functions' zeros; float16 and
bfloat16: all 65,536 numbers. Calls of one and of seven elements show whether short rows or a
vector's tail are computed differently.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator

import numpy as np
import torch

from ... import operators
from ...core.dtypes import FORMATS, NAMES
from . import samples
from .facts import Fact, unknown
from .gemm_probe import Array
from .query import Ask, NotAnswered, Words, call, doubles, from_words, words

FUNCTIONS = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos",
    "atan", "sinh", "cosh", "tanh",
    "sigmoid", "rsqrt", "erf", "lgamma", "nn.functional.gelu", "nn.functional.silu",
)  # fmt: skip
NARROW = (
    "exp",
    "log",
    "sin",
    "tanh",
    "sigmoid",
    "rsqrt",
    "erf",
    "nn.functional.gelu",
)  # for 16-bit formats, and float64
MANTISSAS = {"float32": 2048, "float64": 16}
_ALONE, _SHORT = 8, 7  # calls with one element; elements of a row too short for a vector


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``…/ulp`` (not for float64), ``…/bits`` and ``…/tail`` of each function."""
    for name in FUNCTIONS if dtype == "float32" else NARROW:
        yield from of_function(ask, name, dtype)


def of_function(ask: Ask, name: str, dtype: str) -> Iterator[Fact]:
    short = name.rpartition(".")[2]
    questions = {about: f"{short}/{dtype}/{about}" for about in ("ulp", "bits", "tail")}
    arguments = points(dtype)
    try:
        answer = ask(name, dtype, from_words(arguments, dtype))
        if answer.shape != (len(arguments),) or NAMES.get(answer.dtype) != dtype:
            raise NotAnswered(f"{name} {dtype}: {tuple(answer.shape)} {answer.dtype} came back")
        bits = words(answer)
        if dtype != "float64":
            yield _ulp(questions["ulp"], name, dtype, arguments, answer)
        digest = hashlib.sha256(_canonical_nan(answer, bits).tobytes()).hexdigest()[:10]
        yield Fact(questions["bits"], digest, f"hash of {len(arguments)} results")
        yield _tail(ask, questions["tail"], name, dtype, arguments, bits)
    except NotAnswered as reason:
        for about in ("ulp", "bits", "tail"):
            if about != "ulp" or dtype != "float64":
                yield unknown(questions[about], str(reason))


@functools.cache
def points(dtype: str) -> Words:
    """The arguments of a test, as a read-only array."""
    patterns: Words
    if dtype in ("float16", "bfloat16"):
        patterns = samples.all_of_16_bits()
    else:
        patterns = np.concatenate(
            [samples.every_exponent(dtype, MANTISSAS[dtype]), _around_zeros(dtype)]
        )
    patterns.flags.writeable = False
    return patterns


def _around_zeros(dtype: str) -> Words:
    """A few numbers on both sides of 1, 2 and of multiples of π/2."""
    centers = torch.from_numpy(np.concatenate([[1.0, 2.0], np.arange(1, 513) * (np.pi / 2)])).to(
        getattr(torch, dtype)
    )
    patterns = words(centers)
    steps = np.arange(-3, 4).astype(patterns.dtype)
    around: Words = (patterns[:, None] + steps[None]).reshape(-1)
    return around


def _canonical_nan(answer: torch.Tensor, bits: Words) -> Words:
    """Result bits with one pattern for all NaNs, whose payloads do not characterize a function."""
    canonical: Words = np.where(torch.isnan(answer).numpy(), np.iinfo(bits.dtype).max, bits).astype(
        bits.dtype
    )
    return canonical


def reference(name: str, given: torch.Tensor) -> Array:
    """The float64 result of torch on the CPU for the same numbers."""
    with torch.no_grad():
        return doubles(operators.get(name)(given.to(torch.float64)))


def errors(got: Array, wanted: Array, dtype: str) -> tuple[Array, int, int]:
    """(errors in ulp, mismatches of NaN and infinity, subnormal results flushed to 0); elements
    with such a mismatch have error 0."""
    form = FORMATS[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.maximum(np.frexp(wanted)[1] - 1, form.min_exponent)
        ulp = np.ldexp(1.0, np.where(np.isfinite(wanted), exponent, 0) - form.precision + 1)
        limit = (
            float(np.ldexp(2.0 - 2.0 ** (1 - form.precision), form.max_exponent))
            if dtype != "float64"
            else np.inf
        )
        overflows = np.abs(wanted) > limit  # rounds to infinity or to the largest number
        error = np.abs(got - wanted) / ulp
    special = (np.isnan(got) != np.isnan(wanted)) | (np.isinf(wanted) & (got != wanted))
    special |= np.isinf(got) & np.isfinite(wanted) & (np.abs(wanted) <= limit)
    flushed = (
        (got == 0.0) & (wanted != 0.0) & (np.abs(wanted) < form.smallest_normal) & (error > 1.0)
    )
    plain = ~special & ~flushed & ~overflows & np.isfinite(wanted)
    return np.where(plain, error, 0.0), int(special.sum()), int(flushed.sum())


def _ulp(question: str, name: str, dtype: str, arguments: Words, answer: torch.Tensor) -> Fact:
    tensor = from_words(arguments, dtype)
    expected = reference(name, tensor)
    error, special, flushed = errors(doubles(answer), expected, dtype)
    if 2 * special > np.count_nonzero(np.isfinite(expected)):
        return unknown(
            question, f"{special} of {len(arguments)} results are NaN or infinite, or should be"
        )
    worst = int(np.argmax(error))
    max_error = float(error[worst])
    size = (
        "correctly rounded"
        if max_error <= 0.5 + 1e-6 and not special
        else f"within {_rounded_up(max_error)} ulp"
    )
    extra = f", {special} wrong NaN or infinity" if special else ""
    extra += ", subnormal results are 0" if flushed else ""
    evidence = (
        f"{len(arguments)} numbers; {max_error:.4g} ulp at {float(tensor[worst]):.9g} "
        f"({int(arguments[worst]):#x})"
    )
    return Fact(question, size + extra, evidence, details={"ulp": f"{max_error:.6g}"})


def _rounded_up(value: float) -> str:
    """A bound with two significant digits, rounded up."""
    if value >= 100.0:
        return f"{float(f'{value * 1.05:.1e}'):.0f}" if value < 1e6 else f"{value * 1.05:.0e}"
    return (
        f"{np.ceil(value * 10.0) / 10.0:.1f}"
        if value >= 1.0
        else f"{np.ceil(value * 100.0) / 100.0:.2f}"
    )


def _tail(ask: Ask, question: str, name: str, dtype: str, arguments: Words, bits: Words) -> Fact:
    """Whether short rows give the same bits, tested at arguments whose results are finite and
    differ from the argument."""
    usable = np.flatnonzero(np.isfinite(doubles(from_words(bits, dtype))) & (bits != arguments))
    if len(usable) < _ALONE * (1 + _SHORT):
        return unknown(question, "too few of its results say anything")
    step = len(usable) // (_ALONE * (1 + _SHORT))
    chosen = usable[::step][: _ALONE * (1 + _SHORT)]
    parts = [chosen[i : i + 1] for i in range(_ALONE)] + np.split(chosen[_ALONE:], _ALONE)
    answers = ask.many([call(name, dtype, from_words(arguments[part], dtype)) for part in parts])
    got = np.concatenate([words(a).reshape(-1) for a in answers])
    differing = int((got != bits[chosen]).sum()) if got.shape == chosen.shape else len(chosen)
    text = f"{len(chosen)} numbers alone and by {_SHORT}"
    if differing:
        return Fact(
            question,
            "other bits alone and in short rows",
            f"{text}: {differing} of them differ from the same in a long row",
        )
    return Fact(question, "same bits", text, usual=True)
