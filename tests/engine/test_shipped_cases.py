"""The cases that every run begins with: how they are read, where they are run, that healthy
backends pass them, and that they notice planted faults."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import consistency
from consistency import backends, operators
from consistency.core.model import Case
from consistency.core.recipe import Literal, TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.engine import engine
from consistency.engine.plan import plan
from consistency.engine.run_options import UNSHIPPED, RunOptions
from consistency.errors import BundleError
from consistency.generate.shipped import adequacy
from consistency.generate.shipped import cases as shipped
from consistency.generate.variations import LARGEST_TENSOR
from consistency.judge import tolerances
from tests.support.adequacy import measure
from tests.support.adequacy.results import ONE_OFF
from tests.support.commands import command

PAIRS = [(o, d) for o in operators.registry().values() for d in o.dtypes]
EVERY = 134  # of the pairs are judged with every change, all nightly


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Some thousand parameters of the nightly are not even collected in a pull request."""
    if not {"operator", "dtype"} <= set(metafunc.fixturenames):
        return
    chosen = metafunc.config.option.markexpr
    every = "nightly" in chosen and "not nightly" not in chosen
    metafunc.parametrize(
        ("operator", "dtype"),
        [
            pytest.param(
                *pair,
                marks=() if number % EVERY == 0 else pytest.mark.nightly,
                id=f"{pair[0].name}-{pair[1]}",
            )
            for number, pair in enumerate(PAIRS)
            if every or number % EVERY == 0
        ],
    )


LARGEST = 14 << 18  # bytes of all files, a third of the package


def test_most_operators_have_some() -> None:
    having = [count for pair in PAIRS if (count := shipped.count(*pair))]
    assert len(having) >= 0.95 * len(PAIRS)
    assert 2.5 <= sum(having) / len(having) <= 21


@pytest.fixture(
    params=[
        pytest.param(10, id="every tenth"),
        pytest.param(1, id="every one", marks=pytest.mark.nightly),
    ]
)
def pairs(request: pytest.FixtureRequest) -> list[tuple[consistency.Operator, str]]:
    """Operators × dtypes whose cases are read, which takes a while of all of them."""
    return PAIRS[:: request.param]


def test_their_number_is_told(pairs: list[tuple[consistency.Operator, str]]) -> None:
    assert not [pair for pair in pairs if len(shipped.cases(*pair)) != shipped.count(*pair)]


def test_the_files_are_small() -> None:
    files = list(shipped.FOLDER.glob("*.jsonl.gz"))
    assert sum(path.stat().st_size for path in files) < LARGEST


def test_no_tensor_is_large(pairs: list[tuple[consistency.Operator, str]]) -> None:
    """A run's memory: the gradient of 20 million expanded elements took 900 MB."""

    def elements(tensor: TensorRecipe | Literal) -> int:
        base = tensor.shape if isinstance(tensor, Literal) else tensor.base
        expanded = [step[1:] for step in tensor.view if step[0] == "expand"]
        return max(math.prod(abs(size) for size in shape) for shape in (base, *expanded))

    large = [
        case.id
        for pair in pairs
        for case in shipped.cases(*pair)
        if any(elements(tensor) >= LARGEST_TENSOR for tensor in case.tensors)
    ]
    assert not large


