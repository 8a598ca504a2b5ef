"""Whatever class its options are of, a call is judged: S, n and references take them, and torch's
CPU passes or is expected to fail."""

from __future__ import annotations

import functools
from collections.abc import Iterator

import pytest

from consistency import operators
from consistency.backends import resolve
from consistency.core.detail import HarnessFailed
from consistency.core.model import Case
from consistency.diagnose.evaluation import evaluate
from consistency.engine.unit_cases import draw
from consistency.generate.odd_options import odd_options
from consistency.generate.variations import is_possible
from consistency.judge import tolerances
from consistency.operators.declare import Operator

PARTS = 4  # of the operators, so that processes share them
OPERATORS = [o for o in operators.registry().values() if o.cases is None and o.family != "forms"]
rules = functools.cache(tolerances.load)


def odd_calls(operator: Operator, dtype: str, draws: int, most: int) -> Iterator[Case]:
    """Of drawn cases with other arguments each, up to ``most`` odd options that are possible."""
    drawn = draw(operator, dtype, draws, 31)[0]
    kinds = {(tuple(case.kwargs), len(case.args)): case for case in reversed(drawn)}
    for case in kinds.values():
        found = [other for other in odd_options(operator, case, drawn) if other != case]
        step = max(len(found) // most, 1)
        yield from (other for other in found[::step] if is_possible(operator, other))


def failures(operator: Operator, dtype: str, draws: int, most: int) -> list[str]:
    """What is said of those that fail or that cannot be judged."""
    return [
        f"{case.line}: {result.direction} {result.explanation[:120]}"
        for case in odd_calls(operator, dtype, draws, most)
        for result in evaluate(case, [resolve("cpu")], rules())
        if result.verdict.fails or isinstance(result.detail, HarnessFailed)
    ]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("part", range(PARTS))
def test_odd_options_are_judged(part: int) -> None:
    told = [
        text
        for operator in OPERATORS[part::PARTS]
        for text in failures(operator, operator.dtypes[0], draws=2, most=2)
    ]
    assert not told, "\n".join(told)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8"])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_odd_option_is_judged(part: int, dtype: str) -> None:
    told = [
        text
        for operator in OPERATORS[part::PARTS]
        if dtype in operator.dtypes
        for text in failures(operator, dtype, draws=12, most=40)
    ]
    assert not told, "\n".join(told)
