"""ONNX Runtime: what it cannot do, and translation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import operators
from consistency.backends.runtimes import exporter
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.sessions import Sessions
from consistency.backends.runtimes.translation import Translator, reason
from consistency.core.verdict import OutcomeStatus
from consistency.engine.engine import Run
from consistency.errors import Unsupported
from consistency.generate.materialize import case_of, prepare
from consistency.generate.shipped import cases as shipped
from tests.support.graph_runtimes import call, needs_onnxruntime
from tests.support.running import unshrunk


def test_naming_it_imports_nothing() -> None:
    program = (
        "import sys; from consistency import backends; backends.resolve('ort'); "
        "print(sorted({'onnx', 'onnxruntime', 'onnxscript', 'torch.onnx'} & set(sys.modules)))"
    )
    before = "import sys, torch; print(sorted({'torch.onnx'} & set(sys.modules)))"
    shown = [
        subprocess.run(
            [sys.executable, "-c", each], capture_output=True, text=True, check=True, timeout=120
        ).stdout
        for each in (program, before)
    ]
    assert shown[0] == shown[1]


def test_the_exporters_reason_is_told_in_a_few_words() -> None:
    text = "No ONNX function found for <OpOverload(op='aten.sort', overload='stable')>. Failure m"
    inner = RuntimeError(text)
    outer = RuntimeError("Failed to convert the exported program to an ONNX model.")
    outer.__cause__ = inner
    assert reason(outer) == "no ONNX graph: none for aten.sort.stable"


@needs_onnxruntime
class TestCalls:
    def test_what_cannot_be_translated(self) -> None:
        outcome = call(OnnxRuntime(), "sort", torch.ones(3), stable=True)
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert outcome.message == "no ONNX graph: none for aten.sort.stable"

    def test_hundreds_of_returned_tensors_are_not_exported(self) -> None:
        outcome = call(OnnxRuntime(), "unbind", torch.ones(257, 1))
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert outcome.message == "no ONNX graph: it returns 257 tensors; 256 are exported"

    def test_an_invalid_graph_is_no_crash(self) -> None:
        outcome = call(OnnxRuntime(), "prod", torch.tensor(2.0), 0)
        assert outcome.status in (OutcomeStatus.RAISED, OutcomeStatus.OK)

    def test_opset(self) -> None:
        onnx = pytest.importorskip("onnx")
        operator, x = operators.get("softmax"), torch.ones(2, 3)
        translation = Translator(20).translate(operator, [x, 1], {})
        model = onnx.load_from_string(translation.model)
        assert [item.version for item in model.opset_import if item.domain == ""] == [20]


@needs_onnxruntime
class TestTranslation:
    def test_each_signature_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[int] = []
        export = exporter.export

        def counted(*args: Any) -> bytes:
            made.append(1)
            return export(*args)

        monkeypatch.setattr(exporter, "export", counted)
        translator, operator = Translator(), operators.get("add")
        first = translator.translate(operator, [torch.ones(2), torch.ones(2)], {})
        again = translator.translate(operator, [torch.zeros(2), torch.ones(2)], {})
        assert again is first
        assert len(made) == 1
        for other in (
            [torch.ones(3), torch.ones(3)],
            [torch.ones(2).double(), torch.ones(2)],
            [torch.ones(2), 1.0],
            [torch.ones(2), 1],
        ):
            translator.translate(operator, other, {})
        assert len(made) == 5

    def test_a_failure_is_kept_too(self, monkeypatch: pytest.MonkeyPatch) -> None:
        translator, operator = Translator(), operators.get("sort")
        for _ in range(2):
            with pytest.raises(Unsupported, match=r"aten\.sort\.stable"):
                translator.translate(operator, [torch.ones(3)], {"stable": True})
            monkeypatch.setattr(exporter, "export", None)

    def test_what_torch_refuses_for_its_strides_is_translated_in_another_layout(self) -> None:
        translator, operator = Translator(), operators.get("take_along_dim")
        x, positions = torch.arange(6.0).reshape(2, 3), torch.tensor([5, 0])
        with pytest.raises(RuntimeError, match="view size is not compatible"):  # torch's own defect
            translator.translate(operator, [x.T, positions], {})
        assert translator.translate(operator, [x.reshape(3, 2), positions], {}).model

    def test_graphs_are_those_of_the_exporter_alone(self, tmp_path: Path) -> None:
        """With and without the kept tables, for operators that are translated, decomposed, and
        decomposed into composite ones."""
        program = tmp_path / "export.py"
        program.write_text(_EXPORTS, encoding="utf-8")
        plain, kept = (
            subprocess.run(
                [sys.executable, str(program), way],
                capture_output=True,
                text=True,
                check=True,
                timeout=300,
            ).stdout
            for way in ("plain", "kept")
        )
        assert plain == kept
        assert plain.count("node") > 10


_EXPORTS = """
import sys
import onnx
import torch
from consistency.backends.runtimes import exporter

