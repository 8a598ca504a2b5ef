"""The operators that a diff of one's own kernels touches, by the names in it.

An operator is touched where its name stands in the name of a changed file, in the function that a
hunk lies in (git writes it behind ``@@``), or on a changed line, as a part of a longer identifier
(``softmax_kernel``, ``LaunchLogSoftmax``) or in quotes. Rather too many than too few: a name is no
proof, but an operator that the diff names is worth a test.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from ..errors import UsageError
from ..operators.declare import Operator

_NO_CODE = frozenset({".md", ".rst", ".txt", ".html", ".svg", ".png", ".json", ".lock"})
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r"""["']([A-Za-z_][A-Za-z0-9_.:]*)["']|aten::([A-Za-z0-9_]+)""")
_WORDS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*d?|[A-Z]+|[0-9]+")
Words = tuple[str, ...]


def diff_since(ref: str, folder: Path) -> str:
    """The diff of the working tree to where it left ``ref``, without context, with the names of new
    files. Raises UsageError."""
    base = _git(folder, "merge-base", ref, "HEAD").strip()
    diff = _git(folder, "diff", "--unified=0", "--no-color", "--no-ext-diff", base)
    new = _git(folder, "ls-files", "--others", "--exclude-standard").splitlines()
    for name in new:
        diff += f"\n+++ b/{name}\n"
        path = folder / name
        if PurePosixPath(name).suffix not in _NO_CODE and path.is_file():
            text = path.read_text(encoding="utf-8", errors="replace")[: 1 << 20]
            diff += "".join(f"+{line}\n" for line in text.splitlines())
    return diff


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=folder, capture_output=True, text=True, encoding="utf-8",
            errors="replace", check=False,
        )  # fmt: skip
    except OSError as error:
        raise UsageError(f"--changed needs git, which cannot be started: {error}") from None
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["it failed"])[0]
        raise UsageError(f"--changed: git {arguments[0]}: {reason[:200]}")
    return done.stdout


def touched(diff: str, operators: Iterable[Operator]) -> list[Operator]:
    """The operators that a diff (of ``git diff --unified=0``) names."""
    names = _names_in(diff)
    return [operator for operator in operators if _is_named(operator, names)]


def _names_in(diff: str) -> set[Words]:
    """The identifiers that count, as words."""
    found: set[Words] = set()
    code = True
    for line in diff.splitlines():
        if line.startswith(("+++ ", "--- ")):
            path = PurePosixPath(line[4:].strip().removeprefix("a/").removeprefix("b/"))
            code = path.suffix not in _NO_CODE
            if code and path.name != "null":
                found.add(_words(path.stem))
        elif code and line.startswith("@@"):
            found |= {_words(name) for name in _IDENTIFIER.findall(line.split("@@", 2)[-1])}
        elif code and line.startswith(("+", "-")):
            identifiers = {_words(name) for name in _IDENTIFIER.findall(line)}
            found |= {words for words in identifiers if len(words) > 1}
            for quoted in _QUOTED.findall(line):
                found.add(_words("".join(quoted).rpartition(".")[2].rpartition(":")[2]))
    return found


def _words(name: str) -> Words:
    return tuple(word.lower() for word in _WORDS.findall(name))


def _is_named(operator: Operator, names: set[Words]) -> bool:
    own = [operator.name, operator.aten, operator.form_of.name if operator.form_of else ""]
    wanted = [_words(name.rpartition(".")[2]) for name in own if name]
    return any(_within(words, name) for words in wanted if words for name in names)


def _within(words: Words, name: Words) -> bool:
    return any(name[i : i + len(words)] == words for i in range(len(name) - len(words) + 1))
