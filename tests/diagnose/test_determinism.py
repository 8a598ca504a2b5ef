"""Bits again: planted nondeterminism is noticed in each of its kinds, healthy backends are not
accused."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

import consistency
from consistency import operators
from consistency.cli.main import main
from consistency.core.model import Case, Outcome, Output
from consistency.core.recipe import TensorRecipe
from consistency.diagnose import determinism
from consistency.diagnose.determinism import RepeatCheck, largest_difference
from consistency.engine import engine
from consistency.engine.events import DeterminismChecked, Event, Judged
from consistency.judge import tolerances


class Wavering(consistency.Backend):
    """Every other call is off by an ulp, which is rounding, but not the same."""

    name = "wavering"

    def __init__(self) -> None:
        self.calls = itertools.count()

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return (
            torch.nextafter(result, torch.full_like(result, torch.inf))
            if next(self.calls) % 2
            else result
        )


class Crowded(consistency.Backend):
    """An element's last bit depends on how many there are."""

    name = "crowded"

    def call(self, operator: consistency.Operator, args: Any, kwargs: Any) -> Any:
        result = super().call(operator, args, kwargs)
        return (
            result
            if args[0].shape[0] == 1
            else torch.nextafter(result, torch.full_like(result, torch.inf))
        )


def events(names: list[str], backends: list[Any], **options: Any) -> list[Event]:
    chosen = engine.configure(names, backends, ["float32"], examples=8, repeat=2, **options)
    return list(engine.run(chosen))


def verdicts(found: list[Event]) -> list[consistency.Result]:
    results = [r for event in found if isinstance(event, Judged) for r in event.results]
    return [r for r in results if r.verdict.value == "nondeterministic"]


def test_an_answer_that_changes_from_run_to_run_fails_though_it_is_rounding() -> None:
    found = [r.explanation for r in verdicts(events(["exp"], [Wavering()], directions=["forward"]))]
    assert any(
        re.fullmatch(r"other bits from run to run in \d of \d cases, up to 1 ulp", text)
        for text in found
    )


def test_a_policy_admits_it(tmp_path: Path) -> None:
    file = tmp_path / "tolerances.yaml"
    file.write_text(
        "extends: packaged\nbackends:\n  wavering:\n    policy: {nondeterminism: rounding}\n",
        encoding="utf-8",
    )
    found = events(["exp"], [Wavering()], directions=["forward"], tolerances=file)
    assert [r for r in verdicts(found) if "from run to run" in r.explanation] == []
    (repeated,) = (event for event in found if isinstance(event, DeterminismChecked))
    assert repeated.found[0].differing > 0, "it is still told"


def test_an_elementwise_operator_must_not_look_at_its_neighbors() -> None:
    found = verdicts(events(["exp"], [Crowded()], directions=["forward"]))
    assert [r.explanation for r in found if "alone as in a batch" in r.explanation]


def test_a_sum_may_depend_on_its_batch_and_is_told() -> None:
    found = events(["nn.functional.linear"], [Crowded()], directions=["forward"])
    assert verdicts(found) == []
    kinds = {
        item.kind: item
        for event in found
        if isinstance(event, DeterminismChecked)
        for item in event.found
    }
    assert kinds["batch"].differing == kinds["batch"].cases > 0
    assert kinds["runs"].differing == 0


def test_the_backends_at_hand_are_deterministic() -> None:
    names = [
        "add",
        "exp",
        "sum",
        "matmul",
        "softmax",
        "sort",
        "nn.functional.layer_norm",
        "scatter_add",
        "var",
    ]
    assert verdicts(events(names, ["cpu", "cpu+onednn=off", "numpy"])) == []


def test_rows_that_do_not_stand_for_themselves_are_not_compared() -> None:
    sum_all = Case("sum", "float32", (TensorRecipe((4, 3), "float32", stop=12),))
    watch = RepeatCheck(operators.get("sum"), 1)
    watch.add(sum_all, "forward", [consistency.TorchBackend("cpu", "cpu")])
    assert {item.kind for item in watch.found()} == {"runs"}


@pytest.mark.parametrize(("a", "b", "ulp"), [
    ([1.0, 2.0], [1.0, 2.0], 0.0),
    ([float("nan")], [float("nan")], 0.0),
    ([1.0], [1.0 + 2.0**-22], 2.0),
    ([0.0], [-0.0], 0.5),
    ([1.0], [float("inf")], float("inf")),
    ([1.0], [1.0, 1.0], float("inf")),
])  # fmt: skip
def test_how_far_apart_two_outcomes_are(a: list[float], b: list[float], ulp: float) -> None:
    def outcome(values: list[float]) -> Outcome:
        return Outcome("ok", (Output("out/0", torch.tensor(values), "float32"),))

    assert largest_difference(outcome(a), outcome(b)) == ulp


def test_another_kind_of_answer_is_infinitely_far() -> None:
    assert largest_difference(Outcome("ok"), Outcome("raised")) == float("inf")


def test_atomic_sums_of_cuda_are_expected_and_nothing_else() -> None:
    packaged = tolerances.load()
    assert (
        packaged.policy("cuda:1", operator="scatter_add", dtype="float32").nondeterminism
        == "rounding"
    )
    assert packaged.policy("cuda", operator="exp", dtype="float32").nondeterminism == "none"
    assert packaged.policy("cpu", operator="scatter_add", dtype="float32").nondeterminism == "none"


def test_the_command_has_a_section_for_it(tmp_path: Path) -> None:
    arguments = [
        "run", "exp", "matmul", "--dtype", "float32", "--backend", "cpu", "--repeat", "2", "--out",
        str(tmp_path / "b"),
    ]  # fmt: skip
    result = CliRunner().invoke(main, arguments)
    lines = (tmp_path / "b" / "determinism.jsonl").read_text(encoding="utf-8").splitlines()
    assert result.exit_code == 0, result.output
    section = result.output[result.output.index("\ndeterminism\n") :]
    assert "cpu: 2 of 2 operators give the same bits from run to run" in section
    assert len(lines) >= 4
    assert determinism.KINDS.keys() >= {"runs", "threads", "batch"}
