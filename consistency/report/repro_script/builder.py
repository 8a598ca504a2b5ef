"""The functions of a script: ``run``, and if needed ``inputs``, ``call``, ``seen`` and
``reference``."""

from __future__ import annotations

import contextlib
import functools
import re

import torch

from ...core import dtypes
from ...core.model import Result
from ...generate.materialize import Materials
from ...operators.declare import Operator
from ...reference import Reference
from . import failure_facts, failure_kinds
from .backend_setup import Place
from .call_code import Caller, Lines
from .failure_facts import Element, element_of, kind_of, observation_hook
from .script_context import Sheet, UnscriptableError
from .tracing import leaves_of, trace

_WIDER = {"int32": "int64", "int16": "int64", "int8": "int64"}
_VALUES = ("value", "special", "spread", "flags")  # kinds that test numbers of one output


class ScriptBuilder:
    def __init__(
        self, result: Result, operator: Operator, materials: Materials, sheet: Sheet, place: Place
    ) -> None:
        self.result, self.operator, self.materials, self.sheet, self.place = (
            result,
            operator,
            materials,
            sheet,
            place,
        )
        self.kind = kind_of(result, operator)
        self.direction = result.direction
        self.hook = observation_hook(operator, result.direction) if self.kind in _VALUES else None
        self.caller = Caller(operator, materials, result.direction, sheet)
        if self.kind == "modified":
            self.caller.watched |= {failure_facts.modified_input(result) or 0}
        self.random = "random" in operator.traits

    @functools.cached_property
    def reference(self) -> Reference:
        return Reference(self.operator, self.materials, self.direction)

    def lines(self) -> list[str]:
        """All lines below the switches."""
        if self.kind in _VALUES:
            self.caller.unused = any(o.tensor is None for o in self.reference.outcome.outputs)
            self._select_output()
        calling = self.caller.write()
        body: list[str] = []
        ending = getattr(failure_kinds, self.kind)(self, calling)
        body += self._functions(calling, ending.returned)
        return [*body, "", "", *ending.lines]

    def _select_output(self) -> None:
        """If a single output is tested, omit the lines for the others, and an observation hook that
        changes nothing."""
        if self.hook is not None and self.reference.outcome.ok and self._hook_changes_nothing():
            self.hook = None
        if self.hook is None and self.reference.outcome.ok:
            name = self.result.output or "out/0"
            names = [output.name for output in self.reference.outcome.outputs]
            self.caller.only = names.index(name) if name in names else 0
            written = (
                names[self.caller.only].removeprefix("arg/")
                if self.caller.only < len(names)
                else ""
            )
            self.caller.watched = {int(written)} if written.isdecimal() else set()

    def _hook_changes_nothing(self) -> bool:
        with contextlib.suppress(UnscriptableError):
            position = self.element.position
            if position >= len(self.reference.outcome.outputs):
                return False
            raw, observed = (
                outputs[position].tensor
                for outputs in (self.reference.outcome.outputs, self.reference.outputs)
            )
            if (
                raw is None
                or observed is None
                or raw.dtype != observed.dtype
                or raw.shape != observed.shape
            ):
                return False
            return not raw.is_complex() and bool(
                torch.isclose(raw, observed, rtol=0.0, atol=0.0, equal_nan=True).all()
            )
        return False

    def run(
        self, where: str = "device", dtype: str = "", *, wide: bool = False, alone: bool = False
    ) -> str:
        arguments = [where, f"torch.{dtype or self.result.case.dtype}"]
        arguments += ["wide=True"] if wide and self.caller.lines.takes_wide else []
        arguments += ["alone=True"] if alone else []
        if self.place.compiled and not wide:
            dynamic = self.place.dynamic_shapes
            arguments.append(f"call=torch.compile(call, fullgraph=True, {dynamic=})")
        text = f"run({', '.join(arguments)})"
        return f"seen({text})" if self.hook is not None else text

    def right(self) -> str:
        """The expression for the same result in float64 on the CPU; empty if that is the tested
        backend, or cannot be written."""
        if self.result.case.dtype in ("float64", "complex128") and self.place.kind == "cpu":
            return ""
        text = self.run('"cpu"', self._wide_dtype(), wide=True)
        return (
            text.replace("run(", "reference(", 1)
            if self.independent_reference is not None
            else text
        )

    def _wide_dtype(self) -> str:
        name = self.result.case.dtype
        if dtypes.floats(name):
            return "complex128" if name in dtypes.PARTS else "float64"
        return (
            "float64" if self.reference.independent and not self.random else _WIDER.get(name, name)
        )

    @functools.cached_property
    def independent_reference(self) -> list[str] | None:
        """The body of a reference that is independent of the operator; None if there is none."""
        if (
            self.operator.reference is None
            or self.kind not in _VALUES
            or self.direction == "backward"
            or self._same_as_plain()
        ):
            return None
        arguments = self.materials.build("float64")
        names = {
            id(t): name
            for t, name in zip(arguments.tensors, self.caller.lines.variables, strict=True)
        }
        types = (
            {torch.float64: "dtype", torch.complex128: "dtype"}
            if dtypes.floats(self.result.case.dtype)
            else {}
        )
        traced = trace(
            self.operator.reference,
            arguments.args,
            arguments.kwargs,
            names,
            self.sheet,
            types,
            prefix="r",
        )
        returned = [traced.expressions.get(id(item), "None") for item in leaves_of(traced.result)]
        returned += self.caller.storages()
        return _returning(list(traced.lines), self.of(returned))

    def _same_as_plain(self) -> bool:
        """Whether the operator itself gives the reference's result in float64, so that no separate
        reference is needed."""
        plain = [item for item in leaves_of(self.caller.plain) if isinstance(item, torch.Tensor)]
        if not plain or self.operator.mutates:
            return False
        pairs = zip(
            plain, (output.tensor for output in self.reference.outcome.outputs), strict=False
        )
        return all(right is not None and _same(found, right) for found, right in pairs)

    def of(self, outputs: list[str]) -> str:
        """What a function returns: the tested output, or all outputs if they are observed
        together."""
        if self.hook is not None:
            return f"[{', '.join(outputs)}]"
        position = self.element.position if self.kind in _VALUES else 0
        if position >= len(outputs):
            raise UnscriptableError("the call returns other outputs here than it did there")
        return outputs[position]

    @functools.cached_property
    def element(self) -> Element:
        if not self.reference.outcome.ok:
            raise UnscriptableError(
                f"float64 on the CPU raises here: {self.reference.outcome.message}"
            )
        return element_of(self.result, self.reference)

    def _functions(self, calling: Lines, returned: str) -> list[str]:
        seen, uses = self._seen_function(calling) if self.hook is not None else ([], False)
        separate_inputs = uses or self._needs_reference or self.place.compiled
        parameters = "device, dtype" + (", wide=False" if calling.takes_wide else "")
        seed = (
            [f"torch.manual_seed({int(self.result.case.digest[:15], 16)})"] if self.random else []
        )
        call = [*seed, *calling.call]
        if not calling.variables:
            call = ["with torch.device(device):", *(f"    {line}" for line in call)]
        extra = ", alone=False" if self.kind == "batch" else ""
        if not separate_inputs:
            return [
                *_def(f"run({parameters}{extra})", [*calling.inputs, *_returning(call, returned)]),
                *seen,
            ]
        names = _names(calling)
        functions: list[str] = []
        unpacked: list[str] = []
        if names:
            functions += _def(f"inputs({parameters})", _returning(calling.inputs, names))
            unpacked = [f"{names} = inputs(device, dtype{', wide' if calling.takes_wide else ''})"]
        if self.place.compiled:
            call_parameters, forward = (
                f"{names}{', ' if names else ''}device, dtype",
                calling.forward or len(call),
            )
            if calling.forward and not calling.call[forward - 1].startswith("out = "):
                raise UnscriptableError(
                    "the gradient of what several calls make is not compiled in one graph"
                )
            after = (
                [f"out = call({call_parameters})", *call[forward:]]
                if calling.forward
                else [f"return call({call_parameters})"]
            )
            functions += _def(
                f"call({call_parameters})",
                _returning(call[:forward], "out" if calling.forward else returned),
            )
            functions += _def(
                f"run({parameters}, call=call)",
                [*unpacked, *(_returning(after, returned) if calling.forward else after)],
            )
        else:
            functions += _def(f"run({parameters})", [*unpacked, *_returning(call, returned)])
        if self._needs_reference:
            assert self.independent_reference is not None
            functions += _def(f"reference({parameters})", [*unpacked, *self.independent_reference])
        return [*functions, *seen]

    @property
    def _needs_reference(self) -> bool:
        return (
            self.independent_reference is not None
            and bool(self.right())
            and self.kind in ("value", "special", "spread")
        )

    def _seen_function(self, calling: Lines) -> tuple[list[str], bool]:
        """The function ``seen``, which extracts the well-defined part of the outputs; and whether
        it uses the inputs."""
        arguments = self.reference.arguments
        expressions = {
            id(t): name for t, name in zip(arguments.tensors, calling.variables, strict=True)
        }
        outputs = tuple(o.tensor if o.tensor is None or not dtypes.floats(o.dtype)
                        else _to_float64(o.tensor)
                        for o in self.reference.outcome.outputs)  # fmt: skip
        expressions |= {
            id(tensor): f"out[{i}]" for i, tensor in enumerate(outputs) if tensor is not None
        }
        hook = self.hook
        assert hook is not None
        traced = trace(lambda *a: hook(*self.reference.hook_arguments, a), outputs, {},
        expressions, self.sheet, {}, prefix="s",
                       only=self.element.position)  # fmt: skip
        seen = traced.result[self.element.position]
        if seen is None:
            raise UnscriptableError("there is nothing to observe in its outputs")
        converted = "t.cpu().double() if t.is_floating_point() else t.cpu()"
        if any(t is not None and t.is_complex() for t in outputs):
            converted = (
                f"t.cpu().resolve_conj().to(torch.complex128) if t.is_complex() else {converted}"
            )
        convert = (
            "out = "
            f"[{'t if t is None else ' if any(t is None for t in outputs) else ''}{converted} for "
            "t in out]"
        )
        lines = [*traced.lines, f"return {traced.expressions[id(seen)]}"]
        uses = any(re.search(rf"\b{name}\b", line) for name in calling.variables for line in lines)
        input_arguments = (
            f'"cpu", torch.{self._wide_dtype()}{", wide=True" if calling.takes_wide else ""}'
        )
        unpacked = [f"{_names(calling)} = inputs({input_arguments})"] if uses else []
        return _def("seen(out)", [*unpacked, convert, *lines]), uses


