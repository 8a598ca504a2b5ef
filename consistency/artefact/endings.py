"""The last lines of a script: what is printed, and what is asserted, by the kind of failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from .. import dtypes
from ..model import Result
from ..scaling import HIGHEST, LOWEST
from .facts import Element, healthy_rms, measured_of, rounded_up, seconds_of
from .numerals import scalar
from .sheet import Sheet

REPEATS = 30
Ran = Callable[..., str]


@dataclass(frozen=True)
class Ending:
    """What ``run`` returns (an expression over its outputs), and the lines behind it."""

    returned: str
    lines: list[str]


def _picked(run: str, element: Element) -> str:
    """The element of what was run, as a Python number."""
    index = ", ".join(map(str, element.index))
    where = f"[{index}]" if index else ""
    tensor = f"torch.view_as_real({run}.resolve_conj())" if element.paired else run
    return f"{tensor}{where}.item()" if element.dtype else f"{tensor}"


def place_of(element: Element) -> str:
    return f"at {list(element.index)}" if element.index else "the only element"


def value(result: Result, element: Element, run: Ran, right: str, sheet: Sheet) -> list[str]:
    """One number, against the one that is right, with what rounding explains there."""
    lines = [f"got = {_picked(run(), element)}"]
    if right:
        lines.append(f"right = {_picked(right, element)}")
    recorded = scalar(element.recorded, sheet)
    named = "the CPU" if element.exact else "float64 on the CPU"
    shown = f"{named} {{right!r}}, recorded {{recorded!r}}" if right else "right is {recorded!r}"
    lines.append(f"recorded = {recorded}  # what is right, as it was computed when this was found")
    where = place_of(element)
    if isinstance(element.recorded, float) and not math.isfinite(element.recorded):
        return special(result, element, run, right, sheet)
    if element.exact:
        lines.append(f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")')
        return [*lines, 'assert got == recorded, "these numbers are exact: nothing is rounded"']
    form = dtypes.form_of(element.dtype)
    if form is not None and abs(element.recorded) > form.overflow:
        return _beyond(element, lines, where, form.overflow, shown)
    if form is not None and math.isfinite(form.overflow) and abs(element.recorded) + element.admitted >= form.overflow:
        lines.append(
            f"got = max(min(got, 2.0**{form.max_exponent + 1}), -(2.0**{form.max_exponent + 1}))  # what infinity stands for"
        )
    lines.append(f"admitted = {_admitted(element)}  # the largest error that rounding explains there")
    lines.append(f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")')
    lines.append('print(f"{abs(got - recorded) / admitted:,.3g} times the error that rounding explains")')
    return [*lines, 'assert abs(got - recorded) <= admitted, "no rounding explains this"']


def _admitted(element: Element) -> str:
    return rounded_up(element.admitted, abs((element.actual or 0.0) - element.recorded))


def _beyond(element: Element, lines: list[str], where: str, limit: float, shown: str) -> list[str]:
    """What is right lies so far beyond the format that only an infinity, or next to it the largest number, can stand for it."""
    least = f"got >= {limit!r} * 0.99" if element.recorded > 0.0 else f"got <= {-limit!r} * 0.99"
    return [*lines, f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")', f'assert {least}, "no rounding explains this"']


def special(result: Result, element: Element, run: Ran, right: str, sheet: Sheet) -> list[str]:
    """NaN, an infinity, or the sign of a zero that is not where it belongs."""
    lines = [f"got = {_picked(run(), element)}"]
    lines += [f"right = {_picked(right, element)}"] if right else []
    shown = "; float64 on the CPU {right!r}" if right else ""
    recorded = scalar(element.recorded, sheet)
    lines.append(f'print(f"{place_of(element)}: {{device}} gives {{got!r}}, where {recorded} is right{shown}")')
    return [*lines, f"assert {_condition(result, element, recorded, sheet)}"]


def _condition(result: Result, element: Element, recorded: str, sheet: Sheet) -> str:
    measured = measured_of(result)
    kinds = set(measured.special) if measured is not None else set()
    if not isinstance(element.recorded, float):
        return "got == recorded".replace("recorded", recorded)
    if math.isnan(element.recorded):
        sheet.modules.add("math")
        return "math.isnan(got)"
    if math.isinf(element.recorded):
        return f"got == {recorded}"
    if "largest" in kinds:
        sheet.names.add("inf")
        return "got == inf" if element.recorded > 0 else "got == -inf"
    sheet.modules.add("math")
    if "zero-sign" in kinds and element.recorded == 0.0 and element.actual == 0.0:
        return f"got == 0.0 and math.copysign(1.0, got) == {math.copysign(1.0, element.recorded)}"
    return "math.isfinite(got)" if isinstance(element.actual, float) and math.isinf(element.actual) else "not math.isnan(got)"


def spread(result: Result, element: Element, run: Ran, right: str) -> list[str]:
    """The RMS error of all elements, where no single one is beyond its budget."""
    usual, times = healthy_rms(result)
    as_double = "torch.complex128" if element.paired else "torch.float64"
    return [
        f"right = {right}",
        f"error = ({run()}.cpu().to({as_double}) - right).abs().square().mean().sqrt().item()",
        f"usual = {usual:.3g}  # what rounding in {element.dtype} leaves of this",
        'print(f"RMS error on {device}: {error:.3g}, {error / usual:.1f} times the usual one")',
        f'assert error <= {math.sqrt(times):.3g} * usual, "more than rounding in this dtype explains"',
    ]


def repeats(run: Ran, variation: str = "") -> list[str]:
    """The same bits each time? ``variation`` is a line between the first run and the others."""
    lines = [
        "def bits(tensors):",
        "    return [t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for t in tensors]",
        "",
        "",
        f"first = bits({run()})",
    ]
    if variation:
        return [
            *lines, variation, f"other = bits({run()})", 'print("the same bits" if first == other else "other bits")',
            "assert first == other",
        ]  # fmt: skip
    return [
        *lines,
        f"others = sum(bits({run()}) != first for _ in range({REPEATS}))",
        f'print(f"{{others}} of {REPEATS} runs on {{device}} gave other bits than the first")',
        "assert others == 0",
    ]


def alone(run: Ran) -> list[str]:
    """A row by itself, against the same row within its batch."""
    return [
        f"together, single = {run()}[:1].cpu(), {run(alone=True)}.cpu()",
        'print("largest difference", (together.double() - single.double()).abs().max().item())',
        'assert torch.equal(together, single), "a row is computed otherwise alone than in a batch"',
    ]


def scaling(result: Result, largest: float, run: Ran) -> list[str]:
    """Errors of float32 and float64 on the device: rounding shrinks by 2**29 from one to the other."""
    least, ratio = 16.0 * 2.0**-52 * largest, result.metrics.get("scaling_ratio", 1.0)
    if "float32 path is degraded" in result.explanation:
        condition = f"narrow <= 2.0**{round(math.log2(HIGHEST))} * max(wide, {least / 32.0:.3g})"
    else:
        share = 1e-6 if "shrink" in result.explanation or ratio >= LOWEST else 1.0 / LOWEST
        condition = f"wide <= max({share:.3g} * narrow, {least:.3g})"
    narrow, wide = run("device", "float32"), run("device", "float64")
    return [
        f"narrow = ({narrow}.cpu().double() - right).abs().max().item()",
        f"wide = ({wide}.cpu() - right).abs().max().item()",
        'print(f"on {device} float32 errs by {narrow:.3g}, float64 by {wide:.3g}")',
        f'assert {condition}, "from float32 to float64 rounding shrinks by 2**29"',
    ]


def structure(shapes: list[tuple[tuple[int, ...], str] | str], run: Ran) -> list[str]:
    """Number, shapes and dtypes of what comes back."""
    wanted = ", ".join(item if isinstance(item, str) else f"({item[0]}, torch.{item[1]})" for item in shapes)
    return [
        f"found = [(tuple(t.shape), t.dtype) if isinstance(t, torch.Tensor) else type(t) for t in {run()}]",
        f"right = [{wanted}]",
        'print("got", found)',
        'print("right is", right)',
        "assert found == right",
    ]


def modified(position: int, run: Ran) -> list[str]:
    """An input that the operator does not write to."""
    return [
        f"before, after = {run()}",
        'print("before", before.tolist()[:8], "after", after.tolist()[:8])',
        'assert torch.equal(before.view(torch.uint8), after.view(torch.uint8)), "an input was modified"',
    ]


def raises(result: Result, run: Ran) -> list[str]:
    """A call that must not raise: whatever it raises ends the script."""
    return [
        f"out = {run()}  # raised here; float64 on the CPU does not",
        'print("returned", [tuple(t.shape) for t in out if t is not None])',
    ]


def lenient(run: Ran, message: str) -> list[str]:
    """A call that must raise."""
    return [
        "try:",
        f"    out = {run()}",
        "except Exception as error:",
        '    print("raises, as it should:", str(error).splitlines()[0])',
        "else:",
        f"    sys.exit({('returned a result, where float64 on the CPU raises: ' + message)[:160]!r})",
    ]


def crash(run: Ran) -> list[str]:
    return [f"out = {run()}  # the process ended here", 'print("survived", [tuple(t.shape) for t in out if t is not None])']


def hang(result: Result, run: Ran, sheet: Sheet) -> list[str]:
    sheet.modules.add("faulthandler")
    return [
        f"faulthandler.dump_traceback_later({seconds_of(result):g}, exit=True)  # seconds",
        f"out = {run()}",
        'print("returned in time", [tuple(t.shape) for t in out if t is not None])',
        "faulthandler.cancel_dump_traceback_later()",
    ]
