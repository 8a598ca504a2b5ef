"""Messages about an invalid command line: the mistake, what was probably meant, and where to read
on."""

from __future__ import annotations

import re

import click

from ..errors import did_you_mean

# Names in other tools; used only if the command has the option on the right.
_SYNONYMS = {
    "n": "examples", "cases": "examples", "count": "examples", "iterations": "examples",
    "max-examples": "examples", "o": "out",
    "output": "out", "dir": "out", "device": "backend", "devices": "backend", "d": "dtype",
    "type": "dtype", "types": "dtype",
    "timeout": "case-timeout", "budget": "time-budget", "time": "time-budget",
    "rules": "tolerances", "known": "expectations",
    "xfail": "expectations", "minimise": "minimize", "shrink": "minimize", "html": "out",
    "artefacts": "artifacts", "no-artefacts": "no-artifacts",
}  # fmt: skip
COMMANDS = {
    "list": "operators", "ls": "operators", "ops": "operators", "op": "operators",
    "operator": "operators", "devices": "backends",
    "device": "backends", "test": "run", "check": "run", "compare": "diff", "html": "report",
    "show": "report", "watch": "model",
    "train": "model", "minimise": "repro --minimize", "minimize": "repro --minimize",
    "shrink": "repro --minimize",
    "version": "--version", "sql": "query", "probe": "fingerprint", "why": "explain",
}  # fmt: skip


def told(error: click.UsageError, path: str) -> str:
    """The message for ``error`` on one line. ``path`` names the command if the error does not."""
    command = error.ctx.command if error.ctx is not None else None
    path = error.ctx.command_path if error.ctx is not None else path
    if isinstance(error, click.NoSuchOption):
        text = f"no such option {error.option_name!r}{_meant(error.option_name, command, path)}"
    else:
        text = _uncapitalised(error.format_message()).replace(
            " is not a valid integer range", " is not a whole number"
        )
        extra = re.fullmatch(r"got unexpected extra arguments? \((.*)\)", text)
        text += _surplus(extra[1].split()[0], command) if extra else ""
    return f"{path}: {text}{' See' if text.endswith('?') else '; see'} {path} --help"


def _meant(word_given: str, command: click.Command | None, path: str) -> str:
    """The suggestion for an unknown option: an argument of the command, or an option of a similar
    name."""
    if command is None:
        return ""
    word = word_given.lstrip("-").partition("=")[0]
    operands = " ".join(
        str(p.metavar or p.name) for p in command.params if isinstance(p, click.Argument)
    )
    stem = word.lower().removesuffix("s")
    for name in re.findall(r"[A-Za-z]{2,}", operands):
        if len(stem) > 1 and name.lower().startswith(stem):
            return f": {name.upper()} is no option but an argument, as in {path} {_plain(operands)}"
    options = {
        name.lstrip("-"): p
        for p in command.params
        if isinstance(p, click.Option)
        for name in p.opts
        if name.startswith("--")
    }
    other = _SYNONYMS.get(word.lower())
    near = other if other in options else stem if stem in options else None
    if near is None:
        return did_you_mean(word, options).replace("mean ", "mean --").replace(" or ", " or --")
    repeat_note = ", once for each" if options[near].multiple and word.lower().endswith("s") else ""
    return f"; did you mean --{near}{repeat_note}?"


def _plain(operands: str) -> str:
    """``[OPERATOR]...`` as ``OPERATOR …``."""
    return re.sub(r"\s*\.\.\.", " …", re.sub(r"[\[\]]", "", operands))


def _surplus(word: str, command: click.Command | None) -> str:
    """A hint about an argument that the command does not take."""
    if command is None or not any(p.name in ("backends", "backend") for p in command.params):
        return ""
    from .. import backends

    return f"; did you mean --backend {word}?" if backends.is_known(word) else ""


def _uncapitalised(text: str) -> str:
    line = " ".join(text.split()).removesuffix(".")
    return line[:1].lower() + line[1:]
