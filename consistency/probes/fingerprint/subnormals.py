"""Which operators take numbers below the smallest normal one for zero, as inputs (DAZ) and as
results (FTZ).

Everything is given and compared as bit patterns: a process that flushes would flush its own
comparison, too. One element, a vector with a tail, and enough elements for several threads are
asked: a mode may be set in one thread and not in the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch

from ...core.dtypes import FORMATS, TORCH
from .facts import Fact, unknown
from .gemm_probe import OPERATORS, request, result
from .query import Ask, NotAnswered, Request, Words, call, from_words, words

LENGTHS = (1, 33, 1 << 17)
_RETURNED = (*(TORCH[name] for name in FORMATS), torch.bool)
_SIDE = 48  # matrices of this size
CONTROL = "control"


@dataclass(frozen=True)
class Numbers:
    """Bit patterns of a format: 1, the smallest normal number ``t``, and ways to scale it."""

    dtype: str

    @property
    def mantissa(self) -> int:
        return FORMATS[self.dtype].precision - 1

    @property
    def normal(self) -> int:
        """The smallest normal number."""
        return 1 << self.mantissa

    def scaled(self, power: int) -> int:
        """t · 2^power; a subnormal number for a negative power."""
        return (1 + power) << self.mantissa if power >= 0 else self.normal >> -power

    def power(self, exponent: int) -> int:
        """2^exponent, a normal number."""
        return (exponent - FORMATS[self.dtype].min_exponent + 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (TORCH[self.dtype].itemsize * 8 - 1)


@dataclass(frozen=True)
class Test:
    """One call: what it is given, and the bits that come back where subnormals are kept, or taken
    for zero."""

    # inputs, results, numbers; CONTROL: normal numbers, which have to come back before anything is
    # called flushed
    kind: str
    make: Callable[[int], Request]
    kept: int
    flushed: tuple[int, ...]
    finish: Callable[[torch.Tensor], torch.Tensor] = lambda answer: answer
    lengths: tuple[int, ...] = LENGTHS


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``OPERATOR/DTYPE/subnormals`` for each operator that can tell."""
    for name, tests in _tests(dtype).items():
        yield _fact(ask, f"{name}/{dtype}/subnormals", tests)


def _fact(ask: Ask, question: str, tests: list[Test]) -> Fact:
    try:
        seen = {test.kind: _seen(ask, test) for test in tests if test.kind != CONTROL}
        if any(what not in ("kept", "other") for found in seen.values() for what in found.values()):
            for test in tests:
                if test.kind == CONTROL and set(_seen(ask, test).values()) != {"kept"}:
                    return unknown(question, "normal numbers do not come back either")
    except NotAnswered as reason:
        return unknown(question, str(reason))
    evidence = "; ".join(
        f"{kind}: {', '.join(f'{n} {what}' for n, what in found.items())}"
        for kind, found in seen.items()
    )
    if any(what.startswith("other") for found in seen.values() for what in found.values()):
        return unknown(question, "neither the number nor zero came back", evidence)
    flushing = {
        kind: [n for n, what in found.items() if what != "kept"] for kind, found in seen.items()
    }
    partly = any(what == "some" for found in seen.values() for what in found.values())
    kinds = [kind for kind, lengths in flushing.items() if lengths]
    if not kinds:
        return Fact(
            question,
            "kept",
            f"{', '.join(seen)}; n = {', '.join(map(str, next(iter(seen.values()))))}",
            usual=True,
        )
    whole = not partly and all(len(flushing[kind]) == len(seen[kind]) for kind in kinds)
    answer = f"{' and '.join(kinds)} flushed"
    return Fact(question, answer if whole else f"{answer}, not everywhere", evidence)


def _seen(ask: Ask, test: Test) -> dict[int, str]:
    """What becomes of the numbers, by how many there are."""
    answers = ask.many([test.make(n) for n in test.lengths])
    if any(answer.dtype not in _RETURNED for answer in answers):
        raise NotAnswered(f"{answers[0].dtype} came back")
    return {
        n: _kept(words(test.finish(a)), test) for n, a in zip(test.lengths, answers, strict=True)
    }


def _kept(found: Words, test: Test) -> str:
    kept, flushed = (
        found == test.kept,
        np.isin(found, np.array(test.flushed, dtype=np.uint64).astype(found.dtype)),
    )
    if not (kept | flushed).all():
        return f"other ({int(found[~(kept | flushed)].reshape(-1)[0]):#x})"
    return "kept" if kept.all() else "flushed" if not kept.any() else "some"


