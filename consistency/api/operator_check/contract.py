"""What torch.library promises of a registered operator: opcheck's tests, a fake kernel that says
what the kernel returns, and a call through torch.compile."""

from __future__ import annotations

import contextlib
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from ...core.trees import flatten, map_tensors
from ...generate.materialize import Materials
from .report import OperatorFault
from .target import Target

_COMPILERS = ("c++", "g++", "clang++", "cl")
_TESTS = {
    "test_schema": "schema",
    "test_autograd_registration": "autograd-registration",
    "test_faketensor": "fake-kernel",
    "test_aot_dispatch_dynamic": "compile",
}

_NO_FAKE = "the fake kernel, and torch.compile: none is registered (register_fake)"


@dataclass
class ContractFaults:
    """What was found, what was tested, and what could not be."""

    findings: list[OperatorFault] = field(default_factory=list)
    tested: list[str] = field(default_factory=list)
    not_tested: list[str] = field(default_factory=list)


def contract_of(
    target: Target, calls: list[tuple[Materials, str]], device: str, gradients: bool, compiled: bool
) -> ContractFaults:
    """The contract of a registered operator on the calls of ``calls``, of which the first is the
    example; empty for a callable."""
    found = ContractFaults()
    if target.overload is None:
        found.not_tested.append(
            f"opcheck, fake kernel, torch.compile: {target.name} is not registered "
            "(torch.library.custom_op)"
        )
        return found
    if not calls:
        return found
    with _quietly():
        _fake_kernel(target, calls, device, found)
        _opcheck(target, calls[0][0], device, gradients, found)
        if compiled:
            _compiled(target, calls, device, found)
    return found


def _fake_kernel(
    target: Target, calls: list[tuple[Materials, str]], device: str, found: ContractFaults
) -> None:
    from torch._subclasses.fake_tensor import (
        DataDependentOutputException,
        DynamicOutputShapeException,
        FakeTensorMode,
        UnsupportedOperatorException,
    )

    shown, count, wrong = "", 0, 0
    for materials, words in calls:
        arguments = materials.build(device=device)
        real = _results(target.call(*arguments.args, **arguments.kwargs))
        arguments = materials.build(device=device)
        try:
            with FakeTensorMode() as mode:
                args, kwargs = map_tensors(
                    mode.from_tensor, (tuple(arguments.args), arguments.kwargs)
                )
                fake = _results(target.call(*args, **kwargs))
        except (DataDependentOutputException, DynamicOutputShapeException):
            found.not_tested.append("the fake kernel: its shapes depend on the data")
            return
        except UnsupportedOperatorException:
            found.not_tested.append(_NO_FAKE)
            return
        except Exception as error:
            if "register_fake" in str(error) or "no fake impl" in str(error):
                found.not_tested.append(_NO_FAKE)
                return
            problem = f"raises {type(error).__name__}: {_first_line(error)}"
        else:
            problem = _difference(fake, real)
        count += 1
        if problem:
            wrong += 1
            shown = shown or f"{problem} ({words})"
    if wrong:
        text = f"the fake kernel {shown}; {wrong} of {count} calls"
        found.findings.append(OperatorFault("fake-kernel", text))
    else:
        found.tested.append(f"fake kernel ({count} calls)")


def _results(returned: Any) -> list[torch.Tensor]:
    return [item for item in flatten(returned) if isinstance(item, torch.Tensor)]


def _difference(fake: list[torch.Tensor], real: list[torch.Tensor]) -> str:
    """The first property in which the fake results differ from the real ones, as a sentence."""
    if len(fake) != len(real):
        return f"returns {len(fake)} tensors where the kernel returns {len(real)}"
    for position, (stated, actual) in enumerate(zip(fake, real, strict=True)):
        name = f" of result {position}" if len(real) > 1 else ""
        if tuple(stated.shape) != tuple(actual.shape):
            return _says("shape", list(stated.shape), list(actual.shape), name)
        if stated.dtype != actual.dtype:
            return _says("dtype", stated.dtype, actual.dtype, name)
        if stated.device.type != actual.device.type:
            return _says("device", stated.device, actual.device, name)
        if actual.layout == torch.strided and _strides(stated) != _strides(actual):
            return _says("strides", stated.stride(), actual.stride(), name)
    return ""


