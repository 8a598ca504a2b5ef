"""Which operators flush subnormal numbers to zero, as inputs (DAZ) and as results (FTZ).

All values are passed and compared as bit patterns, since a process that flushes would flush its own
comparison, too. Each test runs with one element, with a vector and its tail, and with enough
elements for several threads: the mode may be set in one thread only.
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
    """Bit patterns of a format: the smallest normal number t, its scaled values, powers of 2."""

    dtype: str

    @property
    def mantissa(self) -> int:
        return FORMATS[self.dtype].precision - 1

    @property
    def normal(self) -> int:
        """The smallest normal number."""
        return 1 << self.mantissa

    def scaled(self, power: int) -> int:
        """t · 2^power, subnormal for a negative power."""
        return (1 + power) << self.mantissa if power >= 0 else self.normal >> -power

    def power(self, exponent: int) -> int:
        """2^exponent, a normal number."""
        return (exponent - FORMATS[self.dtype].min_exponent + 1) << self.mantissa

    @property
    def sign(self) -> int:
        return 1 << (TORCH[self.dtype].itemsize * 8 - 1)


@dataclass(frozen=True)
class Test:
    """One call and its expected bits, with subnormals ``kept`` or ``flushed``."""

    # Where subnormals occur: "inputs", "results", "numbers". CONTROL: normal numbers, whose result
    # must be right before any flushing is reported.
    kind: str
    make: Callable[[int], Request]
    kept: int
    flushed: tuple[int, ...]
    finish: Callable[[torch.Tensor], torch.Tensor] = lambda answer: answer
    lengths: tuple[int, ...] = LENGTHS


def facts(ask: Ask, dtype: str) -> Iterator[Fact]:
    """``OPERATOR/DTYPE/subnormals`` for each tested operator."""
    for name, tests in _tests(dtype).items():
        yield _fact(ask, f"{name}/{dtype}/subnormals", tests)


def _fact(ask: Ask, question: str, tests: list[Test]) -> Fact:
    try:
        outcomes = {test.kind: _outcomes(ask, test) for test in tests if test.kind != CONTROL}
        if any(
            outcome not in ("kept", "other")
            for by_length in outcomes.values()
            for outcome in by_length.values()
        ):
            for test in tests:
                if test.kind == CONTROL and set(_outcomes(ask, test).values()) != {"kept"}:
                    return unknown(question, "normal numbers do not come back either")
    except NotAnswered as reason:
        return unknown(question, str(reason))
    evidence = "; ".join(
        f"{kind}: {', '.join(f'{n} {outcome}' for n, outcome in by_length.items())}"
        for kind, by_length in outcomes.items()
    )
    if any(
        outcome.startswith("other")
        for by_length in outcomes.values()
        for outcome in by_length.values()
    ):
        return unknown(question, "neither the number nor zero came back", evidence)
    flushing = {
        kind: [n for n, outcome in by_length.items() if outcome != "kept"]
        for kind, by_length in outcomes.items()
    }
    partly = any(
        outcome == "some" for by_length in outcomes.values() for outcome in by_length.values()
    )
    kinds = [kind for kind, lengths in flushing.items() if lengths]
    if not kinds:
        return Fact(
            question,
            "kept",
            f"{', '.join(outcomes)}; n = {', '.join(map(str, next(iter(outcomes.values()))))}",
            usual=True,
        )
    everywhere = not partly and all(len(flushing[kind]) == len(outcomes[kind]) for kind in kinds)
    answer = f"{' and '.join(kinds)} flushed"
    return Fact(question, answer if everywhere else f"{answer}, not everywhere", evidence)


def _outcomes(ask: Ask, test: Test) -> dict[int, str]:
    """Outcome of a test by number of elements."""
    answers = ask.many([test.make(n) for n in test.lengths])
    if any(answer.dtype not in _RETURNED for answer in answers):
        raise NotAnswered(f"{answers[0].dtype} came back")
    return {
        n: _classify(words(test.finish(a)), test)
        for n, a in zip(test.lengths, answers, strict=True)
    }


def _classify(bits: Words, test: Test) -> str:
    is_kept, is_flushed = (
        bits == test.kept,
        np.isin(bits, np.array(test.flushed, dtype=np.uint64).astype(bits.dtype)),
    )
    if not (is_kept | is_flushed).all():
        return f"other ({int(bits[~(is_kept | is_flushed)].reshape(-1)[0]):#x})"
    return "kept" if is_kept.all() else "flushed" if not is_kept.any() else "some"


def _tests(dtype: str) -> dict[str, list[Test]]:
    f = Numbers(dtype)
    t, half, zero, infinity = (
        f.normal,
        f.scaled(-1),
        (0, f.sign),
        f.power(FORMATS[dtype].max_exponent) + f.normal,
    )

    def filled(operator: str, *patterns: int) -> Callable[[int], Request]:
        return lambda n: call(
            operator, dtype, *(from_words(np.full(n, p, dtype=np.uint64), dtype) for p in patterns)
        )

    def test(
        kind: str, operator: str, patterns: tuple[int, ...], kept: int, flushed: tuple[int, ...]
    ) -> Test:
        return Test(kind, filled(operator, *patterns), kept, flushed)

    t_times_1_5, minus = t | (t >> 1), t | f.sign
    tests = {
        "add": [
            test("inputs", "add", (half, t), t_times_1_5, (t,)),
            test("results", "add", (t_times_1_5, minus), half, zero),
            test(CONTROL, "add", (t, t), f.scaled(1), ()),
        ],
        "mul": [
            test("inputs", "mul", (half, f.power(2)), f.scaled(1), zero),
            test("results", "mul", (t, f.power(-1)), half, zero),
            test(CONTROL, "mul", (t, f.power(2)), f.scaled(2), ()),
        ],
        "div": [
            test("inputs", "div", (half, f.power(-2)), f.scaled(1), zero),
            test("results", "div", (t, f.power(1)), half, zero),
            test(CONTROL, "div", (t, f.power(-2)), f.scaled(2), ()),
        ],
        "relu": [
            test("numbers", "nn.functional.relu", (half,), half, zero),
            test(CONTROL, "nn.functional.relu", (t,), t, ()),
        ],
        "maximum": [
            test("numbers", "maximum", (half, 0), half, zero),
            test(CONTROL, "maximum", (t, 0), t, ()),
        ],
        "lt": [test("inputs", "lt", (0, half), 1, (0,)), test(CONTROL, "lt", (0, t), 1, ())],
        "sum": [
            Test(
                "inputs", lambda n: call("sum", dtype, _row(dtype, n, half, t)), t_times_1_5, (t,)
            ),
            Test(
                "results",
                lambda n: call("sum", dtype, _row(dtype, n, t_times_1_5, minus)),
                half,
                zero,
            ),
            Test(CONTROL, lambda n: call("sum", dtype, _row(dtype, n, t, t)), f.scaled(1), ()),
        ],
    }
    if FORMATS[dtype].min_exponent % 2 == 0:
        root = f.power(FORMATS[dtype].min_exponent // 2 - 1)
        tests["sqrt"] = [
            test("inputs", "sqrt", (f.scaled(-2),), root, zero),
            test(
                CONTROL, "sqrt", (f.scaled(2),), f.power(FORMATS[dtype].min_exponent // 2 + 1), ()
            ),
        ]
    tests["log"] = [
        Test(
            "inputs",
            filled("log", half),
            _NEAR,
            (infinity | f.sign,),
            _mark_near(_logarithm(dtype, -1)),
        ),
        Test(CONTROL, filled("log", t), _NEAR, (), _mark_near(_logarithm(dtype, 0))),
    ]
    tests |= _products(dtype)
    tests |= _casts(dtype)
    return tests


def _products(dtype: str) -> dict[str, list[Test]]:
    """Matrix products, and what is made of them."""
    f = Numbers(dtype)
    inputs = _matrices(dtype, f.scaled(-1), f.power(2))
    results = _matrices(dtype, f.normal, f.power(-1))
    control = _matrices(dtype, f.normal, f.power(2))

    def test(
        kind: str,
        form: str,
        matrices: tuple[torch.Tensor, torch.Tensor],
        kept: int,
        flushed: tuple[int, ...],
    ) -> Test:
        product = _product(form, dtype, *matrices)
        return Test(kind, product, kept, flushed, _extract_product(form), (_SIDE,))

    zero = (0, f.sign)
    return {
        form: [
            test("inputs", form, inputs, f.scaled(1), zero),
            test("results", form, results, f.scaled(-1), zero),
            test(CONTROL, form, control, f.scaled(2), ()),
        ]
        for form in OPERATORS
    }


_NEAR = 1  # a bit pattern that is the result of no logarithm


def _logarithm(dtype: str, power: int) -> int:
    """The bits of log(t · 2^power)."""
    exact = torch.log(
        torch.tensor([2.0 ** (FORMATS[dtype].min_exponent + power)], dtype=torch.float64)
    )
    return int(words(exact.to(TORCH[dtype]))[0])


def _mark_near(expected: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Replaces results within 4 units in the last place of ``expected`` by ``_NEAR``."""

    def finish(answer: torch.Tensor) -> torch.Tensor:
        bits = words(answer)
        distance = np.minimum(
            bits - bits.dtype.type(expected), bits.dtype.type(expected) - bits
        )  # modulo 2^bits
        return from_words(
            np.where(distance <= 4, _NEAR, bits), str(answer.dtype).removeprefix("torch.")
        )

    return finish