def _tests(dtype: str) -> dict[str, list[Test]]:
    f = Numbers(dtype)
    t, half, zero, infinity = (
        f.normal,
        f.scaled(-1),
        (0, f.sign),
        f.power(FORMATS[dtype].max_exponent) + f.normal,
    )

    def given(operator: str, *patterns: int) -> Callable[[int], Request]:
        return lambda n: call(
            operator, dtype, *(from_words(np.full(n, p, dtype=np.uint64), dtype) for p in patterns)
        )

    def found(
        kind: str, operator: str, patterns: tuple[int, ...], kept: int, flushed: tuple[int, ...]
    ) -> Test:
        return Test(kind, given(operator, *patterns), kept, flushed)

    one_and_half, minus = t | (t >> 1), t | f.sign
    tests = {
        "add": [
            found("inputs", "add", (half, t), one_and_half, (t,)),
            found("results", "add", (one_and_half, minus), half, zero),
            found(CONTROL, "add", (t, t), f.scaled(1), ()),
        ],
        "mul": [
            found("inputs", "mul", (half, f.power(2)), f.scaled(1), zero),
            found("results", "mul", (t, f.power(-1)), half, zero),
            found(CONTROL, "mul", (t, f.power(2)), f.scaled(2), ()),
        ],
        "div": [
            found("inputs", "div", (half, f.power(-2)), f.scaled(1), zero),
            found("results", "div", (t, f.power(1)), half, zero),
            found(CONTROL, "div", (t, f.power(-2)), f.scaled(2), ()),
        ],
        "relu": [
            found("numbers", "nn.functional.relu", (half,), half, zero),
            found(CONTROL, "nn.functional.relu", (t,), t, ()),
        ],
        "maximum": [
            found("numbers", "maximum", (half, 0), half, zero),
            found(CONTROL, "maximum", (t, 0), t, ()),
        ],
        "lt": [found("inputs", "lt", (0, half), 1, (0,)), found(CONTROL, "lt", (0, t), 1, ())],
        "sum": [
            Test(
                "inputs", lambda n: call("sum", dtype, _row(dtype, n, half, t)), one_and_half, (t,)
            ),
            Test(
                "results",
                lambda n: call("sum", dtype, _row(dtype, n, one_and_half, minus)),
                half,
                zero,
            ),
            Test(CONTROL, lambda n: call("sum", dtype, _row(dtype, n, t, t)), f.scaled(1), ()),
        ],
    }
    if FORMATS[dtype].min_exponent % 2 == 0:
        root = f.power(FORMATS[dtype].min_exponent // 2 - 1)
        tests["sqrt"] = [
            found("inputs", "sqrt", (f.scaled(-2),), root, zero),
            found(
                CONTROL, "sqrt", (f.scaled(2),), f.power(FORMATS[dtype].min_exponent // 2 + 1), ()
            ),
        ]
    tests["log"] = [
        Test(
            "inputs", given("log", half), _NEAR, (infinity | f.sign,), _near(_logarithm(dtype, -1))
        ),
        Test(CONTROL, given("log", t), _NEAR, (), _near(_logarithm(dtype, 0))),
    ]
    for form in OPERATORS:
        a_kept, b_kept = _matrices(dtype, half, f.power(2)), _matrices(dtype, t, f.power(-1))
        normal = _matrices(dtype, t, f.power(2))
        tests[form] = [
            Test("inputs", _product(form, dtype, *a_kept), f.scaled(1), zero, _of(form), (_SIDE,)),
            Test("results", _product(form, dtype, *b_kept), half, zero, _of(form), (_SIDE,)),
            Test(CONTROL, _product(form, dtype, *normal), f.scaled(2), (), _of(form), (_SIDE,)),
        ]
    tests |= _casts(dtype)
    return tests


_NEAR = 1  # a bit pattern that no logarithm has


def _logarithm(dtype: str, power: int) -> int:
    """The bits of log(t · 2^power)."""
    exact = torch.log(
        torch.tensor([2.0 ** (FORMATS[dtype].min_exponent + power)], dtype=torch.float64)
    )
    return int(words(exact.to(TORCH[dtype]))[0])


def _near(expected: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """``_NEAR`` where a result is within a few last bits of the expected one, itself elsewhere."""

    def finish(answer: torch.Tensor) -> torch.Tensor:
        found = words(answer)
        apart = np.minimum(
            found - found.dtype.type(expected), found.dtype.type(expected) - found
        )  # modulo 2^bits
        return from_words(
            np.where(apart <= 4, _NEAR, found), str(answer.dtype).removeprefix("torch.")
        )

    return finish


def _row(dtype: str, n: int, first: int, second: int) -> torch.Tensor:
    """Two numbers and zeros: one beside the other, wherever the row is split."""
    patterns = np.zeros(max(n, 2), dtype=np.uint64)
    patterns[:2] = first, second
    return from_words(patterns, dtype)


def _matrices(dtype: str, a: int, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = np.zeros((_SIDE, 72), dtype=np.uint64), np.zeros((72, _SIDE), dtype=np.uint64)
    left[:, 7], right[7] = a, b
    return from_words(left, dtype), from_words(right, dtype)


def _product(form: str, dtype: str, a: torch.Tensor, b: torch.Tensor) -> Callable[[int], Request]:
    return lambda n: request(form, dtype, a, b)


def _of(form: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda answer: result(form, answer, _SIDE, _SIDE)


def _casts(dtype: str) -> dict[str, list[Test]]:
    """To and from float32, where the dtype is another one; float64 for float32."""
    other = {"float32": "float64", "float64": "float32"}.get(dtype, "float32")
    tests = {}
    for source, target in (
        ((dtype, other), (other, dtype)) if dtype in ("float16", "bfloat16") else ((dtype, other),)
    ):
        narrow = min((source, target), key=lambda name: FORMATS[name].precision)
        exponent = FORMATS[narrow].min_exponent - 1

        def made(
            kind: str, exponent: int, flushed: tuple[int, ...], s: str = source, t: str = target
        ) -> Test:
            given, wanted = (_power(name, exponent) for name in (s, t))
            make = lambda n: call(  # noqa: E731
                "call/Tensor.to", s, from_words(np.full(n, given, dtype=np.uint64), s), TORCH[t]
            )
            return Test(kind, make, wanted, flushed)

        tests[f"{source}-to-{target}"] = [made("numbers", exponent, (0,)), made(CONTROL, 0, ())]
    return tests


def _power(dtype: str, exponent: int) -> int:
    """2^exponent, which may be subnormal."""
    form = FORMATS[dtype]
    below = form.min_exponent - exponent
    return Numbers(dtype).power(exponent) if below <= 0 else Numbers(dtype).normal >> below
