"""A user's function as an operator: what it captures becomes arguments of its case, and a rehearsal
finds what would make every comparison meaningless."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..backends.process_state import StateGuard
from ..core import dtypes
from ..core.dtypes import float64_by_default
from ..core.model import Case
from ..core.trees import map_leaves, tensors_in
from ..errors import RecipeError, UsageError
from ..generate.materialize import Materials, literal, prepare
from ..operators.declare import Operator
from ..reference.recorded_steps import CastsToFloat64
from .captured_tensors import PREFIX, CapturedTensors, captured_by, keyword_of


@dataclass(frozen=True)
class WithCaptured:
    """A function that receives what it captures as keyword arguments: in float64, on a device."""

    function: Callable[..., Any]
    captured: CapturedTensors

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = dict(kwargs)
        names = [name for name in self.captured.tensors if keyword_of(name) in own]
        values = {name: own.pop(keyword_of(name)) for name in names}
        with self.captured.replaced(values):
            return self.function(*args, **own)


def taken_along(operator: Operator, case: Case) -> tuple[Operator, Case]:
    """The operator and its case with the tensors that the function (and its reference) captures as
    further arguments.

    Raises UsageError, which names the tensor, where one cannot be an argument.
    """
    function = operator.callable
    captured = captured_by(function, operator.reference)
    if function is None or not captured.tensors:
        return operator, case
    arguments = {}
    for name, tensor in captured.tensors.items():
        try:
            recipe = literal(tensor)
        except (RecipeError, RuntimeError) as error:
            text = f"{operator.name} uses {name} from around it, and that cannot be taken along"
            remedy = "make it within the function, or give a strided tensor as an argument"
            raise UsageError(f"{text}: {error}; {remedy}") from None
        arguments[keyword_of(name)] = replace(recipe, leaf=tensor.requires_grad)
    reference = operator.reference
    operator = replace(
        operator,
        function=WithCaptured(function, captured),
        reference=None if reference is None else WithCaptured(reference, captured),
    )
    if not dtypes.floats(case.dtype):  # tokens, of which a model makes numbers
        names = [item.dtype for item in arguments.values() if dtypes.floats(item.dtype)]
        case = replace(case, dtype=next(iter(names), case.dtype))
    return operator, replace(case, kwargs={**case.kwargs, **arguments})


def with_modules_bound(
    functions: Sequence[Callable[..., Any] | None], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[list[Any], tuple[Any, ...], dict[str, Any]]:
    """The functions with the modules among their arguments bound to them, and the arguments that
    are left: ``f(model, x)`` as ``g(x)``."""
    positions = {i: a for i, a in enumerate(args) if isinstance(a, torch.nn.Module)}
    named = {name: a for name, a in kwargs.items() if isinstance(a, torch.nn.Module)}
    if not positions and not named:
        return list(functions), tuple(args), dict(kwargs)

    def bound(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*rest: Any, **others: Any) -> Any:
            remaining = iter(rest)
            count = len(positions) + len(rest)
            whole = [positions[i] if i in positions else next(remaining) for i in range(count)]
            return function(*whole, **named, **others)

        call.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
        return call

    return (
        [None if function is None else bound(function) for function in functions],
        tuple(a for i, a in enumerate(args) if i not in positions),
        {name: a for name, a in kwargs.items() if name not in named},
    )


def rehearsed(operator: Operator, case: Case) -> Operator:
    """The operator after a trial call on the CPU: with the positions of captured buffers that it
    writes to, and a reference that computes in float64 what the function makes in float32.

    Raises UsageError for a function that draws random numbers, or uses a tensor that neither is an
    argument nor can be found. A function that does not run on the CPU is returned as it is.
    """
    materials = prepare(case)
    guard = StateGuard()  # what the function leaks is told of the backend's own call
    try:
        return _rehearsed(operator, case, materials)
    finally:
        guard.restore()


def _rehearsed(operator: Operator, case: Case, materials: Materials) -> Operator:
    try:
        first, modified, drew = _trial(operator, materials, 0)
    except Exception:  # reported where the backend's own call raises
        return operator
    if drew and not _same(first, _trial(operator, materials, 1)[0]):
        raise UsageError(
            f"{operator.name} draws random numbers, so that two calls give two results: call "
            "eval() on a model with dropout, or draw the numbers before and give them as arguments"
        )
    positions = [i for i, name in enumerate(_names(case)) if name.startswith(PREFIX)]
    if modified and set(modified) <= set(positions):
        operator = replace(operator, mutates=tuple(sorted(modified)))
    if not dtypes.floats(case.dtype):
        return operator
    return _with_working_reference(operator, materials)


def _names(case: Case) -> list[str]:
    """Per tensor in the order of :attr:`Case.tensors`, the keyword that holds it, or ''."""
    names = ["" for _ in replace(case, kwargs={}).tensors]
    for keyword, value in case.kwargs.items():
        names += [keyword for _ in Case("", case.dtype, (value,)).tensors]
    return names


def _trial(
    operator: Operator, materials: Materials, seed: int
) -> tuple[list[torch.Tensor], tuple[int, ...], bool]:
    """Results of a call in the tested dtype, arguments that it changed, and whether it drew from
    torch's generator, which is as before afterwards."""
    arguments = materials.build()
    before = torch.get_rng_state()
    try:
        torch.default_generator.manual_seed(seed)
        started = torch.get_rng_state()
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            result = operator(*arguments.args, **arguments.kwargs)
        drew = not torch.equal(started, torch.get_rng_state())
    finally:
        torch.set_rng_state(before)
    return list(tensors_in(result)), arguments.changed(materials), drew