if sys.argv[1] == "plain":
    exporter.prepare = lambda: None
x = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
functions = [
    lambda x: torch.nn.functional.gelu(x),
    lambda x: torch.linalg.cross(x[:, :, :3], x[:, :, 1:]),
    lambda x: x.clone().add_(2),
    lambda x: torch.nn.functional.batch_norm(x, torch.zeros(3), torch.ones(3)),
    lambda x: torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    lambda x: torch.logaddexp2(x, x),
    lambda x: torch.broadcast_to(x, (2, 2, 3, 4)),
    lambda x: torch.nn.functional.batch_norm(x, x[0, :, 0] * 1, x[0, :, 1] ** 2, training=True),
    lambda x: x.flatten(1).squeeze(),
    lambda x: torch.nn.functional.unfold(x[None], 2),
    lambda x: torch.nn.functional.smooth_l1_loss(x, x * 2),
    lambda x: torch.linalg.cross(x[:, :, :3], x[:, :, 1:]),
]
for function in functions:
    graph = onnx.load_from_string(exporter.export(lambda x: (function(x),), [x])).graph
    print([(n.op_type, list(n.input), list(n.output), len(n.attribute)) for n in graph.node])
    print("node", len(graph.node), [t.name for t in graph.initializer])
"""


@needs_onnxruntime
def test_known_signatures_are_not_loaded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bytes] = []

    def counted(self: Sessions, model: bytes) -> Any:
        loaded.append(model)
        return original(self, model)

    original = Sessions._opened
    monkeypatch.setattr(Sessions, "_opened", counted)
    backend = OnnxRuntime()
    cases = [case_of("add", "float32", (torch.ones(8, n), torch.ones(n)), {}) for n in range(1, 9)]
    prepared = [(operators.get(case.operator), prepare(case)) for case in cases]
    for operator, materials in prepared:
        assert backend.run(operator, materials).ok
    assert len(loaded) == len(prepared)
    for operator, materials in prepared * 3:
        assert backend.run(operator, materials).ok
    assert len(loaded) == len(prepared)


# Of each family some operators; what diverges in them is entered in tolerances.yaml.
CORPUS = (
    "add", "mul", "exp", "sqrt", "sigmoid", "tanh", "nn.functional.gelu", "nn.functional.silu",
    "softmax", "log_softmax", "sum", "mean", "amax", "argmax", "cumsum", "matmul", "bmm", "addmm",
    "nn.functional.linear", "nn.functional.conv2d", "nn.functional.avg_pool2d",
    "nn.functional.max_pool2d", "nn.functional.layer_norm", "nn.functional.batch_norm",
    "nn.functional.interpolate", "nn.functional.embedding", "cat", "permute", "gather",
    "index_select", "where", "clamp", "remainder", "expm1", "log1p", "topk",
)  # fmt: skip


@needs_onnxruntime
def test_a_corpus_of_shipped_cases_is_judged() -> None:
    """Nothing fails that is not entered as known. What it costs is in docs/performance.md."""
    registry = operators.registry()
    assert all(shipped.count(registry[name], "float32") for name in CORPUS)
    outcome: Run = unshrunk(
        list(CORPUS),
        [OnnxRuntime()],
        examples=1,
        dtypes=["float32"],
        directions=["forward"],
        shipped=True,
    )
    mine = [result for result in outcome.results if result.backend == "onnxruntime"]
    judged = {result.operator for result in mine if result.verdict.value in ("exact", "rounding")}
    assert not [result for result in mine if result.verdict.fails]
    assert len(judged) >= len(CORPUS) - 4
