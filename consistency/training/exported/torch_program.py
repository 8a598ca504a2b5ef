"""The calls of a torch model in evaluation mode, in float64 and in replicas whose every number is
moved by half an ulp: what an exported model is compared with, and the band around it."""

from __future__ import annotations

import copy
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...backends._messages import told
from ...errors import UsageError
from ...reference.perturbation import ReplicaPerturbation
from .. import rounding_envelope
from ..float64_mode import Float64Mode, WorkingFormats
from ..forward_probe import place
from ..reference_samples import Distances, Key, ReferenceTrace, Tap, TensorSampler
from ..trace.modules import Modules

_SINGLE = 24  # bits of an input's significand


@dataclass(frozen=True, slots=True)
class TorchCall:
    """A call of the model: its name in torch.export's graph, the operator, the module's path and
    title, and the line of the model's own code; ``inputs`` are names of other calls."""

    name: str
    operator: str
    path: str
    module: str
    line: str
    inputs: tuple[str, ...]

    def __str__(self) -> str:
        where = f" in {self.module}" if self.module else ""
        return f"{self.operator}{where}{f', {self.line}' if self.line else ''}"


def key(name: str) -> Key:
    """The key of a call's value in traces and distances."""
    return Key(1, "output", name)


class TorchProgram:
    """A copy of ``model`` in evaluation mode as torch.export sees it, with ``inputs``.

    ``calls`` are in the order of execution, ``outputs`` the names of those that the model returns.
    ``tensors`` are the inputs' tensors, in order. Raises UsageError where torch.export refuses.
    """

    def __init__(self, model: Any, inputs: tuple[Any, ...]) -> None:
        module = _module(model)
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.program: Any = torch.export.export(module, inputs, strict=False)
        except Exception as error:
            raise UsageError(f"torch.export does not take the model: {told(error)}") from None
        self._refuse_formats()
        self.module = module
        self._titles = {name: place(name, part) for name, part in module.named_modules()}
        self.graph = self.program.graph_module.graph
        self.inputs = inputs
        self.tensors = [leaf for leaf in pytree.tree_leaves(inputs) if _is_tensor(leaf)]
        self.calls = {node.name: self._call(node) for node in self.graph.nodes if _computes(node)}
        made = {node.name: node.meta.get("val") for node in self.graph.nodes if _computes(node)}
        tensors = {name: value for name, value in made.items() if _is_tensor(value)}
        self.sizes = {name: int(value.numel()) for name, value in tensors.items()}
        self.floating = {name for name, value in tensors.items() if value.is_floating_point()}
        self.outputs = tuple(str(name) for name in self.program.graph_signature.user_outputs)

    def _refuse_formats(self) -> None:
        """Raises UsageError for a model that computes in narrower formats than float32: the band
        is that of float32."""
        for node in self.program.graph_module.graph.nodes:
            values = pytree.tree_leaves(node.meta.get("val"))
            narrow = {v.dtype for v in values if _is_tensor(v)} & {torch.float16, torch.bfloat16}
            if narrow or "autocast" in str(node.target):
                raise UsageError(
                    f"the model computes in {str(next(iter(narrow), 'autocast')).split('.')[-1]}; "
                    "exported models are compared in float32 only"
                )

    def reference(self, replicas: int) -> tuple[ReferenceTrace, rounding_envelope.RoundingEnvelope]:
        """Samples of every call's value in float64, and the band from that many replicas."""
        samples = TensorSampler(1)
        samples.expect(len(self.calls))
        trace = ReferenceTrace(samples)
        self.run(trace)
        runs = []
        for number in range(replicas):
            distances = Distances(trace)
            self.run(distances, ReplicaPerturbation(number))
            runs.append(distances)
        return trace, rounding_envelope.RoundingEnvelope(trace, runs)

    def values(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """The values of some calls in float64, whole."""
        kept: dict[str, torch.Tensor] = {}

        def tap(key: Key, tensor: torch.Tensor) -> None:
            if key.name in names:
                kept[key.name] = tensor.detach().clone()

        self.run(tap)
        return kept

    def run(self, tap: Tap, perturbation: ReplicaPerturbation | None = None) -> None:
        """One pass in float64; ``tap`` gets the value of every call."""
        mode = Float64Mode(WorkingFormats(), Modules(), perturbation)
        given = [self._given(spec) for spec in self.program.graph_signature.input_specs]
        leaves = iter(pytree.tree_leaves(self.inputs))
        values = [_wide(next(leaves), perturbation) if v is _USERS else v for v in given]
        with torch.no_grad(), warnings.catch_warnings(), mode:
            warnings.simplefilter("ignore")
            _Tapped(self.program.graph_module, mode, tap).run(*values)

    def _given(self, spec: Any) -> Any:
        kind, target = spec.kind.name, spec.target
        if kind == "USER_INPUT":
            return _USERS
        state = self.program.state_dict
        value = state[target] if target in state else self.program.constants[target]
        return _wide(value, None)

    def _call(self, node: Any) -> TorchCall:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        path = _path(stack[-1][0]) if stack else ""
        made = node.args[0] if node.target is operator.getitem else node  # one of several outputs
        target = str(made.target).removeprefix("torch.ops.")
        return TorchCall(
            node.name, target, path, self._titles.get(path, path) if path else "",
            _line(node.meta.get("stack_trace") or ""),
            tuple(each.name for each in node.all_input_nodes),
        )  # fmt: skip


_USERS = object()


class _Tapped(torch.fx.Interpreter):
    def __init__(self, graph: Any, mode: Any, tap: Tap) -> None:
        super().__init__(graph)
        self._mode, self._tap = mode, tap

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if _computes(n) and _is_tensor(value):
            self._mode.paused = True
            try:
                self._tap(key(n.name), value)
            finally:
                self._mode.paused = False
        return value


def _computes(node: Any) -> bool:
    return bool(node.op == "call_function") and "_assert" not in str(node.target)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _wide(value: Any, perturbation: ReplicaPerturbation | None) -> Any:
    if not _is_tensor(value):
        return value
    own = value.detach().clone()  # a call may write it
    if own.is_floating_point():
        own = own.double()
        if perturbation is not None:
            perturbation.apply(own, _SINGLE)
    return own


def _module(model: Any) -> torch.nn.Module:
    """A copy in evaluation mode; a function as a module."""
    if isinstance(model, torch.nn.Module):
        return copy.deepcopy(model).eval()
    return _Function(model)


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Any) -> Any:
        return self._function(*inputs)


def _path(text: str) -> str:
    """The path of a module from torch.export's names: ``L['self'].0.norm``, or ``0.norm``."""
    return text.removeprefix("L['self']").removeprefix(".").split("@")[0]


def _line(trace: str) -> str:
    """``net.py:12`` of the last frame that is not in torch."""
    for frame in reversed([line.strip() for line in trace.splitlines()]):
        if frame.startswith('File "') and "/torch/nn/" not in frame.replace("\\", "/"):
            file, _, rest = frame.removeprefix('File "').partition('", line ')
            return f"{file.replace(chr(92), '/').rpartition('/')[2]}:{rest.split(',')[0]}"
    return ""


__all__ = ["TorchCall", "TorchProgram", "key"]
