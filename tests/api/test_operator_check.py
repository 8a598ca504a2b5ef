"""consistency.check: planted faults are named, healthy operators are not accused."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import consistency
from consistency import Divergence, UsageError
from tests.support import custom_operators
from tests.support.custom_operators import FAULTY, FURTHER, HEALTHY, OTHERS, drawn
from tests.support.paths import ROOT

PLANTED = [
    pytest.param(kinds, number, id=f"{kinds}-{number}")
    for kinds, subjects in FAULTY.items()
    for number in range(len(subjects))
]


@functools.cache
def checked(kinds: str, number: int) -> consistency.OperatorReport:
    """What is said of a faulty operator."""
    subject = FAULTY[kinds][number]
    return consistency.check(
        subject.op, reference=subject.reference, inputs=subject.inputs(), dtypes=["float32"],
        compile=False,
    )  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("kinds", "number"), PLANTED)
def test_a_planted_fault_is_named(kinds: str, number: int) -> None:
    report = checked(kinds, number)
    kind = kinds.removesuffix("-of-other-kinds")
    assert report.findings, str(report)
    assert report.findings[0].kind == kind, str(report)
    others = {finding.kind for finding in report.findings[1:]}
    assert others <= ({"schema"} if kind == "writes" else set()), str(report)
    assert not report
    with pytest.raises(Divergence, match=kind):
        report.raise_if_failed()


@pytest.mark.nightly
def test_what_the_sentences_name() -> None:
    def words(kind: str, number: int = 0) -> str:
        return str(checked(kind, number).findings[0].words)

    assert "last full block of 64 of the flattened result" in words("tail-block")
    assert "last full block of 64 along dimension -1" in words("tail-block", 1)
    assert "gradient of x is wrong" in words("wrong-gradient")
    assert "lies about strides" in words("fake-kernel")
    assert "repeats" in words("race")


@pytest.mark.one_in(16)
@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_operator_is_not_accused_in_any_dtype(name: str) -> None:
    subject = HEALTHY[name]
    report = consistency.check(
        subject.op, reference=subject.reference, inputs=subject.inputs(), seconds=600,
        compile=name == "silu_mul",
    )  # fmt: skip
    assert report, str(report)
    passed = {r.dtype for r in report.results if r.verdict.passes}
    assert passed == {"float32", "float64", "float16", "bfloat16"}


@pytest.mark.parametrize(
    ("number", "name"),
    [
        pytest.param(
            number,
            name,
            marks=()
            if number == 0 and name in ("rms_norm", "tiled_matmul")
            else pytest.mark.nightly,
        )
        for number in range(len(FURTHER))
        for name in HEALTHY
    ],
)
def test_nor_with_other_examples(number: int, name: str) -> None:
    subject = HEALTHY[name]
    report = consistency.check(
        subject.op, reference=subject.reference, inputs=FURTHER[number][name](), seconds=600,
        compile=False,
    )  # fmt: skip
    assert report, str(report)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", OTHERS)
def test_nor_are_operators_of_other_kinds(name: str) -> None:
    subject = OTHERS[name]
    report = consistency.check(
        subject.op, reference=subject.reference, inputs=subject.inputs(), compile=False
    )
    assert report, str(report)


def test_keyword_arguments_are_given_as_the_schema_says() -> None:
    inputs = {"x": drawn(6, 40), "weight": drawn(9, 40)}
    assert consistency.check(
        custom_operators.linear, reference=lambda a, b: F.linear(a, b), inputs=inputs,
        dtypes=["float32"], compile=False,
    )  # fmt: skip


def test_a_factor_that_is_off_by_eight_ulp_is_noticed() -> None:
    report = consistency.check(
        lambda x, y: custom_operators.silu_mul(x, y) * (1.0 + 2.0**-20),
        reference=lambda x, y: F.silu(x) * y,
        inputs=(drawn(6, 40), drawn(6, 40, seed=2)), dtypes=["float32"], gradients=False,
    )  # fmt: skip
    assert [finding.kind for finding in report.findings] == ["wrong-numbers"]


def test_the_first_verdict_takes_few_lines_and_no_example() -> None:
    report = consistency.check(
        custom_operators.silu_mul, reference=lambda x, y: F.silu(x) * y, dtypes=["float32"],
        compile=False, gradients=False,
    )  # fmt: skip
    assert report
    assert "no fault found" in str(report)
    assert "fake kernel (" in str(report)
    assert "\n" not in repr(report)


@pytest.mark.nightly
def test_a_plain_function_that_captures_a_tensor() -> None:
    weight = drawn(40, 8)
    report = consistency.check(
        lambda x: x @ weight, reference=lambda x: F.linear(x, weight.t()), inputs=drawn(6, 40),
        dtypes=["float32"],
    )  # fmt: skip
    assert report, str(report)
    assert any("is not registered" in text for text in report.not_tested)
    wrong = consistency.check(
        lambda x: x @ weight * 1.001, reference=lambda x: x @ weight, inputs=drawn(6, 40),
        dtypes=["float32"],
    )  # fmt: skip
    assert [finding.kind for finding in wrong.findings] == ["wrong-numbers"]
    assert "consistency.save" in str(wrong)


def test_without_a_reference_the_report_says_what_is_not_tested() -> None:
    report = consistency.check(lambda x: torch.tanh(x) * 2, inputs=drawn(6, 40), dtypes=["float32"])
    assert report
    assert any(text.startswith("the formula: no reference") for text in report.not_tested)


def test_refusals_are_told_and_are_no_faults() -> None:
    def picky(x: torch.Tensor) -> torch.Tensor:
        if x.shape[-1] % 8 or x.dtype == torch.float16:
            raise ValueError(f"no kernel for {x.dtype} and {x.shape[-1]} columns")
        return x.exp()

    report = consistency.check(picky, reference=torch.exp, inputs=drawn(6, 40))
    assert report, str(report)
    assert any("refuses" in text and "no kernel for" in text for text in report.not_tested)
    assert "float16" not in {r.dtype for r in report.results}


def test_bits_that_change_within_rounding_are_a_warning() -> None:
    generator = torch.Generator().manual_seed(0)

    def atomics(x: torch.Tensor) -> torch.Tensor:
        order = torch.randperm(x.shape[-1], generator=generator)
        return x[..., order].sum(-1)

    report = consistency.check(
        atomics, reference=lambda x: x.sum(-1), inputs=drawn(6, 400), dtypes=["float32"],
        gradients=False,
    )  # fmt: skip
    assert report, str(report)
    assert any("within rounding" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"op": 3}, "cannot be called"),
        ({"op": torch.exp, "inputs": (1, 2)}, "holds no tensor"),
        ({"op": lambda x: x}, "has no schema"),
        ({"op": lambda x: x.view(7), "inputs": drawn(6)}, "raises RuntimeError on the example"),
        (
            {"op": torch.exp, "inputs": drawn(6), "reference": lambda x: x.float() @ x},
            "the reference does not compute",
        ),
    ],
)
def test_a_mistake_is_one_clear_line(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text) as caught:
        consistency.check(**arguments)
    assert "\n" not in str(caught.value)


def _page_code() -> str:
    page = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8")
    return "\n".join(re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE))


def test_the_pages_triton_example_runs_on_the_interpreter(tmp_path: Path) -> None:
    pytest.importorskip("triton", reason="triton is not installed: its interpreter runs nothing")
    script = tmp_path / "example.py"
    script.write_text(_page_code(), encoding="utf-8")
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True,
        text=True, encoding="utf-8",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.split("silu_mul_tail", 1)
    assert "no fault found" in first
    assert "tail-block: only elements after the last full block of 128" in second
