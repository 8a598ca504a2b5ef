"""The first node of an exported model that is off, and the torch call that it came from.

If the graph itself says something else (its float64 values leave the band), the node is found by
repairing it: one other attribute, constant or opset that makes the part right proves which. If the
graph is right in float64, the runtime's own values are followed to the first that leaves the band,
and each node of that part is computed again on the inputs that it got.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...backends._messages import told
from ...backends.runtimes.graph_faults import repair_of
from ...backends.runtimes.graph_steps import Run, evaluated, part
from ..reference_samples import distance, norm
from .matching import Matching
from .torch_program import TorchCall, TorchProgram

SECONDS = 20.0  # for all repairs that are tried
MAX_NODES = 64  # of a part that is repaired
_FIRST = 8  # calls, and values of each, that are tried
_UNIT = 2.0**-24
_OFF = 64.0  # units: the error of one node, relative to the norm of its result


@dataclass(frozen=True, slots=True)
class Location:
    """The node (``Softmax "node_softmax"``), the torch call (None: no counterpart is known), the
    stage (``translation``, ``runtime``, or empty if nothing proves it), and why."""

    node: str
    call: TorchCall | None
    stage: str = ""
    reason: str = ""

    def __str__(self) -> str:
        origin = f" (from {self.call})" if self.call is not None else ""
        blame = f": the {self.stage}" if self.stage else ""
        return f"{self.node}{origin}{blame}{f': {self.reason}' if self.reason else ''}"


def title(node: Any) -> str:
    """``Softmax "node_softmax"`` of a node."""
    name = node.name or next((output for output in node.output if output), "")
    return f'{node.op_type:.80} "{name:.120}"'


def repaired(
    model: Any, found: Matching, meaning: Mapping[str, Any], program: TorchProgram
) -> Location | None:
    """The first node that says something else than torch and would be right with one other
    attribute, constant or opset; None if there is none."""
    deadline = time.monotonic() + SECONDS
    wanted = found.wrong_calls[:_FIRST]
    expected = program.values(wanted)
    makers = _makers(model)
    wrong = [name for name in found.wrong_values if name in makers]
    for call in (name for name in wanted if name in expected):
        named = found.named.get(call)
        for value in [named] if named in makers else wrong[:_FIRST]:
            nodes = _part_of(model, str(value), set(wrong), makers)
            pieces = part(model, nodes, meaning, str(value)) if len(nodes) <= MAX_NODES else None
            left = deadline - time.monotonic()
            if pieces is None or left <= 0.0:
                continue
            repair = repair_of(*pieces, [expected[call]], min(left, SECONDS / 2))
            if repair is not None:
                node = model.graph.node[sorted(nodes)[repair.node]]
                return Location(title(node), program.calls[call], "translation", repair.words)
    return None


def first_without_counterpart(
    model: Any, found: Matching, program: TorchProgram, stopped: str
) -> Location | None:
    """The first node whose value equals nothing in torch, nor does what is computed from it.
    ``stopped``: why the graph could not be evaluated to its end."""
    makers = _makers(model)
    wrong = next((name for name in found.wrong_values if name in makers), None)
    if wrong is None:
        return None
    by_name = {value: name for name, value in found.named.items()}
    origin = by_name.get(wrong, next(iter(found.wrong_calls), ""))
    reason = (
        f"it cannot be evaluated: {stopped}"
        if stopped
        else "in float64, too, its value is none of torch's"
    )
    node = model.graph.node[makers[wrong]]
    return Location(title(node), program.calls.get(origin), "translation", reason)


def _makers(model: Any) -> dict[str, int]:
    """By value, the index of the node that makes it."""
    return {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}


def _part_of(model: Any, value: str, wrong: set[str], makers: Mapping[str, int]) -> set[int]:
    """The indices of the nodes that make a value from values that are right."""
    nodes: set[int] = set()
    waiting = [value]
    while waiting:
        name = waiting.pop()
        if name not in makers or makers[name] in nodes:
            continue
        node = model.graph.node[makers[name]]
        if name == value or name in wrong or node.op_type == "Constant":
            nodes.add(makers[name])
            waiting += list(node.input)
    return nodes


def wrong_in_runtime(
    model: Any,
    values: Mapping[str, torch.Tensor],
    meaning: Mapping[str, Any],
    right: Matching,
    reached: Matching,
    program: TorchProgram,
    run: Run,
) -> Location | None:
    """The first node whose result leaves the band in the runtime, though the graph is right:
    ``right`` matches the graph's meaning, ``reached`` the runtime's ``values``."""
    by_value = {value: call for call, value in right.calls.items()}
    made = [name for node in model.graph.node for name in node.output if name]
    makers = _makers(model)
    equal = set(reached.calls.values())
    first = next((n for n in made if n in by_value and n not in equal and n in values), None)
    if first is None:
        return None
    call = program.calls[by_value[first]]
    known = {name for name in made if name in equal}
    nodes = sorted(_part_of(model, first, set(made) - known, makers))
    off = _far_off(model, nodes, values, run)
    if off is not None:
        index, units = off
        reason = f"off by {units:.3g} × 2⁻²⁴ of its size on the inputs that it got"
        return Location(title(model.graph.node[index]), call, "runtime", reason)
    node = model.graph.node[makers[first]]
    if len(nodes) < 2:
        return Location(title(node), call)
    kinds = dict.fromkeys(model.graph.node[i].op_type for i in nodes)
    reason = f"its steps lose precision ({', '.join(kinds)}); in float64 the graph is right"
    return Location(title(node), call, "translation", reason)


def _far_off(
    model: Any, nodes: Sequence[int], values: Mapping[str, torch.Tensor], run: Run
) -> tuple[int, float] | None:
    """The first node that the runtime computes wrong on its own inputs, and its error in units."""
    initializers = {tensor.name: tensor for tensor in model.graph.initializer}
    for index in nodes:
        node = model.graph.node[index]
        if len(node.output) != 1:
            continue
        wide = {n: _wide(values.get(n), initializers.get(n)) for n in node.input if n}
        pieces = part(model, [index], values, node.output[0])
        if pieces is None or any(value is None for value in wide.values()):
            continue
        try:
            expected = np.asarray(evaluated(model, node, wide)[node.output[0]], dtype=np.float64)
            (got,) = run(*pieces)
        except Exception as error:  # either may lack the node: then it proves nothing
            told(error)
            continue
        numbers = np.asarray(got.double().numpy())
        if numbers.shape != expected.shape:
            return index, float("inf")
        size = max(norm(expected.reshape(-1)), 1e-30)
        units = distance(numbers.reshape(-1), expected.reshape(-1)) / size / _UNIT
        if units > _OFF:
            return index, units
    return None


def _wide(value: torch.Tensor | None, initializer: Any) -> Any:
    if value is None and initializer is not None:
        import onnx

        array: Any = onnx.numpy_helper.to_array(initializer)
    elif value is not None:
        array = value.numpy()
    else:
        return None
    return array.astype(np.float64) if array.dtype == np.float32 else array
