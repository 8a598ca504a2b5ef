"""A mistake in the arguments of ``assert_consistent`` does not look like a test that passed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency.errors import Divergence, UsageError

pytest_plugins = ["pytester"]


def squared(x: torch.Tensor) -> torch.Tensor:
    """The square, with a gradient that is half as large again."""
    return x * x + (x * x - (x * x).detach()) * 0.5


def check(**arguments: Any) -> tuple[consistency.Result, ...]:
    x = torch.linspace(0.5, 2.0, 7)
    return consistency.assert_consistent(squared, x, reference=lambda x: x * x, **arguments)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"directions": ("backwards",)}, "unknown direction 'backwards'; did you mean backward?"),
        ({"directions": ("forward", "up")}, "unknown direction 'up'; known: forward, backward"),
        ({"directions": ()}, "directions is empty, so nothing would be tested"),
        ({"backends": []}, "backends is empty, so nothing would be tested"),
        ({"rule": "foo"}, "rule is of type str; give consistency.Rule(c=4, lam=2)"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as error:
        check(**arguments)
    assert text in str(error.value)


def test_one_direction_and_one_backend_may_stand_alone() -> None:
    with pytest.raises(Divergence):
        check(directions="backward")
    (result,) = check(backends="cpu")
    assert (result.backend, result.direction) == ("cpu", "forward")
    assert check(rule=consistency.Rule(c=4, lam=2))


def test_a_marker_is_refused_at_collection(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.consistency(directions=["forwards"])
        def test_it():
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    text = result.stdout.str() + result.stderr.str()
    assert "@pytest.mark.consistency: unknown direction 'forwards'; did you mean forward?" in text
    assert result.ret != 0


BACKEND = """
import consistency

class Odd(consistency.Backend):
    name = "odd"

    def call(self, operator, args, kwargs):
        return operator(*args, **kwargs) * 1.01
"""


def test_the_command_names_the_backend_as_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "odd.py"
    file.write_text(BACKEND, encoding="utf-8")
    with pytest.raises(Divergence) as error:
        consistency.assert_consistent(torch.exp, torch.ones(3), backends=[f"{file}:Odd"])
    assert f"--backend {file}:Odd" in str(error.value)
    assert error.value.specs == {"odd": f"{file}:Odd"}