def _names(calling: Lines) -> str:
    return ", ".join(dict.fromkeys([*calling.variables, *calling.memories.values()]))


def _to_float64(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _same(found: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two tensors have equal numbers, NaNs at the same places, and zeros of the same
    sign."""
    if (
        found.shape != right.shape
        or found.dtype != right.dtype
        or found.is_complex()
        or not found.dtype.is_floating_point
    ):
        return False
    signs = torch.equal(torch.signbit(found) | found.isnan(), torch.signbit(right) | right.isnan())
    return signs and bool(torch.isclose(found, right, rtol=0.0, atol=0.0, equal_nan=True).all())


def _def(head: str, body: list[str]) -> list[str]:
    return ["", "", f"def {head}:", *(f"    {line}" for line in body)]


def _returning(lines: list[str], returned: str) -> list[str]:
    """The lines followed by a return statement, merged into the last line if that defines the
    returned variable."""
    assignment = re.fullmatch(r"(\w+) = (.+[)\]])", lines[-1]) if lines else None
    if assignment is not None and len(re.findall(rf"\b{assignment[1]}\b", returned)) == 1:
        return [
            *lines[:-1],
            "return " + re.sub(rf"\b{assignment[1]}\b", lambda _: assignment[2], returned),
        ]
    return [*lines, f"return {returned}"]
