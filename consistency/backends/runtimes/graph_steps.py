"""Every value of a graph, node by node: by onnx's reference evaluator, or by a runtime; and parts
of a graph as models of their own."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .._messages import told
from .graph_evaluation import as_array, current, promoted

Run = Callable[[bytes, Sequence[torch.Tensor]], list[torch.Tensor]]  # of a serialized model
# Nodes whose results are no tensors.
_NO_TENSORS = ("Sequence", "SplitToSequence", "Optional", "ConcatFromSequence")


def meaning(
    model: Any, tensors: Sequence[torch.Tensor], *, in_float64: bool = True
) -> tuple[dict[str, Any], str]:
    """What each value of a graph is by onnx's reference evaluator, as NumPy arrays, with every
    floating number in float64 unless told otherwise; and why it stops, empty at the end.

    A node that cannot be evaluated ends it: the values before it are kept.
    """
    onnx: Any = importlib.import_module("onnx")
    data = model.SerializeToString()
    try:
        loaded = current(promoted(data) if in_float64 else data)
    except Exception as error:  # of onnx's version converter, which raises many kinds
        return {}, told(error)
    values: dict[str, Any] = {
        tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in loaded.graph.initializer
    }
    names = [item.name for item in loaded.graph.input if item.name not in values]
    for name, tensor in zip(names, tensors, strict=True):
        values[name] = as_array(tensor, in_float64)
    for node in loaded.graph.node:
        try:
            results = evaluated(loaded, node, values)
        except Exception as error:  # each kernel of the evaluator raises what NumPy does
            return values, f"{node.op_type} {node.name or node.output[0]!r}: {told(error)}"
        values |= {name: value for name, value in results.items() if name}
    return values, ""


def evaluated(model: Any, node: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """The results of one node of ``model`` by the reference evaluator."""
    onnx: Any = importlib.import_module("onnx")
    reference: Any = importlib.import_module("onnx.reference")
    nested = any(a.type in (onnx.AttributeProto.GRAPH,) for a in node.attribute)
    used = {name: values[name] for name in node.input if name}
    feed = dict(values) if nested else used  # an inner graph may use any value
    graph = onnx.helper.make_graph(
        [node],
        "one",
        [onnx.ValueInfoProto(name=name) for name in feed],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    opsets = {item.domain: item.version for item in model.opset_import}
    domains = {function.domain for function in model.functions}
    functions = list(model.functions) if node.domain in domains else None
    evaluator = reference.ReferenceEvaluator(graph, opsets=opsets, functions=functions)
    names = [name for name in node.output if name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dict(zip(names, evaluator.run(names, feed), strict=True))


def with_every_value(model: Any) -> tuple[bytes, list[str]]:
    """The model with each node's tensors as outputs, and their names, in order."""
    onnx: Any = importlib.import_module("onnx")
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    own = {output.name for output in copied.graph.output}
    names = [output.name for output in copied.graph.output]
    for node in copied.graph.node:
        if not node.op_type.startswith(_NO_TENSORS):
            for name in node.output:
                if name and name not in own:
                    copied.graph.output.append(onnx.ValueInfoProto(name=name))
                    names.append(name)
                    own.add(name)
    return copied.SerializeToString(), names


def part(
    model: Any, nodes: Iterable[int], values: Mapping[str, Any], output: str
) -> tuple[bytes, list[torch.Tensor]] | None:
    """The nodes of those indices as a model of ``output``, and its inputs from ``values``, which
    are those of the reference evaluator or of a runtime; None if one is missing."""
    onnx: Any = importlib.import_module("onnx")
    chosen = [model.graph.node[i] for i in sorted(nodes)]
    made = {name for node in chosen for name in node.output}
    needed = [n for node in chosen for n in node.input if n and n not in made]
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    fed = [name for name in dict.fromkeys(needed) if name not in initializers]
    if any(name not in values for name in fed):
        return None
    tensors = [_fed(values[name], name, model) for name in fed]
    graph = onnx.helper.make_graph(
        chosen,
        "part",
        [_typed(onnx, name, tensor) for name, tensor in zip(fed, tensors, strict=True)],
        [onnx.ValueInfoProto(name=output)],
        [initializers[name] for name in dict.fromkeys(needed) if name in initializers],
    )
    made_model = onnx.helper.make_model(
        graph, opset_imports=model.opset_import, functions=model.functions
    )
    made_model.ir_version = model.ir_version
    return made_model.SerializeToString(), tensors


def _fed(value: Any, name: str, model: Any) -> torch.Tensor:
    tensor = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
    # The graph's own width, in which the values of float64 were exact or are rounded.
    return tensor.float() if tensor.dtype == torch.float64 and _is_single(model) else tensor


def _is_single(model: Any) -> bool:
    """Whether a graph computes in float32: no input and no weight is wider."""
    onnx: Any = importlib.import_module("onnx")
    kinds = {t.data_type for t in model.graph.initializer}
    kinds |= {item.type.tensor_type.elem_type for item in model.graph.input}
    return onnx.TensorProto.DOUBLE not in kinds


def _typed(onnx: Any, name: str, tensor: torch.Tensor) -> Any:
    kind = onnx.helper.np_dtype_to_tensor_dtype(tensor.numpy().dtype)
    return onnx.helper.make_tensor_value_info(name, kind, list(tensor.shape))
