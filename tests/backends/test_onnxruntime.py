"""ONNX Runtime: specs and absence without it; translation, sessions and speed with it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import backends, operators
from consistency.backends.runtimes import exporter
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.translation import Translator, reason
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.model import Case, Outcome
from consistency.core.verdict import OutcomeStatus
from consistency.engine.engine import Run
from consistency.errors import Unsupported, UsageError
from consistency.generate.materialize import case_of, prepare
from consistency.generate.shipped import cases as shipped
from tests.support.running import unshrunk

ABSENT = OnnxRuntime.not_installed()
needs_it = pytest.mark.skipif(
    bool(ABSENT), reason=f'{", ".join(ABSENT)} not installed: pip install ".[onnxruntime]"'
)
SMALLEST_RATE = 100.0  # cases per second of processor time, of signatures that are known
CORPUS_SECONDS = 120.0
SCRIPTS = Path(__file__).parents[2] / "docs" / "runtimes"


def call(name: str, *args: Any, dtype: str = "float32", **kwargs: Any) -> Outcome:
    return run(OnnxRuntime(), case_of(name, dtype, args, kwargs))


def run(backend: backends.Backend, case: Case, **options: Any) -> Outcome:
    return backend.run(operators.get(case.operator), prepare(case), "forward", **options)


def numbers(outcome: Outcome) -> torch.Tensor:
    assert outcome.ok, outcome.message
    tensor = outcome.outputs[0].tensor
    assert tensor is not None
    return tensor


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ort", "onnxruntime"),
        ("onnxruntime", "onnxruntime"),
        ("ort+opt=off", "onnxruntime+opt=off"),
        ("ort+ep=cuda+opset=20", "onnxruntime+ep=cuda+opset=20"),
    ],
)
def test_specs(spec: str, name: str) -> None:
    assert backends.resolve(spec).name == name


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ("ort+opt=some", "off|basic|all"),
        ("ort+ep=gpu", "ep=cpu|cuda"),
        ("ort+opset=new", "opset=NUMBER"),
        ("ort+opts=off", "did you mean opt"),
        ("ort:1", "device number"),
    ],
)
def test_mistakes_in_a_spec(spec: str, word: str) -> None:
    with pytest.raises(UsageError, match=word.replace("|", r"\|")):
        backends.resolve(spec)


def test_absence_is_told_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        OnnxRuntime, "not_installed", staticmethod(lambda: list(OnnxRuntime.PACKAGES))
    )
    backend = backends.resolve("ort")
    assert not isinstance(backend, SubprocessBackend)  # no process is started for that
    told = backends.availability(backend)
    assert told is not None
    assert "not installed" in told
    assert 'pip install "consistency[onnxruntime]"' in told


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


@needs_it
class TestCalls:
    def test_the_same_bits_as_torch_where_nothing_is_rounded(self) -> None:
        x = torch.arange(12.0).reshape(3, 4)
        assert torch.equal(numbers(call("add", x, x.t().contiguous().t())), x + x)
        assert torch.equal(numbers(call("permute", x, (1, 0))), x.t())
        assert torch.equal(numbers(call("cat", [x, x], 1)), torch.cat([x, x], 1))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.float64, torch.int32, torch.bool])
    def test_dtypes(self, dtype: torch.dtype) -> None:
        x = torch.tensor([[0, 1], [1, 0]]).to(dtype)
        outcome = call("permute", x, (1, 0), dtype=str(dtype).removeprefix("torch."))
        assert numbers(outcome).dtype == dtype
        assert torch.equal(numbers(outcome), x.t())

    def test_what_is_written_in_place_is_written(self) -> None:
        outcome = call("add_", torch.ones(3), torch.ones(3))
        assert [o.name for o in outcome.outputs] == ["out/0", "arg/0"]
        assert all(o.tensor is not None and o.tensor.eq(2).all() for o in outcome.outputs)

    def test_several_outputs(self) -> None:
        x = torch.tensor([[3.0, 1.0], [0.0, 2.0]])
        outcome = call("max", x, 1)
        assert [o.tensor.tolist() for o in outcome.outputs if o.tensor is not None] == [
            [3.0, 2.0],
            [0, 1],
        ]

    def test_what_cannot_be_translated(self) -> None:
        outcome = call("sort", torch.ones(3), stable=True)
        assert outcome.status is OutcomeStatus.UNSUPPORTED
        assert outcome.message == "no ONNX graph: none for aten.sort.stable"

    def test_complex_numbers(self) -> None:
        backend = OnnxRuntime()
        told = backend.unsupported(operators.get("sin"), "complex64", "forward")
        assert told == "ONNX Runtime has no complex numbers"

    def test_what_torch_refuses_is_refused_with_its_words(self) -> None:
        outcome = call("matmul", torch.ones(2, 3), torch.ones(2, 3))
        assert outcome.status is OutcomeStatus.RAISED
        assert "shapes cannot be multiplied" in outcome.message

    def test_an_invalid_graph_is_no_crash(self) -> None:
        outcome = call("prod", torch.tensor(2.0), 0)
        assert outcome.status in (OutcomeStatus.RAISED, OutcomeStatus.OK)

    def test_gradients_are_not_offered(self) -> None:
        told = OnnxRuntime().unsupported(operators.get("sin"), "float32", "backward")
        assert told is not None
        assert "no gradients" in told

    def test_opset(self) -> None:
        onnx = pytest.importorskip("onnx")
        operator, x = operators.get("softmax"), torch.ones(2, 3)
        translation = Translator(20).translate(operator, [x, 1], {})
        model = onnx.load_from_string(translation.model)
        assert [item.version for item in model.opset_import if item.domain == ""] == [20]


@needs_it
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


@needs_it
def test_rate_of_known_signatures() -> None:
    backend = OnnxRuntime()
    cases = [case_of("add", "float32", (torch.ones(8, n), torch.ones(n)), {}) for n in range(1, 9)]
    prepared = [(operators.get(case.operator), prepare(case)) for case in cases]
    for operator, materials in prepared:
        assert backend.run(operator, materials).ok
    began, count = time.process_time(), 0
    while count < 400:
        for operator, materials in prepared:
            assert backend.run(operator, materials).ok
            count += 1
    assert count / (time.process_time() - began) > SMALLEST_RATE


# Of each family some operators; what diverges in them is entered in tolerances.yaml.
CORPUS = (
    "add", "mul", "exp", "sqrt", "sigmoid", "tanh", "nn.functional.gelu", "nn.functional.silu",
    "softmax", "log_softmax", "sum", "mean", "amax", "argmax", "cumsum", "matmul", "bmm", "addmm",
    "nn.functional.linear", "nn.functional.conv2d", "nn.functional.avg_pool2d",
    "nn.functional.max_pool2d", "nn.functional.layer_norm", "nn.functional.batch_norm",
    "nn.functional.interpolate", "nn.functional.embedding", "cat", "permute", "gather",
    "index_select", "where", "clamp", "remainder", "expm1", "log1p", "topk",
)  # fmt: skip


@needs_it
def test_a_corpus_of_shipped_cases_is_judged() -> None:
    """Nothing fails that is not entered as known, in at most two minutes of processor time."""
    began = time.process_time()
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
    assert time.process_time() - began < CORPUS_SECONDS


@needs_it
@pytest.mark.nightly
@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.py")), ids=lambda script: script.stem)
def test_scripts_show_their_divergence(script: Path) -> None:
    """Those of docs/runtimes.md, with torch and onnxruntime alone."""
    assert "consistency" not in script.read_text(encoding="utf-8")
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=300)
