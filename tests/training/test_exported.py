"""Exported models: healthy files are not accused, planted faults are named with their node and the
torch call, and files from elsewhere are bounded."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from consistency import Subject, compare_models
from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.errors import UsageError
from consistency.training.examples import EXAMPLES
from consistency.training.exported import model_file
from consistency.training.exported.check import ExportCheck, check
from consistency.training.exported.file_check import check_file
from consistency.training.exported.torch_program import TorchProgram
from consistency.training.findings import WITHIN
from tests.support.commands import command
from tests.support.exported_models import (
    FAULTS,
    ONNX,
    Fault,
    anonymous,
    attention,
    file_of,
    legacy_file_of,
    program_of,
    vision,
    wrong_node,
)

ABSENT = OnnxRuntime.not_installed()
pytestmark = pytest.mark.skipif(
    bool(ABSENT), reason=f'{", ".join(ABSENT)} not installed: pip install ".[onnxruntime]"'
)
RUN = OnnxRuntime().run_model


def checked(program: TorchProgram, model: Any, run: Any = RUN) -> ExportCheck:
    return check("net.onnx", model, program, "onnxruntime", run, 4)


@pytest.mark.parametrize("make", [vision, attention])
@pytest.mark.parametrize("hidden", [False, True], ids=["names", "no names"])
def test_a_healthy_file_is_within_the_band(make: Callable[[], Subject], hidden: bool) -> None:
    program = program_of(make)
    model = file_of(program)
    found = checked(program, anonymous(model) if hidden else model)
    assert found.verdict == WITHIN, str(found)
    assert found.location is None
    assert found.compared >= 0.7 * found.calls


@pytest.mark.parametrize("make", [vision, attention])
def test_a_healthy_file_of_the_older_exporter(make: Callable[[], Subject], tmp_path: Path) -> None:
    program = program_of(make)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        model = legacy_file_of(program, str(tmp_path / "net.onnx"))
    assert checked(program, model).verdict == WITHIN


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.parametrize("hidden", [False, True], ids=["names", "no names"])
def test_a_planted_fault_is_named(fault: Fault, hidden: bool) -> None:
    program = program_of(fault.make)
    model = file_of(program)
    fault.plant(model)
    found = checked(program, anonymous(model) if hidden else model)
    assert found.fails
    place = found.location
    assert place is not None, str(found)
    assert place.node.startswith(f'{fault.kind} "'), str(found)
    assert place.call is not None
    assert place.call.operator == fault.operator, str(found)
    assert place.stage == "translation"
    assert fault.words in place.reason, str(found)


@pytest.mark.parametrize(
    ("kind", "operator"),
    [("Softmax", "aten.softmax.int"), ("LayerNormalization", "aten.layer_norm.default"),
     ("Gelu", "aten.gelu.default")],
)  # fmt: skip
def test_a_node_that_the_runtime_computes_wrong(kind: str, operator: str) -> None:
    program = program_of(attention)
    found = checked(program, file_of(program), wrong_node(RUN, kind, lambda t: t * 1.001))
    assert found.fails
    place = found.location
    assert place is not None
    assert place.node.startswith(kind)
    assert place.call is not None
    assert (place.stage, place.call.operator) == ("runtime", operator), str(found)


def test_a_healthy_runtime_that_computes_node_by_node() -> None:
    program = program_of(attention)
    found = checked(program, file_of(program), wrong_node(RUN, "Softmax", lambda t: t))
    assert found.verdict == WITHIN, str(found)


def test_a_lossy_translation_is_the_translations() -> None:
    program = TorchProgram(_Small(), (torch.linspace(1e-6, 1e-3, 16).reshape(4, 4),))
    found = checked(program, file_of(program))
    assert found.fails
    assert found.location is not None
    assert found.location.stage == "translation"
    assert "lose precision (Exp, Sub)" in found.location.reason, str(found)
    assert found.location.call is not None
    assert found.location.call.operator == "aten.expm1.default"


class _Small(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.expm1(x)


@pytest.mark.parametrize("name", ["mlp", "cnn", "transformer", "lstm", "in-place"])
def test_the_models_of_the_examples_are_within_the_band(name: str) -> None:
    report = compare_models(f"examples:{name}", ["ort"], replicas=4, mistakes=False)
    found = report.backends["onnxruntime"]
    assert found.verdict == WITHIN, str(report)
    assert found.layers
    assert found.looked_at
    assert "forward only" in str(report)


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n.startswith("autocast")])
def test_mixed_precision_is_told_as_not_tested(name: str) -> None:
    report = compare_models(f"examples:{name}", ["ort"], replicas=2, mistakes=False)
    assert "float32 only" in report.backends["onnxruntime"].absent


def test_a_model_beside_another_backend() -> None:
    report = compare_models("examples:mlp", ["cpu", "ort"], steps=1, replicas=2, mistakes=False)
    assert list(report.backends) == ["cpu", "onnxruntime"]
    assert report.verdict == WITHIN


class TestFiles:
    def saved(self, folder: Path, model: Any) -> Path:
        path = folder / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def external(self, folder: Path, location: str, **facts: int) -> Path:
        model = file_of(program_of(vision))
        tensor = model.graph.initializer[0]
        (folder / "data.bin").write_bytes(tensor.raw_data)
        tensor.ClearField("raw_data")
        tensor.data_location = ONNX.TensorProto.EXTERNAL
        for name, value in {"location": location, **facts}.items():
            tensor.external_data.add(key=name, value=str(value))
        return self.saved(folder, model)

    def test_external_data_of_its_own_folder_are_read(self, tmp_path: Path) -> None:
        model = model_file.load(self.external(tmp_path, "data.bin"))
        assert checked(program_of(vision), model).verdict == WITHIN

    @pytest.mark.parametrize(
        "location",
        ["../data.bin", "/etc/hostname", "a/../../data.bin", "C:\\data.bin", "..\\data.bin",
         "\\\\host\\share", "", "data.bin\0", "missing.bin"],
    )  # fmt: skip
    def test_external_data_elsewhere_are_refused(self, location: str, tmp_path: Path) -> None:
        inner = tmp_path / "inner"
        inner.mkdir()
        (tmp_path / "data.bin").write_bytes(bytes(1 << 12))
        with pytest.raises(UsageError, match="external data"):
            model_file.load(self.external(inner, location))

    def test_a_link_out_of_the_folder_is_refused(self, tmp_path: Path) -> None:
        inner = tmp_path / "inner"
        inner.mkdir()
        path = self.external(inner, "link.bin")
        try:
            (inner / "link.bin").symlink_to(tmp_path / "secret")
        except OSError:
            pytest.skip("this system lets nobody make links")
        (tmp_path / "secret").write_bytes((inner / "data.bin").read_bytes())
        with pytest.raises(UsageError, match="external data"):
            model_file.load(path)

    @pytest.mark.parametrize("facts", [{"offset": 4}, {"length": 3}, {"offset": -8}])
    def test_external_data_that_do_not_fit(self, facts: dict[str, int], tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="its shape needs"):
            model_file.load(self.external(tmp_path, "data.bin", **facts))

    def test_bounds(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = self.saved(tmp_path, file_of(program_of(vision)))
        monkeypatch.setattr(model_file, "MAX_NODES", 3)
        with pytest.raises(UsageError, match="more than 3 nodes"):
            model_file.load(path)
        monkeypatch.setattr(model_file, "MAX_BYTES", 100)
        with pytest.raises(UsageError, match="larger than 100 bytes"):
            model_file.load(path)

    def test_inputs_of_another_model(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path, file_of(program_of(vision)))
        with pytest.raises(UsageError, match=r"float32 \[2, 5, 8\]"):
            check_file(path, attention, ["onnxruntime"], 2)

    def test_a_backend_that_runs_no_files(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="cpu runs no ONNX files"):
            check_file(tmp_path, vision, ["cpu"], 2)

    @pytest.mark.parametrize("content", [b"", b"no model", bytes(64), b"\x08\x07\x3a\x02\x0a\x00"])
    def test_what_is_no_model_is_one_line(self, content: bytes, tmp_path: Path) -> None:
        path = tmp_path / "net.onnx"
        path.write_bytes(content)
        found = command(f"check-onnx {path.as_posix()} --against examples:mlp --trust")
        assert found.exit_code == 2
        assert len(found.output.splitlines()) == 1
        assert "ONNX model" in found.output

    def test_every_cut_of_a_file_is_one_line(self, tmp_path: Path) -> None:
        data = file_of(program_of(attention)).SerializeToString()
        path = tmp_path / "net.onnx"
        for size in range(0, len(data), len(data) // 40):
            path.write_bytes(data[:size])
            with pytest.raises(UsageError) as refusal:
                model_file.load(path)
            assert "\n" not in str(refusal.value)


TRAIN = """
from tests.support.exported_models import attention as factory
"""


@pytest.fixture
def target(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(TRAIN, encoding="utf-8")
    return f"{(tmp_path / 'train.py').as_posix()}:factory"


@pytest.mark.parametrize("trust", ["", "--trust"], ids=["in a process", "here"])
def test_the_command(target: str, trust: str, tmp_path: Path) -> None:
    program = program_of(attention)
    model = file_of(program)
    path, rows = tmp_path / "net.onnx", tmp_path / "rows.json"
    path.write_bytes(model.SerializeToString())
    line = f"check-onnx {path.as_posix()} --against {target} --replicas 2 {trust}"
    found = command(line)
    assert found.exit_code == 0, found.output
    assert "within the band" in found.output
    FAULTS[0].plant(model)
    path.write_bytes(model.SerializeToString())
    found = command(f"{line} --json {rows.as_posix()}")
    assert found.exit_code == 1, found.output
    assert "Softmax's axis is 1, and right with" in found.output
    (row,) = json.loads(rows.read_text(encoding="utf-8"))["checks"]
    assert row["stage"] == "translation"
    assert row["call"]["operator"] == "aten.softmax.int"
