"""What a run on a real GPU showed to be right: backends that do so are not accused, and a mistake
in the same place is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

import consistency
from consistency import backends, operators
from consistency.core.model import Case, Outcome, Result
from consistency.core.recipe import DType, TensorRecipe
from consistency.diagnose.case_runner import judge_case
from consistency.judge import tolerances
from consistency.reference.integer_casts import judge_casts

RULES = tolerances.load()


class Changed(consistency.Backend):
    """torch's CPU, and what ``change`` makes of each result."""

    name = "changed"

    def __init__(self, change: Any) -> None:
        self.change = change

    def run(self, *args: Any, **kwargs: Any) -> Outcome:
        outcome = super().run(*args, **kwargs)
        for output in outcome.outputs:
            if output.tensor is not None:
                output.tensor.data = self.change(output.tensor.detach().clone())
        return outcome


def judged(case: Case, backend: consistency.Backend, direction: str = "forward") -> Result:
    (found,) = judge_case(case, operators.get(case.operator), [backend], RULES, (direction,))
    return found


# Three rows, each of two equal columns.
EQUAL = TensorRecipe(
    (3, 1), "float32", ("uniform", -1.0, 1.0), 5, (("expand", 3, 2),)
)  # quantiles of equal numbers
TIES = [
    Case("quantile", "float32", (EQUAL, 0.75), {"dim": 1}, cotangent=9),
    Case("nanquantile", "float32", (EQUAL, 0.75), {"dim": 1}, cotangent=9),
    Case("masked.median", "float32", (EQUAL, 1), {}, cotangent=9),
]


@pytest.mark.parametrize("case", TIES, ids=lambda case: case.operator)
def test_the_gradient_may_go_to_any_of_equal_elements(case: Case) -> None:
    other = judged(case, Changed(lambda gradient: gradient.flip(-1)), "backward")
    assert other.verdict.value in ("exact", "rounding"), other.explanation
    wrong = judged(case, Changed(lambda gradient: gradient * 1.01), "backward")
    assert wrong.verdict.fails


ZEROS = TensorRecipe((64,), "float32", ("tokens", -1.0, 7.0, "0", "-0"), 77)
BOUNDED = [
    Case("nn.functional.relu6", "float32", (ZEROS,)),
    Case("nn.functional.hardtanh", "float32", (ZEROS,), {"min_val": 0.0, "max_val": 6.0}),
    Case("clamp_", "float32", (ZEROS,), {"min": 0.0, "max": 4.0}),
    Case("_foreach_clamp_min", "float32", ([ZEROS], 0.0)),
]


@pytest.mark.parametrize("case", BOUNDED, ids=lambda case: case.operator)
def test_either_zero_where_a_bound_is_zero(case: Case) -> None:
    positive = judged(case, Changed(lambda result: result + 0.0))
    assert positive.verdict.value in ("exact", "rounding"), positive.explanation
    assert judged(case, Changed(lambda result: result * 1.01)).verdict.fails


def test_hardtanh_keeps_the_sign_of_zero_between_other_bounds() -> None:
    case = Case("nn.functional.hardtanh", "float32", (ZEROS,), {"min_val": -1.0, "max_val": 6.0})
    found = judged(case, Changed(lambda result: result + 0.0))
    assert found.verdict.value == "special-values"


def test_complex_numbers_beyond_the_range_may_saturate() -> None:
    beyond = torch.tensor([3e9 + 1j, -3e9 + 1j, 5.5 + 1j, complex(math.inf, 0)])
    held = torch.tensor([2**31 - 1, -(2**31), 5, 2**31 - 1], dtype=torch.int32)
    wanted = beyond.real.to(torch.int32)
    errors = judge_casts(beyond, held, wanted)
    assert errors is not None
    assert not errors.wrong.any()
    held[2] = 6
    errors = judge_casts(beyond, held, wanted)
    assert errors is not None
    assert errors.wrong.tolist() == [False, False, True, False]


def test_eight_bits_may_be_cut_from_sixteen_that_saturate() -> None:
    """Triton casts to int8 by way of int16."""
    beyond = torch.tensor([32839.27, 40000.0, 5.0, 200.0])
    wanted = beyond.to(torch.int64).to(torch.int8)
    held = torch.tensor([-1, -1, 5, -56], dtype=torch.int8)
    errors = judge_casts(beyond, held, wanted)
    assert errors is not None
    assert not errors.wrong.any()
    errors = judge_casts(beyond, torch.tensor([-1, -1, 6, -1], dtype=torch.int8), wanted)
    assert errors is not None
    assert errors.wrong.tolist() == [False, False, True, True]


