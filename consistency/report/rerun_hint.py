"""How to reproduce a failure from Python: one command if it can contain the case, otherwise two
steps."""

from __future__ import annotations

from pathlib import Path

from ..core.case_source import YOURS, parse_source
from ..core.model import Result
from ..core.recipe import INLINE_BYTES
from ..core.text import quote
from .failure import command, spec_of, unnamed_note

MAX_LINE = 1500  # characters of a case in a command


def rerun_hint(
    result: Result, variable: str, *, spec: str | None = None, folder: Path | None = None
) -> list[str]:
    """Lines for the end of a failure's message. ``variable`` is the result's name in Python,
    ``folder`` is where it was saved."""
    if parse_source(result.case.source).kind == YOURS:
        return [
            "  note:    no command can call a function of your own",
            f"  keep:    {save_call(result, variable)}: its tensors, a script, the text of an "
            "issue",
        ]
    options = f"--backend {quote(spec_of(result, spec))} --direction {result.direction}"
    note = unnamed_note(result, spec)
    notes = [f"           {note}"] if note else []
    if folder is not None:
        return [f"  again:   consistency repro {quote(str(folder))} {options}", *notes]
    inline = all(len(tensor.data) <= INLINE_BYTES for tensor in result.case.literals)
    if inline and len(result.case.line) <= MAX_LINE:
        return [f"  again:   {command(result, spec=spec)}", *notes]
    return [
        f'  again:   consistency.save({variable}, "FOLDER") in Python, and then',
        f"           consistency repro FOLDER {options}",
        *notes,
    ]


def save_call(result: Result, variable: str) -> str:
    """The call that keeps a result; a script of it can be made if it gets the function."""
    fn = ""
    if parse_source(result.case.source).kind == YOURS:
        name = result.case.source.rpartition("/")[2].rpartition(".")[2]
        fn = f", fn={name}" if name.isidentifier() else ", fn=…"
    return f'consistency.save({variable}, "FOLDER"{fn})'
