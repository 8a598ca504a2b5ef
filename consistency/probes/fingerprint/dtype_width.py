"""Whether float64 and int64 have full width: some devices compute float64 in float32, and int64 in
int32 or in floating point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import numpy as np
import torch

from .facts import Fact, unknown
from .gemm_probe import Array
from .query import Ask, NotAnswered, Request, call, doubles

Rounds = Callable[[int | Fraction], int]  # rounds a value to an integer of a format
Model = Callable[[Rounds], list[int]]

_FULL = 53
# Function, argument, and result rounded to 53 bits from 60-digit arithmetic.
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
    """1 + 2^-p through operators that should return it unchanged."""
    p = np.arange(1, _FULL)
    exact = 1.0 + 2.0**-p
    x, one, tiny = (
        torch.from_numpy(exact),
        torch.ones(len(p), dtype=torch.float64),
        torch.from_numpy(2.0**-p),
    )
    requests = {
        "add": call("add", "float64", one, tiny), "mul": call("mul", "float64", x, one),
        "div": call("div", "float64", x, one),
        "sqrt": call("sqrt", "float64", torch.from_numpy(exact)), "sum": call("sum", "float64",
        torch.stack([one, tiny]), 0),
        "mean": call("mean", "float64", torch.stack([x, x]), 0), "cumsum": call("cumsum", "float64",
        torch.stack([one, tiny]), 0),
        "maximum": call("maximum", "float64", x, one), "neg": call("neg", "float64", x),
    }  # fmt: skip
    for name, request in requests.items():
        question = f"{name}/float64/width"
        try:
            got = doubles(ask(request.operator, request.dtype, *request.args))
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        got = got[-1] if got.ndim == 2 else np.abs(got)
        # The root's bits differ from the argument's, so a relative error is allowed.
        expected = np.asarray(np.sqrt(exact) if name == "sqrt" else exact, dtype=np.float64)
        yield _width(
            question,
            got,
            expected,
            2.0**-51 if name == "sqrt" else 0.0,
            f"1 + 2^-p, p = 1 … {_FULL - 1}",
        )


def _functions(ask: Ask) -> Iterator[Fact]:
    for name, argument, text in _KNOWN:
        question, expected = f"{name}/float64/width", float.fromhex(text)
        try:
            answer = ask(name, "float64", torch.full((5,), argument, dtype=torch.float64))
            if answer.dtype != torch.float64 or answer.shape != (5,):
                raise NotAnswered(f"{name} float64: {tuple(answer.shape)} {answer.dtype} came back")
            got = float(doubles(answer)[0])
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        evidence = f"{name}({argument}) = {got!r}; {expected!r} is right"
        yield _width(question, np.array([got]), np.array([expected]), 2.0**-50, evidence)


def _width(question: str, got: Array, expected: Array, allowed: float, evidence: str) -> Fact:
    """The fact of one operator; float32 requires that all results are numbers of that format."""
    if got.shape != expected.shape or not np.isfinite(got).all():
        return unknown(question, "what came back are no such numbers", evidence)
    error = float((np.abs(got - expected) / expected).max())
    if error <= allowed:
        return Fact(question, f"{_FULL} bits", evidence, usual=True)
    if (got.astype(np.float32).astype(np.float64) == got).all() and error < 2.0**-20:
        return Fact(question, "float32", evidence)
    return Fact(question, f"an error of 2^{np.log2(error):.0f}", evidence)


def _integers(ask: Ask) -> Iterator[Fact]:
    big, wide = 2**53 + 1, 2**31 + 1

    def ints(*values: int) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.int64)

    rows = ints(2**53, 1, 0, 0, 2**31, 1, 0, 0).reshape(2, 4)
    tests: dict[str, tuple[Request, Model]] = {
        "add": (call("add", "int64", ints(2**53, 2**31, 2**63 - 1), ints(1, 1, 1)),
                lambda r: [r(r(2**53) + r(1)), r(r(2**31) + r(1)), r(r(2**63 - 1) + r(1))]),
        "mul": (call("mul", "int64", ints(3037000499, big), ints(3037000499, 3)),
                lambda r: [r(r(3037000499) ** 2), r(r(big) * r(3))]),
        "floor_divide": (call("floor_divide", "int64", ints(3 * big, -7), ints(3, 2)),
                         lambda r: [r(Fraction(r(3 * big), 3)), -4]),
        "remainder": (call("remainder", "int64", ints(big, -7, wide), ints(3, 3, 3)),
                      lambda r: [r(big) % 3, 2, r(wide) % 3]),
        "sum": (call("sum", "int64", rows, 1), lambda r: [r(r(2**53) + 1), r(r(2**31) + 1)]),
        "maximum": (call("maximum", "int64", ints(big, wide), ints(2**53, 2**31)),
                    lambda r: [max(r(big), r(2**53)), max(r(wide), r(2**31))]),
        "sort": (call("sort", "int64", ints(big, 2**53, wide, 2**31)), lambda r: sorted([r(big),
        r(2**53), r(wide), r(2**31)])),
        "cumsum": (call("cumsum", "int64", ints(2**31, 1, 2**53), 0),
                   lambda r: [r(2**31), r(r(2**31) + 1), r(r(r(2**31) + 1) + r(2**53))]),
        "lt": (call("lt", "int64", ints(2**53, 2**31, 0), ints(big, wide, 2**32)),
               lambda r: [int(r(2**53) < r(big)), int(r(2**31) < r(wide)), int(r(0) < r(2**32))]),
        "abs": (call("abs", "int64", ints(-big, -wide)), lambda r: [r(abs(r(-big))),
        r(abs(r(-wide)))]),
    }  # fmt: skip
    for name, (request, model) in tests.items():
        question = f"{name}/int64/width"
        try:
            result = ask(request.operator, request.dtype, *request.args)
        except NotAnswered as reason:
            yield unknown(question, str(reason))
            continue
        if result.is_floating_point() or result.is_complex():
            yield Fact(question, f"{str(result.dtype).removeprefix('torch.')} comes back")
        else:
            yield _integer(question, [int(v) for v in result.reshape(-1)], model)


def _integer(question: str, got: list[int], model: Model) -> Fact:
    """The fact of one integer operator; a format is named only if no other gives these results."""
    results = {name: model(rounds) for name, rounds in _FORMATS.items()}
    expected = results.pop("64 bits")
    evidence = f"{', '.join(map(str, got[:4]))} for {', '.join(map(str, expected))}"
    if got == expected:
        return Fact(question, "64 bits", evidence, usual=True)
    if len(got) != len(expected):
        return unknown(question, "what came back are no such numbers", evidence)
    # The conversion of floats outside the range of int64 is implementation-defined.
    fitting = [
        name
        for name, predicted in results.items()
        if all(g == v or abs(v) >= 2**63 for g, v in zip(got, predicted, strict=True))
    ]
    return Fact(question, fitting[0] if len(fitting) == 1 else "not 64 bits", evidence)


def _wrapped(bits: int) -> Rounds:
    return lambda value: (int(value) + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


_FORMATS: dict[str, Rounds] = {
    "64 bits": _wrapped(64), "int32": _wrapped(32), "float64": lambda value: int(float(value)),
    "float32": lambda value: int(np.float32(float(value))),
}  # fmt: skip
