"""Faults planted in an ONNX graph, and faults planted in what a runtime makes of a healthy one."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from consistency.backends.runtimes.onnx_runtime import OnnxRuntime
from consistency.backends.runtimes.sessions import Sessions
from consistency.backends.runtimes.translation import Translation, Translator
from consistency.core.model import Case
from consistency.generate.materialize import case_of
from consistency.operators.declare import Operator

ONNX: Any = importlib.import_module("onnx") if importlib.util.find_spec("onnx") else None
GraphFault = Callable[[Any], None]
RuntimeFault = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class Planted:
    """A call, and a fault of its graph or of its result (the other one is None)."""

    name: str
    case: Case
    graph: GraphFault | None = None
    result: RuntimeFault | None = None

    def backend(self) -> OnnxRuntime:
        backend = OnnxRuntime()
        if self.graph is not None:
            backend.__dict__["_translator"] = _FaultyTranslator(self.graph)
        if self.result is not None:
            backend.__dict__["_sessions"] = _FaultySessions(self.result)
        return backend


class _FaultyTranslator(Translator):
    def __init__(self, fault: GraphFault) -> None:
        super().__init__()
        self._fault = fault

    def translate(
        self, operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Translation:
        translation = super().translate(operator, args, kwargs)
        model = ONNX.load_from_string(translation.model)
        self._fault(model)
        return replace(translation, model=model.SerializeToString())


class _FaultySessions(Sessions):
    def __init__(self, fault: RuntimeFault) -> None:
        super().__init__("CPUExecutionProvider", "all", 1)
        self._fault = fault

    def run(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [self._fault(output) for output in super().run(model, tensors)]


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Numbers between −2 and 2 without a pattern."""
    count = torch.Size(shape).numel()
    steps = torch.arange(count, dtype=torch.float64) + 1.0 + 31.0 * seed
    return ((steps * steps * 0.7548776662466927) % 1.0 * 4.0 - 2.0).to(torch.float32).reshape(shape)


def _call(name: str, *args: Any, **kwargs: Any) -> Case:
    return case_of(name, "float32", args, kwargs)


def attribute(kind: str, name: str, value: Any) -> GraphFault:
    """The attribute of the first node of a kind, set to another value."""

    def fault(model: Any) -> None:
        node = next(node for node in model.graph.node if node.op_type == kind)
        for old in [item for item in node.attribute if item.name == name]:
            node.attribute.remove(old)
        node.attribute.append(ONNX.helper.make_attribute(name, value))

    return fault


def constant(near: float, value: float) -> GraphFault:
    """The constant nearest to a number, replaced."""

    def fault(model: Any) -> None:
        for tensor in model.graph.initializer:
            array = ONNX.numpy_helper.to_array(tensor).copy()
            if array.dtype.kind == "f" and abs(array - near).max() < 1e-3:
                array[...] = value
                tensor.CopyFrom(ONNX.numpy_helper.from_array(array, tensor.name))
                return
        raise AssertionError(f"no constant near {near}")

    return fault


def other_input(kind: str, *order: int) -> GraphFault:
    """The inputs of the first node of a kind in another order."""

    def fault(model: Any) -> None:
        node = next(node for node in model.graph.node if node.op_type == kind)
        names = [node.input[i] for i in order]
        del node.input[:]
        node.input.extend(names)

    return fault


def other_node(kind: str, new: str) -> GraphFault:
    def fault(model: Any) -> None:
        next(node for node in model.graph.node if node.op_type == kind).op_type = new

    return fault


def opset(version: int, axis: int) -> GraphFault:
    """Softmax of an old opset, which flattens the dimensions from ``axis`` on."""

    def fault(model: Any) -> None:
        model.opset_import[0].version = version
        attribute("Softmax", "axis", axis)(model)

    return fault


_IMAGE, _WIDE = numbers(1, 2, 5, 5), numbers(1, 2, 6, 7)
_BLOCK, _GRID = numbers(2, 3, 4), numbers(1, 4, 4, 2, seed=3) / 2.0
_SQUARE, _KERNEL = numbers(4, 4, seed=2), numbers(2, 2, 3, 3, seed=5)

