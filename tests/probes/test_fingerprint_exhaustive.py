"""Every float32 input of a function: a planted wrong one is found, wherever it is, and an
interrupted sweep goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from consistency.errors import BundleError, UsageError
from consistency.probes.fingerprint import exhaustive
from consistency.probes.fingerprint.exhaustive import (
    ExhaustiveComparison,
    function_named,
    spans_of,
    sweep,
)
from consistency.probes.fingerprint.query import Ask
from consistency.probes.fingerprint.ulp_map import ulp_chart
from tests.support.commands import command
from tests.support.synthetic import pointwise as made

PLANTED = 0x3F912345  # 1.1338965


class Planted(made.Exact):
    """exp by way of float64, but for one input; infinity for another; zero for small results."""

    def call(self, operator: Any, args: Any, kwargs: Any) -> Any:
        if operator.name != "exp" or args[0].dtype != torch.float32:
            return super().call(operator, args, kwargs)
        found = args[0].double().exp().float()
        words = args[0].view(torch.int32)
        found = torch.where(words == PLANTED, found * (1.0 + 2.0**-20), found)
        found = torch.where(words == PLANTED + 5, torch.tensor(float("inf")), found)
        return torch.where(found < 2.0**-126, 0.0, found)


def swept(interval: str) -> ExhaustiveComparison:
    found = ExhaustiveComparison("exp", "planted", spans_of(interval))
    for _ in sweep(Ask(Planted()), found):
        pass
    return found


def test_one_wrong_input_is_found() -> None:
    found = swept("1..1.25")
    assert found.complete
    assert found.inputs == (1 << 21) + 1
    assert found.worst[0][1] == PLANTED
    assert 7.0 < found.worst[0][0] < 17.0
    assert found.counts == {"infinity": 1}
    assert found.examples == {"infinity": PLANTED + 5}
    assert found.misrounded == 1
    assert "largest error" in ulp_chart(found)


def test_subnormal_results_that_are_zero_are_counted() -> None:
    found = swept("-90..-88")
    assert set(found.counts) == {"subnormal result is 0"}
    assert found.ulp == 0.5
    assert found.worst == []


@pytest.mark.parametrize(("text", "spans"), [
    ("", ((0, 1 << 32),)),
    ("1..2", ((0x3F800000, 0x40000001),)),
    ("2^-1..2^0", ((0x3F000000, 0x3F800001),)),
    ("-1..1", ((0, 0x3F800001), (0x80000000, 0xBF800001))),
    ("-2..-1", ((0xBF800000, 0xC0000001),)),
    ("0..inf", ((0, 0x7F800001),)),
    ("0.1..0.1000001", ((0x3DCCCCCD, 0x3DCCCCDB),)),
])  # fmt: skip
def test_ranges(text: str, spans: tuple[tuple[int, int], ...]) -> None:
    assert spans_of(text) == spans


def test_a_range_holds_just_the_numbers_inside() -> None:
    ((start, stop),) = spans_of("0.1..0.3")
    around = (
        np.array([start - 1, start, stop - 1, stop], dtype=np.uint32).view(np.float32).astype(float)
    )
    assert around[0] < 0.1 <= around[1]
    assert around[2] <= 0.3 < around[3]


@pytest.mark.parametrize("text", ["1", "2..1", "a..b", "1..nan", "2^x..3"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError, match="--range"):
        spans_of(text)


def test_functions_of_one_number() -> None:
    assert function_named("gelu") == "nn.functional.gelu"
    assert function_named("exp") == "exp"
    for name in ("matmul", "add", "sum", "sort", "dropout"):
        with pytest.raises(UsageError, match="not a function of one number"):
            function_named(name)


def test_it_goes_on_where_it_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "BLOCK", 1 << 18)
    whole = swept("1..1.25")
    part = ExhaustiveComparison("exp", "planted", spans_of("1..1.25"))
    for _ in sweep(Ask(Planted()), part):
        if part.upto == 5:
            break
    again = ExhaustiveComparison.from_json(json.loads(json.dumps(part.to_json())))
    for _ in sweep(Ask(Planted()), again):
        pass
    assert {**again.to_json(), "seconds": 0} == {**whole.to_json(), "seconds": 0}


@pytest.mark.parametrize(
    "change", [{"exhaustive": 2}, {"bins": 3}, {"bins": [[600, 1, 1, 1.0, 1]]}, {"spans": [[5, 1]]},
    {"worst": [["x", 1, 1]]},
               {"upto": -1}, {"bins": [[1, 1, 1, float("nan"), 1]]}]
)  # fmt: skip
def test_what_is_no_result_is_refused(change: dict[str, Any]) -> None:
    body = ExhaustiveComparison("exp", "cpu", ((0, 16),)).to_json() | change
    with pytest.raises(BundleError, match="not a result of fingerprint --exhaustive"):
        ExhaustiveComparison.from_json(body)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["fingerprint", "--exhaustive", "tanh", "--range", "1..1.01"]
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    assert "83,887 inputs" in result.stdout
    assert (tmp_path / "tanh-cpu.svg").read_text(encoding="utf-8").startswith("<svg")
    assert command(*arguments, "--json").exit_code == 0  # there already
    other = command("fingerprint --exhaustive tanh --range 1..1.02")
    assert other.exit_code == 2
    assert "begun with another span" in other.stderr
    (tmp_path / "tanh-cpu.json").write_text("{", encoding="utf-8")
    assert command(*arguments).exit_code == 2
    assert command("fingerprint --range 1..2").exit_code == 2


def test_calibrate_takes_the_worst_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert command("fingerprint --exhaustive exp --range 1..1.01 --out exp.json").exit_code == 0
    common = (
        "calibrate exp --dtype float32 --direction forward --backend cpu --examples 1 --seeds 0"
    )
    with_it, without = (command(common, *more).stdout for more in (["--worst", "exp.json"], []))
    assert "2 healthy results" in with_it
    assert "1 healthy results" in without or "1 healthy result" in without
    refused = command(common, "--worst", "none.json")
    assert refused.exit_code == 2
    assert "--worst none.json" in refused.stderr
