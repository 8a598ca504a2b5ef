"""What is drawn does not depend on what was drawn before."""

from __future__ import annotations

import hypothesis
from hypothesis import strategies as st

from consistency import operators
from consistency.generate.strategies import Draw
from consistency.operators.declare import Domain


def drawn(ask: object) -> set[str]:
    """The spellings of everything that ``ask(draw)`` gives in a few examples."""
    found: set[str] = set()

    @hypothesis.settings(max_examples=30, database=None)
    @hypothesis.given(st.data())
    def collect(data: st.DataObject) -> None:
        found.add(repr(ask(Draw(data.draw, "float32", operators.get("exp")))))  # type: ignore[operator]

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
