"""issue.md: a report for maintainers, ready to post."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ...core import dtypes
from ...core.case_source import YOURS, parse_source
from ...core.detail import ReferenceWrong
from ...core.model import Proof, Result
from ...core.recipe import INLINE_BYTES
from ...core.text import format_factor, quote
from ..failure import command, dtype_of, size_of, spec_of, values_of
from . import environment, failure_facts, headlines
from .markdown import block, cell, code, line, prose, table
from .script import Script

if TYPE_CHECKING:
    from ...diagnose.shrink import MinimalCase

MOST_SCRIPT = 48 << 10  # bytes; trackers cut off a text of 64 KiB
MOST_CASE = 1500  # characters of a command
_NAMES = re.compile(r"\b(out|arg|grad|seen)/([0-9]+)\b")
_WORDS = {
    "out": "result",
    "arg": "what was written to argument",
    "grad": "gradient",
    "seen": "result",
}
_ORDINALS = ("first", "second", "third", "fourth", "fifth")
_SAME = 0.5  # share of an error that float64 has as well


def text(
    result: Result,
    made: Script,
    *,
    spec: str | None,
    identity: Mapping[str, str],
    others: Sequence[Result],
    minimal: MinimalCase | None,
    versions: str = "",
) -> str:
    """The text of issue.md. ``versions``: what torch's template asks for."""
    title = prose(headlines.title(result), 200).replace(
        prose(headlines.operator_title(result)), code(headlines.operator_title(result)), 1
    )
    parts = [
        f"# {title}",
        "\n".join(_difference_text(result)),
        "\n".join(_points(result, others, minimal)),
    ]
    parts.append(_script(made))
    parts.append(
        table(
            [
                ("", ""),
                *((prose(name), cell(value)) for name, value in environment.rows(result, identity)),
            ]
        )
    )
    parts.append(_rerun_text(result, spec))
    if versions:
        parts.append(f"### Versions\n\n{block(versions, 'text')}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _difference_text(result: Result) -> Iterator[str]:
    """The difference, its position, and its size."""
    operator_name = headlines.operator_title(result)
    name = code(operator_name) if operator_name.startswith("torch.") else prose(operator_name)
    subject = (
        f"The gradient of {name}{_gradient_tensor(result)}"
        if result.direction == "backward"
        else name
    )
    where = "on the CPU" if result.backend == "cpu" else f"on {code(result.backend)}"
    shapes = ", ".join("0-d tensor" if shape == "[]" else shape for shape in result.shapes)
    of = f" of {code(shapes, 300)}" if shapes else ""
    worst = result.worst
    if worst is None or result.verdict.value in ("structure", "error", "crash", "timeout"):
        yield f"{subject}{of} in {result.dtype} {where}: {prose(_brief(result))}."
        return
    place = f"at index {list(worst.index)}" if worst.index else "for its only element"
    floats = dtypes.form_of(dtype_of(result)) is not None
    values = values_of(worst, dtype_of(result))
    values = (
        values.replace("float64 says", "right is")
        if _itself(result) or _wide(result) or not floats
        else values
    )
    yield f"{subject}{of} in {result.dtype} {where}: {place} {values}."
    rho = result.metrics.get("rho_max", 0.0)
    sizes = (
        [f"{format_factor(rho)} × the largest error that rounding explains"]
        if rho > 1.0 and floats
        else []
    )
    sizes += (
        [text.strip() for text in size_of(result)]
        if floats and failure_facts.kind_of(result, None) != "special"
        else []
    )
    if sizes:
        yield f"That is {'; '.join(sizes)}."
    elif failure_facts.kind_of(result, None) not in ("value", "repeats"):
        yield f"{_capital(prose(_brief(result)))}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _itself(result: Result) -> bool:
    return isinstance(result.detail, ReferenceWrong)


def _wide(result: Result) -> bool:
    """Whether the correct value is not the same function in float64 on the CPU, since that
    failed."""
    return result.dtype in ("float64", "complex128") and result.backend.startswith("cpu")


def _brief(result: Result) -> str:
    """The first part of the verdict's explanation, without parts reported separately and without
    names of this project."""
    sentence, evidence = (
        result.explanation.removeprefix(f"{result.operator}: "),
        result.evidence,
    )
    more = [f"{result.workaround} makes it vanish"] if result.workaround else []
    if evidence is not None:
        more += [str(evidence.cause)] if evidence.cause is not None else []
        more += [evidence.backend_agreement] if evidence.backend_agreement else []
    for text in (*more, "float64 has the same error"):
        sentence = sentence.partition(f": {text}")[0].partition(f"; {text}")[0]
    return _NAMES.sub(
        lambda found: (
            f"{_WORDS[found[1]]} {int(found[2]) + 1}" if found[0] != "out/0" else "the result"
        ),
        sentence,
    ).rstrip(".")


def _workaround(text: str) -> str:
    first, _, rest = text.partition(" ")
    if first.startswith("."):
        return f"{code(first)} {prose(rest)}"
    return code(text) if set(text) & set("()[]") else prose(text)


def _gradient_tensor(result: Result) -> str:
    """The tensor to which a gradient belongs, if there are several."""
    number = result.output.removeprefix("grad/")
    known = (
        result.output.startswith("grad/")
        and number.isdecimal()
        and len(result.shapes) > 1
        and int(number) < len(_ORDINALS)
    )
    return f" by its {_ORDINALS[int(number)]} tensor" if known else ""


def _points(result: Result, others: Sequence[Result], minimal: MinimalCase | None) -> Iterator[str]:
    evidence = result.evidence
    if result.proof is not None:
        yield f"- {prose(_proof_text(result.proof), 300)}"
    if (
        evidence is not None
        and evidence.cause is not None
        and evidence.cause.name != "nondeterministic"
    ):
        cause = str(evidence.cause)
        yield f"- Likely cause: {prose(cause + ' of the error' if cause.endswith('%') else cause)}"
    if result.workaround:
        yield f"- Work-around: {_workaround(result.workaround)} makes it vanish"
    wide = _of_float64(result)
    if wide:
        yield f"- {wide}"
    if evidence is not None and evidence.repeats and evidence.other:
        yield (
            f"- Of {evidence.repeats} repeats {evidence.other} gave another answer, and "
            f"{evidence.within} passed"
        )
    if result.comparison is not None and result.comparison.unsteady:
        yield f"- {_capital(prose(result.comparison.unsteady))}"
    if minimal is not None:
        failed, runs = minimal.rate
        if 0 < failed < runs:
            yield f"- It fails in {failed} of {runs} runs"
        for threshold in minimal.thresholds[:4]:
            yield f"- Threshold: {prose(threshold)}"
        if minimal.steps:
            yield f"- Made smaller: {prose('; '.join(minimal.steps), 300)}" + (
                " (interrupted)" if minimal.interrupted else ""
            )
    shown = [other for other in others if other.backend != result.backend]
    for other in shown[:8]:
        also = "Also on" if other.verdict.fails else "Not on" if other.verdict.passes else "On"
        yield f"- {also} {code(other.backend)}: {prose(_short(other), 160)}"
    if evidence is not None and evidence.backend_agreement and not shown:
        yield f"- {_capital(prose(evidence.backend_agreement))}"


def _proof_text(proof: Proof) -> str:
    """The exact value, and how it was certified."""
    place = f" at index {list(proof.index)}" if proof.index else ""
    how = (
        f"enclosed in ball arithmetic of {proof.bits} bits (Arb), from the definition and "
        f"without any kernel of torch's"
    )
    return f"The exact value{place} is {proof.digits}: {how}"


def _of_float64(result: Result) -> str:
    """Whether float64 on the device agrees, the first question of maintainers."""
    evidence = result.evidence
    if _itself(result):
        return "The right value was computed apart from torch, with more digits than float64 has"
    if _wide(result):
        return (
            ""
            if result.worst is None
            else "The right value was computed in another way than by this function"
        )
    if (
        evidence is None
        or evidence.float64_error_ratio is None
        or result.dtype in ("float64", "complex128")
    ):
        return ""
    if evidence.float64_error_ratio > _SAME:
        return "In float64 there the error is the same: it is no matter of precision"
    return (
        "In float64 there the result is right"
        if evidence.float64_error_ratio < 1e-3
        else f"In float64 there {evidence.float64_error_ratio:.2g} of the error is left"
    )


def _short(other: Result) -> str:
    rho = other.metrics.get("rho_max")
    if other.verdict.passes:
        return "right" + (
            f" ({format_factor(rho)} × the largest error that rounding explains)" if rho else ""
        )
    if other.verdict.fails and rho and rho > 1.0 and failure_facts.kind_of(other, None) == "value":
        return f"wrong by {format_factor(rho)} × what rounding explains"
    return _brief(other) if other.verdict.fails else f"{other.verdict}: {other.explanation}"


def _script(made: Script) -> str:
    """The script as a fenced block, or the names of the attached files."""
    if len(made.text.encode("utf-8")) > MOST_SCRIPT or made.files:
        names = ", ".join(code(name) for name in ("repro.py", *made.files))
        return f"Too long to stand here: attached is {names}, which needs torch only."
    head = (
        f"Not all of it can be shown by a script of torch alone: {prose(made.limits[0])}\n\n"
        if made.limits
        else ""
    )
    return head + block(made.text, "python")


def _rerun_text(result: Result, spec: str | None) -> str:
    """The command that reproduces the failure with this project."""
    if parse_source(result.case.source).kind == YOURS:
        return "Found with consistency, of a function of one's own; its arguments are in case.json."
    command_text = command(result, spec=spec)
    inline = all(len(tensor.data) <= INLINE_BYTES for tensor in result.case.literals)
    if len(command_text) > MOST_CASE or not (inline or result.recorded_id):
        command_text = (
            f"consistency repro FOLDER --backend {quote(spec_of(result, spec))} --direction "
            f"{result.direction}"
        )
        return "Found with consistency, which shows it again from the attached folder:\n\n" + block(
            line(command_text), "console"
        )
    what = "which judges the recorded outputs" if result.recorded_id else "which shows it again"
    return f"Found with consistency, {what} so:\n\n" + block(
        line(command_text, MOST_CASE), "console"
    )
