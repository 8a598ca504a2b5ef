"""OpenVINO: its precisions and their causes, a whole model."""

from __future__ import annotations

import subprocess
import sys

import torch

from consistency import operators
from consistency.backends.runtimes.openvino import IN_FLOAT32, OpenVino
from consistency.core.verdict import OutcomeStatus
from tests.support.graph_runtimes import call, needs_openvino, result


def test_doubles_are_not_offered() -> None:
    assert OpenVino().unsupported(operators.get("sin"), "float64", "forward")


@needs_openvino
def test_no_telemetry_is_sent() -> None:
    program = (
        "import sys; from consistency.backends.runtimes.openvino import OpenVino; "
        "assert OpenVino().why_unavailable() is None; "
        "from openvino.tools.ovc import telemetry_utils; "
        "assert telemetry_utils.tm.__name__ == 'openvino.tools.ovc.telemetry_stub'; "
        "assert not any(name.startswith('openvino_telemetry') for name in sys.modules); "
        "import openvino_telemetry"  # as it was for everybody else
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, timeout=300)


@needs_openvino
class TestCalls:
    def test_bfloat16(self) -> None:
        x = torch.tensor([[0, 1], [1, 0]]).to(torch.bfloat16)
        found = result(
            call(OpenVino(switches={"precision": "f32"}), "permute", x, (1, 0), dtype="bfloat16")
        )
        assert found.dtype == torch.bfloat16
        assert torch.equal(found, x.t())

    def test_what_it_has_no_kernel_of_is_one_line(self) -> None:
        outcome = call(
            OpenVino(switches={"precision": "f16"}), "matmul", torch.ones(2, 3), torch.ones(3, 2)
        )
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
