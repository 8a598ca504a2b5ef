"""Which node of a wrong graph is wrong: the one change of an attribute, a constant or the opset
version that makes the graph right.

Each candidate is evaluated in float64 beside torch's own result in float64. A change is found only
if it repairs every output, so that a graph without a fault has none; a fault that takes two changes
is not found, nor is one in a graph that the evaluator cannot run.
"""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...core.trees import flatten, map_leaves
from ...errors import Unsupported
from ...operators.declare import Operator
from ...operators.refusals import REFUSALS
from .graph_evaluation import promoted, raw_outputs

SECONDS = 2.0  # for one graph
_RIGHT = 1e-6  # of the largest number: constants of a float32 graph are rounded to float32
_MAX_LIST = 8  # elements of a list of integers that are varied
# Constants that activations and their gradients are made of.
_CONSTANTS = (
    math.pi, math.e, math.log(2.0), math.log(10.0), math.sqrt(2.0), math.sqrt(0.5),
    math.sqrt(2.0 / math.pi), 2.0 / math.sqrt(math.pi), math.sqrt(2.0 * math.pi), 1.0 / math.pi,
    1.0 / math.log(2.0), 1.0 / math.log(10.0), 0.044715, 1.0507009873554805, 1.6732632423543772,
    1.0507009873554805 * 1.6732632423543772, 0.5772156649015329, 1.0 / 6.0, 1.0 / 3.0,
    180.0 / math.pi, math.pi / 180.0, 1.702, 0.5 * math.log(2.0 * math.pi),
)  # fmt: skip
_NEAR = 0.05  # relative distance from a constant that may be a truncated one
_TEXTS: dict[str, tuple[str, ...]] = {
    "coordinate_transformation_mode": (
        "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric",
    ),
    "nearest_mode": ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil"),
    "mode": ("nearest", "linear", "cubic", "bilinear", "constant", "reflect", "edge", "wrap"),
    "padding_mode": ("zeros", "border", "reflection"),
    "approximate": ("none", "tanh"),
    "reduction": ("none", "mean", "sum", "add", "mul", "max", "min"),
    "direction": ("LEFT", "RIGHT"),
}  # fmt: skip
_OPSETS = (13, 18, 11)
_EPSILONS = (1e-5, 1e-6, 1e-3, 1e-8, 1e-12, 1e-7, 1e-2, 1e-10, 0.0)
# Values that attributes have in practice.
_USUAL: dict[str, tuple[float, ...]] = {
    "epsilon": _EPSILONS,
    "alpha": (0.01, 1.0, 0.2, 1.0 / 6.0, 0.1, 0.3, 0.5, 0.0),
    "beta": (1.0, 0.5, 0.0),
    "cubic_coeff_a": (-0.75, -0.5),
    "extrapolation_value": (0.0,),
}


