"""Small models as ONNX files, faults to plant into them, and a runtime that computes one node
wrong."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from consistency import Subject
from consistency.training.exported.model_export import exported
from consistency.training.exported.torch_program import TorchProgram

from .planted_graphs import GraphFault, attribute, constant, opset

ONNX: Any = importlib.import_module("onnx") if importlib.util.find_spec("onnx") else None


class Vision(nn.Module):
    """Batch norm, convolution, pooling with a rest, a leaky slope, resizing, a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(2)  # before the convolution, into which it would be folded
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.slope = nn.LeakyReLU(0.2)
        self.head = nn.Linear(4 * 5 * 5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.slope(self.pool(self.conv(self.norm(x))))
        y = F.interpolate(y, size=(5, 5), mode="bilinear", align_corners=False)
        return self.head(y.flatten(1))  # type: ignore[no-any-return]


class Attention(nn.Module):
    """A layer norm, attention by hand, a gelu, and a softmax at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.qkv = nn.Linear(8, 24)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + torch.softmax(q @ k.transpose(1, 2) / 8**0.5, -1) @ v
        scaled = self.up(x)
        x = x + self.down(scaled * torch.sigmoid(1.702 * scaled))
        return torch.log_softmax(self.down(F.gelu(self.up(x))), -1)


class Weights(nn.Module):
    """A softmax along the middle of three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.score = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(self.score(x), 1) * x


def weights() -> Subject:
    torch.manual_seed(0)
    return Subject(Weights(), (torch.randn(2, 5, 8),))


def vision() -> Subject:
    torch.manual_seed(0)
    return Subject(Vision(), (torch.randn(2, 2, 7, 7),))


def attention() -> Subject:
    torch.manual_seed(0)
    return Subject(Attention(), (torch.randn(2, 5, 8),))


@functools.cache
def program_of(make: Callable[[], Subject]) -> TorchProgram:
    """Exported once: nothing that is compared changes it."""
    subject = make()
    return TorchProgram(subject.model, subject.inputs)


@functools.cache
def _bytes_of(program: TorchProgram) -> bytes:
    data: bytes = exported(program).SerializeToString()
    return data


def file_of(program: TorchProgram) -> Any:
    """A healthy export, a new one each time."""
    return ONNX.load_from_string(_bytes_of(program))


def legacy_file_of(program: TorchProgram, path: str) -> Any:
    """What the older exporter makes: without metadata, other names, batch norm folded."""
    torch.onnx.export(program.module, program.inputs, path, dynamo=False)
    return ONNX.load(path)


def anonymous(model: Any) -> Any:
    """The same graph without the exporter's metadata and names."""
    copied = ONNX.ModelProto()
    copied.CopyFrom(model)
    kept = {item.name for item in (*copied.graph.input, *copied.graph.output)}
    kept |= {tensor.name for tensor in copied.graph.initializer}
    names: dict[str, str] = {}
    for index, node in enumerate(copied.graph.node):
        node.name = ""
        del node.metadata_props[:]
        node.input[:] = [names.get(name, name) for name in node.input]
        for place, name in enumerate(node.output):
            if name and name not in kept:
                names[name] = f"value_{index}_{place}"
        node.output[:] = [names.get(name, name) for name in node.output]
    del copied.graph.value_info[:]
    return copied


@dataclass(frozen=True)
class Fault:
    """A fault of an exported file: the model, what is planted, the node's kind and the torch call
    that it comes from, and words of the reason."""

    name: str
    make: Callable[[], Subject]
    plant: GraphFault
    kind: str
    operator: str
    words: str


FAULTS = [
    Fault("softmax axis", attention, attribute("Softmax", "axis", 1), "Softmax", "aten.softmax.int",
          "axis is 1, and right with"),
    Fault("log softmax axis", attention, attribute("LogSoftmax", "axis", 0), "LogSoftmax",
          "aten.log_softmax.int", "axis is 0, and right with"),
    Fault("opset", weights, opset(11, 1), "Softmax", "aten.softmax.int", "right with"),
    Fault("epsilon of a layer norm", attention, attribute("LayerNormalization", "epsilon", 1e-3),
          "LayerNormalization", "aten.layer_norm.default", "right with 1e-05"),
    Fault("approximate gelu", attention, attribute("Gelu", "approximate", "tanh"), "Gelu",
          "aten.gelu.default", "right with none"),
    Fault("truncated constant", attention, constant(1.702, 1.7), "Mul", "aten.mul.Tensor",
          "right with 1.702"),
    Fault("transposed", attention, attribute("Transpose", "perm", [0, 1, 2]), "Transpose",
          "aten.transpose.int", "right with [0, 2, 1]"),
    Fault("epsilon of a batch norm", vision, attribute("BatchNormalization", "epsilon", 1e-3),
          "BatchNormalization", "aten.batch_norm.default", "right with 1e-05"),
    Fault("ceil_mode", vision, attribute("MaxPool", "ceil_mode", 1), "MaxPool",
          "aten.max_pool2d.default", "ceil_mode is 1, and right with 0"),
    Fault("align_corners", vision,
          attribute("Resize", "coordinate_transformation_mode", "align_corners"), "Resize",
          "aten.upsample_bilinear2d.vec", "half_pixel"),
    Fault("slope", vision, attribute("LeakyRelu", "alpha", 0.01), "LeakyRelu",
          "aten.leaky_relu.default", "right with 0.2"),
    Fault("pads", vision, attribute("Conv", "pads", [1, 1, 2, 1]), "Conv", "aten.conv2d.default",
          "right with [1, 1, 1, 1]"),
]  # fmt: skip


def wrong_node(run: Callable[..., list[torch.Tensor]], kind: str, wrong: Callable[..., Any]) -> Any:
    """A runtime that computes the nodes of a kind wrong: ``wrong(tensor)`` for their result.

    The graph is cut behind each such node, so that what follows gets the wrong numbers.
    """

    def ran(data: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        model = ONNX.load_from_string(data)
        names = [item.name for item in model.graph.input]
        values = dict(zip(names, tensors, strict=True))
        for index, node in enumerate(model.graph.node):
            if node.op_type == kind:
                values |= dict(zip(node.output, _through(run, model, index, values), strict=True))
                values[node.output[0]] = wrong(values[node.output[0]])
            else:
                values |= dict(zip(node.output, _through(run, model, index, values), strict=True))
        return [values[item.name] for item in model.graph.output]

    return ran


def _through(
    run: Callable[..., list[torch.Tensor]], model: Any, index: int, values: dict[str, Any]
) -> list[torch.Tensor]:
    node = model.graph.node[index]
    own = {t.name: t for t in model.graph.initializer if t.name in node.input}
    fed = [name for name in dict.fromkeys(node.input) if name and name not in own]
    graph = ONNX.helper.make_graph(
        [node],
        "node",
        [
            ONNX.helper.make_tensor_value_info(
                name,
                ONNX.helper.np_dtype_to_tensor_dtype(values[name].numpy().dtype),
                list(values[name].shape),
            )
            for name in fed
        ],
        [ONNX.ValueInfoProto(name=name) for name in node.output],
        list(own.values()),
    )
    one = ONNX.helper.make_model(graph, opset_imports=model.opset_import)
    one.ir_version = model.ir_version
    return run(one.SerializeToString(), [values[name] for name in fed])
