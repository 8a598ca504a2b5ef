"""How well elementary functions are computed, and by which implementation: the largest error, and a
hash of all bits.

float32: every exponent × 2048 mantissas, and points around the function's zeros; float16 and
bfloat16: all 65,536 numbers. The same numbers one at a time tell whether a vector's tail, or a
lonely element, is computed otherwise.
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
_ALONE, _SHORT = 8, 7  # calls of one element, of so few that no vector is filled


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``…/ulp`` (not for float64), ``…/bits`` and ``…/tail`` of each function."""
    for name in FUNCTIONS if dtype == "float32" else NARROW:
        yield from of_function(ask, name, dtype)


def of_function(ask: Ask, name: str, dtype: str) -> Iterator[Fact]:
    short = name.rpartition(".")[2]
    questions = {about: f"{short}/{dtype}/{about}" for about in ("ulp", "bits", "tail")}
    given = points(dtype)
    try:
        answer = ask(name, dtype, from_words(given, dtype))
        if answer.shape != (len(given),) or NAMES.get(answer.dtype) != dtype:
            raise NotAnswered(f"{name} {dtype}: {tuple(answer.shape)} {answer.dtype} came back")
        found = words(answer)
        if dtype != "float64":
            yield _ulp(questions["ulp"], name, dtype, given, answer)
        digest = hashlib.sha256(_without_payloads(answer, found).tobytes()).hexdigest()[:10]
        yield Fact(questions["bits"], digest, f"hash of {len(given)} results")
        yield _tail(ask, questions["tail"], name, dtype, given, found)
    except NotAnswered as reason:
        for about in ("ulp", "bits", "tail"):
            if about != "ulp" or dtype != "float64":
                yield unknown(questions[about], str(reason))


@functools.cache
def points(dtype: str) -> Words:
    """The numbers that are asked for; read-only."""
    found: Words
    if dtype in ("float16", "bfloat16"):
        found = samples.all_of_16_bits()
    else:
        found = np.concatenate(
            [samples.every_exponent(dtype, MANTISSAS[dtype]), _around_zeros(dtype)]
        )
    found.flags.writeable = False
    return found


def _around_zeros(dtype: str) -> Words:
    """A few numbers on both sides of 1, 2 and of multiples of π/2."""
    centers = torch.from_numpy(np.concatenate([[1.0, 2.0], np.arange(1, 513) * (np.pi / 2)])).to(
        getattr(torch, dtype)
    )
    patterns = words(centers)
    steps = np.arange(-3, 4).astype(patterns.dtype)
    around: Words = (patterns[:, None] + steps[None]).reshape(-1)
    return around


def _without_payloads(answer: torch.Tensor, found: Words) -> Words:
    """NaN is one value: which of its many patterns comes back says nothing about a function."""
    plain: Words = np.where(torch.isnan(answer).numpy(), np.iinfo(found.dtype).max, found).astype(
        found.dtype
    )
    return plain


def reference(name: str, given: torch.Tensor) -> Array:
    """float64, by torch on the CPU, of the same numbers."""
    with torch.no_grad():
        return doubles(operators.get(name)(given.to(torch.float64)))


def errors(got: Array, wanted: Array, dtype: str) -> tuple[Array, int, int]:
    """(errors in ulp, mismatches of NaN and infinity, subnormal results that are 0); what is not
    counted as an error has 0."""
    form = FORMATS[dtype]
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.maximum(np.frexp(wanted)[1] - 1, form.min_exponent)
        ulp = np.ldexp(1.0, np.where(np.isfinite(wanted), exponent, 0) - form.precision + 1)
        limit = (
            float(np.ldexp(2.0 - 2.0 ** (1 - form.precision), form.max_exponent))
            if dtype != "float64"
            else np.inf
        )
        overflows = (
            np.abs(wanted) > limit
        )  # both infinity and the largest number lie beside such a value
        error = np.abs(got - wanted) / ulp
    special = (np.isnan(got) != np.isnan(wanted)) | (np.isinf(wanted) & (got != wanted))
    special |= np.isinf(got) & np.isfinite(wanted) & (np.abs(wanted) <= limit)
    flushed = (
        (got == 0.0) & (wanted != 0.0) & (np.abs(wanted) < form.smallest_normal) & (error > 1.0)
    )
    plain = ~special & ~flushed & ~overflows & np.isfinite(wanted)
    return np.where(plain, error, 0.0), int(special.sum()), int(flushed.sum())


def _ulp(question: str, name: str, dtype: str, given: Words, answer: torch.Tensor) -> Fact:
    tensor = from_words(given, dtype)
    wanted = reference(name, tensor)
    error, special, flushed = errors(doubles(answer), wanted, dtype)
    if 2 * special > np.count_nonzero(np.isfinite(wanted)):
        return unknown(
            question, f"{special} of {len(given)} results are NaN or infinite, or should be"
        )
    where = int(np.argmax(error))
    most = float(error[where])
    size = "correctly rounded" if most <= 0.5 + 1e-6 and not special else f"within {_up(most)} ulp"
    extra = f", {special} wrong NaN or infinity" if special else ""
    extra += ", subnormal results are 0" if flushed else ""
    evidence = (
        f"{len(given)} numbers; {most:.4g} ulp at {float(tensor[where]):.9g} "
        f"({int(given[where]):#x})"
    )
    return Fact(question, size + extra, evidence, details={"ulp": f"{most:.6g}"})


def _up(value: float) -> str:
    """A bound with two significant digits, rounded up."""
    if value >= 100.0:
        return f"{float(f'{value * 1.05:.1e}'):.0f}" if value < 1e6 else f"{value * 1.05:.0e}"
    return (
        f"{np.ceil(value * 10.0) / 10.0:.1f}"
        if value >= 1.0
        else f"{np.ceil(value * 100.0) / 100.0:.2f}"
    )


def _tail(ask: Ask, question: str, name: str, dtype: str, given: Words, found: Words) -> Fact:
    """Numbers spread over those whose results are neither NaN nor infinite nor the number
    itself."""
    telling = np.flatnonzero(np.isfinite(doubles(from_words(found, dtype))) & (found != given))
    if len(telling) < _ALONE * (1 + _SHORT):
        return unknown(question, "too few of its results say anything")
    step = len(telling) // (_ALONE * (1 + _SHORT))
    chosen = telling[::step][: _ALONE * (1 + _SHORT)]
    parts = [chosen[i : i + 1] for i in range(_ALONE)] + np.split(chosen[_ALONE:], _ALONE)
    answers = ask.many([call(name, dtype, from_words(given[part], dtype)) for part in parts])
    got = np.concatenate([words(a).reshape(-1) for a in answers])
    other = int((got != found[chosen]).sum()) if got.shape == chosen.shape else len(chosen)
    text = f"{len(chosen)} numbers alone and by {_SHORT}"
    if other:
        return Fact(
            question,
            "other bits alone and in short rows",
            f"{text}: {other} of them differ from the same in a long row",
        )
    return Fact(question, "same bits", text, usual=True)
