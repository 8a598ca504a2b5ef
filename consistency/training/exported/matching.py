"""Which values of an ONNX graph are which calls of the torch model: by the name that torch's
exporter left, else by equal numbers within the band of rounding."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ...judge.metrics import Doubles
from ..reference_samples import ReferenceTrace, distance
from ..rounding_envelope import RoundingEnvelope, ratio_to_band
from .torch_program import TorchProgram, key

_FX_NODE = "pkg.torch.onnx.fx_node"  # metadata: "%softmax : [num_users=1] = call_function[…"
_FX_NAME = re.compile(r"%?(\w{1,200})\b")


@dataclass
class Matching:
    """Values of a graph beside those of the torch model.

    ``calls`` maps the name of a torch call to that of the value which equals it; ``named`` to the
    value that the exporter called so, equal or not. ``ratios`` are the distances of both, × band.
    ``wrong_calls`` and ``wrong_values`` equal nothing, and nothing that is computed from them does,
    in order: a value without a counterpart that leads to one is part of a call, or of a fusion.
    """

    calls: dict[str, str] = field(default_factory=dict)
    named: dict[str, str] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    wrong_calls: list[str] = field(default_factory=list)
    wrong_values: list[str] = field(default_factory=list)


def match(
    model: Any,
    values: Mapping[str, Any],
    program: TorchProgram,
    trace: ReferenceTrace,
    band: RoundingEnvelope,
) -> Matching:
    """``values`` are those of the graph by name, as tensors or arrays."""
    made = [name for node in model.graph.node for name in node.output if name]
    samples = {name: sample_of(trace, values[name]) for name in made if name in values}
    by_size: dict[int, list[str]] = defaultdict(list)
    for name, sample in samples.items():
        if sample is not None:
            by_size[_numel(values[name])].append(name)
    found = Matching(named=_named(model, program, set(samples)))
    for call in program.calls:
        expected = trace.by_key.get(key(call))
        if expected is None:
            continue
        width = band.of(key(call))
        first = found.named.get(call)
        others = by_size.get(program.sizes.get(call, -1), []) if first is None else []
        for name in [first, *others] if first is not None else others:
            sample = samples[name]
            if sample is None or sample.shape != expected.shape:
                continue
            ratio = ratio_to_band(distance(sample, expected), width)
            if name == first:
                found.ratios[call] = ratio
            if ratio <= 1.0:
                found.calls[call], found.ratios[call] = name, ratio
                break
    telling = {call for call in found.calls if _tells(program, call, trace)}
    found.wrong_calls = _without_matches(
        {name: list(call.inputs) for name, call in program.calls.items()}, telling
    )
    inputs: dict[str, list[str]] = {}
    for node in model.graph.node:
        inputs |= {name: list(node.input) for name in node.output if name}
    found.wrong_values = _without_matches(inputs, {found.calls[call] for call in telling})
    return found


def _tells(program: TorchProgram, call: str, trace: ReferenceTrace) -> bool:
    """Whether equal numbers show that what they were computed from is right: an index, a mask or a
    constant may be equal by chance."""
    numbers = trace.by_key[key(call)]
    return call in program.floating and bool(np.unique(numbers).size > 2)


def sample_of(trace: ReferenceTrace, value: Any) -> Doubles | None:
    """The numbers of a value at the places that are kept of the reference; None of no tensor."""
    value = as_tensor(value)
    return trace.samples.of(value) if isinstance(value, torch.Tensor) else None


def as_tensor(value: Any) -> Any:
    """An array of numbers as a tensor; anything else unchanged."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiub":
        return torch.from_numpy(np.array(value, copy=True))
    return value


def _numel(value: Any) -> int:
    return int(value.numel() if isinstance(value, torch.Tensor) else value.size)


def _named(model: Any, program: TorchProgram, known: set[str]) -> dict[str, str]:
    """By torch call, the value that the exporter called so, or the last that it made for it."""
    found: dict[str, str] = {}
    for node in model.graph.node:
        for entry in node.metadata_props:
            if entry.key == _FX_NODE and len(node.output) == 1:
                name = _FX_NAME.match(entry.value)
                if name is not None and name[1] in program.calls and node.output[0] in known:
                    found[name[1]] = node.output[0]
    return found | {name: name for name in known & set(program.calls)}


def _without_matches(inputs: Mapping[str, list[str]], matched: set[str]) -> list[str]:
    """The names in ``inputs`` (what each is computed from, in order) that neither match nor lead
    to one that does."""
    leads = set(matched)
    for name in reversed(list(inputs)):
        if name in leads:
            leads.update(inputs[name])
    return [name for name in inputs if name not in leads]
