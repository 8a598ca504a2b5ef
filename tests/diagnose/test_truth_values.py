"""Causes of wrong truth values: of two of them one is wrong by chance under half of all hypotheses,
so nothing is said; of many, those that are wrong tell which hypothesis is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.core.model import Case, Result
from consistency.engine import engine
from consistency.engine.events import Judged
from consistency.storage.corpus.corpus import Corpus
from tests.real_bugs.triggers import _argument
from tests.support.catalog.model import Call, Played

SOME = torch.arange(400) % 23 - 11


def results(backend: Any, *args: torch.Tensor) -> list[Result]:
    dtype = str(args[0].dtype).removeprefix("torch.")
    case = Case("isin", dtype, tuple(map(_argument, args)), {}, (1 << 20) + 97)
    config = engine.configure(
        [operators.get("isin")], [backend], [dtype], ("forward",),
        shrink=False, corpus=Corpus("truths", (case,)), explore=False,
    )  # fmt: skip
    events = [event for event in engine.run(config) if isinstance(event, Judged)]
    return [r for e in events for r in e.results if r.backend == getattr(backend, "name", backend)]


def shifted(call: Call) -> Any:
    return call.with_arg(0, call.args[0].roll(1)).run()


def test_one_of_two_proves_no_cause() -> None:
    """torch's CPU finds 4097 among zeros, since it compares in float16: pytorch#194725."""
    x, zeros = torch.tensor([4097, 4098], dtype=torch.int32), torch.zeros(20, dtype=torch.float16)
    (result,) = results("cpu", x, zeros)
    assert result.verdict.value in ("divergent", "known")
    assert not result.cause
    assert "missing" not in result.explanation


@pytest.mark.parametrize("count", [400, 60])
def test_many_prove_a_cause(count: int) -> None:
    (result,) = results(Played("shifts", shifted), SOME[:count], torch.tensor([-3, 5, 9, 4]))
    assert result.verdict.fails
    assert result.cause == "shifted"


@pytest.mark.parametrize("deed", [Call.run, lambda call: call.run().clone()])
def test_what_is_right_is_not_accused(deed: Callable[[Call], Any]) -> None:
    (result,) = results(Played("right", deed), SOME, torch.tensor([-3, 5, 9, 4]))
    assert not result.verdict.fails