def in_torch(
    operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any], written: Sequence[int]
) -> list[torch.Tensor]:
    """The tensors that torch returns and writes for the same call in float64; none if it raises."""
    copies: list[torch.Tensor] = []

    def wide(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return torch.float64 if leaf in _FLOATS else leaf
        copies.append(leaf.detach().double() if leaf.is_floating_point() else leaf.detach().clone())
        return copies[-1]

    try:
        with torch.no_grad():
            result = operator(*map_leaves(wide, tuple(args)), **map_leaves(wide, dict(kwargs)))
    except REFUSALS:
        return []
    returned = [leaf for leaf in flatten(result) if isinstance(leaf, torch.Tensor)]
    return [*returned, *(copies[i] for i in written)]


_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def fault_in(
    model: bytes, tensors: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> str:
    """``Softmax's axis is 1, and right with 2``; ``the nodes …`` of a wrong graph without such a
    change; empty for a graph that gives ``expected`` in float64."""
    onnx: Any = importlib.import_module("onnx")
    try:
        if not expected or _is_right(promoted(model), tensors, expected):
            return ""
    except Unsupported:
        return ""
    repair = repair_of(model, tensors, expected)
    if repair is not None:
        return repair.words
    kinds = dict.fromkeys(node.op_type for node in onnx.load_from_string(model).graph.node)
    return f"its nodes are {', '.join(kinds)}"


@dataclass(frozen=True, slots=True)
class Repair:
    """The change that makes a graph right, in words, and the index of the node that it concerns
    (-1: the opset, of all of them)."""

    words: str
    node: int


def repair_of(
    model: bytes,
    tensors: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    seconds: float = SECONDS,
) -> Repair | None:
    """The one change with which a wrong graph gives ``expected`` in float64, if there is one."""
    onnx: Any = importlib.import_module("onnx")
    deadline = time.monotonic() + seconds
    for node, words, change in _changes(onnx, onnx.load_from_string(model)):
        if time.monotonic() > deadline:
            break
        candidate = onnx.load_from_string(model)
        try:
            change(candidate)
            if _is_right(promoted(candidate.SerializeToString()), tensors, expected):
                return Repair(words, node)
        except (Unsupported, TypeError, ValueError, OverflowError):
            continue  # not every change makes a valid graph
    return None


def _is_right(
    model: bytes, tensors: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]
) -> bool:
    results = raw_outputs(model, tensors, True)
    return len(results) == len(expected) and all(
        _agree(np.asarray(result), tensor.double().numpy())
        for result, tensor in zip(results, expected, strict=True)
    )


def _agree(result: Any, expected: Any) -> bool:
    if result.shape != expected.shape:
        return False
    with np.errstate(all="ignore"):
        numbers = np.asarray(result, dtype=np.float64)
        finite = np.isfinite(expected)
        if not np.array_equal(np.isfinite(numbers), finite):
            return False
        same = np.array_equal(numbers[~finite], expected[~finite], equal_nan=True)
        scale = float(np.max(np.abs(expected[finite]), initial=0.0))
        error = float(np.max(np.abs(numbers - expected)[finite], initial=0.0))
    return bool(same and error <= _RIGHT * scale)


Change = tuple[int, str, Callable[[Any], None]]


def _changes(onnx: Any, model: Any) -> Iterator[Change]:
    """Single changes of a model, each with the index of its node and its description, the likeliest
    first."""
    for index, node in enumerate(model.graph.node):
        for position, attribute in enumerate(node.attribute):
            for old, new in _attribute_values(onnx, attribute):
                words = f"{node.op_type}'s {attribute.name} is {old}, and right with {new}"
                yield index, words, _setting(onnx, index, position, new)
    for index, tensor in enumerate(model.graph.initializer):
        users = [i for i, n in enumerate(model.graph.node) if tensor.name in n.input]
        owner = f"{model.graph.node[users[0]].op_type}'s " if users else ""
        for old, new, array in _tensor_values(onnx.numpy_helper.to_array(tensor)):
            words = f"{owner}constant is {old}, and right with {new}"
            yield (users or [-1])[0], words, _initializing(onnx, index, array)
    default = [item for item in model.opset_import if item.domain in ("", "ai.onnx")]
    for version in _OPSETS:
        if default and default[0].version != version:
            words = f"its opset is {default[0].version}, and right with {version}"
            yield -1, words, _importing(version)
    for index, node in enumerate(model.graph.node):
        given = {attribute.name for attribute in node.attribute}
        for name, values in _DEFAULTS.get(node.op_type, {}).items():
            for value in () if name in given else values:
                words = f"{node.op_type} has no {name}, and is right with {value}"
                yield index, words, _adding(onnx, index, name, value)


# Attributes that a node may lack: then ONNX's default holds, which torch's need not be.
_DEFAULTS: dict[str, dict[str, tuple[Any, ...]]] = {
    "Softmax": {"axis": (0, 1, 2, 3)}, "LogSoftmax": {"axis": (0, 1, 2, 3)},
    "AveragePool": {"ceil_mode": (1,), "count_include_pad": (1,)}, "MaxPool": {"ceil_mode": (1,)},
    "Gelu": {"approximate": ("tanh",)}, "Mod": {"fmod": (1,)},
    "Gather": {"axis": (1, 2, 3)}, "CumSum": {"reverse": (1,), "exclusive": (1,)},
    "GridSample": {"align_corners": (1,)}, "Gemm": {"transA": (1,), "transB": (1,)},
    "ArgMax": {"axis": (1, 2, 3), "select_last_index": (1,)}, "ArgMin": {"axis": (1, 2, 3)},
    "LeakyRelu": {"alpha": (1.0,)}, "LayerNormalization": {"axis": (0, 1, 2), "epsilon": _EPSILONS},
    "BatchNormalization": {"epsilon": _EPSILONS}, "InstanceNormalization": {"epsilon": _EPSILONS},
}  # fmt: skip


def _attribute_values(onnx: Any, attribute: Any) -> Iterator[tuple[Any, Any]]:
    kinds = onnx.AttributeProto
    if attribute.type == kinds.INT and attribute.name not in ("to", "dtype", "saturate"):
        for new in (0, 1, -1, 2, -2, 3, -3, attribute.i - 1, attribute.i + 1):
            if new != attribute.i:
                yield attribute.i, new
    elif attribute.type == kinds.STRING:
        old = attribute.s.decode("utf-8", "replace")
        for new in _TEXTS.get(attribute.name, ()):
            if new != old:
                yield old, new
    elif attribute.type == kinds.FLOAT:
        for number in (*_constants_near(attribute.f), *_USUAL.get(attribute.name, ())):
            if np.float32(number) != np.float32(attribute.f):
                yield f"{attribute.f:.9g}", number
    elif attribute.type == kinds.INTS and len(attribute.ints) <= _MAX_LIST:
        old_list = list(attribute.ints)
        for new_list in _lists_near(old_list):
            yield old_list, new_list
    elif attribute.type == kinds.TENSOR:
        for old, _, array in _tensor_values(onnx.numpy_helper.to_array(attribute.t)):
            yield old, array


def _tensor_values(array: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Other values of a small constant: old and new ones as shown, and the array."""
    if array.dtype.kind == "f" and array.size == 1:
        given = float(array.reshape(()))
        small = _EPSILONS if 0.0 <= given <= max(_EPSILONS) else ()
        for number in (*_constants_near(given), *(e for e in small if e != np.float32(given))):
            wide = np.full(array.shape, number, dtype=np.float64)
            yield f"{float(array.reshape(())):.9g}", f"{number:.9g}", wide
    elif array.dtype.kind == "i" and array.size <= _MAX_LIST:
        for values in _lists_near(array.reshape(-1).tolist()):
            new = np.asarray(values, dtype=array.dtype).reshape(array.shape)
            yield array.tolist(), new.tolist(), new


def _constants_near(value: float) -> Iterator[float]:
    for constant in _CONSTANTS:
        for number in (constant, -constant):
            distance = abs(value - number)
            if 0.0 < distance <= _NEAR * abs(number) and np.float32(value) != np.float32(number):
                yield number


def _lists_near(values: list[int]) -> Iterator[list[int]]:
    if values != values[::-1]:
        yield values[::-1]
    for i, value in enumerate(values):
        for new in (value + 1, value - 1, -value, 0):
            if new != value:
                yield [*values[:i], new, *values[i + 1 :]]
    for i in range(len(values) - 1):
        swapped = [*values[:i], values[i + 1], values[i], *values[i + 2 :]]
        if swapped != values:
            yield swapped


def _setting(onnx: Any, index: int, position: int, value: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        node = model.graph.node[index]
        old = node.attribute[position]
        if isinstance(value, np.ndarray):
            value_of = onnx.numpy_helper.from_array(value)
            node.attribute[position].CopyFrom(onnx.helper.make_attribute(old.name, value_of))
            return
        node.attribute[position].CopyFrom(onnx.helper.make_attribute(old.name, value))

    return change


def _adding(onnx: Any, index: int, name: str, value: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        model.graph.node[index].attribute.append(onnx.helper.make_attribute(name, value))

    return change


def _initializing(onnx: Any, index: int, array: Any) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        tensor = model.graph.initializer[index]
        tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))

    return change


def _importing(version: int) -> Callable[[Any], None]:
    def change(model: Any) -> None:
        for item in model.opset_import:
            if item.domain in ("", "ai.onnx"):
                item.version = version

    return change
