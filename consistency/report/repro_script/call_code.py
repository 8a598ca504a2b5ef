"""One case as lines of a script: its tensors, the call, and an expression for each of its outputs.

No source of this project is copied: a function that torch has under the operator's name is called
by that name, any other is traced to the torch functions that it calls (:mod:`.tracing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from ...backends._cotangents import differentiated
from ...backends._outputs import limited, on_copies, seeded
from ...core import dtypes
from ...core.case_source import ATEN, CALL, parse_source
from ...core.recipe import owner
from ...generate.materialize import Materials
from ...operators import optimizers
from ...operators.declare import Operator
from ...reference import quiet
from . import steps
from .script_context import Sheet, UnscriptableError
from .source_repr import Speller, chain, qualified_name
from .tensor_literals import flat
from .tracing import trace
from .variables import cotangent_array, dtypes_in, paths, variables_of


@dataclass
class Lines:
    """``inputs`` define ``variables`` from ``device`` and ``dtype``; ``call`` runs the operator;
    ``outputs`` are expressions for the outputs of an Outcome.

    ``memories`` are the variables of the flat storages of modified tensors, by position.
    """

    variables: list[str] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    call: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    memories: dict[int, str] = field(default_factory=dict)
    takes_wide: bool = False
    returned: list[str] = field(default_factory=list)  # expressions for the values of the call
    called_with: list[str] = field(default_factory=list)  # the tensors that it received
    forward: int = 0  # number of lines of the forward pass, if there is a backward pass


class Caller:
    """Writes the lines for one operator, case and direction. Raises UnscriptableError if that is
    impossible."""

    def __init__(
        self, operator: Operator, materials: Materials, direction: str, sheet: Sheet
    ) -> None:
        self.operator, self.materials, self.sheet = operator, materials, sheet
        self.backward = direction == "backward"
        self.case = materials.case
        self.gradients = operator.leaves if self.backward else False
        self.own = materials.build(gradients=self.gradients)
        self.written = (
            [i for i in operator.mutates if i < len(self.own.bases)] if not self.backward else []
        )
        self.watched = set(self.written)  # tensors whose storages need a variable
        self.unused = False  # whether some tensor is known to have no gradient
        self.plain: Any = None  # the operator's own result in float64
        self.renamed: dict[str, str] = {}  # variables of tensors that are written: those of copies
        self.only: int | None = None  # the number of the only tested output
        self.lines = Lines(variables_of(operator, self.own))
        self.types = self._types()

    def _types(self) -> dict[torch.dtype, str]:
        """The script's names for dtypes that its float64 run converts."""
        if not dtypes.floats(self.case.dtype):
            return {}
        names = {dtypes.TORCH[self.case.dtype]: "dtype"}
        if self.case.dtype in dtypes.PARTS:
            names[dtypes.TORCH[dtypes.PARTS[self.case.dtype]]] = "dtype.to_real()"
        return names

    def write(self) -> Lines:
        """All lines for the direction."""
        self._inputs()
        with quiet():
            function, args = self._function()
            names = {
                id(tensor): name
                for tensor, name in zip(self.own.tensors, self.lines.variables, strict=True)
            }
            if self.backward and self.operator.mutates:
                copied, *_ = on_copies(self.own, self.operator.mutates)
                for before, after in zip(self.own.args, copied, strict=True):
                    if after is not before:
                        names[id(after)] = f"{names[id(before)]}_copy"
                        self.renamed[names[id(before)]] = names[id(after)]
                        self.lines.inputs.append(
                            f"{names[id(before)]}_copy = {names[id(before)]}.clone()"
                        )
                args = list(copied)
            self._call(function, args, names)
        self.lines.called_with = [self.renamed.get(v, v) for v in self.lines.variables]
        return self.lines

    def _inputs(self) -> None:
        for position, (recipe, raw) in enumerate(
            zip(self.case.tensors, self.materials.bases, strict=True)
        ):
            name, views = self.lines.variables[position], chain(recipe)
            if position in self.own.shared:
                self.lines.inputs.append(f"{name} = {self._shared(position)}")
                continue
            target = self._target(dtypes.TORCH[recipe.dtype])
            made = f"{flat(raw, recipe.dtype, name, self.sheet)}.to({target})"
            repetition = self._repetition(position)
            if repetition:
                made, views = f"{made}{views}{repetition}", ""
                if position in self.watched:
                    views = f".view({list(self.own.tensors[position].shape)})"
                    made = f"{made}.view(-1)"
            if position in self.watched and views:
                memory = f"{name}_memory"
                self.lines.memories[position] = memory
                self.lines.inputs.append(f"{memory} = {made}")
                made = memory
            elif position in self.watched:
                self.lines.memories[position] = name
            if views.startswith(".view(())") and made.startswith(
                "torch.tensor(["
            ):  # a number without dimensions
                made, views = (
                    made.replace("[", "", 1).replace("]", "", 1),
                    views.removeprefix(".view(())"),
                )
            leaf = ".requires_grad_()" if self.own.tensors[position].requires_grad else ""
            self.lines.inputs.append(f"{name} = {made}{views}{leaf}")

    def _shared(self, position: int) -> str:
        """The view of an earlier variable."""
        recipes = self.case.tensors
        earlier = owner(recipes, position)
        assert earlier is not None
        before, after = chain(recipes[earlier]), chain(recipes[position])
        return f"{self.lines.variables[earlier]}{after.removeprefix(before)}"

    def _repetition(self, position: int) -> str:
        """What repeats a tensor of a large case. Raises UnscriptableError for gradients, whose
        cotangents would be as large."""
        tiling = self.case.tiling
        if tiling is None:
            return ""
        if self.backward and tiling.is_large:
            raise UnscriptableError(f"gradients of a large case, of {tiling.size:,} elements")
        dim = tiling.dims[position] if position < len(tiling.dims) else None
        if dim is None:
            return ""
        index = f"torch.arange({tiling.size}, device=device) % {tiling.period}"
        return f".index_select({dim}, {index})"

    def _target(self, dtype: torch.dtype) -> str:
        """The arguments of ``.to``: the device, and the dtype if the float64 run converts it."""
        name = dtypes.name_of(dtype)
        if name == self.case.dtype or dtype in self.types:
            return f"device, {self.types.get(dtype, 'dtype')}"
        if not dtypes.floats(name):
            return "device"
        self.lines.takes_wide = True
        return (
            f"device, torch.{'complex128' if name in dtypes.PARTS else 'float64'} if wide "
            f"else {dtype}"
        )

    def _function(self) -> tuple[Callable[..., Any] | str, list[Any]]:
        """The called function and its arguments: a dotted name, or a function to trace."""
        args, source = list(self.own.args), parse_source(self.case.source)
        if source.kind == CALL:
            name = source.name
            kind, _, last = name.rpartition(".")
            if kind == "operator":
                kind, last = "torch.Tensor", f"__{last.strip('_')}__"
            return (f"torch.Tensor.{last}" if kind in ("Tensor", "torch.Tensor") else name), args
        if source.kind == ATEN:
            return f"torch.ops.aten.{source.name}", args
        function = self.operator.callable
        if function is None:
            raise UnscriptableError(f"torch {torch.__version__} has no {self.operator.name}")
        if self.operator.function is not None:
            direct = qualified_name(function)
            return (direct or function), args
        path, _, last = self.operator.name.rpartition(".")
        module = f"torch.{path}" if path else "torch"
        return (
            f"{module}.{last}" if path or hasattr(torch, last) else f"torch.Tensor.{last}"
        ), args

    def _call(
        self, function: Callable[..., Any] | str, args: list[Any], names: dict[int, str]
    ) -> None:
        kwargs = self.own.kwargs
        optimizer = self.operator.name.removeprefix("optim.")
        if function is optimizers.FUNCTIONS.get(optimizer, ""):
            speller = Speller(
                self.sheet, lambda tensor: names.get(id(tensor)), self._spelled_types()
            )
            lines, outputs = steps.optimizer(optimizer, args, kwargs, speller)
            self.lines.call += lines
            self.lines.outputs += [*outputs, *self.storages()]
            return
        if isinstance(function, str):
            speller = Speller(
                self.sheet, lambda tensor: names.get(id(tensor)), self._spelled_types()
            )
            last = function.rpartition(".")[2]
            if last == "__setitem__":
                self.lines.call.append(speller.statement(function, args, kwargs))
            else:
                self.lines.call.append(f"out = {speller.call(function, args, kwargs)}")
            structure, expressions = self._structure(args), None
        else:
            with seeded(self.case.digest):
                types = self._spelled_types()
                traced = trace(function, args, kwargs, names, self.sheet, types,
                only=None if self.backward else self.only,
                               written=[self.own.bases[i] for i in self.written])  # fmt: skip
            self.lines.call += traced.lines
            structure, expressions = traced.result, traced.expressions
        leaves = list(paths(structure, "out", expressions))
        self.lines.returned = [path for path, _ in leaves]
        if self.backward:
            self.lines.forward = len(self.lines.call)
            self._backward(structure, [path for path, _ in leaves])
            return
        self.lines.outputs += [path for path, _ in leaves]
        self.lines.outputs += self.storages()

    def storages(self) -> list[str]:
        """The variables of the storages of modified tensors, in the order of an outcome."""
        return [self.lines.memories.get(i, "None") for i in self.written]

    def _spelled_types(self) -> dict[torch.dtype, str]:
        others = {
            dtype: f"(torch.float64 if wide else {dtype})"
            for dtype in (dtypes.TORCH[name] for name in dtypes.FLOATING)
            if dtype not in self.types and dtype != torch.float64
        }
        used = set(dtypes_in((self.own.args, self.own.kwargs)))
        found = {**{k: v for k, v in others.items() if k in used}, **self.types}
        self.lines.takes_wide |= any("wide" in found[dtype] for dtype in used if dtype in found)
        return found

    def _structure(self, args: list[Any]) -> Any:
        """The result of the call in float64, for its structure only; a single tensor if it
        raises."""
        try:
            with seeded(self.case.digest):
                arguments = self.materials.build("float64", gradients=self.gradients)
                call_args = (
                    on_copies(arguments, self.operator.mutates)[0]
                    if self.backward
                    else arguments.args
                )
                self._wide = arguments
                call = (
                    self.operator.reference if parse_source(self.case.source).kind == ATEN else None
                )
                self.plain = (call or self.operator)(*call_args, **arguments.kwargs)
                return self.plain
        except Exception:  # an exception is irrelevant for the structure
            return torch.zeros(())

    def _backward(self, structure: Any, paths: list[str]) -> None:
        arguments = getattr(self, "_wide", self.own)
        pairs = differentiated(limited(structure), arguments)
        tensors = list(limited(structure))
        roots: list[str] = []
        against: list[str] = []
        for root, cotangent in pairs:
            roots.append(
                next(path for path, item in zip(paths, tensors, strict=True) if item is root)
            )
            against.append(
                self._cotangent(root, cotangent, str(len(against)) if len(pairs) > 1 else "")
            )
        leaves = [self.lines.variables[position] for position in self.own.leaves]
        if not roots or not leaves:
            raise UnscriptableError("nothing here has a gradient")
        several = ", allow_unused=True" if len(leaves) > 1 or self.unused else ""
        leaves_text = leaves[0] if len(leaves) == 1 else f"({', '.join(leaves)})"
        roots_text, against_text = (
            (roots[0], against[0])
            if len(roots) == 1
            else (f"({', '.join(roots)})", f"({', '.join(against)})")
        )
        self.lines.call.append(
            f"grads = torch.autograd.grad({roots_text}, {leaves_text}, {against_text}{several})"
        )
        self.lines.outputs += [f"grads[{i}]" for i in range(len(leaves))]

    def _cotangent(self, root: torch.Tensor, cotangent: torch.Tensor, number: str) -> str:
        """Write the line for a gradient's cotangent; returns its variable."""
        stored, steps = _stored(cotangent)
        narrow, raw, name = cotangent_array(stored, self.case.dtype)
        variable = f"g{number}"
        while variable in self.lines.variables:
            variable += "_"
        sizes = ", ".join(map(str, stored.shape)) or "()"
        views = ("" if stored.ndim == 1 else f".view({sizes})") + steps
        self.lines.call.append(
            f"{variable} = "
            f"{flat(raw, name, variable, self.sheet)}.to({self._target(narrow.dtype)}){views}"
        )
        return variable


def _stored(cotangent: torch.Tensor) -> tuple[torch.Tensor, str]:
    """What of a cotangent is stored contiguously, and the views that lead from there to it: one
    number where it is expanded, the reverse where its first dimension is innermost in memory."""
    if cotangent.numel() > 1 and not any(cotangent.stride()):
        sizes = ", ".join(map(str, cotangent.shape))
        return cotangent.as_strided((1,), (0,)), f".expand({sizes})"
    reverse = tuple(reversed(range(cotangent.ndim)))
    if not cotangent.is_contiguous() and cotangent.permute(reverse).is_contiguous():
        return cotangent.permute(reverse), f".permute({', '.join(map(str, reverse))})"
    return cotangent, ""
