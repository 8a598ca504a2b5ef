"""A result as a script of torch alone: the lines of its call (:mod:`.calling`) and of its check (:mod:`.endings`)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import dtypes
from ..errors import ConsistencyError
from ..materialise import Materials, prepare
from ..model import Result
from ..operators.declare import Operator
from ..opinfo import operator_of
from ..reference import Reference, quiet
from ..report.failure import printable
from . import endings, facts, words
from .calling import Caller, Lines
from .facts import Element, EmptyError, element_of, kind_of, observed
from .numerals import flat
from .places import Place, place_of
from .sheet import Sheet, UnscriptableError
from .tracing import trace

_WIDER = {"int32": "int64", "int16": "int64", "int8": "int64"}
_VALUES = ("value", "special", "spread", "flags")


@dataclass(frozen=True)
class Script:
    """The text of repro.py, the files that must lie beside it, and why it shows less than it should (empty: it shows all)."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


def script_of(
    result: Result, spec: str | None = None, identity: Mapping[str, str] | None = None, operator: Operator | None = None
) -> Script:
    """The script for a result. Never raises for what cannot be scripted: then the text says so, and does what can be done.

    ``operator`` is the one that was called where no registry knows it. Raises RecipeError for a case that makes no sense.
    """
    sheet = Sheet()
    place = place_of(result, spec, sheet)
    try:
        operator = operator or operator_of(result.case)
    except ConsistencyError as error:
        return _without(result, sheet, place, identity, str(error))
    materials = prepare(result.case)
    try:
        with quiet():
            body = _Program(result, operator, materials, sheet, place).lines()
    except UnscriptableError as error:
        return _without(result, sheet, place, identity, str(error))
    return _text(result, sheet, place, identity, body)


def _without(result: Result, sheet: Sheet, place: Place, identity: Mapping[str, str] | None, why: str) -> Script:
    fresh = Sheet({"sys"}, notes=sheet.notes)
    fresh.note(f"This cannot be shown by a script of torch alone: {why}.")
    return _text(result, fresh, place, identity, ['print("nothing is asserted: see the comment above")'], limits=(why,))


def _text(
    result: Result, sheet: Sheet, place: Place, identity: Mapping[str, str] | None, body: list[str], limits: tuple[str, ...] = ()
) -> Script:
    if place.foreign:
        sheet.note(place.foreign)
        limits = (*limits, place.foreign)
    head = [words.title(result), *words.provenance(result, identity or {}), *sheet.notes]
    head.append(f"Run: {place.usage} [DEVICE]")
    comments = [f"# {line}" for text in head for line in words.wrapped(printable(text.replace("\n", " ")))]
    imports = list(sheet.imports())
    setting = ["", *place.after] if place.after else []
    lines = [*comments, *imports, *(["", *place.before] if place.before else []), "", "import torch", *setting]
    if sheet.constants:
        lines += ["", *sheet.constants]
    return Script("\n".join([*lines, *body]) + "\n", dict(sheet.files), limits)


