"""The last lines of a script, which print and assert, by kind of failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...core import dtypes
from ...core.model import Result
from .failure_facts import Element, healthy_rms, measured_of, rounded_up
from .script_context import Sheet
from .tensor_literals import scalar

Ran = Callable[..., str]


@dataclass(frozen=True)
class Ending:
    """What ``run`` returns (an expression over its outputs), and the script's last lines."""

    returned: str
    lines: list[str]


def _element_code(run: str, element: Element) -> str:
    """The tested element as a Python number."""
    index = ", ".join(map(str, element.index))
    where = f"[{index}]" if index else ""
    tensor = f"torch.view_as_real({run}.resolve_conj())" if element.paired else run
    return f"{tensor}{where}.item()" if element.dtype else f"{tensor}"


def place_of(element: Element) -> str:
    return f"at {list(element.index)}" if element.index else "the only element"


def value(result: Result, element: Element, run: Ran, right: str, sheet: Sheet) -> list[str]:
    """One number against the correct one, with the error that rounding explains."""
    lines = [f"got = {_element_code(run(), element)}"]
    if right:
        lines.append(f"right = {_element_code(right, element)}")
    recorded = scalar(element.recorded, sheet)
    named = "the CPU" if element.exact else "float64 on the CPU"
    shown = f"{named} {{right!r}}, recorded {{recorded!r}}" if right else "right is {recorded!r}"
    lines.append(f"recorded = {recorded}  # {_source(result, element)}")
    where = place_of(element)
    if isinstance(element.recorded, float) and not math.isfinite(element.recorded):
        return special(result, element, run, right, sheet)
    if element.exact:
        lines.append(f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")')
        return [*lines, 'assert got == recorded, "these numbers are exact: nothing is rounded"']
    form = dtypes.form_of(element.dtype)
    if form is not None and abs(element.recorded) > form.overflow:
        return _beyond(element, lines, where, form.overflow, shown)
    if (
        form is not None
        and math.isfinite(form.overflow)
        and abs(element.recorded) + element.admitted >= form.overflow
    ):
        lines.append(
            f"got = max(min(got, 2.0**{form.max_exponent + 1}), -(2.0**{form.max_exponent + 1}))  "
            "# what infinity stands for"
        )
    lines.append(
        f"admitted = {_admitted_text(element)}  # the largest error that rounding explains there"
    )
    lines.append(f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")')
    lines.append(
        'print(f"{abs(got - recorded) / admitted:,.3g} times the error that rounding explains")'
    )
    return [*lines, 'assert abs(got - recorded) <= admitted, "no rounding explains this"']


def _source(result: Result, element: Element) -> str:
    """The source of the correct number."""
    proof = result.proof
    if (
        proof is None
        or proof.output != result.output
        or proof.index != element.index[: len(proof.index)]
    ):
        return "what is right, as it was computed when this was found"
    return f"proved in ball arithmetic (Arb, {proof.bits} bits): {proof.digits}"


def _admitted_text(element: Element) -> str:
    return rounded_up(element.admitted, abs((element.actual or 0.0) - element.recorded))


def _beyond(element: Element, lines: list[str], where: str, limit: float, shown: str) -> list[str]:
    """The lines for a correct value out of range, for which only infinity or a number close to the
    largest is acceptable."""
    least = f"got >= {limit!r} * 0.99" if element.recorded > 0.0 else f"got <= {-limit!r} * 0.99"
    return [
        *lines,
        f'print(f"{where}: {{device}} gives {{got!r}}; {shown}")',
        f'assert {least}, "no rounding explains this"',
    ]


def special(result: Result, element: Element, run: Ran, right: str, sheet: Sheet) -> list[str]:
    """NaN, an infinity, or the sign of a zero in the wrong place."""
    lines = [f"got = {_element_code(run(), element)}"]
    lines += [f"right = {_element_code(right, element)}"] if right else []
    shown = "; float64 on the CPU {right!r}" if right else ""
    recorded = scalar(element.recorded, sheet)
    lines.append(
        f'print(f"{place_of(element)}: {{device}} gives {{got!r}}, where {recorded} is '
        f'right{shown}")'
    )
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
    return (
        "math.isfinite(got)"
        if isinstance(element.actual, float) and math.isinf(element.actual)
        else "not math.isnan(got)"
    )


def spread(result: Result, element: Element, run: Ran, right: str) -> list[str]:
    """The RMS error of all elements, if no single element exceeds its budget."""
    usual, times = healthy_rms(result)
    as_double = "torch.complex128" if element.paired else "torch.float64"
    return [
        f"right = {right}",
        f"errors = ({run()}.cpu().to({as_double}) - right).abs()",
        "errors = errors[errors.isfinite()]  # NaN and infinities have no distance",
        "error = errors.square().mean().sqrt().item()",
        f"usual = {usual:.3g}  # what rounding in {element.dtype} leaves of this",
        'print(f"RMS error on {device}: {error:.3g}, {error / usual:.1f} times the usual one")',
        (
            f'assert error <= {math.sqrt(times):.3g} * usual, "more than rounding in this dtype '
            f'explains"'
        ),
    ]
