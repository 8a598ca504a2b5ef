"""An exported model beside its torch model: the outputs within the band or not, layer by layer, and
if not, where it begins."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...backends._messages import told
from ...backends.runtimes.graph_steps import Run, meaning, with_every_value
from ...core.text import format_factor, pluralize
from ...errors import UsageError
from ..findings import WITHIN, Layer
from ..reference_samples import ReferenceTrace, distance, norm
from ..rounding_envelope import RoundingEnvelope, ratio_to_band
from .location import Location, first_without_counterpart, repaired, wrong_in_runtime
from .matching import Matching, as_tensor, match, sample_of
from .torch_program import TorchProgram, key


@dataclass(frozen=True)
class ExportCheck:
    """What an exported model gives on one runtime beside its torch model in float64.

    ``outputs`` are the distances of the model's outputs, × band; ``location`` where the first
    error begins, None where there is none or it is not found. ``layers`` are the modules whose
    result the graph has, ``compared`` the torch calls with a counterpart, of ``calls``.
    """

    name: str
    runtime: str
    outputs: tuple[float, ...] = ()
    raised: str = ""
    location: Location | None = None
    layers: tuple[Layer, ...] = ()
    compared: int = 0
    calls: int = 0
    replicas: int = 0

    @property
    def fails(self) -> bool:
        return bool(self.raised) or not all(ratio <= 1.0 for ratio in self.outputs)

    @property
    def verdict(self) -> str:
        """``within the band``, or by how much an output leaves it, and where that begins."""
        if not self.fails:
            return WITHIN
        begins = f", first at {self.location}" if self.location is not None else ""
        if self.raised:
            return f"refused: {self.raised}{begins}"
        return f"leaves it by {format_factor(max(self.outputs))} ×{begins}"

    def __str__(self) -> str:
        mark = "✗" if self.fails else "✓"
        outputs = ", ".join(format_factor(ratio) for ratio in self.outputs)
        lines = [
            f"{self.name}: {'' if self.fails else 'the outputs are '}{self.verdict}",
            f"{mark} {self.runtime}: {outputs or 'no output'} × the band (10 × the RMS distance of "
            f"{self.replicas} replicas of float64)",
            f"    torch calls with a counterpart in the graph: {self.compared:,} of {self.calls:,}",
        ]
        lines += [
            f"    {layer.name}: {format_factor(layer.output or 0.0)} × the band"
            for layer in self.layers
            if (layer.output or 0.0) > 1.0
        ][:_SHOWN]
        return "\n".join(lines)


_SHOWN = 6  # layers that leave the band


def check(name: str, model: Any, program: TorchProgram, runtime: str, run: Run, replicas: int) -> (
    ExportCheck
):  # fmt: skip
    """Compare ``model``, a ``ModelProto``, with ``program``. ``run`` runs a serialized model on
    the backend called ``runtime``.

    Raises UsageError if the model's inputs are not the program's.
    """
    tensors = inputs_for(model, program)
    trace, band = program.reference(replicas)
    calls = len(program.calls)
    try:
        results = run(model.SerializeToString(), tensors)
    except Exception as error:  # of the runtime, which has its own kinds
        location = _in_graph(model, program, trace, band, tensors, None)[0]
        return ExportCheck(
            name, runtime, raised=told(error), location=location, calls=calls, replicas=replicas
        )
    outputs = _outputs(results, program, trace, band)
    values = _values(model, tensors, run)
    reached = match(model, values, program, trace, band)
    location = None
    if not all(ratio <= 1.0 for ratio in outputs):
        location = _located(model, program, trace, band, tensors, values, reached, run)
    return ExportCheck(
        name, runtime, outputs, "", location, _layers(program, reached), len(reached.calls), calls,
        replicas,
    )  # fmt: skip


def inputs_for(model: Any, program: TorchProgram) -> list[torch.Tensor]:
    """The program's tensors as the graph's inputs. Raises UsageError."""
    onnx: Any = importlib.import_module("onnx")
    own = {tensor.name for tensor in model.graph.initializer}
    taken = [item for item in model.graph.input if item.name not in own]
    if len(taken) != len(program.tensors):
        raise UsageError(
            f"the file takes {pluralize(len(taken), 'input')}, the model {len(program.tensors)}"
        )
    for item, tensor in zip(taken, program.tensors, strict=True):
        kind = onnx.TensorProto.DataType.Name(item.type.tensor_type.elem_type)
        expected = _KINDS.get(str(tensor.dtype).removeprefix("torch."))
        given = item.type.tensor_type.shape.dim
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in given]
        fits = len(sizes) == tensor.ndim and all(
            size in (None, have) for size, have in zip(sizes, tensor.shape, strict=True)
        )
        if kind != expected or not fits:
            shape = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in given]
            raise UsageError(
                f"input {item.name!r:.80} of the file is {kind} {shape!s:.80}, the model's is "
                f"{tensor.dtype} {list(tensor.shape)}"
            )
    return program.tensors


_KINDS = {
    "float32": "FLOAT", "float64": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16",
    "bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64",
    "uint8": "UINT8",
}  # fmt: skip


def _outputs(
    results: Sequence[torch.Tensor], program: TorchProgram, trace: ReferenceTrace,
    band: RoundingEnvelope,
) -> tuple[float, ...]:  # fmt: skip
    """The distance of every output × band; infinite for another shape or number of outputs."""
    if len(results) != len(program.outputs):
        return (float("inf"),)
    ratios = []
    for result, name in zip(results, program.outputs, strict=True):
        expected = trace.by_key.get(key(name))
        if expected is None:  # an input that is returned, a constant
            continue
        got = sample_of(trace, result)
        if got is None or got.shape != expected.shape or result.numel() != program.sizes[name]:
            ratios.append(float("inf"))
        else:
            ratios.append(ratio_to_band(distance(got, expected), band.of(key(name))))
    return tuple(ratios)


def _values(model: Any, tensors: Sequence[torch.Tensor], run: Run) -> dict[str, torch.Tensor]:
    """Every value of the graph in the runtime, and the inputs; none if it refuses to give them."""
    data, names = with_every_value(model)
    own = {tensor.name for tensor in model.graph.initializer}
    inputs = [item.name for item in model.graph.input if item.name not in own]
    try:
        return dict(zip([*inputs, *names], [*tensors, *run(data, tensors)], strict=True))
    except Exception as error:
        told(error)
        return {}


def _in_graph(
    model: Any, program: TorchProgram, trace: ReferenceTrace, band: RoundingEnvelope,
    tensors: Sequence[torch.Tensor], results: Sequence[torch.Tensor] | None,
) -> tuple[Location | None, dict[str, Any], Matching]:  # fmt: skip
    """Where the graph says something else than torch (None: nowhere, or nothing proves it), and
    what it says. ``results`` are the runtime's outputs; None if it refused the graph."""
    means, stopped = meaning(model, tensors)
    right = match(model, means, program, trace, band)
    ends = [output.name for output in model.graph.output]
    said = [as_tensor(means[name]) for name in ends if name in means]
    if not stopped and all(ratio <= 1.0 for ratio in _outputs(said, program, trace, band)):
        return None, means, right
    location = repaired(model, right, means, program)
    if location is None and (_alike(said, results, program, trace) if results else stopped):
        location = first_without_counterpart(model, right, program, stopped)
    return location, means, right