def _says(what: str, stated: object, actual: object, name: str) -> str:
    return f"lies about {what}{name}: it says {stated}, the kernel returns {actual}"


def _strides(tensor: torch.Tensor) -> list[int]:
    """The strides that mean something."""
    if not tensor.numel():
        return []
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return [int(stride) for size, stride in pairs if size > 1]


def _opcheck(
    target: Target, materials: Materials, device: str, gradients: bool, found: ContractFaults
) -> None:
    arguments = materials.build(device=device, gradients=gradients)
    known = {finding.kind for finding in found.findings}
    try:
        results = torch.library.opcheck(
            target.overload, tuple(arguments.args), dict(arguments.kwargs), raise_exception=False
        )
    except Exception as error:
        found.not_tested.append(f"opcheck raises {type(error).__name__}: {_first_line(error)}")
        return
    passed = []
    for test, kind in _TESTS.items():
        result = results.get(test, "not run")
        if result == "SUCCESS":
            passed.append(test.removeprefix("test_"))
        elif isinstance(result, BaseException) and not (
            # Where the fake kernel is wrong or missing, so is what is built on it.
            kind in ("fake-kernel", "compile")
            and ("fake-kernel" in known or _NO_FAKE in found.not_tested)
        ):
            text = f"torch.library.opcheck, {test}: {_first_line(result)}"
            found.findings.append(OperatorFault(kind, text))
    if passed:
        found.tested.append(f"opcheck ({', '.join(passed)})")


def _compiled(
    target: Target, calls: list[tuple[Materials, str]], device: str, found: ContractFaults
) -> None:
    """The example, and one call of another layout, through torch.compile."""
    chosen = [calls[0], *(call for call in calls[1:] if "layout" in call[1])][:2]
    compiler = device != "cpu" or any(shutil.which(name) for name in _COMPILERS)
    name = "inductor" if compiler else "aot_eager"
    if any(finding.kind == "fake-kernel" for finding in found.findings):
        return  # told already, and what inductor says of it is less clear
    if _NO_FAKE in found.not_tested:
        return
    torch._dynamo.reset()

    def called(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return target.call(*args, **kwargs)

    function: Any = torch.compile(called, fullgraph=True, backend=name)
    for materials, words in chosen:
        first, second = materials.build(device=device), materials.build(device=device)
        try:
            with torch.no_grad():
                eager = _results(target.call(*first.args, **first.kwargs))
                compiled = _results(function(tuple(second.args), second.kwargs))
        except Exception as error:
            text = f"through torch.compile ({name}) it raises {type(error).__name__}"
            found.findings.append(
                OperatorFault("compile", f"{text}: {_first_line(error)} ({words})")
            )
            return
        problem = _difference(compiled, eager) or _numbers(compiled, eager)
        if problem:
            text = f"through torch.compile ({name}) it {problem} ({words})"
            found.findings.append(OperatorFault("compile", text))
            return
    found.tested.append(f"torch.compile ({name})")


def _numbers(compiled: list[torch.Tensor], eager: list[torch.Tensor]) -> str:
    for one, other in zip(compiled, eager, strict=True):
        if one.is_floating_point():
            a, b = one.double(), other.double()
            if not torch.allclose(a, b, rtol=2.0**-6, atol=2.0**-6 * _size(b), equal_nan=True):
                return "gives other numbers than without"
        elif not torch.equal(one, other):
            return "gives other numbers than without"
    return ""


def _size(values: torch.Tensor) -> float:
    return float(torch.nan_to_num(values.abs(), posinf=0.0).max()) if values.numel() else 0.0


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:240] if lines else type(error).__name__


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
