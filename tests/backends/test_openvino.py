"""OpenVINO: specs and absence without it; calls, precision and their causes with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends.runtimes.openvino import IN_FLOAT32, OpenVino
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.model import Outcome
from consistency.core.verdict import OutcomeStatus
from consistency.errors import UsageError
from consistency.generate.materialize import case_of, prepare

SCRIPTS = Path(__file__).parents[2] / "docs" / "openvino"
ABSENT = OpenVino.not_installed()
needs_it = pytest.mark.skipif(
    bool(ABSENT), reason=f'{", ".join(ABSENT)} not installed: pip install ".[openvino]"'
)


def call(name: str, *args: Any, dtype: str = "float32", precision: str = "f32") -> Outcome:
    case = case_of(name, dtype, args, {})
    backend = OpenVino(switches={"precision": precision})
    return backend.run(operators.get(name), prepare(case), "forward")


def numbers(outcome: Outcome) -> torch.Tensor:
    assert outcome.ok, outcome.message
    tensor = outcome.outputs[0].tensor
    assert tensor is not None
    return tensor


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ov", "openvino"),
        ("openvino+precision=bf16", "openvino+precision=bf16"),
        ("ov+device=gpu+opset=18", "openvino+device=gpu+opset=18"),
    ],
)
def test_specs(spec: str, name: str) -> None:
    assert backends.resolve(spec).name == name


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("ov+precision=f64", "f32|bf16|f16"),
        ("ov+device=tpu", "device=cpu|gpu|npu"),
        ("ov+precisions=f32", "did you mean precision"),
        ("ov:1", "device number"),
    ],
)
def test_mistakes_in_a_spec(spec: str, word: str) -> None:
    with pytest.raises(UsageError, match=word.replace("|", r"\|")):
        backends.resolve(spec)


def test_absence_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenVino, "not_installed", staticmethod(lambda: list(OpenVino.PACKAGES)))
    backend = backends.resolve("openvino")
    assert not isinstance(backend, SubprocessBackend)
    assert "openvino" not in sys.modules or not ABSENT
    told = backends.availability(backend)
    assert told is not None
    assert 'pip install "consistency[openvino]"' in told


def test_what_it_does_not_compute() -> None:
    backend, operator = OpenVino(), operators.get("sin")
    assert backend.unsupported(operator, "float32", "forward") is None
    for dtype, direction in (
        ("complex64", "forward"),
        ("float64", "forward"),
        ("float32", "backward"),
    ):
        assert backend.unsupported(operator, dtype, direction)


@needs_it
class TestCalls:
    def test_the_same_bits_as_torch_where_nothing_is_rounded(self) -> None:
        x = torch.arange(12.0).reshape(3, 4)
        assert torch.equal(numbers(call("add", x, x.t().contiguous().t())), x + x)
        assert torch.equal(numbers(call("permute", x, (1, 0))), x.t())
        assert torch.equal(numbers(call("cat", [x, x], 1)), torch.cat([x, x], 1))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int32, torch.bool])
    def test_dtypes(self, dtype: torch.dtype) -> None:
        x = torch.tensor([[0, 1], [1, 0]]).to(dtype)
        outcome = call("permute", x, (1, 0), dtype=str(dtype).removeprefix("torch."))
        assert numbers(outcome).dtype == dtype
        assert torch.equal(numbers(outcome), x.t())

    def test_several_outputs_and_what_is_written(self) -> None:
        outcome = call("max", torch.tensor([[3.0, 1.0], [0.0, 2.0]]), 1)
        found = [o.tensor.tolist() for o in outcome.outputs if o.tensor is not None]
        assert found == [[3.0, 2.0], [0, 1]]
        outcome = call("add_", torch.ones(3), torch.ones(3))
        assert all(o.tensor is not None and o.tensor.eq(2).all() for o in outcome.outputs)

    def test_an_input_that_the_graph_does_not_use(self) -> None:
        assert numbers(call("isreal", torch.ones(3))).all()

    def test_what_torch_refuses_is_refused_with_its_words(self) -> None:
        outcome = call("matmul", torch.ones(2, 3), torch.ones(2, 3))
        assert outcome.status is OutcomeStatus.RAISED
        assert "shapes cannot be multiplied" in outcome.message

    def test_what_it_has_no_kernel_of_is_one_line(self) -> None:
        outcome = call("matmul", torch.ones(2, 3), torch.ones(3, 2), precision="f16")
        assert outcome.status in (
            OutcomeStatus.OK, OutcomeStatus.UNSUPPORTED, OutcomeStatus.RAISED,
        )  # fmt: skip
        assert "\n" not in outcome.message

    def test_its_choice_of_precision_is_told_and_can_be_undone(self) -> None:
        backend = OpenVino()
        assert "choice" in backend.environment()["precision"]
        assert OpenVino(switches={"precision": "bf16"}).environment()["precision"] == "bf16"
        assert IN_FLOAT32 in backend.variants()
        assert IN_FLOAT32 not in OpenVino(switches={"precision": "f32"}).variants()

    def test_a_whole_model(self) -> None:
        from consistency import compare_models
        from consistency.training.findings import WITHIN

        report = compare_models(
            "examples:cnn", ["openvino+precision=f32"], replicas=4, mistakes=False
        )
        assert report.verdict == WITHIN, str(report)


@needs_it
@pytest.mark.nightly
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_scripts_show_their_divergence(script: Path) -> None:
    """Those of docs/openvino.md, with torch and openvino alone."""
    assert "consistency" not in script.read_text(encoding="utf-8")
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=300)
