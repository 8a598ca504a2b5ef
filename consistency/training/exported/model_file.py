"""An ONNX file that may come from elsewhere: bounded, with external data from its own folder only.

The parsed model holds all of its numbers itself, so that nothing downstream opens another file.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from ...backends._messages import told
from ...core.reading import read_bytes
from ...errors import BundleError, UsageError

# Of the file, and of its external data; protobuf's own limit is 2 GiB.
MAX_BYTES = (1 << 31) - (1 << 20)
MAX_NODES = 1 << 16
MAX_DEPTH = 16  # of graphs inside attributes of nodes
MAX_NAME = 200  # characters of a name that are shown


def load(path: Path) -> Any:
    """The model as a ``ModelProto``. Raises UsageError with one line for a file that cannot be
    read, is no ONNX model, or breaks a bound."""
    if importlib.util.find_spec("onnx") is None:
        raise UsageError('onnx is not installed: pip install "consistency[onnxruntime]"')
    onnx: Any = importlib.import_module("onnx")
    try:
        data = read_bytes(path, MAX_BYTES, follow=True)
    except BundleError as error:
        raise UsageError(f"{error}; an ONNX model has less than 2 GiB") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as error:  # protobuf's DecodeError, of whichever of its implementations
        raise UsageError(f"{path} is no ONNX model: {told(error)}") from None
    if not model.HasField("graph") or not model.opset_import:
        raise UsageError(f"{path} is no ONNX model: it has no graph or no opset")
    _bounded(path, model.graph)
    _with_external_data(path, model)
    try:
        onnx.checker.check_model(model)
    except Exception as error:
        raise UsageError(f"{path} is no valid ONNX model: {told(error)}") from None
    return model


def _bounded(path: Path, graph: Any) -> None:
    count = 0
    for depth, inner in _graphs(graph):
        count += len(inner.node)
        if count > MAX_NODES or depth > MAX_DEPTH:
            raise UsageError(
                f"{path} has more than {MAX_NODES:,} nodes, or graphs more than {MAX_DEPTH} deep"
            )


def _graphs(graph: Any, depth: int = 0) -> Iterator[tuple[int, Any]]:
    """The graph and those in its nodes' attributes, each with its depth; a too deep one last."""
    yield depth, graph
    if depth > MAX_DEPTH:
        return
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _graphs(attribute.g, depth + 1)
            for inner in attribute.graphs:
                yield from _graphs(inner, depth + 1)


def _tensors(model: Any) -> Iterator[Any]:
    owners = [graph for _, graph in _graphs(model.graph)]
    for owner in owners:
        yield from owner.initializer
    for owner in (*owners, *model.functions):
        for node in owner.node:
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def _with_external_data(path: Path, model: Any) -> None:
    """Read external data into the model. Raises UsageError for a path that leads out of the
    model's folder, and for sizes that do not fit."""
    onnx: Any = importlib.import_module("onnx")
    read: dict[str, bytes] = {}
    total = 0
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        facts = {entry.key: entry.value for entry in tensor.external_data}
        name, place = f"{tensor.name!r:.{MAX_NAME}}", facts.get("location", "")
        if not _is_inside(place):
            raise UsageError(
                f"{path}: the external data of {name} are at {place!r:.{MAX_NAME}}, which is not "
                "in the model's folder"
            )
        try:
            if place not in read:
                read[place] = read_bytes(path.parent / place, MAX_BYTES, path.parent)
            begin = int(facts.get("offset", "0"))
            length = int(facts.get("length", len(read[place]) - begin))
        except (BundleError, OSError, ValueError) as error:
            raise UsageError(f"{path}: the external data of {name}: {told(error)}") from None
        size = _bytes_of(onnx, tensor)
        if begin < 0 or length != size or begin + length > len(read[place]):
            raise UsageError(
                f"{path}: the external data of {name} are {length} bytes from {begin} on of "
                f"{len(read[place])}; its shape needs {size}"
            )
        total += length
        if total > MAX_BYTES:
            raise UsageError(f"{path} has 2 GiB or more of external data")
        tensor.raw_data = read[place][begin : begin + length]
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]


def _is_inside(place: str) -> bool:
    """Whether a location is a relative path that does not go up, on any system."""
    windows, posix = PureWindowsPath(place), PurePosixPath(place)
    return bool(place) and not (
        "\0" in place
        or windows.drive
        or windows.root
        or posix.is_absolute()
        or ".." in windows.parts
        or ".." in posix.parts
    )


def _bytes_of(onnx: Any, tensor: Any) -> int:
    try:
        kind = onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)
    except (KeyError, TypeError, ValueError):
        return -1
    bits = _PACKED.get(onnx.TensorProto.DataType.Name(tensor.data_type), 8 * kind.itemsize)
    return int(math.prod(tensor.dims) * bits + 7) // 8


_PACKED = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}  # bits of an element
