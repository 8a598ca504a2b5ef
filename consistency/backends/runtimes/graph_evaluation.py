"""Evaluation of an ONNX graph by onnx's reference evaluator: NumPy, one node after the other.

In the graph's own dtypes it rounds as the graph does; in float64 what is left is what the graph
*means*. The evaluator has faults of its own and lacks some operators.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...errors import Unsupported
from .._messages import told


def evaluate(
    model: bytes, tensors: Sequence[torch.Tensor], *, in_float64: bool
) -> list[torch.Tensor]:
    """The outputs of a serialized model, each in the dtype that the model declares for it.

    Raises Unsupported where the evaluator has no implementation.
    """
    onnx: Any = importlib.import_module("onnx")
    graph = onnx.load_from_string(model).graph
    kinds = [output.type.tensor_type.elem_type for output in graph.output]
    results = raw_outputs(promoted(model) if in_float64 else model, tensors, in_float64)
    return [
        _tensor(result, _TORCH[onnx.TensorProto.DataType.Name(kind)])
        for result, kind in zip(results, kinds, strict=True)
    ]


def steps(model: bytes) -> int:
    """How many nodes of a model compute something."""
    onnx: Any = importlib.import_module("onnx")
    nodes = onnx.load_from_string(model).graph.node
    return sum(node.op_type not in ("Constant", "Identity", "Reshape", "Expand") for node in nodes)


def raw_outputs(model: bytes, tensors: Sequence[torch.Tensor], in_float64: bool) -> list[Any]:
    """The outputs as the evaluator gives them. Raises Unsupported."""
    try:
        evaluator = _evaluator(model)
    except Exception as error:
        raise Unsupported(f"onnx's reference evaluator: {told(error)}") from None
    feed = {
        name: as_array(tensor, in_float64)
        for name, tensor in zip(evaluator.input_names, tensors, strict=True)
    }
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return list(evaluator.run(None, feed))
    except Exception as error:
        raise Unsupported(f"onnx's reference evaluator: {told(error)}") from None


@functools.lru_cache(maxsize=64)
def _evaluator(model: bytes) -> Any:
    reference: Any = importlib.import_module("onnx.reference")
    return reference.ReferenceEvaluator(current(model))


def current(model: bytes) -> Any:
    """The model with opset 13 at least, by onnx's converter: the evaluator gives Softmax and
    others their present meaning, whatever the opset."""
    onnx: Any = importlib.import_module("onnx")
    loaded = onnx.load_from_string(model)
    version = next((i.version for i in loaded.opset_import if i.domain in ("", "ai.onnx")), 0)
    if not 0 < version < _PRESENT_MEANING:
        return loaded
    converter: Any = importlib.import_module("onnx.version_converter")
    return converter.convert_version(loaded, _PRESENT_MEANING)


_PRESENT_MEANING = 13  # of Softmax, LogSoftmax, Hardmax, Squeeze, ReduceSum


def promoted(model: bytes) -> bytes:
    """The same graph with float64 in place of every narrower floating format: inputs, outputs,
    constants (their values kept) and casts."""
    onnx: Any = importlib.import_module("onnx")
    graph = onnx.load_from_string(model)
    for owner in (graph.graph, *graph.functions):
        _promote(onnx, owner)
    promoted_bytes: bytes = graph.SerializeToString()
    return promoted_bytes


def _promote(onnx: Any, graph: Any) -> None:
    kinds = onnx.TensorProto
    floats = {kinds.FLOAT, kinds.FLOAT16, kinds.BFLOAT16}
    for value in (
        *getattr(graph, "input", ()), *getattr(graph, "output", ()), *graph.value_info,
    ):  # fmt: skip
        if hasattr(value, "type") and value.type.tensor_type.elem_type in floats:
            value.type.tensor_type.elem_type = kinds.DOUBLE
    for tensor in getattr(graph, "initializer", ()):
        _promote_tensor(onnx, tensor, floats)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                _promote_tensor(onnx, attribute.t, floats)
            elif attribute.type == onnx.AttributeProto.GRAPH:
                _promote(onnx, attribute.g)
            elif (node.op_type, attribute.name) in _TYPED and attribute.i in floats:
                attribute.i = kinds.DOUBLE
        if node.op_type == "Constant":
            _promote_constant(onnx, node)


def _promote_tensor(onnx: Any, tensor: Any, floats: set[int]) -> None:
    if tensor.data_type in floats:
        array = np.asarray(onnx.numpy_helper.to_array(tensor), dtype=np.float64)
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))


def _promote_constant(onnx: Any, node: Any) -> None:
    """A constant given as a bare float or list of floats, as a float64 tensor."""
    for attribute in list(node.attribute):
        if attribute.name in ("value_float", "value_floats"):
            value = attribute.f if attribute.name == "value_float" else list(attribute.floats)
            tensor = onnx.numpy_helper.from_array(np.asarray(value, dtype=np.float64))
            node.attribute.remove(attribute)
            node.attribute.append(onnx.helper.make_attribute("value", tensor))


# Attributes that hold a dtype.
_TYPED = {
    ("Cast", "to"),
    ("EyeLike", "dtype"),
    ("RandomNormal", "dtype"),
    ("RandomUniform", "dtype"),
    ("HannWindow", "output_datatype"),
    ("HammingWindow", "output_datatype"),
    ("BlackmanWindow", "output_datatype"),
    ("Attention", "softmax_precision"),
}
_TORCH = {
    "FLOAT": torch.float32, "DOUBLE": torch.float64, "FLOAT16": torch.float16,
    "BFLOAT16": torch.bfloat16, "BOOL": torch.bool, "INT8": torch.int8, "INT16": torch.int16,
    "INT32": torch.int32, "INT64": torch.int64, "UINT8": torch.uint8, "UINT16": torch.uint16,
    "UINT32": torch.uint32, "UINT64": torch.uint64,
}  # fmt: skip


def as_array(tensor: torch.Tensor, in_float64: bool) -> Any:
    """A tensor as NumPy's array, bfloat16 as that of ml_dtypes."""
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if in_float64 and plain.is_floating_point():
        return plain.double().numpy()
    if plain.dtype == torch.bfloat16:
        return plain.view(torch.uint16).numpy().view(importlib.import_module("ml_dtypes").bfloat16)
    return plain.numpy()


def _tensor(result: Any, dtype: torch.dtype) -> torch.Tensor:
    if not isinstance(result, (np.ndarray, np.generic)):
        raise Unsupported(f"onnx's reference evaluator returns a {type(result).__name__}")
    if result.dtype.name == "bfloat16":  # of ml_dtypes, unknown to torch
        result = result.astype(np.float32)
    return torch.from_numpy(np.array(result, copy=True)).to(dtype)