def _row(dtype: str, n: int, first: int, second: int) -> torch.Tensor:
    """A row of two adjacent numbers followed by zeros."""
    patterns = np.zeros(max(n, 2), dtype=np.uint64)
    patterns[:2] = first, second
    return from_words(patterns, dtype)


def _matrices(dtype: str, a: int, b: int) -> tuple[torch.Tensor, torch.Tensor]:
    left, right = np.zeros((_SIDE, 72), dtype=np.uint64), np.zeros((72, _SIDE), dtype=np.uint64)
    left[:, 7], right[7] = a, b
    return from_words(left, dtype), from_words(right, dtype)


def _product(form: str, dtype: str, a: torch.Tensor, b: torch.Tensor) -> Callable[[int], Request]:
    return lambda n: request(form, dtype, a, b)


def _extract_product(form: str) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda answer: result(form, answer, _SIDE, _SIDE)


def _casts(dtype: str) -> dict[str, list[Test]]:
    """Casts to and from float32 for 16-bit dtypes; between float32 and float64 for these."""
    counterpart = {"float32": "float64", "float64": "float32"}.get(dtype, "float32")
    tests = {}
    for source, target in (
        ((dtype, counterpart), (counterpart, dtype))
        if dtype in ("float16", "bfloat16")
        else ((dtype, counterpart),)
    ):
        narrow = min((source, target), key=lambda name: FORMATS[name].precision)
        exponent = FORMATS[narrow].min_exponent - 1

        def test(
            kind: str, exponent: int, flushed: tuple[int, ...], s: str = source, t: str = target
        ) -> Test:
            source_bits, target_bits = (_power(name, exponent) for name in (s, t))
            make = lambda n: call(  # noqa: E731
                "call/Tensor.to",
                s,
                from_words(np.full(n, source_bits, dtype=np.uint64), s),
                TORCH[t],
            )
            return Test(kind, make, target_bits, flushed)

        tests[f"{source}-to-{target}"] = [test("numbers", exponent, (0,)), test(CONTROL, 0, ())]
    return tests


def _power(dtype: str, exponent: int) -> int:
    """2^exponent, which may be subnormal."""
    form = FORMATS[dtype]
    deficit = form.min_exponent - exponent
    return Numbers(dtype).power(exponent) if deficit <= 0 else Numbers(dtype).normal >> deficit
