"""Which operators can be certified is measured, and the reason told where they cannot."""

from __future__ import annotations

import pytest

from consistency import operators
from consistency.reference.provable import provability


@pytest.mark.parametrize("name", ["exp", "matmul", "equal", "abs.method"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_what_is_entered_is_certified(name: str, direction: str) -> None:
    operator = operators.get(name)
    if direction in operator.directions:
        found = provability(operator, direction, 3)
        assert found.asked
        assert found.certified, found.reason


@pytest.mark.parametrize(
    ("name", "direction", "reason"),
    [
        ("bernoulli", "forward", "no numbers are defined"),
        ("nn.functional.ctc_loss", "backward", "the gradient of the ctc loss"),
    ],
)
def test_what_is_not_has_a_reason(name: str, direction: str, reason: str) -> None:
    found = provability(operators.get(name), direction, 3)
    assert not (found.asked and found.certified)
    assert found.reason.startswith(reason)