class _Program:
    def __init__(self, result: Result, operator: Operator, materials: Materials, sheet: Sheet, place: Place) -> None:
        self.result, self.operator, self.materials, self.sheet, self.place = result, operator, materials, sheet, place
        self.kind = kind_of(result, operator)
        self.direction = result.direction
        self.hook = observed(operator, result.direction) if self.kind in _VALUES else None
        self.caller = Caller(operator, materials, result.direction, sheet)
        if self.kind == "modified":
            self.caller.watched |= {facts.modified(result) or 0}
        self.random = "random" in operator.traits

    @functools.cached_property
    def reference(self) -> Reference:
        return Reference(self.operator, self.materials, self.direction)

    def lines(self) -> list[str]:
        """Everything below the switches."""
        if self.kind in _VALUES:
            self.caller.unused = any(o.tensor is None for o in self.reference.outcome.outputs)
            self._look_at_one()
        calling = self.caller.write()
        body: list[str] = []
        ending = getattr(self, f"_{self.kind}")(calling)
        body += self._functions(calling, ending.returned)
        return [*body, "", "", *ending.lines]

    def _look_at_one(self) -> None:
        """Where a single output is looked at, the lines that make the others are left out."""
        if self.hook is None and self.reference.outcome.status == "ok":
            name = self.result.output or "out/0"
            names = [output.name for output in self.reference.outcome.outputs]
            self.caller.only = names.index(name) if name in names else 0

    # How it is run

    def _run(self, where: str = "device", dtype: str = "", *, wide: bool = False, alone: bool = False) -> str:
        given = [where, f"torch.{dtype or self.result.case.dtype}"]
        given += ["wide=True"] if wide and self.caller.lines.takes_wide else []
        given += ["alone=True"] if alone else []
        if self.place.compiled and not wide:
            given.append("call=torch.compile(call, fullgraph=True, dynamic=False)")
        text = f"run({', '.join(given)})"
        return f"seen({text})" if self.hook is not None else text

    def _right(self) -> str:
        """What computes the same in float64 on the CPU; empty where that is what was tested, or cannot be written."""
        if self.result.case.dtype in ("float64", "complex128") and self.place.kind == "cpu":
            return ""
        text = self._run('"cpu"', self._wide_dtype(), wide=True)
        return text.replace("run(", "reference(", 1) if self._otherwise is not None else text

    def _wide_dtype(self) -> str:
        name = self.result.case.dtype
        if dtypes.floats(name):
            return "complex128" if name in dtypes.PARTS else "float64"
        return "float64" if self.reference.independent and not self.random else _WIDER.get(name, name)

    @functools.cached_property
    def _otherwise(self) -> list[str] | None:
        """The body of a reference that is computed otherwise than the operator; None where there is none."""
        if self.operator.reference is None or self.kind not in _VALUES or self.direction == "backward":
            return None
        own = self.materials.build("float64")
        names = {id(t): name for t, name in zip(own.tensors, self.caller.lines.variables, strict=True)}
        types = {torch.float64: "dtype", torch.complex128: "dtype"} if dtypes.floats(self.result.case.dtype) else {}
        traced = trace(self.operator.reference, own.args, own.kwargs, names, self.sheet, types, prefix="r")
        returned = [traced.expressions.get(id(item), "None") for item in _tensors(traced.result)]
        returned += [self.caller.lines.memories[i] for i in self.operator.mutates if i in self.caller.lines.memories]
        return [*traced.lines, f"return {self._of(returned)}"]

    def _of(self, outputs: list[str]) -> str:
        """What a function returns: the one output that is looked at, or all of them where they are observed together."""
        if self.hook is not None:
            return f"[{', '.join(outputs)}]"
        position = self._element.position if self.kind in _VALUES else 0
        if position >= len(outputs):
            raise UnscriptableError("the call returns other outputs here than it did there")
        return outputs[position]

    @functools.cached_property
    def _element(self) -> Element:
        if self.reference.outcome.status != "ok":
            raise UnscriptableError(f"float64 on the CPU raises here: {self.reference.outcome.message}")
        return element_of(self.result, self.reference)

    # Kinds

    def _value(self, calling: Lines) -> endings.Ending:
        try:
            self._element  # noqa: B018
        except EmptyError:
            self.hook = None
            return self._structure(calling)
        lines = endings.value(self.result, self._element, self._run, self._right(), self.sheet)
        return endings.Ending(self._of(calling.outputs), lines)

    def _special(self, calling: Lines) -> endings.Ending:
        lines = endings.special(self.result, self._element, self._run, self._right(), self.sheet)
        return endings.Ending(self._of(calling.outputs), lines)

    def _spread(self, calling: Lines) -> endings.Ending:
        right = self._right()
        if not right:
            raise UnscriptableError("only the distribution of the errors of float64 is unusual")
        return endings.Ending(self._of(calling.outputs), endings.spread(self.result, self._element, self._run, right))

    def _flags(self, calling: Lines) -> endings.Ending:
        position = self._element.position
        right = self.reference.outputs[position].tensor
        if right is None or right.dtype != torch.bool:
            return self._value(calling)
        if position > 0:
            raise UnscriptableError(
                "how likely random numbers are is told by tests of their distribution, which are this project's"
            )
        lines = [f"possible = {self._run()}", 'print(f"{(~possible).sum().item()} of {possible.numel()} numbers are impossible")']
        return endings.Ending(self._of(calling.outputs), [*lines, "assert possible.all()"])

    def _all(self, calling: Lines, lines: list[str]) -> endings.Ending:
        return endings.Ending(f"[{', '.join(calling.outputs)}]", lines)

    def _structure(self, calling: Lines) -> endings.Ending:
        shapes = [_described(o, self._expected_dtype(i)) for i, o in enumerate(self.reference.outcome.outputs)]
        return self._all(calling, endings.structure(shapes, self._run))

    def _expected_dtype(self, position: int) -> str:
        from ..backends.cpu import Cpu

        plain = Cpu().run(self.operator, self.materials, self.direction)
        if plain.status == "ok" and len(plain.outputs) > position:
            return plain.outputs[position].dtype
        return self.result.case.dtype

    def _modified(self, calling: Lines) -> endings.Ending:
        position = facts.modified(self.result)
        assert position is not None
        memory = calling.memories[position]
        calling.inputs.append(f"before = {memory}.reshape(-1).clone()")
        return endings.Ending(f"before.cpu(), {memory}.reshape(-1).cpu()", endings.modified(position, self._run))

    def _raises(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.raises(self.result, self._run))

    def _lenient(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.lenient(self._run, self.reference.outcome.message))

    def _crash(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.crash(self._run))

    def _timeout(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.hang(self.result, self._run, self.sheet))

    def _repeats(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.repeats(self._run))

    def _threads(self, calling: Lines) -> endings.Ending:
        return self._all(calling, endings.repeats(self._run, "torch.set_num_threads(1)"))

    def _batch(self, calling: Lines) -> endings.Ending:
        calling.inputs.append(f"{calling.variables[0]} = {calling.variables[0]}[:1] if alone else {calling.variables[0]}")
        return endings.Ending(calling.outputs[0], endings.alone(self._run))

    def _scaling(self, calling: Lines) -> endings.Ending:
        """Errors of float32 and float64 on the device, against a reference above float64, whose numbers the script holds."""
        from ..wider import sharpen

        if self.reference.outcome.status != "ok" or self.result.case.dtype != "float64":
            raise UnscriptableError("it is about many cases together, none of which shows it alone")
        sharpen(self.reference, "float64")
        right = self.reference.outputs[0].tensor
        if right is None or right.is_complex() or not right.numel() or self.operator.observe is not None:
            raise UnscriptableError("how its errors shrink from float32 to float64 is not a matter of one tensor")
        shape = "" if right.ndim == 1 else f".view({', '.join(map(str, right.shape)) or '()'})"
        numbers = flat(right.detach().contiguous().reshape(-1).numpy(), "float64", "right", self.sheet)
        largest = float(torch.nan_to_num(right.abs(), nan=0.0, posinf=0.0).max())
        lines = [f"right = {numbers}{shape}", *endings.scaling(self.result, largest, self._run)]
        return endings.Ending(self._of(calling.outputs), lines)

    # Functions

    def _functions(self, calling: Lines, returned: str) -> list[str]:
        seen, uses = self._seen(calling) if self.hook is not None else ([], False)
        split = uses or self._needs_reference or self.place.compiled
        parameters = "device, dtype" + (", wide=False" if calling.takes_wide else "")
        seed = [f"torch.manual_seed({int(self.result.case.digest[:15], 16)})"] if self.random else []
        call = [*seed, *calling.call]
        if not calling.variables:
            call = ["with torch.device(device):", *(f"    {line}" for line in call)]
        extra = ", alone=False" if self.kind == "batch" else ""
        if not split:
            return [*_def(f"run({parameters}{extra})", [*calling.inputs, *_returning(call, returned)]), *seen]
        names = _names(calling)
        found: list[str] = []
        unpacked: list[str] = []
        if names:
            found += _def(f"inputs({parameters})", _returning(calling.inputs, names))
            unpacked = [f"{names} = inputs(device, dtype{', wide' if calling.takes_wide else ''})"]
        if self.place.compiled:
            given = f"{names}{', ' if names else ''}device, dtype"
            found += _def(f"call({given})", _returning(call, returned))
            found += _def(f"run({parameters}, call=call)", [*unpacked, f"return call({given})"])
        else:
            found += _def(f"run({parameters})", [*unpacked, *_returning(call, returned)])
        if self._needs_reference:
            assert self._otherwise is not None
            found += _def(f"reference({parameters})", [*unpacked, *self._otherwise])
        return [*found, *seen]

    @property
    def _needs_reference(self) -> bool:
        return self._otherwise is not None and bool(self._right()) and self.kind in ("value", "special", "spread")

    def _seen(self, calling: Lines) -> tuple[list[str], bool]:
        """The function that makes what is compared from the outputs, what is unique about them; whether it uses the inputs."""
        arguments = self.reference.arguments
        known = {id(t): name for t, name in zip(arguments.tensors, calling.variables, strict=True)}
        outputs = tuple(o.tensor if o.tensor is None or not dtypes.floats(o.dtype) else _widened(o.tensor)
                        for o in self.reference.outcome.outputs)  # fmt: skip
        known |= {id(tensor): f"out[{i}]" for i, tensor in enumerate(outputs) if tensor is not None}
        hook = self.hook
        assert hook is not None
        traced = trace(lambda *a: hook(tuple(arguments.args), arguments.kwargs, a), outputs, {}, known, self.sheet, {}, prefix="s",
                       only=self._element.position)  # fmt: skip
        seen = traced.result[self._element.position]
        if seen is None:
            raise UnscriptableError("there is nothing to observe in its outputs")
        converted = "t.cpu().double() if t.is_floating_point() else t.cpu()"
        if any(t is not None and t.is_complex() for t in outputs):
            converted = f"t.cpu().resolve_conj().to(torch.complex128) if t.is_complex() else {converted}"
        convert = f"out = [{'t if t is None else ' if any(t is None for t in outputs) else ''}{converted} for t in out]"
        lines = [*traced.lines, f"return {traced.expressions[id(seen)]}"]
        uses = any(re.search(rf"\b{name}\b", line) for name in calling.variables for line in lines)
        given = f'"cpu", torch.{self._wide_dtype()}{", wide=True" if calling.takes_wide else ""}'
        unpacked = [f"{_names(calling)} = inputs({given})"] if uses else []
        return _def("seen(out)", [*unpacked, convert, *lines]), uses


def _names(calling: Lines) -> str:
    return ", ".join(dict.fromkeys([*calling.variables, *calling.memories.values()]))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)


def _def(head: str, body: list[str]) -> list[str]:
    return ["", "", f"def {head}:", *(f"    {line}" for line in body)]


def _returning(call: list[str], returned: str) -> list[str]:
    """The lines of a call and what is returned of it, in one line where the last one makes it."""
    made = f"{returned} = "
    if call and call[-1].startswith(made):
        return [*call[:-1], f"return {call[-1].removeprefix(made)}"]
    return [*call, f"return {returned}"]


def _tensors(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _tensors(item)]
    return [value]


def _described(output: Any, dtype: str) -> tuple[tuple[int, ...], str] | str:
    if output.tensor is not None:
        return tuple(output.tensor.shape), dtype
    return "type(None)" if output.value is None else type(output.value).__name__
