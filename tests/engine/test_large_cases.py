"""Large cases: faults that begin at a size are noticed and named by it; a healthy backend is left
in peace. The sizes are scaled down, but for the nightly test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

import consistency
from consistency import operators
from consistency.backends.cpu import Cpu
from consistency.core.model import Case, Result
from consistency.diagnose.case_runner import judge_case
from consistency.diagnose.diagnosis_budget import DiagnosisBudget
from consistency.diagnose.shrink import minimize
from consistency.engine import engine
from consistency.engine.events import Judged, Minimized
from consistency.engine.plan import large
from consistency.generate.large import ladder
from consistency.generate.large.discovery import Tile, tiles
from consistency.generate.large.tile_call import PERIOD
from consistency.judge import tolerances
from consistency.report.repro_script import script

LIMIT = 1 << 13
FORWARD = ("forward",)
_BYTES = 1 << 26


def sized(tile: Tile, size: int) -> Case:
    tiling = tile.case.tiling
    assert tiling is not None
    whole = -(-size // PERIOD) * PERIOD if tile.whole else size
    return replace(tile.case, tiling=replace(tiling, size=whole))


def tail(flat: torch.Tensor, limit: int) -> None:
    """The elements after the last complete vector are those of the first one."""
    rest = flat.numel() % 8 or 8
    flat[-rest:] = flat[:rest].clone()


def unwritten(flat: torch.Tensor, limit: int) -> None:
    flat[-(flat.numel() % 64 or 5) :] = 0


def wrapped(flat: torch.Tensor, limit: int) -> None:
    """An index of too few bits."""
    count = min(flat.numel() - limit, limit)
    flat[limit : limit + count] = flat[:count].clone()


def dropped(flat: torch.Tensor, limit: int) -> None:
    flat[limit : limit + 1000] = 0


def twice(flat: torch.Tensor, limit: int) -> None:
    """A block that is computed again in place of the next one."""
    middle = flat.numel() // 2
    flat[middle : middle + 512] = flat[middle - 512 : middle].clone()


FAULTS: tuple[Callable[[torch.Tensor, int], None], ...] = (tail, unwritten, wrapped, dropped, twice)


class WrongBeyond(consistency.Backend):
    """The CPU, which is wrong where a tensor has more elements than a limit: in the results, or in
    what is read of the arguments."""

    def __init__(
        self,
        fault: Callable[[torch.Tensor, int], None],
        limit: int = LIMIT,
        *,
        reads: bool = False,
    ) -> None:
        self.name, self.fault, self.limit, self.reads = fault.__name__, fault, limit, reads

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.reads:
            args = [self._spoiled(arg.clone()) if torch.is_tensor(arg) else arg for arg in args]
            return super().call(operator, args, kwargs)
        result = super().call(operator, args, kwargs)
        if isinstance(result, torch.Tensor) and not result.requires_grad:
            return self._spoiled(result)
        return result

    def _spoiled(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.numel() > self.limit:
            self.fault(tensor.view(-1), self.limit)
        return tensor


def judged(case: Case, backend: consistency.Backend, directions: Sequence[str]) -> list[Result]:
    operator = operators.get(case.operator)
    return judge_case(case, operator, [backend], tolerances.load(), directions)


def times(flat: torch.Tensor, limit: int) -> None:
    flat[limit:] *= 1.001


def scattered(flat: torch.Tensor, limit: int) -> None:
    """Errors that no fault is known to make."""
    noise = torch.rand(flat.numel() - limit, generator=torch.Generator().manual_seed(1))
    flat[limit:] += 0.1 * torch.sign(noise - 0.5)


@pytest.mark.parametrize(
    ("fault", "limit", "cause"),
    [(times, 31 * PERIOD, "scaled"), (scattered, LIMIT, "depends-on-batch"), (scattered, 0, "")],
)
def test_the_worst_repetition_is_diagnosed(
    fault: Callable[[torch.Tensor, int], None], limit: int, cause: str
) -> None:
    """What no fault explains is the size of the call only where the small call is right."""
    operator = operators.get("cos")
    tile = next(tile for tile in tiles(operator, "float32") if not tile.reduced)
    case = sized(tile, 35 * PERIOD)
    budget = DiagnosisBudget()
    (result,) = judge_case(
        case, operator, [WrongBeyond(fault, limit)], tolerances.load(), FORWARD,
        diagnosis_budget=budget,
    )  # fmt: skip
    assert result.verdict.fails
    assert result.case == case
    assert result.cause == cause, result.explanation
    assert judged(case, Cpu(), FORWARD)[0].verdict.passes


# One of each kind of repetition: elements, two operands, rows, matrices, terms of a sum, in place.
RESULTS = [
    "exp", "add", "where", "nn.functional.gelu", "softmax", "matmul", "linalg.det", "cumsum",
    "nn.functional.conv2d", "floor", "int", "index_select", "transpose", "sqrt_",
    "nn.functional.mse_loss", "nn.functional.layer_norm", "fft.fft", "eq", "lerp",
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", RESULTS)
def test_a_fault_beyond_a_size_is_noticed(name: str) -> None:
    operator = operators.get(name)
    tile = next(tile for tile in tiles(operator, operator.dtypes[0]) if not tile.reduced)
    case = sized(tile, max(3 * PERIOD, int((LIMIT + 1357) / tile.largest) + 1))
    for fault in FAULTS:
        (result,) = judged(case, WrongBeyond(fault, LIMIT // 16), FORWARD)
        assert result.verdict.fails, fault.__name__


@pytest.mark.parametrize("name", ["sum", "nansum", "mean", "dot", "matmul", "mv", "addmm"])
@pytest.mark.parametrize("fault", [unwritten, wrapped, dropped])
def test_terms_of_a_sum_that_are_read_wrong(
    name: str, fault: Callable[[torch.Tensor, int], None]
) -> None:
    operator = operators.get(name)
    tile = next((tile for tile in tiles(operator, "float32") if tile.reduced), None)
    assert tile is not None
    # The sum of some wrong terms may be the right one; those of another number of them are not.
    case = sized(tile, 2 * LIMIT + 1)
    backends = [WrongBeyond(fault, limit, reads=True) for limit in (LIMIT, LIMIT - 999)]
    assert any(judged(case, backend, FORWARD)[0].verdict.fails for backend in backends)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", [*RESULTS, "sum", "mean", "var", "sort", "hsplit", "lstm"])
@pytest.mark.parametrize(
    "size",
    [
        pytest.param(2 * PERIOD, marks=pytest.mark.nightly),
        2 * PERIOD + 1,
        pytest.param(LIMIT - 1, marks=pytest.mark.nightly),
        LIMIT,
        LIMIT + 1,
    ],
)
def test_a_healthy_backend_is_left_in_peace(name: str, size: int) -> None:
    operator = operators.get(name)
    for tile in tiles(operator, operator.dtypes[0]):
        for result in judged(sized(tile, size), Cpu(), operator.directions):
            assert not result.verdict.fails, result.explanation


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not"])
def test_flags_that_are_seldom_set_are_noticed_where_they_are_lost(name: str) -> None:
    operator = operators.get(name)
    tile = next(tile for tile in tiles(operator, "float32") if not tile.reduced)
    for fault in (wrapped, dropped, twice):
        (result,) = judged(sized(tile, LIMIT + 1357), WrongBeyond(fault), FORWARD)
        assert result.verdict.fails, fault.__name__


@pytest.mark.parametrize(
    "name", ["nn.functional.cosine_similarity", "grouped_query_attention", "logsumexp", "quantile"]
)
def test_sums_of_rounded_terms_have_no_long_dimension(name: str) -> None:
    assert not any(tile.reduced for tile in tiles(operators.get(name), "float32"))


def test_an_input_that_is_written_to_is_noticed() -> None:
    class Writing(consistency.Backend):
        name = "writing"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            result = super().call(operator, args, kwargs)
            args[0].detach().view(-1)[-1] += 1.0
            return result

    (tile,) = tiles(operators.get("exp"), "float32")
    (result,) = judged(sized(tile, LIMIT), Writing(), FORWARD)
    assert result.verdict.value == "structure"


def test_the_worst_element_is_named_where_it_lies() -> None:
    def one(flat: torch.Tensor, limit: int) -> None:
        flat[limit + 7] += 1.0

    (tile,) = tiles(operators.get("exp"), "float32")
    (result,) = judged(sized(tile, LIMIT + 999), WrongBeyond(one), FORWARD)
    assert result.worst is not None
    assert result.worst.index == (LIMIT + 7,)
    assert result.shapes == (f"[{LIMIT + 999}]",)


def test_errors_of_many_repetitions_are_all_judged() -> None:
    """More repetitions differ than are kept: their extremes are."""

    def scattered(flat: torch.Tensor, limit: int) -> None:
        body = flat[: flat.numel() // PERIOD * PERIOD].view(-1, PERIOD)
        body[:, 0] += torch.finfo(flat.dtype).eps  # a rounding, everywhere but in the first one
        body[0, 0] -= torch.finfo(flat.dtype).eps
        body[body.shape[0] // 2, 3] += 0.5

    (tile,) = tiles(operators.get("exp"), "float32")
    (result,) = judged(sized(tile, LIMIT + 999), WrongBeyond(scattered), FORWARD)
    assert result.verdict.fails


def test_the_smallest_size_that_fails_is_found() -> None:
    (tile,) = tiles(operators.get("exp"), "float32")
    operator, backend = operators.get("exp"), WrongBeyond(wrapped)
    (result,) = judged(sized(tile, 4 * LIMIT + 1), backend, FORWARD)
    small = minimize(result, operator, backend, tolerances.load(), seconds=30.0)
    tiling = small.result.case.tiling
    assert tiling is not None
    assert LIMIT < tiling.size <= LIMIT + PERIOD
    assert small.result.verdict.fails


def test_a_failure_of_every_size_becomes_a_small_case() -> None:
    (tile,) = tiles(operators.get("exp"), "float32")
    operator, backend = operators.get("exp"), WrongBeyond(unwritten, 0)
    (result,) = judged(sized(tile, LIMIT), backend, FORWARD)
    small = minimize(result, operator, backend, tolerances.load(), seconds=30.0)
    assert small.result.case.tiling is None
    assert small.result.verdict.fails


def test_a_script_repeats_the_tensors() -> None:
    (tile,) = tiles(operators.get("exp"), "float32")
    (result,) = judged(sized(tile, LIMIT + 1), WrongBeyond(wrapped), FORWARD)
    text = script(result, operator=operators.get("exp"))
    assert f".index_select(0, torch.arange({LIMIT + 1}, device=device) % {PERIOD})" in text
    assert len(text) < 10_000


def test_a_run_of_large_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "_ELEMENTS", (1 << 14, 1 << 13))
    monkeypatch.setattr(ladder, "_ROWS", (1 << 13,))
    monkeypatch.setattr(ladder, "TOP", 1 << 14)
    config = engine.configure(
        ["exp", "sum", "matmul"], [WrongBeyond(dropped)], ["float32"], FORWARD, 0, memory=_BYTES
    )
    events = list(engine.run(config))
    results = [r for event in events if isinstance(event, Judged) for r in event.results]
    assert {r.operator for r in results if r.verdict.fails} == {"exp", "matmul"}
    assert all(r.case.tiling is not None for r in results)
    assert {r.case.operator for e in events if isinstance(e, Minimized) for r in [e.result]}
    assert max(r.case.tiling.size for r in results if r.case.tiling) == (1 << 14) + 1357


def test_memory_bounds_the_sizes() -> None:
    operator = operators.get("exp")
    sizes = {
        memory: [
            case.tiling.size
            for stage in range(ladder.STAGES)
            for case in ladder.cases(operator, "float32", memory, stage)
            if case.tiling is not None
        ]
        for memory in (1 << 21, 1 << 30)
    }
    assert max(sizes[1 << 21]) < (1 << 21) / 8
    assert {(1 << 24) + d for d in (-1, 0, 1)} <= set(sizes[1 << 30])
    assert {(1 << 15) + d for d in (-1, 0, 1)} <= set(sizes[1 << 21])


def test_bytes_reach_beyond_int32() -> None:
    operator = operators.get("bitwise_not")
    sizes = [c.tiling.size for c in ladder.cases(operator, "int8", 8 << 30, 2) if c.tiling]
    assert sizes == [(1 << 31) + 1, 1 << 31, (1 << 31) - 1]
    assert not list(ladder.cases(operator, "int8", 4 << 30, 2))


def test_the_first_units_are_those_beyond_float32_indices() -> None:
    config = engine.configure(
        ["exp", "add"], ["cpu"], ["float16", "float32"], examples=0, memory=_BYTES * 32
    )
    units = list(large(config, lambda: False))
    assert [(unit.operator.name, unit.dtype) for unit in units[:4]] == [
        ("exp", "float16"), ("add", "float16"), ("exp", "float32"), ("add", "float32"),
    ]  # fmt: skip
    assert all(case.tiling and case.tiling.size > 1 << 24 for case in units[0].cases)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["exp", "add", "softmax", "matmul", "int"])
def test_faults_beyond_two_to_the_24(name: str) -> None:
    operator = operators.get(name)
    (case,) = list(ladder.cases(operator, operator.dtypes[0], 8 << 30, 0))[:1]
    for fault in FAULTS:
        (result,) = judged(case, WrongBeyond(fault, 1 << 24), FORWARD)
        assert result.verdict.fails, fault.__name__
    (result,) = judged(case, Cpu(), FORWARD)
    assert not result.verdict.fails, result.explanation
