"""A wrong cast is judged, whatever it casts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import consistency
from tests.support.running import unshrunk


class Twice(consistency.Backend):
    name = "twice"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        return super().call(operator, args, kwargs) * 2


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float64"])
def test_it_fails(dtype: str) -> None:
    run = unshrunk(["half"], [Twice()], [dtype], ["forward"], examples=5)
    assert run.failures
    assert not any("harness itself" in result.explanation for result in run.results)