def test_no_case_comes_twice(pairs: list[tuple[consistency.Operator, str]]) -> None:
    for pair in pairs:
        ids = [case.id for case in shipped.cases(*pair)]
        assert len(ids) == len(set(ids)), pair


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of unary operators, to write; nothing that was read before counts."""
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    kept = (shipped._rows, shipped._cases)
    for cache in kept:
        cache.cache_clear()
    yield tmp_path / "unary.jsonl"
    for cache in kept:
        cache.cache_clear()


def test_each_has_the_line_of_a_case_that_was_read(
    pairs: list[tuple[consistency.Operator, str]],
) -> None:
    """Their lines are put together without reading the cases: identity rests on them."""
    other = []
    for pair in pairs:
        for case in shipped.cases(*pair):
            read = Case.from_line(case.line)
            if (read.line, read.id) != (case.line, case.id):
                other.append(case.id)
    assert not other


def test_a_line_with_its_keys_in_another_order_is_read(file: Path) -> None:
    sine = operators.get("sin")
    case = {"args": [{"tensor": {"base": [3], "dtype": "float32", "stop": 9, "values": ["near"]}}]}
    row = {"operator": "sin", "dtype": "float32", "cases": [case]}
    written = []
    for text in (json.dumps(row), json.dumps(row, sort_keys=True, separators=(",", ":"))):
        file.write_text(text + "\n", encoding="utf-8")
        shipped._rows.cache_clear()
        shipped._cases.cache_clear()
        written.append(shipped.cases(sine, "float32"))
    assert written[0] == written[1]
    assert len(written[0]) == 1


@pytest.mark.parametrize("cases", ["[}", "7", '[{"args":', "{"])
def test_a_damaged_line_costs_its_own_operator_only(file: Path, cases: str) -> None:
    good = '{"cases":[],"dtype":"float32","operator":"cos"}\n'
    file.write_text(
        f'{{"cases":{cases},"dtype":"float32","operator":"sin"}}\n{good}', encoding="utf-8"
    )
    assert shipped.cases(operators.get("cos"), "float32") == ()
    with pytest.raises(BundleError, match=r"unary\.jsonl  sin in float32: damaged: "):
        shipped.cases(operators.get("sin"), "float32")


def test_an_operator_of_the_user_has_none() -> None:
    from dataclasses import replace

    add = operators.get("add")
    assert shipped.cases(add, "float32")
    assert not shipped.cases(replace(add, traits=add.traits | {"mine"}), "float32")


def test_healthy_backends_pass(operator: consistency.Operator, dtype: str) -> None:
    """Judged as a run judges: what an operator's own steps cancel is no fault. torch may refuse the
    gradient of a case (of nll_loss in channels_last), but not both directions."""
    if operator.callable is None:
        pytest.skip("this torch lacks the operator")
    cpu, budget = backends.resolve("cpu"), DiagnosisBudget()
    for case in shipped.cases(operator, dtype):
        results = judge_case(
            case, operator, [cpu], tolerances.load(), operator.directions, diagnosis_budget=budget
        )
        for result in results:
            assert not result.verdict.fails, result.explanation
            assert "harness itself" not in result.explanation
        refused = ["raises, and so does float64" in result.explanation for result in results]
        assert not all(refused) or not results, results[0].explanation


@pytest.mark.parametrize("name", ["add", "matmul", "softmax", "nn.functional.conv2d", "sort"])
def test_they_notice_an_element_that_is_one_percent_off(name: str) -> None:
    operator = operators.get(name)
    found = measure.look(operator, shipped.cases(operator, "float32"), ONE_OFF)
    assert found.noticed == {(direction, ONE_OFF) for direction in operator.directions}


def test_a_run_begins_with_them() -> None:
    config = engine.configure(
        ["add"], ["cpu"], ["float32"], examples=3, shipped=True, exhaustive=False
    )
    (unit,) = plan(config, lambda: False)
    begin = shipped.cases(operators.get("add"), "float32")
    assert unit.cases[: len(begin)] == begin
    assert len(unit.cases) == len(begin) + 3


def test_fresh_cases_are_counted_beside_them() -> None:
    chosen: dict[str, Any] = {"examples": 2, "exhaustive": False}
    run = consistency.run(["exp"], ["cpu"], ["float32"], ["forward"], **chosen)
    alone = consistency.run(["exp"], ["cpu"], ["float32"], ["forward"], **chosen, shipped=False)
    begin = shipped.cases(operators.get("exp"), "float32")
    assert len(alone.results) == 2
    assert len(run.results) == len(begin) + 2


def test_other_sources_of_cases_have_none() -> None:
    pytest.importorskip("expecttest")
    assert RunOptions(source="opinfo").cases == UNSHIPPED
    config = engine.configure(["add"], ["cpu"], ["float32"], source="opinfo", shipped=True)
    assert not engine.shipped_cases(config, operators.get("add"), "float32")


def test_the_command_leaves_them_out(tmp_path: Path) -> None:
    line = "run exp --dtype float32 --direction forward --backend cpu --no-exhaustive --out {}"
    begin = shipped.cases(operators.get("exp"), "float32")
    for more, count in (("", len(begin) + 3), (" --no-shipped", 3)):
        folder = tmp_path / str(count)
        found = command(line + " --examples 3" + more, folder)
        assert found.exit_code == 0, found.output
        settings = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))["settings"]
        assert settings["shipped"] is not more.startswith(" --no")
        stored = (folder / "cases.jsonl").read_text(encoding="utf-8").splitlines()
        assert len(stored) == count
        assert ("shipped cases" in found.output) is (not more)


def test_an_interrupted_run_goes_on_with_them(tmp_path: Path) -> None:
    line = "run exp --dtype float32 --direction forward --backend cpu --examples 1 --out {}"
    folder = tmp_path / "bundle"
    assert command(line, folder).exit_code == 0
    assert command(f"{line} --resume", folder).exit_code == 0
    refused = command(f"{line} --resume --no-shipped", folder)
    assert refused.exit_code == 2
    assert "other shipped" in refused.output


def test_what_was_measured_is_told() -> None:
    table = adequacy.measured()
    found = table["add", "float32"]
    assert 0 < found.noticed["forward"] <= found.shown["forward"]
    assert len(found.missed["forward"]) == found.shown["forward"] - found.noticed["forward"]