def test_a_cast_of_complex_numbers_that_saturates_passes() -> None:
    class Saturating(consistency.Backend):
        name = "saturating"

        def call(
            self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
        ) -> Any:
            real = args[0].real.to(torch.float64).nan_to_num()
            return real.clamp(-(2.0**31), 2.0**31 - 1).to(torch.int32)

    numbers = TensorRecipe((64,), "complex64", ("tokens", -8e9, 8e9, "nan", "inf"), 5)
    found = judged(Case("to", "complex64", (numbers, DType("int32"))), Saturating())
    assert not found.verdict.fails, found.explanation


def test_a_factor_of_i_leaves_one_part_alone() -> None:
    """Of a spectrum's number with NaN in one part the other may be finite."""
    signal = TensorRecipe((4, 8), "float32", ("uniform", -1.0, 1.0), 40, special=((31, "nan"),))
    case = Case("fft.fft", "float32", (signal,))

    def one_part(result: torch.Tensor) -> torch.Tensor:
        real = torch.where(result.real.isnan(), 0.5, result.real)
        return torch.complex(real, result.imag)

    found = judged(case, Changed(one_part))
    assert not found.verdict.fails, found.explanation
    assert judged(case, Changed(lambda result: result * 1.01)).verdict.fails


def test_numbers_of_a_list_come_from_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """``_foreach_addcmul_`` takes a tensor of numbers from the CPU only."""
    moved = []
    monkeypatch.setattr(torch.Tensor, "cpu", lambda self: (moved.append(self.shape), self)[1])
    x, one = torch.ones(3, 2), torch.ones(3, 2)
    operators.get("_foreach_addcmul_")([x], [one], [one], torch.tensor([2.0]))
    assert moved == [(1,)]
    assert bool((x == 3).all())


@pytest.mark.parametrize(
    "text",
    [
        "getCudnnDataTypeFromScalarType() not supported for Long",
        "`fused=True` requires all the params to be floating point Tensors of supported devices: "
        "['cpu'] but torch.float32 and cuda",
    ],
)
def test_refusals_of_cuda_are_not_errors(text: str) -> None:
    class Refusing(consistency.Backend):
        name = "refusing"

        def call(self, *_: Any) -> Any:
            raise RuntimeError(text)

    found = judged(Case("exp", "float32", (ZEROS,)), Refusing())
    assert found.verdict.value == "unsupported"


def test_an_entry_may_name_several_devices() -> None:
    text = """
extends: packaged
expectations:
  - operator: [exp, sin]
    device: [cpu, "NVIDIA*"]
    verdicts: [divergent]
    reason: planted
"""
    entries = tolerances.from_text("mine.yaml", text).expectations
    mine = [entry for entry in entries if entry.reason == "planted"]
    assert [(entry.operator, entry.device) for entry in mine] == [
        ("exp", "cpu"), ("exp", "NVIDIA*"), ("sin", "cpu"), ("sin", "NVIDIA*"),
    ]  # fmt: skip
    assert len({entry.id for entry in mine}) == 4


def test_amx_is_among_the_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    from consistency.backends import _numerics

    for tiles, expected in ((True, True), (False, False)):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda t=tiles: t, raising=False)
        monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
        _numerics.instructions.cache_clear()
        assert _numerics.instructions().endswith("AMX") is expected
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "AVX2")
    _numerics.instructions.cache_clear()
    assert not _numerics.instructions().endswith("AMX")
    _numerics.instructions.cache_clear()


def test_amx_is_found_without_torchs_function(tmp_path: Path) -> None:
    from consistency.backends._numerics import _linux_knows_tiles

    cpuinfo = tmp_path / "cpuinfo"
    assert not _linux_knows_tiles(cpuinfo)  # no Linux
    for flags, expected in (("sse2 amx_tile amx_int8", True), ("sse2 avx512_fp16", False)):
        cpuinfo.write_text(f"flags\t\t: fpu {flags}\n", encoding="utf-8")
        assert _linux_knows_tiles(cpuinfo) is expected


def test_the_cpu_is_right_in_all_of_these() -> None:
    for case in TIES:
        assert not judged(case, backends.resolve("cpu"), "backward").verdict.fails
    for case in BOUNDED:
        assert not judged(case, backends.resolve("cpu")).verdict.fails
