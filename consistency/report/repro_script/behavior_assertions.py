"""The last lines of scripts that do not test a single number: nondeterminism, shapes, exceptions,
crashes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...core.contract import CHOSEN, DOCUMENTED, NONE, STATED, STRIDES, Contract
from ...core.detail import PrecisionScaling
from ...core.model import Result
from ...diagnose.precision_scaling import HIGHEST, LOWEST
from .assertions import Ran
from .failure_facts import seconds_of
from .script_context import Sheet

REPEATS = 30


def repeats(run: Ran, variation: str = "") -> list[str]:
    """Whether repeated runs give the same bits. ``variation`` is a line between the first run and
    the others."""
    lines = [
        "def bits(tensors):",
        (
            "    return "
            "[t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes() for t "
            "in tensors]"
        ),
        "",
        "",
        f"first = bits({run()})",
    ]
    if variation:
        return [
            *lines, variation, f"other = bits({run()})", ('print("the same bits" if first == '
            'other else "other bits")'),
            "assert first == other",
        ]  # fmt: skip
    return [
        *lines,
        f"others = sum(bits({run()}) != first for _ in range({REPEATS}))",
        f'print(f"{{others}} of {REPEATS} runs on {{device}} gave other bits than the first")',
        "assert others == 0",
    ]


def alone(run: Ran) -> list[str]:
    """A row run separately, against the same row in its batch."""
    return [
        f"together, single = {run()}[:1].cpu(), {run(alone=True)}.cpu()",
        'print("largest difference", (together.double() - single.double()).abs().max().item())',
        'assert torch.equal(together, single), "a row is computed otherwise alone than in a batch"',
    ]


def scaling(result: Result, largest: float, run: Ran) -> list[str]:
    """Errors in float32 and in float64 on the device: rounding errors shrink by about 2**29."""
    least, ratio = 16.0 * 2.0**-52 * largest, result.metrics.get("scaling_ratio", 1.0)
    if result.detail == PrecisionScaling("float32"):
        condition = f"narrow <= 2.0**{round(math.log2(HIGHEST))} * max(wide, {least / 32.0:.3g})"
    else:
        single_cases = result.detail == PrecisionScaling("case")
        share = 1e-6 if single_cases or ratio >= LOWEST else 1.0 / LOWEST
        condition = f"wide <= max({share:.3g} * narrow, {least:.3g})"
    narrow, wide = run("device", "float32"), run("device", "float64")
    return [
        f"narrow = ({narrow}.cpu().double() - right).abs().max().item()",
        f"wide = ({wide}.cpu() - right).abs().max().item()",
        'print(f"on {device} float32 errs by {narrow:.3g}, float64 by {wide:.3g}")',
        f'assert {condition}, "from float32 to float64 rounding shrinks by 2**29"',
    ]


def structure(shapes: list[tuple[tuple[int, ...], str] | str], run: Ran) -> list[str]:
    """Number, shapes and dtypes of the outputs."""
    wanted = ", ".join(
        item if isinstance(item, str) else f"({item[0]}, torch.{item[1]})" for item in shapes
    )
    return [
        (
            f"found = [(tuple(t.shape), t.dtype) if isinstance(t, torch.Tensor) else type(t) for t "
            f"in {run()}]"
        ),
        f"right = [{wanted}]",
        'print("got", found)',
        'print("right is", right)',
        "assert found == right",
    ]


def modified_input(position: int, run: Ran) -> list[str]:
    """An input that the operator must not modify."""
    return [
        f"before, after = {run()}",
        'print("before", before.tolist()[:8], "after", after.tolist()[:8])',
        (
            'assert torch.equal(before.view(torch.uint8), after.view(torch.uint8)), "an input was '
            'modified"'
        ),
    ]


def contract(kind: str, plain: Contract, run: Ran) -> list[str]:
    """What the call promises beside the numbers, of one kind, against the CPU's."""
    right: Sequence[Any]
    returned = [item for item in plain.returned if item is not None]
    if kind == "identity":
        what = "which argument each returned tensor is"
        found = "[next((i for i, t in enumerate(given) if t is out), None) for out in returned]"
        right = [_or_none(item.argument) for item in returned]
    elif kind == "aliasing":
        what = "whose memory each returned tensor lies in"
        found = (
            "[next((i for i, t in enumerate(given) if memory(t) == memory(out)), None) "
            "for out in returned]"
        )
        right = [_or_none(item.storage) for item in returned]
    elif kind in (STRIDES, DOCUMENTED, STATED, CHOSEN):
        what = "strides along dimensions of more than one element"
        found = (
            "[[s for s, n in zip(out.stride(), out.shape) if n > 1 and out.numel()] "
            "for out in returned]"
        )
        right = [[stride for stride in item.strides if stride != NONE] for item in returned]
    elif kind == "gradient":
        what = "which returned tensors require gradients, and which of them have a history"
        found = "[(out.requires_grad, out.grad_fn is not None) for out in returned]"
        right = [(item.tracks, item.tracks and not item.leaf) for item in returned]
    else:
        what = "whose version counters moved"
        found = "[i for i, t in enumerate(given) if t._version != versions[i]]"
        right = list(plain.written)
    memory = ["", "", "def memory(t):", "    return t.untyped_storage()._cdata", "", ""]
    return [
        *(memory if kind == "aliasing" else []),
        f"given, versions, returned = {run()}",
        "returned = [out for out in returned if isinstance(out, torch.Tensor)]",
        f"found = {found}",
        f"right = {right!r}",
        f'print("{what}:", found, "instead of", right)',
        "assert found == right",
    ]


def _or_none(position: int) -> int | None:
    return None if position == NONE else position


def raises(result: Result, run: Ran) -> list[str]:
    """A call that must not raise; any exception ends the script."""
    return [
        f"out = {run()}  # raised here; float64 on the CPU does not",
        'print("returned", [tuple(t.shape) for t in out if t is not None])',
    ]


def lenient(run: Ran, message: str) -> list[str]:
    """A call that must raise."""
    ending = ("returned a result, where float64 on the CPU raises: " + message)[:160]
    return [
        "try:",
        f"    out = {run()}",
        "except Exception as error:",
        '    print("raises, as it should:", str(error).splitlines()[0])',
        "else:",
        f"    sys.exit({ending!r})",
    ]


def crash(run: Ran) -> list[str]:
    return [
        f"out = {run()}  # the process ended here",
        'print("survived", [tuple(t.shape) for t in out if t is not None])',
    ]


def hang(result: Result, run: Ran, sheet: Sheet) -> list[str]:
    sheet.modules.add("faulthandler")
    return [
        f"faulthandler.dump_traceback_later({seconds_of(result):g}, exit=True)  # seconds",
        f"out = {run()}",
        'print("returned in time", [tuple(t.shape) for t in out if t is not None])',
        "faulthandler.cancel_dump_traceback_later()",
    ]
