"""What is drawn does not depend on what was drawn before."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
from hypothesis import strategies as st

from consistency import operators
from consistency.core.model import Case
from consistency.generate.choices import INTERESTING, HypothesisChoices, RandomChoices
from consistency.generate.search import batch, plan
from consistency.generate.strategies import Draw, draw_case
from consistency.operators.declare import Domain


def drawn(ask: object) -> set[str]:
    """The spellings of everything that ``ask(draw)`` gives in a few examples."""
    found: set[str] = set()

    @hypothesis.settings(max_examples=30, database=None)
    @hypothesis.given(st.data())
    def collect(data: st.DataObject) -> None:
        found.add(repr(ask(Draw(HypothesisChoices(data.draw), "float32", operators.get("exp")))))  # type: ignore[operator]

    collect()
    return found


def test_equal_options_of_another_type_are_other_options() -> None:
    assert drawn(lambda d: d.choice(0.0)) == {"0.0"}
    assert drawn(lambda d: d.choice(False)) == {"False"}
    assert drawn(lambda d: d.choice(0)) == {"0"}
    assert drawn(lambda d: d.choice((1, 0))) == {"(1, 0)"}
    assert drawn(lambda d: d.choice((1.0, False))) == {"(1.0, False)"}


def test_a_domain_written_with_whole_numbers_is_the_same_domain() -> None:
    def values(domain: Domain) -> set[str]:
        return drawn(lambda d: d.tensor((3,), domain).values)

    assert values(Domain(0, 1)) == values(Domain(0.0, 1.0))
    assert not any("0, " in spelling.replace("0.0, ", "") for spelling in values(Domain(0, 1)))


def test_flags_are_booleans() -> None:
    assert drawn(lambda d: d.flag()) == {"False", "True"}


# --- choices of a seeded generator


def test_the_same_seed_makes_the_same_choices_and_another_seed_others() -> None:
    def made(seed: int) -> list[Case]:
        choices = RandomChoices(seed)
        cases = []
        for _ in range(5):
            choices.next_case()
            cases.append(draw_case(choices, operators.get("matmul"), "float32"))
        return cases

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_random_choices_reach_both_ends_and_nothing_beyond() -> None:
    choices = RandomChoices(0)
    for low, high in ((0, 0), (-3, 2), (5, 5), (0, 1000)):
        choices.next_case()
        drawn = [choices.integer(low, high) for _ in range(2000)]
        assert (min(drawn), max(drawn)) == (low, high)
    sizes = [choices.size(1, 4096) for _ in range(3000)]
    assert 1 <= min(sizes) <= max(sizes) <= 4096
    assert set(INTERESTING) <= set(sizes)
    assert {choices.option((False, 0.0)) for _ in range(50)} == {False}  # equal, and yet
    assert {type(choices.option((False, 0.0))) for _ in range(50)} == {bool, float}


def test_some_cases_repeat_their_choices() -> None:
    """Equal operands and sizes, which independent choices hardly ever have."""

    def pairs(choices: RandomChoices) -> Iterator[bool]:
        for _ in range(800):
            choices.next_case()
            yield choices.integer(0, 1 << 20) == choices.integer(0, 1 << 20)

    assert 20 <= sum(pairs(RandomChoices(3))) <= 90  # half of every eighth: 50


@pytest.mark.parametrize(("name", "dtype"), [("gcd", "int64"), ("matmul", "float32")])
def test_the_cases_of_a_batch_differ_in_more_than_their_numbers(name: str, dtype: str) -> None:
    drawn = batch(operators.get(name), dtype, 30)
    assert len({plan(case) for case in drawn}) == len(drawn) == 30
