"""Sessions of ONNX Runtime: one per model, a bounded number of them, and tensors in and out."""

from __future__ import annotations

import importlib
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ...errors import Unsupported
from .._messages import first_line, text_of

MAX_SESSIONS = 512  # some 100 KB each
_LEVELS = {
    "off": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "all": "ORT_ENABLE_ALL",
}
_FATAL = 4  # of ONNX Runtime's log: errors are raised as well
_BFLOAT16 = 16  # onnx.TensorProto.BFLOAT16, whose numbers NumPy has no dtype for
_FALLS_BACK = "disable_cpu_ep_fallback"


class Sessions:
    """Sessions on one execution provider with one level of graph optimization.

    ``provider`` is its name in ONNX Runtime, ``threads`` those of one operator.
    """

    def __init__(self, provider: str, level: str, threads: int) -> None:
        self._provider, self._level, self._threads = provider, level, threads
        self._open: OrderedDict[bytes, Any] = OrderedDict()

    def run(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of a serialized model. Raises Unsupported for what has no kernel, else
        RuntimeError with the runtime's sentence."""
        session = self._session(model)
        names = [item.name for item in session.get_inputs()]
        try:
            feed = {name: to_ort(tensor) for (name, tensor) in zip(names, tensors, strict=True)}
            values = session.run_with_ort_values(None, feed)
            return [from_ort(value) for value in values]
        except Exception as error:
            raise _raised(error) from None

    def _session(self, model: bytes) -> Any:
        if model not in self._open:
            try:
                self._open[model] = self._opened(model)
            except Exception as error:
                raise _raised(error) from None
            if len(self._open) > MAX_SESSIONS:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]

    def _opened(self, model: bytes) -> Any:
        runtime: Any = importlib.import_module("onnxruntime")
        options = runtime.SessionOptions()
        level = getattr(runtime.GraphOptimizationLevel, _LEVELS[self._level])
        options.graph_optimization_level = level
        options.intra_op_num_threads = self._threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL
        return runtime.InferenceSession(model, options, providers=[self._provider])


def to_ort(tensor: torch.Tensor) -> Any:
    """A tensor's numbers as ONNX Runtime's value, bit by bit."""
    runtime: Any = importlib.import_module("onnxruntime")
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.dtype == torch.bfloat16:
        bits = plain.view(torch.uint16).numpy()
        return runtime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, _BFLOAT16)
    if plain.is_complex():
        raise Unsupported("ONNX Runtime has no complex numbers")
    return runtime.OrtValue.ortvalue_from_numpy(plain.numpy())


def from_ort(value: Any) -> torch.Tensor:
    """A value of ONNX Runtime as a tensor with memory of its own."""
    if value.element_type() == _BFLOAT16:
        return torch.utils.dlpack.from_dlpack(value._ortvalue.to_dlpack()).clone()
    if not value.is_tensor():
        raise Unsupported(f"ONNX Runtime returns a {value.data_type()}")
    return torch.from_numpy(np.array(value.numpy(), copy=True))


def _raised(error: Exception) -> Exception:
    """What the runtime raised, as an exception with its sentence in one line."""
    if isinstance(error, Unsupported):
        return error
    text = first_line(text_of(error))
    kind = type(error).__name__
    untyped = _UNTYPED.search(text)
    if untyped:
        return Unsupported(f"ONNX's {untyped[2]} of this opset takes no {untyped[1]}")
    if kind == "NotImplemented" or "NOT_IMPLEMENTED" in text:
        return Unsupported(f"ONNX Runtime: {_without_code(text)}")
    return RuntimeError(f"ONNX Runtime: {_without_code(text)}")


# A dtype that ONNX's operator is not defined for. Not one that differs from another argument's:
# such a graph is wrong, not missing.
_UNTYPED = re.compile(
    r"Type 'tensor\((\w+)\)' of input parameter \(.*?\) of operator \((\w+)\) .* is invalid"
)


def _without_code(text: str) -> str:
    """``[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not …`` without its codes."""
    parts = text.split(" : ", 3)
    return parts[3] if len(parts) == 4 and parts[0].startswith("[ONNXRuntimeError]") else text
