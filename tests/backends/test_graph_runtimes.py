"""What every runtime of translated calls owes: specs and absence without it; the same bits,
dtypes, outputs and refusals with it; scripts that show its divergences."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from consistency import backends, operators
from consistency.backends.base import Backend
from consistency.backends.runtimes.graph_runtime import GraphRuntime
from consistency.backends.runtimes.jax_runtime import Jax
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.openvino import OpenVino
from consistency.backends.runtimes.runtime import Runtime
from consistency.backends.subprocess.backend import SubprocessBackend
from consistency.core.verdict import OutcomeStatus
from consistency.errors import UsageError
from tests.support.graph_runtimes import JAX, ONNXRUNTIME, OPENVINO, call, needs, result, tensors

DOCS = Path(__file__).parents[2] / "docs"
SCRIPTS = [
    pytest.param(script, marks=needs(runtime), id=f"{folder}-{script.stem}")
    for runtime, folder in ((OnnxRuntime, "runtimes"), (OpenVino, "openvino"), (Jax, "jax"))
    for script in sorted((DOCS / folder).glob("*.py"))
]


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("ort", "onnxruntime"),
        ("onnxruntime", "onnxruntime"),
        ("ort+opt=off", "onnxruntime+opt=off"),
        ("ort+ep=cuda+opset=20", "onnxruntime+ep=cuda+opset=20"),
        ("ov", "openvino"),
        ("openvino+precision=bf16", "openvino+precision=bf16"),
        ("ov+device=gpu+opset=18", "openvino+device=gpu+opset=18"),
        ("jax+jit=off+precision=highest", "jax+jit=off+precision=highest"),
        ("xla", "xla"),
        ("xla@python+env:PJRT_DEVICE=CPU", "xla@python+env:PJRT_DEVICE=CPU"),
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
        ("ov+precision=f64", "f32|bf16|f16"),
        ("ov+device=tpu", "device=cpu|gpu|npu"),
        ("ov+precisions=f32", "did you mean precision"),
        ("ov:1", "device number"),
        ("jax+jit=no", "jit=on|off"),
        ("jax+presision=high", "did you mean precision"),
        ("jax:1", "device number"),
        ("xla+jit=off", "no switch"),
    ],
)
def test_mistakes_in_a_spec(spec: str, word: str) -> None:
    with pytest.raises(UsageError, match=word.replace("|", r"\|")):
        backends.resolve(spec)


@pytest.mark.parametrize("runtime", [OnnxRuntime, OpenVino, Jax])
def test_absence_is_told_with_the_remedy(
    runtime: type[Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "not_installed", staticmethod(lambda: list(runtime.PACKAGES)))
    backend = backends.resolve(runtime.EXTRA)
    assert not isinstance(backend, SubprocessBackend)  # no process is started for that
    told = backends.availability(backend)
    assert told is not None
    assert "not installed" in told
    assert f'pip install "consistency[{runtime.EXTRA}]"' in told


@pytest.mark.parametrize("runtime", [OnnxRuntime, OpenVino, Jax])
def test_a_package_that_cannot_be_imported_is_told(
    runtime: type[Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "not_installed", staticmethod(list))
    monkeypatch.setitem(sys.modules, runtime.PACKAGES[0], None)
    told = runtime().why_unavailable()
    assert told is not None
    assert told.startswith(f"{runtime.PACKAGES[0]} cannot be imported: ")


@pytest.mark.parametrize("runtime", [OnnxRuntime, OpenVino])
def test_what_is_not_computed(runtime: type[GraphRuntime]) -> None:
    backend, operator = runtime(), operators.get("sin")
    assert backend.unsupported(operator, "float32", "forward") is None
    assert "no complex numbers" in str(backend.unsupported(operator, "complex64", "forward"))
    assert "no gradients" in str(backend.unsupported(operator, "float32", "backward"))


@pytest.mark.parametrize("backend", [ONNXRUNTIME, OPENVINO, JAX])
class TestCalls:
    def test_the_same_bits_as_torch_where_nothing_is_rounded(self, backend: Backend) -> None:
        x = torch.arange(12.0).reshape(3, 4)
        assert torch.equal(result(call(backend, "add", x, x.t().contiguous().t())), x + x)
        assert torch.equal(result(call(backend, "permute", x, (1, 0))), x.t())
        assert torch.equal(result(call(backend, "cat", [x, x], 1)), torch.cat([x, x], 1))

    @pytest.mark.parametrize("dtype", [torch.float16, torch.int32, torch.bool])
    def test_dtypes(self, backend: Backend, dtype: torch.dtype) -> None:
        x = torch.tensor([[0, 1], [1, 0]]).to(dtype)
        found = result(call(backend, "permute", x, (1, 0), dtype=str(dtype).removeprefix("torch.")))
        assert found.dtype == dtype
        assert torch.equal(found, x.t())

    def test_several_outputs(self, backend: Backend) -> None:
        found = tensors(call(backend, "max", torch.tensor([[3.0, 1.0], [0.0, 2.0]]), 1))
        assert [tensor.tolist() for tensor in found] == [[3.0, 2.0], [0, 1]]

    def test_what_is_written_in_place_is_written(self, backend: Backend) -> None:
        outcome = call(backend, "add_", torch.ones(3), torch.ones(3))
        assert [output.name for output in outcome.outputs] == ["out/0", "arg/0"]
        assert all(tensor.eq(2).all() for tensor in tensors(outcome))

    def test_an_input_that_the_graph_does_not_use(self, backend: Backend) -> None:
        assert result(call(backend, "isreal", torch.ones(3))).all()

    def test_what_torch_refuses_is_refused_with_its_words(self, backend: Backend) -> None:
        outcome = call(backend, "matmul", torch.ones(2, 3), torch.ones(2, 3))
        assert outcome.status is OutcomeStatus.RAISED
        assert "shapes cannot be multiplied" in outcome.message


@pytest.mark.nightly
@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_show_their_divergence(script: Path) -> None:
    """Those of docs/runtimes.md and beside it, with torch and the runtime alone."""
    text = script.read_text(encoding="utf-8")
    assert "consistency" not in text
    if "import torchax" in text and "dim_Dimname" not in torch.ops.aten.prod.overloads():
        pytest.skip("torchax names overloads that this torch no longer has: it cannot be imported")
    subprocess.run([sys.executable, "-W", "ignore", str(script)], check=True, timeout=300)