def _same(first: Sequence[torch.Tensor], second: Sequence[torch.Tensor]) -> bool:
    return len(first) == len(second) and all(
        a.shape == b.shape and torch.allclose(a, b, equal_nan=True)
        for a, b in zip(first, second, strict=True)
    )


def _with_working_reference(operator: Operator, materials: Materials) -> Operator:
    function = operator.reference or operator.callable
    assert function is not None
    problem = _problem(function, materials)
    if problem is None:
        return operator
    wide = _MadeInFloat64(function)
    if _problem(wide, materials) is None:
        return replace(operator, reference=wide)
    if problem:
        raise UsageError(
            f"{operator.name} gives no reference in float64: {problem}, which is not found among "
            f"the modules, closures and globals of the function; give it as an argument"
        )
    return operator


def _problem(function: Callable[..., Any], materials: Materials) -> str | None:
    """What a call in float64 raises on: the tensor in another format, or '' if it is something
    else; None if it returns."""
    arguments = materials.build("float64")
    watch = _LastCall()
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            function(*arguments.args, **arguments.kwargs)
        return None
    except Exception:
        arguments = materials.build("float64")
    try:
        with warnings.catch_warnings(), torch.no_grad(), watch:
            warnings.simplefilter("ignore")
            function(*arguments.args, **arguments.kwargs)
    except Exception:
        return watch.other_format()
    return ""


class _LastCall(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the last call, which is the one that raised."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.call: tuple[str, list[torch.Tensor]] = ("", [])

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.call = (str(func).removesuffix(".default"), list(tensors_in((args, kwargs or {}))))
        return func(*args, **(kwargs or {}))

    def other_format(self) -> str:
        """The first floating tensor that is not float64, in words; '' if there is none."""
        name, tensors = self.call
        for tensor in tensors:
            if tensor.is_floating_point() and tensor.dtype != torch.float64:
                kind = dtypes.name_of(tensor.dtype)
                return f"{name} gets a {kind} tensor of shape {list(tensor.shape)}"
        return ""


@dataclass(frozen=True)
class _MadeInFloat64:
    """A function in which tensors of a fixed format (``torch.eye(8)``, ``dtype=torch.float32``) are
    made in float64."""

    function: Callable[..., Any]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with float64_by_default(), CastsToFloat64():  # type: ignore[no-untyped-call]
            return map_leaves(_in_float64, self.function(*args, **kwargs))


def _in_float64(value: Any) -> Any:
    floats = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.to(torch.float64) if floats else value