def _alike(
    said: Sequence[torch.Tensor], results: Sequence[torch.Tensor], program: TorchProgram,
    trace: ReferenceTrace,
) -> bool:  # fmt: skip
    """Whether the evaluator's outputs are the runtime's: nearer than a tenth of their error. Two
    programs then agree on what the graph says."""
    if not len(said) == len(results) == len(program.outputs):
        return False
    for one, other, name in zip(said, results, program.outputs, strict=True):
        a, b, expected = sample_of(trace, one), sample_of(trace, other), trace.by_key.get(key(name))
        if a is None or b is None or one.shape != other.shape:
            return False
        same = expected is not None and expected.shape == b.shape
        limit = _SAME * distance(b, expected) if same and expected is not None else 0.0
        if distance(a, b) > limit + _ROUNDING * norm(b):
            return False
    return True


_SAME = 0.1  # of the runtime's error: two programs round differently
_ROUNDING = 2.0**-20


def _located(
    model: Any, program: TorchProgram, trace: ReferenceTrace, band: RoundingEnvelope,
    tensors: Sequence[torch.Tensor], values: dict[str, torch.Tensor], reached: Matching, run: Run,
) -> Location | None:  # fmt: skip
    ends = [values[output.name] for output in model.graph.output if output.name in values]
    location, means, right = _in_graph(model, program, trace, band, tensors, ends)
    if location is not None:
        return location
    return wrong_in_runtime(model, values, means, right, reached, program, run)


def _layers(program: TorchProgram, reached: Matching) -> tuple[Layer, ...]:
    """A row per module: the distance of the last of its calls that the graph has."""
    last: dict[str, float] = {}
    for name, call in program.calls.items():
        if name in reached.ratios:
            last[call.path] = reached.ratios[name]
    return tuple(
        Layer(path, output=ratio, first=int(ratio > 1.0), by_step=((1, ratio),))
        for path, ratio in last.items()
    )
