"""Whether float64 and int64 are what they are called: some devices compute float64 in float32, int64 in int32 or in floats."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from .asking import Ask, NotAnswered, Request, call, doubles
from .facts import Fact, unknown

_FULL = 53
# To 53 bits, from 60-digit arithmetic: the function, its argument, the result.
_KNOWN = (
    ("exp", 1.375, "0x1.fa3ff43d0eaf9p+1"),
    ("log", 2.75, "0x1.02f84700434a8p+0"),
    ("sin", 2.125, "0x1.b35d1d90d2dd6p-1"),
    ("tanh", 0.625, "0x1.1bf47eabb8f95p-1"),
    ("erf", 0.625, "0x1.3f196dcd0f135p-1"),
)


def facts(ask: Ask) -> Iterator[Fact]:
    """``add/float64/width`` and so on for float64; ``add/int64/width`` and so on for int64."""
    yield from _arithmetic(ask)
    yield from _functions(ask)
    yield from _integers(ask)


def _arithmetic(ask: Ask) -> Iterator[Fact]:
    """1 + 2^-p through operators that only have to keep it."""
    p = np.arange(1, _FULL)
    exact = 1.0 + 2.0**-p
    x, one, tiny = torch.from_numpy(exact), torch.ones(len(p), dtype=torch.float64), torch.from_numpy(2.0**-p)
    asked = {
        "add": call("add", "float64", one, tiny), "mul": call("mul", "float64", x, one), "div": call("div", "float64", x, one),
        "sqrt": call("sqrt", "float64", torch.from_numpy(exact)), "sum": call("sum", "float64", torch.stack([one, tiny]), 0),
        "mean": call("mean", "float64", torch.stack([x, x]), 0), "cumsum": call("cumsum", "float64", torch.stack([one, tiny]), 0),
        "maximum": call("maximum", "float64", x, one), "neg": call("neg", "float64", x),
    }  # fmt: skip
    for name, request in asked.items():
        question = f"{name}/float64/width"
        try:
            got = doubles(ask(request.operator, request.dtype, *request.args))
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        got = got[-1] if got.ndim == 2 else np.abs(got)
        # A root of 1 + 2^-p has its own bits; what is asked is how many agree.
        wanted = np.sqrt(exact) if name == "sqrt" else exact
        wrong = np.abs(got - wanted) > (2.0**-51 if name == "sqrt" else 0.0)
        bits = _FULL if not wrong.any() else int(p[np.argmax(wrong)])
        yield _width(question, bits, f"1 + 2^-p, p = 1 … {_FULL - 1}")


def _functions(ask: Ask) -> Iterator[Fact]:
    for name, argument, text in _KNOWN:
        question, wanted = f"{name}/float64/width", float.fromhex(text)
        try:
            got = float(doubles(ask(name, "float64", torch.full((5,), argument, dtype=torch.float64)))[0])
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        error = abs(got - wanted) / abs(wanted)
        bits = _FULL if error < 2.0**-50 else int(-np.log2(error)) if 0.0 < error < 1.0 else 0
        yield _width(question, bits, f"{name}({argument}) = {got!r}; {wanted!r} is right")


def _width(question: str, bits: int, evidence: str) -> Fact:
    if bits >= _FULL:
        return Fact(question, f"{_FULL} bits", evidence, usual=True)
    return Fact(question, "float32" if 22 <= bits <= 25 else f"{bits} bits", evidence)


def _integers(ask: Ask) -> Iterator[Fact]:
    big, wide = 2**53 + 1, 2**31 + 1

    def ints(*values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64)

    asked: dict[str, tuple[Request, list[int]]] = {
        "add": (call("add", "int64", ints(2**53, 2**31, 2**63 - 1), ints(1, 1, 1)), [big, wide, -(2**63)]),
        "mul": (call("mul", "int64", ints(3037000499, big, 2**32 + 1), ints(3037000499, 3, 2**32 + 1)),
                [3037000499**2, 3 * big, 2**33 + 1]),
        "floor_divide": (call("floor_divide", "int64", ints(3 * big, -7, 2**62 + 1), ints(3, 2, 1)), [big, -4, 2**62 + 1]),
        "remainder": (call("remainder", "int64", ints(big, -7, 2**62 + 1), ints(2, 3, 2**31)), [1, 2, 1]),
        "sum": (call("sum", "int64", ints(2**53, 1, 0, 0)), [big]),
        "maximum": (call("maximum", "int64", ints(big, wide), ints(2**53, 2**31)), [big, wide]),
        "sort": (call("sort", "int64", ints(big, 2**53, wide, 2**31)), [2**31, wide, 2**53, big]),
        "cumsum": (call("cumsum", "int64", ints(2**53, 1, 1), 0), [2**53, big, big + 1]),
        "lt": (call("lt", "int64", ints(2**53, 2**31, 0), ints(big, wide, 2**32)), [1, 1, 1]),
        "abs": (call("abs", "int64", ints(-big, -wide)), [big, wide]),
    }  # fmt: skip
    for name, (request, wanted) in asked.items():
        question = f"{name}/int64/width"
        try:
            found = ask(request.operator, request.dtype, *request.args)
            got = [int(v) for v in found.reshape(-1).to(torch.int64)] if not found.is_floating_point() else None
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        yield _integer(question, got, wanted, str(found.dtype).removeprefix("torch."))


def _integer(question: str, got: list[int] | None, wanted: list[int], dtype: str) -> Fact:
    if got is None:
        return Fact(question, f"{dtype} comes back")
    evidence = f"{', '.join(map(str, got[:4]))} for {', '.join(map(str, wanted[:4]))}"
    if got == wanted:
        return Fact(question, "64 bits", evidence, usual=True)
    by_name = {"int32": [_wrapped(v) for v in wanted], "float64": [_limited(float(v)) for v in wanted],
               "float32": [_limited(float(np.float32(v))) for v in wanted]}  # fmt: skip
    for name, values in by_name.items():
        # Of a result beyond a float's reach each conversion makes its own integer: only the others are held against it.
        pairs = [(g, v) for g, v, w in zip(got, values, wanted, strict=True) if name == "int32" or abs(w) < 2**62]
        if len(got) == len(wanted) and pairs and all(g == v for g, v in pairs):
            return Fact(question, name, evidence)
    return Fact(question, "not 64 bits", evidence)


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _limited(value: float) -> int:
    return int(min(max(value, -(2.0**63)), 2.0**63 - 1024))
