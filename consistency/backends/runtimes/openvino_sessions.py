"""Compiled models of OpenVINO: one per ONNX model, a bounded number of them."""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections import OrderedDict
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import torch

from ...errors import Unsupported
from .._messages import first_line, text_of

# Each is 0.2 to 0.7 MiB of a small graph. Few are given up on purpose: after that OpenVINO 2026.4.1
# ended the process (SIGSEGV) in the call of another model (docs/openvino.md).
MAX_MODELS = 2048


def openvino_package() -> ModuleType:
    """OpenVINO, imported without its telemetry.

    ``import openvino`` sends an event unless this user once ran ``opt_in_out --opt_out``. While it
    is imported here, openvino_telemetry cannot be found, and OpenVINO takes its own stub in place
    of it: nobody's setting is changed.
    """
    if "openvino" in sys.modules:
        return importlib.import_module("openvino")
    before = sys.modules.get(_TELEMETRY, _ABSENT)
    sys.modules[_TELEMETRY] = None  # type: ignore[assignment] # the import system's own sign
    try:
        return importlib.import_module("openvino")
    finally:
        if before is _ABSENT:
            del sys.modules[_TELEMETRY]
        else:
            sys.modules[_TELEMETRY] = before  # type: ignore[assignment]


_TELEMETRY = "openvino_telemetry"
_ABSENT = object()


@functools.cache
def _core() -> Any:
    openvino: Any = openvino_package()
    return openvino.Core()


def devices() -> list[str]:
    """The devices that OpenVINO finds, such as ``CPU`` and ``GPU.0``."""
    return [str(name) for name in _core().available_devices]


def chosen_precision(device: str) -> str:
    """The format in which a device computes float32 unless told otherwise: ``f32``, ``bf16``."""
    return str(_core().get_property(device, "INFERENCE_PRECISION_HINT").get_type_name())


class OpenVinoSessions:
    """Models on one device (``CPU``) in one precision (empty: the device's choice), with so many
    threads."""

    def __init__(self, device: str, precision: str, threads: int) -> None:
        self._device = device
        self._options = {"INFERENCE_PRECISION_HINT": precision} if precision else {}
        if device == "CPU":
            self._options |= {"INFERENCE_NUM_THREADS": str(threads), "NUM_STREAMS": "1"}
        self._open: OrderedDict[bytes, tuple[Any, list[int]]] = OrderedDict()

    def run(self, model: bytes, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The outputs of a serialized model. Raises Unsupported for what it has no kernel of, else
        RuntimeError with OpenVINO's sentence."""
        try:
            request, used = self._request(model)
            for index, position in enumerate(used):
                request.set_input_tensor(index, _given(tensors[position]))
            request.infer()
            return [_returned(tensor) for tensor in request.output_tensors]
        except Unsupported:
            raise
        except Exception as error:  # pybind11 has RuntimeError, TypeError and OpenVINO's own
            raise _raised(error) from None

    def _request(self, model: bytes) -> tuple[Any, list[int]]:
        """A request, and which of the graph's inputs it takes: OpenVINO drops unused ones."""
        if model not in self._open:
            read = _core().read_model(model, b"")
            onnx: Any = importlib.import_module("onnx")
            graph = onnx.load_from_string(model).graph
            own = {tensor.name for tensor in graph.initializer}
            names = [item.name for item in graph.input if item.name not in own]
            used = [
                next(names.index(name) for name in port.get_names() if name in names)
                for port in read.inputs
            ]
            compiled = _core().compile_model(read, self._device, self._options)
            self._open[model] = compiled.create_infer_request(), used
            if len(self._open) > MAX_MODELS:
                self._open.popitem(last=False)
        self._open.move_to_end(model)
        return self._open[model]


def _given(tensor: torch.Tensor) -> Any:
    openvino: Any = openvino_package()
    plain = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if plain.is_complex():
        raise Unsupported("OpenVINO has no complex numbers")
    if plain.dtype == torch.bfloat16:
        made = openvino.Tensor(openvino.Type.bf16, openvino.Shape(list(plain.shape)))
        made.data.view(np.uint16)[...] = plain.view(torch.uint16).numpy()
        return made
    return openvino.Tensor(np.array(plain.numpy(), copy=True, order="C"))


def _returned(tensor: Any) -> torch.Tensor:
    if tensor.element_type.get_type_name() == "bf16":
        bits = np.array(tensor.data.view(np.uint16), copy=True)
        return torch.from_numpy(bits).view(torch.bfloat16)
    return torch.from_numpy(np.array(tensor.data, copy=True))


def _raised(error: Exception) -> Exception:
    """What OpenVINO raised, as an exception with its sentence in one line: the last of its report,
    whose first lines are places in its sources."""
    lines = [line.strip() for line in text_of(error).splitlines()]
    said = [line for line in lines if line and not line.startswith(_PLACES)]
    missing = next((line for line in said if _MISSING.search(line)), None)
    if missing is not None:
        return Unsupported(f"OpenVINO: {first_line(missing)[:200]}")
    text = said[-1] if said else type(error).__name__
    return RuntimeError(f"OpenVINO: {first_line(text)[:300]}")


_PLACES = ("Exception from ", "Check '", "[ ERROR ]")
_MISSING = re.compile(
    r"not supported|[Uu]nsupported|does not support|NotImplemented|No conversion rule|unimplemented"
)
