"""The moderately large cases that operators have in every run: healthy backends pass them, faults
that begin at 2**16 rows are noticed, and those that need two large sizes at once."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency import backends, operators
from consistency.core.model import Case
from consistency.core.recipe import TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.engine.run_options import RunOptions
from consistency.engine.unit_cases import exhaustive_cases, shipped_cases
from consistency.generate import exhaustive
from consistency.generate.large import shipped
from consistency.generate.materialize import prepare
from consistency.judge import tolerances
from tests.support.commands import command

CASES = [(name, case) for name, cases in sorted(shipped._cases().items()) for case in cases]
EVERY = 48  # of them run with every change, the others nightly
LIMIT = 1 << 16
ROWS, TERMS = 512, 256
FAMILIES = ("add", "exp", "softmax", "nn.functional.linear", "bmm", "nn.functional.gelu")


class Beyond(consistency.Backend):
    """What lies beyond 65,536 rows of a result is that of the rows before."""

    name = "beyond"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        if not isinstance(result, torch.Tensor):
            return result
        long = [dim for dim, size in enumerate(result.shape) if size > LIMIT]
        if long:
            with torch.no_grad():
                rest = result.narrow(long[0], LIMIT, result.shape[long[0]] - LIMIT)
                rest.copy_(result.narrow(long[0], 0, rest.shape[long[0]]).clone())
        return result


class TwoLarge(consistency.Backend):
    """The last rows of a product of many rows and terms are zeros."""

    name = "two-large"

    @staticmethod
    def touches(case: Case) -> bool:
        matrices = [t for t in case.tensors if isinstance(t, TensorRecipe) and not t.view]
        return case.tiling is None and any(
            first.base[-2] > ROWS and first.base[-1] > TERMS and second.base[-2] == first.base[-1]
            for first, second in itertools.pairwise(matrices)
            if min(len(first.base), len(second.base)) > 1
        )

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        matrices = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.ndim > 1]
        large = any(m.shape[-2] > ROWS and m.shape[-1] > TERMS for m in matrices[:-1])
        if large and result.ndim > 1 and result.shape[-2] > ROWS:
            with torch.no_grad():
                result[..., ROWS:, :] = 0
        return result


def verdicts(case: Case, backend: consistency.Backend) -> list[consistency.Result]:
    operator = operators.get(case.operator)
    return judge_case(case, operator, [backend], tolerances.load(), operator.directions)


def test_most_operators_have_one() -> None:
    names = {name for name, _ in CASES}
    floating = [
        name
        for name, operator in operators.registry().items()
        if shipped.DTYPE in operator.dtypes
        and operator.form_of is None
        and operator.derivative_of is None
    ]
    assert len(names & {*floating}) >= 0.6 * len(floating)
    assert all(case.tiling.is_large for _, case in CASES if case.tiling is not None)


def test_wide_cases_are_wide_and_small_enough() -> None:
    wide = [case for _, case in CASES if case.tiling is None]
    assert len(wide) > 100
    for case in wide:
        sizes = sorted(size for t in case.tensors for size in t.base)  # type: ignore[union-attr]
        assert sizes[-1] >= 512 or sizes[-2] >= 14, case  # one is long, or two are large
        assert 1 << 14 <= sum(math.prod(t.base) for t in case.tensors) <= 1 << 22  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(*pair, marks=() if number % EVERY == 0 else pytest.mark.nightly, id=pair[0])
        for number, pair in enumerate(CASES)
    ],
)
def test_healthy_backends_pass(name: str, case: Case) -> None:
    if operators.get(name).callable is None:
        pytest.skip(f"torch {torch.__version__} has no {name}")
    for result in verdicts(case, backends.resolve("cpu")):
        assert not result.verdict.fails, result.explanation
        assert "harness itself" not in result.explanation


@pytest.mark.parametrize("dtype", shipped.HALF)
def test_products_have_wide_ones_in_half_precision(dtype: str) -> None:
    found = shipped.cases(operators.get("mm"), dtype)
    assert len(found) == sum(case.tiling is None for name, case in CASES if name == "mm") > 3
    for case in found:
        assert {case.dtype, *(t.dtype for t in case.tensors)} == {dtype}
        assert all(result.verdict.passes for result in verdicts(case, backends.resolve("cpu")))
    assert not shipped.cases(operators.get("exp"), dtype)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("gather", "bfloat16"), ("cumsum", "bool"), ("unique", "int64"), ("sort", "int64")],
)
def test_rows_have_wide_ones_in_other_dtypes(name: str, dtype: str) -> None:
    """Positions beyond what bfloat16 holds, sums beyond a byte, numbers that float32 does not tell
    apart: reports name all three."""
    found = shipped.cases(operators.get(name), dtype)
    assert found
    for case in found:
        assert dtype in {case.dtype, *(t.dtype for t in case.tensors)}
        made = prepare(case).build().tensors[0]
        if dtype == "int64":
            assert made.unique().numel() > made.to(torch.float32).unique().numel()
        for result in verdicts(case, backends.resolve("cpu")):
            assert result.verdict.passes or result.verdict.value in ("inconclusive", "unsupported")


def test_counts_beyond_a_byte_are_noticed() -> None:
    operator = operators.get("cumsum")
    results = [
        result
        for case in shipped.cases(operator, "bool")
        for result in judge_case(case, operator, [Byte()], tolerances.load(), ("forward",))
    ]
    assert any(result.verdict.fails for result in results)


class Byte(consistency.Backend):
    """Running counts are kept in eight bits (pytorch#125318)."""

    name = "byte"

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        result = super().call(operator, args, kwargs)
        counts = isinstance(result, torch.Tensor) and result.dtype == torch.int64
        return result.to(torch.int8).to(torch.int64) if counts else result


@pytest.mark.parametrize("name", FAMILIES)
def test_a_fault_beyond_65536_rows_is_noticed(name: str) -> None:
    rows = [case for each, case in CASES if each == name]
    assert any(result.verdict.fails for case in rows for result in verdicts(case, Beyond()))


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["mm", "matmul", "addmm", "bmm"])
def test_a_fault_of_two_large_sizes_is_noticed(name: str) -> None:
    """Products of more than 512 rows and more than 256 terms leave the last rows out: no other
    case of a quick run has both."""
    config = RunOptions(operators=(name,), dtypes=("float32",)).config(["cpu"])
    operator = operators.get(name)
    other = [
        *shipped_cases(config, operator, "float32"),
        *exhaustive_cases(config, operator, "float32"),
    ]
    for case, is_noticed in [
        *((case, False) for case in other),
        *((case, True) for each, case in CASES if each == name and TwoLarge.touches(case)),
    ]:
        for backend in (TwoLarge(), backends.resolve("cpu")):
            failing = [r for r in verdicts(case, backend) if r.verdict.fails]
            assert bool(failing) == (is_noticed and isinstance(backend, TwoLarge)), case
    assert any(TwoLarge.touches(case) for each, case in CASES if each == name)


def test_a_run_has_them_unless_it_says_how_many_cases() -> None:
    assert RunOptions(operators=("add",)).config(["cpu"]).long
    assert not RunOptions(operators=("add",), examples=5).config(["cpu"]).long
    assert not RunOptions(operators=("add",), exhaustive=False).config(["cpu"]).long


def test_the_bundle_says_so(tmp_path: Path) -> None:
    line = "run add --no-shipped --dtype float32 --direction forward --backend cpu --out {}"
    found = command(line, tmp_path / "b")
    assert found.exit_code == 0, found.output
    settings = json.loads((tmp_path / "b" / "bundle.json").read_text(encoding="utf-8"))["settings"]
    assert settings["long"] is True
    stored = (tmp_path / "b" / "cases.jsonl").read_text(encoding="utf-8")
    add = operators.get("add")
    known = (*exhaustive.cases(add, "float32"), *shipped.cases(add, "float32"))
    assert len(stored.splitlines()) == 5 + len(known)
