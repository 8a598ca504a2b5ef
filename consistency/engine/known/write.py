"""Append an entry to a file that people edit: everything else stays unchanged, comments
included."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ...core.files import replacing
from ...core.reading import read_bytes
from ...errors import UsageError
from ...judge import tolerances
from ...judge.known import schema
from ...judge.known.entries import Expectation
from ...judge.located_yaml import Located

_BEGINNING = (
    "# Known divergences (consistency run --expectations {name}); what an entry may "
    "say: docs/expectations.md\n"
)
KEYS = (
    "operator", "dtype", "direction", "when", "backend", "device", "instructions", "driver",
    "torch", "verdicts", "max_rho", "rate",
    "flaky",
    "reason", "ticket", "since", "expires",
)  # fmt: skip


def entry_text(said: Mapping[str, Any], notes: Sequence[str] = (), indent: str = "  ") -> str:
    """The text of an entry, under comments."""
    lines = [f"{indent}# {' '.join(note.split())}" for note in notes]
    present = [(key, said[key]) for key in KEYS if said.get(key) is not None]
    lines += [
        f"{indent}{'- ' if number == 0 else '  '}{key}: {_scalar(value)}"
        for number, (key, value) in enumerate(present)
    ]
    return "\n".join(lines) + "\n"


def _scalar(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_scalar, value))}]"
    if isinstance(value, float):
        return f"{value:g}" if value < 10 or value >= 1e15 else f"{value:.0f}"
    text: str = yaml.safe_dump(value, allow_unicode=True, width=1 << 20)
    return text.removesuffix("\n").removesuffix("\n...").rstrip("\n")


def append(path: Path, said: Mapping[str, Any], notes: Sequence[str] = ()) -> str:
    """Append an entry to a file, which is created if necessary; returns ``FILE:LINE``.

    Raises ConfigurationError for an invalid file, and UsageError if the entry cannot be appended.
    """
    text, newline = "", "\n"
    before: Sequence[Expectation] = ()
    if path.exists():
        before = read(path)
        raw = read_bytes(path, schema.MAX_BYTES, follow=True).decode("utf-8-sig")
        newline = "\r\n" if "\r\n" in raw else "\n"
        text = raw.replace("\r\n", "\n")
    new = _insert(text, said, notes, path)
    try:
        with replacing(path) as file:
            file.write(new.replace("\n", newline).encode("utf-8"))
            file.flush()
            after = read(Path(file.name))
            if [e.id for e in after[: len(before)]] != [e.id for e in before] or len(after) != len(
                before
            ) + 1:
                raise UsageError(
                    f"{path}  its expectations are written in a way that nothing can be added "
                    f"to; name another file with -o"
                )
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; name another file with -o"
        ) from None
    return f"{path.as_posix()}:{after[-1].place.rpartition(':')[2]}"


def read(path: Path) -> list[Expectation]:
    """The entries of a file itself, without packaged ones: of an expectations or a tolerances file.
    Raises ConfigurationError."""
    label, text = schema.read_text(path, "an expectations file")
    located = Located(text, label)
    if isinstance(located.data, dict) and located.data.keys() - {"expectations"}:
        loaded = tolerances.load(path).expectations
        own_rows = located.data.get("expectations") or []
        return list(loaded[len(loaded) - len(own_rows) :])
    return schema.read(text, label)


def _insert(text: str, fields: Mapping[str, Any], notes: Sequence[str], path: Path) -> str:
    """The text with the entry after the last one, in the same indentation."""
    if not text.strip():
        return _BEGINNING.format(name=path.name) + "expectations:\n" + entry_text(fields, notes)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    section = None
    if isinstance(node, yaml.MappingNode):
        section = next(
            ((key, value) for key, value in node.value if key.value == "expectations"), None
        )
    lines = text.split("\n")
    if section is None:
        return text.rstrip("\n") + "\n\nexpectations:\n" + entry_text(fields, notes)
    key, value = section
    if not value.value and isinstance(value, yaml.SequenceNode):  # expectations: []
        line = value.start_mark.line
        lines[line] = re.sub(r"\[\s*\]", "", lines[line]).rstrip()
        return "\n".join(
            [*lines[: line + 1], entry_text(fields, notes).rstrip("\n"), *lines[line + 1 :]]
        )
    if not isinstance(value, yaml.SequenceNode) or value.flow_style:
        raise UsageError(
            f"{path}:{key.start_mark.line + 1}  expectations is written in one line; write a "
            f"list, an entry below the other"
        )
    last = _last_line(value)
    indent = " " * value.start_mark.column
    return "\n".join(
        [
            *lines[: last + 1],
            entry_text(fields, notes, indent).rstrip("\n"),
            *(lines[last + 1 :] or [""]),
        ]
    )


def _last_line(node: yaml.Node) -> int:
    """The last line (from 0) of a node, without comments that follow it."""
    if (
        isinstance(node, (yaml.SequenceNode, yaml.MappingNode))
        and node.value
        and not node.flow_style
    ):
        last = node.value[-1]
        return _last_line(last[1] if isinstance(last, tuple) else last)
    mark = node.end_mark
    return mark.line - 1 if mark.column == 0 and mark.line > node.start_mark.line else mark.line
