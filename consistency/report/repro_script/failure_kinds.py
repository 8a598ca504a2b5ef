"""How a script shows each kind of failure: what ``run`` returns, and the last lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...backends.cpu import Cpu
from ...reference.high_precision import refine
from . import assertions, behavior_assertions, failure_facts
from .call_code import Lines
from .failure_facts import EmptyError
from .script_context import UnscriptableError
from .tensor_literals import flat

if TYPE_CHECKING:
    from .builder import ScriptBuilder


def value(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    try:
        program.element  # noqa: B018
    except EmptyError:
        program.hook = None
        return structure(program, calling)
    lines = assertions.value(
        program.result, program.element, program.run, program.right(), program.sheet
    )
    return assertions.Ending(program.of(calling.outputs), lines)


def special(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    lines = assertions.special(
        program.result, program.element, program.run, program.right(), program.sheet
    )
    return assertions.Ending(program.of(calling.outputs), lines)


def spread(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    right = program.right()
    if not right:
        raise UnscriptableError("only the distribution of the errors of float64 is unusual")
    return assertions.Ending(
        program.of(calling.outputs),
        assertions.spread(program.result, program.element, program.run, right),
    )


def flags(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    position = program.element.position
    right = program.reference.outputs[position].tensor
    if right is None or right.dtype != torch.bool:
        return value(program, calling)
    if position > 0:
        raise UnscriptableError(
            "how likely random numbers are is told by tests of their distribution, which are "
            "this project's"
        )
    lines = [
        f"possible = {program.run()}",
        'print(f"{(~possible).sum().item()} of {possible.numel()} numbers are impossible")',
    ]
    return assertions.Ending(program.of(calling.outputs), [*lines, "assert possible.all()"])


def state(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    raise UnscriptableError(
        "which global state a backend of your own changes is seen around its call only"
    )


def _all(calling: Lines, lines: list[str]) -> assertions.Ending:
    return assertions.Ending(f"[{', '.join(calling.outputs)}]", lines)


def structure(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    shapes = [
        _described(o, _expected_dtype(program, i))
        for i, o in enumerate(program.reference.outcome.outputs)
    ]
    return _all(calling, behavior_assertions.structure(shapes, program.run))


def _expected_dtype(program: ScriptBuilder, position: int) -> str:
    plain = Cpu().run(program.operator, program.materials, program.direction)
    if plain.ok and len(plain.outputs) > position:
        return plain.outputs[position].dtype
    return program.result.case.dtype


def modified(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    position = failure_facts.modified_input(program.result)
    assert position is not None
    memory = calling.memories[position]
    memory += ".detach()" if program.direction == "backward" else ""
    calling.inputs.append(f"before = {memory}.reshape(-1).clone()")
    return assertions.Ending(
        f"before.cpu(), {memory}.reshape(-1).cpu()",
        behavior_assertions.modified_input(position, program.run),
    )


def contract(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    """Shows what differs beside the numbers, next to what the plain CPU gave here."""
    broken = failure_facts.broken_contract(program.result)
    plain = Cpu().run(program.operator, program.materials, program.direction).contract
    if broken is None or plain is None or program.place.compiled:
        raise UnscriptableError("what it returns beside the numbers is not shown by a script")
    tensors = f"[{', '.join(calling.called_with)}]"
    calling.call.insert(0, f"given = {tensors}")
    calling.call.insert(1, "versions = [t._version for t in given]")
    return assertions.Ending(
        f"given, versions, [{', '.join(calling.returned)}]",
        behavior_assertions.contract(broken.kind, plain, program.run),
    )


def raises(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(calling, behavior_assertions.raises(program.result, program.run))


def lenient(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(
        calling, behavior_assertions.lenient(program.run, program.reference.outcome.message)
    )


def crash(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(calling, behavior_assertions.crash(program.run))


def timeout(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(calling, behavior_assertions.hang(program.result, program.run, program.sheet))


def repeats(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(calling, behavior_assertions.repeats(program.run))


def threads(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    return _all(calling, behavior_assertions.repeats(program.run, "torch.set_num_threads(1)"))


def batch(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    calling.inputs.append(
        f"{calling.variables[0]} = {calling.variables[0]}[:1] if alone else {calling.variables[0]}"
    )
    return assertions.Ending(calling.outputs[0], behavior_assertions.alone(program.run))


def scaling(program: ScriptBuilder, calling: Lines) -> assertions.Ending:
    """Errors in float32 and in float64 on the device, against a more precise reference whose
    numbers are in the script."""
    if not program.reference.outcome.ok or program.result.case.dtype != "float64":
        raise UnscriptableError("it is about many cases together, none of which shows it alone")
    refine(program.reference, "float64")
    right = program.reference.outputs[0].tensor
    if (
        right is None
        or right.is_complex()
        or not right.numel()
        or program.operator.observe is not None
    ):
        raise UnscriptableError(
            "how its errors shrink from float32 to float64 is not a matter of one tensor"
        )
    shape = "" if right.ndim == 1 else f".view({', '.join(map(str, right.shape)) or '()'})"
    numbers = flat(
        right.detach().contiguous().reshape(-1).numpy(), "float64", "right", program.sheet
    )
    largest = float(torch.nan_to_num(right.abs(), nan=0.0, posinf=0.0).max())
    lines = [
        f"right = {numbers}{shape}",
        *behavior_assertions.scaling(program.result, largest, program.run),
    ]
    return assertions.Ending(program.of(calling.outputs), lines)


def _described(output: Any, dtype: str) -> tuple[tuple[int, ...], str] | str:
    if output.tensor is not None:
        return tuple(output.tensor.shape), dtype
    return "type(None)" if output.value is None else type(output.value).__name__
