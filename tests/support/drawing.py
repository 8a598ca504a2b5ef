"""Draws for the tests of operators: several cases to a Hypothesis example, which is twice as fast
and resembles itself less."""

from __future__ import annotations

import re
from collections.abc import Callable

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st

from consistency.core.model import Case
from consistency.generate.hypothesis_settings import hypothesis_alone
from consistency.generate.strategies import cases
from consistency.operators.declare import Operator

# further draws, before an operator is called dull: which cases are drawn differs from one
# Hypothesis to the next
MORE = 4
# Operators that torch refuses for some layouts, which are drawn and expected to fail
# (docs/findings.md): tests of draws ask their reference instead.
REFUSE_LAYOUTS = ("take_along_dim",)
# What torch refuses of drawn calls, which another backend may well compute.
REFUSED = re.compile(
    r"with a bool tensor is not supported|`shifts` required|outer: Expected 1-D argument self"
)


def draw(operator: Operator, dtype: str, count: int, more: int = 0) -> list[Case]:
    """The operator's cases of one dtype, the simplest example (all zeros) left out; others for each
    ``more``."""
    examples: list[tuple[Case, ...]] = []

    @hypothesis.seed(len(operator.name) + 1000 * more)
    @hypothesis.settings(
        max_examples=2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(st.tuples(*[cases(operator, dtype)] * count))
    def collect(drawn: tuple[Case, ...]) -> None:
        examples.append(drawn)

    with hypothesis_alone():
        collect()
    return list(examples[-1])


def assert_telling(
    operator: Operator, dtype: str, drawn: list[Case], dull: int, is_dull: Callable[[Case], bool]
) -> None:
    """At most half of the results are nothing but zeros: of those drawn, ``dull`` of which are, or
    else of many more."""
    seen = len(drawn)
    if dull > seen / 2:
        further = [
            case for more in range(MORE) for case in draw(operator, dtype, len(drawn), more + 1)
        ]
        seen, dull = seen + len(further), dull + sum(map(is_dull, further))
    assert dull <= seen / 2, (
        f"{dull} of {seen} {dtype} results of {operator.name} are nothing but zeros"
    )