_F = "nn.functional."
GRAPH_FAULTS = [
    Planted("axis", _call("softmax", _BLOCK, 1), attribute("Softmax", "axis", 2)),
    Planted("axis 0", _call("softmax", _BLOCK, 2), attribute("Softmax", "axis", 0)),
    Planted("opset 11", _call("softmax", _BLOCK, 1), opset(11, 1)),
    Planted("log axis", _call("log_softmax", _BLOCK, 1), attribute("LogSoftmax", "axis", 0)),
    Planted(
        "align_corners",
        _call(f"{_F}interpolate", _IMAGE, size=(9, 9), mode="bilinear", align_corners=False),
        attribute("Resize", "coordinate_transformation_mode", "align_corners"),
    ),
    Planted(
        "no align_corners",
        _call(f"{_F}interpolate", _IMAGE, size=(9, 9), mode="bilinear", align_corners=True),
        attribute("Resize", "coordinate_transformation_mode", "half_pixel"),
    ),
    Planted(
        "cubic coefficient",
        _call(f"{_F}interpolate", _IMAGE, size=(9, 9), mode="bicubic", align_corners=False),
        attribute("Resize", "cubic_coeff_a", -0.5),
    ),
    Planted(
        "padding counts",
        _call(f"{_F}avg_pool2d", _IMAGE, 3, 2, 1),
        attribute("AveragePool", "count_include_pad", 0),
    ),
    Planted(
        "ceil_mode", _call(f"{_F}max_pool2d", _WIDE, 2, 2), attribute("MaxPool", "ceil_mode", 1)
    ),
    Planted(
        "dilation", _call(f"{_F}conv2d", _WIDE, _KERNEL, padding=2, dilation=2),
        attribute("Conv", "pads", [1, 1, 3, 3]),
    ),
    Planted(
        "stride", _call(f"{_F}conv2d", _WIDE, _KERNEL, None, 2),
        attribute("Conv", "strides", [1, 1]),
    ),
    Planted("tanh", _call(f"{_F}gelu", _BLOCK), attribute("Gelu", "approximate", "tanh")),
    Planted(
        "epsilon", _call(f"{_F}layer_norm", _BLOCK / 100.0, (4,)),
        attribute("LayerNormalization", "epsilon", 1e-3),
    ),
    Planted("slope", _call(f"{_F}leaky_relu", _BLOCK, 0.2), attribute("LeakyRelu", "alpha", 0.01)),
    Planted("alpha", _call(f"{_F}elu", _BLOCK, 0.5), attribute("Elu", "alpha", 1.0)),
    Planted(
        "permutation", _call("permute", _BLOCK, (1, 0, 2)),
        attribute("Transpose", "perm", [1, 2, 0]),
    ),
    Planted(
        "corners of a grid", _call(f"{_F}grid_sample", _IMAGE, _GRID, "bilinear", "zeros", False),
        attribute("GridSample", "align_corners", 1),
    ),
    Planted("order", _call("sub", _BLOCK, numbers(2, 3, 4, seed=1)), other_input("Sub", 1, 0)),
    Planted(
        "another node", _call("maximum", _SQUARE, numbers(4, 4, seed=9)), other_node("Max", "Min")
    ),
    Planted("selu", _call(f"{_F}selu", _BLOCK), attribute("Selu", "gamma", 1.05)),
]  # fmt: skip


def _at(position: int, change: Callable[[torch.Tensor], torch.Tensor]) -> RuntimeFault:
    def fault(output: torch.Tensor) -> torch.Tensor:
        flat = output.clone().reshape(-1)
        flat[position] = change(flat[position])
        return flat.reshape(output.shape)

    return fault


_RESULTS: list[tuple[str, RuntimeFault]] = [
    ("scaled", lambda t: t * 1.001),
    ("one element", _at(3, lambda e: e + 0.1)),
    ("rows moved", lambda t: t.roll(1, 0) if t.shape[0] > 1 else t.flip(-1)),
    ("negated", lambda t: -t),
    ("last is zero", _at(-1, lambda e: e * 0.0 + 7.0)),
    ("bfloat16", lambda t: t.to(torch.bfloat16).to(torch.float32)),
    ("NaN", _at(0, lambda e: e * float("nan"))),
    ("one shape less", lambda t: t[..., :-1]),
    ("shifted", lambda t: t + 1e-3),
    ("infinite", _at(1, lambda e: e * 0.0 + float("inf"))),
]
_CASES = [planted.case for planted in GRAPH_FAULTS]
RUNTIME_FAULTS = [
    Planted(f"{name} {index}", _CASES[index], None, fault)
    for index, (name, fault) in enumerate([*_RESULTS, *_RESULTS])
]
