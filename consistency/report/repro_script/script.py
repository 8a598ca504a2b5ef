"""A result as a script that needs torch only: the lines of its call (:mod:`.call_code`) and of its
check (:mod:`.assertions`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.model import Result
from ...core.text import printable
from ...errors import ConsistencyError
from ...generate.calls.case_operator import operator_of
from ...generate.materialize import prepare
from ...operators.declare import Operator
from ...reference import quiet
from . import headlines
from .backend_setup import Place, place_of
from .builder import ScriptBuilder
from .script_context import Sheet, UnscriptableError


@dataclass(frozen=True)
class Script:
    """The text of repro.py, the files that it needs next to it, and the reasons why it is
    incomplete (empty if it is complete)."""

    text: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    limits: tuple[str, ...] = ()


def script_of(
    result: Result,
    spec: str | None = None,
    identity: Mapping[str, str] | None = None,
    operator: Operator | None = None,
) -> Script:
    """The script for a result. If it cannot be written completely, the text says so; this does not
    raise.

    ``operator`` is the called one, if no registry has it. Raises RecipeError for an invalid case.
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
            body = ScriptBuilder(result, operator, materials, sheet, place).lines()
    except UnscriptableError as error:
        return _without(result, sheet, place, identity, str(error))
    except ConsistencyError:
        raise
    except Exception as error:  # an untrusted result may not match its case
        return _without(
            result,
            sheet,
            place,
            identity,
            f"writing it failed ({type(error).__name__}: {str(error)[:160]})",
        )
    return _text(result, sheet, place, identity, body)


def _without(
    result: Result, sheet: Sheet, place: Place, identity: Mapping[str, str] | None, why: str
) -> Script:
    fresh = Sheet({"sys"}, notes=sheet.notes)
    fresh.note(f"This cannot be shown by a script of torch alone: {why}.")
    return _text(
        result,
        fresh,
        place,
        identity,
        ['print("nothing is asserted: see the comment above")'],
        limits=(why,),
    )


def _text(
    result: Result,
    sheet: Sheet,
    place: Place,
    identity: Mapping[str, str] | None,
    body: list[str],
    limits: tuple[str, ...] = (),
) -> Script:
    if place.foreign:
        sheet.note(place.foreign)
        limits = (*limits, place.foreign)
    head = [headlines.title(result), *headlines.provenance(result, identity or {}), *sheet.notes]
    head.append(f"Run: {place.usage} [DEVICE]")
    comments = [
        f"# {line}"
        for text in head
        for line in headlines.wrap_lines(printable(text.replace("\n", " ")))
    ]
    imports = list(sheet.imports())
    setting = ["", *place.after] if place.after else []
    lines = [
        *comments,
        *imports,
        *(["", *place.before] if place.before else []),
        "",
        "import torch",
        *setting,
    ]
    if sheet.constants:
        lines += ["", *sheet.constants]
    return Script("\n".join([*lines, *body]) + "\n", dict(sheet.files), limits)
