"""The torch functions that a function of this project calls on given arguments, as straight-line
code.

Only the outermost calls are recorded, as a user would write them. Python code between them
(conditions, numbers computed from shapes) appears in the script as its outcome.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .script_context import Sheet, UnscriptableError
from .source_repr import ASSIGNED, Speller, qualified_name

MOST_STEPS = 120


@dataclass
class Step:
    """One call: the function's dotted name, its arguments, and its result."""

    function: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    changed: bool = False  # an argument, such as running statistics
    line: str = ""
    uses: set[str] = field(default_factory=set)
    makes: str = ""

    @property
    def writes(self) -> bool:
        """Whether it is also called for its effect."""
        last = self.function.rpartition(".")[2]
        inplace = last.endswith("_") and not last.endswith("__")
        return (
            inplace
            or last in ("__setitem__", "__set__", *ASSIGNED)
            or "out" in self.kwargs
            or self.changed
        )


class _Recorder(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
    def __init__(self, written: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.steps: list[Step] = []
        # Some kernels modify tensors without a new version.
        self._written = [
            torch.tensor([], dtype=torch.uint8).set_(base.untyped_storage()) for base in written
        ]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        given = [item for item in leaves_of((args, kwargs)) if isinstance(item, torch.Tensor)]
        before = [tensor._version for tensor in given]
        held = [base.clone() for base in self._written]
        name = qualified_name(func)
        try:
            result = func(*args, **kwargs)
        except Exception:
            if name is not None:
                self.steps.append(Step(name, tuple(args), kwargs, None, True))
            raise
        if name is not None:
            changed = any(
                tensor._version != version for tensor, version in zip(given, before, strict=True)
            )
            changed = changed or any(
                not torch.equal(now, then) for now, then in zip(self._written, held, strict=True)
            )
            self.steps.append(Step(name, tuple(args), kwargs, result, changed))
        return result


@dataclass(frozen=True)
class Traced:
    """Lines of code, and the result's structure with expressions in place of tensors."""

    lines: tuple[str, ...]
    result: Any
    expressions: Mapping[int, str]
    kept: tuple[Any, ...] = ()  # keeps the objects alive whose identities are used


def trace(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any],
    names: Mapping[int, str], sheet: Sheet,
    types: Mapping[torch.dtype, str], prefix: str = "t", only: int | None = None,
    written: Sequence[torch.Tensor] = (),
) -> Traced:  # fmt: skip
    """Record the calls of ``function(*args, **kwargs)``. ``names`` are the variables of tensors by
    ``id``; new ones are ``prefix`` and a number.

    ``only`` is the number of the required result, if not all are needed. ``written`` are the
    storages that may be modified.

    Raises UnscriptableError if a result cannot be traced to the arguments.
    """
    recorder = _Recorder(written)
    try:
        with recorder:
            result = function(*args, **kwargs)
    except Exception:  # the recorded calls end with the one that raises
        if not recorder.steps:
            raise UnscriptableError("it raises before it calls any function of torch") from None
        result = None
    known = dict(names)
    kept: list[Any] = [result, args, kwargs]  # prevents reuse of identities
    used: set[str] = set()

    def name(tensor: torch.Tensor) -> str | None:
        found = known.get(id(tensor))
        if found is not None:
            used.add(found.partition("[")[0])
        return found

    speller = Speller(sheet, name, types)
    for number, step in enumerate(recorder.steps):
        kept.append(step)
        if not step.writes and not any(
            isinstance(item, torch.Tensor) for item in leaves_of(step.result)
        ):
            continue
        used.clear()
        try:
            step.line = _expression(speller, step)
        except UnscriptableError:
            if step.writes:
                raise
            continue  # fails later only if its result is needed
        step.uses = set(used)
        same = isinstance(step.result, torch.Tensor) and id(step.result) in known
        if not same and not isinstance(step.result, type(None)):
            step.makes = f"{prefix}{number + 1}"
            _name(step.result, step.makes, known)
    used.clear()
    wanted = [
        item
        for i, item in enumerate(leaves_of(result))
        if isinstance(item, torch.Tensor) and only in (None, i)
    ]
    expressions = {id(item): _expression_of(item, speller) for item in wanted}
    lines = _live_lines(recorder.steps, set(used))
    numbers = dict.fromkeys(re.findall(rf"\b{prefix}[0-9]+\b", "\n".join(lines)))
    renamed = {old: f"{prefix}{new}" for new, old in enumerate(numbers, start=1)}

    def rename(text: str) -> str:
        return re.sub(
            rf"\b{prefix}[0-9]+\b", lambda found: renamed.get(found.group(), found.group()), text
        )

    return Traced(
        tuple(map(rename, lines)),
        result,
        {key: rename(text) for key, text in expressions.items()},
        tuple(kept),
    )


def _expression_of(tensor: torch.Tensor, speller: Speller) -> str:
    found = speller.name(tensor)
    if found is None:
        raise UnscriptableError(
            "its result is made in ways that cannot be written as calls of torch"
        )
    return found


def _expression(speller: Speller, step: Step) -> str:
    kind, _, last = step.function.rpartition(".")
    if last == "__get__":
        return f"{speller.value(step.args[0])}.{kind.rpartition('.')[2]}"
    if last == "__set__":
        return (
            f"{speller.value(step.args[0])}.{kind.rpartition('.')[2]} = "
            f"{speller.value(step.args[1])}"
        )
    return speller.statement(step.function, step.args,
    step.kwargs) if step.writes else speller.call(
        step.function, step.args, step.kwargs
    )  # fmt: skip


def _name(result: Any, text: str, known: dict[int, str]) -> None:
    if isinstance(result, torch.Tensor):
        known.setdefault(id(result), text)
    elif isinstance(result, (tuple, list)):
        for position, item in enumerate(result):
            _name(item, f"{text}[{position}]", known)


def leaves_of(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves_of(item)]
    if isinstance(value, Mapping):
        return [leaf for item in value.values() for leaf in leaves_of(item)]
    return [value]


def _live_lines(steps: Sequence[Step], wanted: set[str]) -> list[str]:
    """The lines whose results are used, and those with side effects, in order."""
    kept: list[tuple[str, str]] = []
    for step in reversed(steps):
        if not step.line or not (step.writes or step.makes in wanted):
            continue
        wanted |= step.uses
        kept.append((step.makes if step.makes in wanted else "", step.line))
    if len(kept) > MOST_STEPS:
        raise UnscriptableError(f"it is made of {len(kept)} calls of torch, too many to read")
    return [f"{makes} = {line}" if makes else line for makes, line in reversed(kept)]
