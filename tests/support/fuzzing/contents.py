"""Mutations of a file's contents: of its bytes, and of what is written in JSON, YAML or
safetensors."""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
from pathlib import Path
from typing import Any

import yaml

from consistency.core.model import Case
from consistency.errors import ConsistencyError

from . import hostile

# YAML that executes, expands, repeats or is none.
YAML_TEXTS = (
    "!!python/object/apply:os.system ['id']", "!!python/name:os.system", "&a [*a]", "*unknown",
    "{? {}: 1}", "- - - -", "\t- x", "%YAML 9.9", "--- ---", "2026-13-45", "!!binary AAAA====",
    "1:2:3:4", "!!timestamp x", "<<: [1, 2]", "? [a]\n: b", "0o777777777777777777777777", ".inf",
    "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
    "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e]",
    "[" * 3000, "{a: " * 3000, "'unended", "\x1b[31m", "\x00", "|\n" + " x" * 100_000,
)  # fmt: skip


def mutate_file(path: Path, chosen: random.Random) -> str:
    """Mutate the file in place, by what it holds; returns what was done."""
    if chosen.random() < 0.25:
        return mutate_bytes(path, chosen)
    match path.suffix:
        case ".json":
            return _json(path, chosen)
        case ".jsonl":
            return _lines(path, chosen)
        case ".yaml":
            return _yaml(path, chosen)
        case ".safetensors":
            return _safetensors(path, chosen)
    return mutate_bytes(path, chosen)


def mutate_bytes(path: Path, chosen: random.Random) -> str:
    """Flip, cut, repeat, insert or replace bytes."""
    data = bytearray(path.read_bytes())
    size = len(data)
    place = chosen.randrange(size) if size else 0
    length = min(chosen.choice([1, 2, 8, 100, 4096]), size - place)
    noise = chosen.randbytes(chosen.choice([1, 4, 8, 64]))

    def flip() -> None:
        for _ in range(chosen.choice([1, 1, 1, 5, 50])):
            if size:
                data[chosen.randrange(size)] ^= 1 << chosen.randrange(8)

    def overwrite() -> None:
        data[place : place + len(noise)] = noise

    def insert() -> None:
        data[place:place] = noise

    def remove() -> None:
        del data[place : place + length]

    def cut() -> None:
        del data[place:]

    def repeat() -> None:
        data[place:place] = data[place : place + length] * chosen.choice([1, 2, 100])

    def append() -> None:
        data.extend(noise)

    def replace() -> None:
        texts = [
            b"",
            b"\n",
            b"{}",
            b"[]",
            b"null",
            b"\x00" * 64,
            b"\xff\xfe{\x00}\x00",
            b"\x1f\x8b",
        ]
        data[:] = chosen.choice([*texts, noise, bytes(data[::-1]), bytes(data) * 2])

    def line_ends() -> None:
        data[:] = data.replace(b"\n", chosen.choice([b"\r\n", b"\r", b"\n\n", b"\x85", b" "]))

    operations = (flip, overwrite, insert, remove, cut, repeat, append, replace, line_ends)
    operation = chosen.choice(operations)
    operation()
    path.write_bytes(data)
    return f"bytes: {operation.__name__} at {place} of {size}"


Place = tuple[Any, Any, str]  # container, key, words


def _places(node: Any, words: str = "") -> list[Place]:
    """Every value in a document, by its container and key."""
    found: list[Place] = []
    pairs = (
        list(node.items())
        if isinstance(node, dict)
        else list(enumerate(node))
        if isinstance(node, list)
        else []
    )
    for key, inner in pairs:
        found.append((node, key, f"{words}.{key}"))
        found += _places(inner, f"{words}.{key}")
    return found


def mutate_document(document: Any, chosen: random.Random) -> tuple[Any, str]:
    """Change the structure of a document in one place."""
    places = _places(document)
    if not places or chosen.random() < 0.03:
        return hostile.value(chosen, document), "the whole document"
    container, key, words = chosen.choice(places)
    if chosen.random() < 0.25:  # values of few levels are where headers are checked
        container, key, words = min(
            (container, key, words), *chosen.sample(places, min(3, len(places))),
            key=lambda place: place[2].count("."),
        )  # fmt: skip
    kind = chosen.random()
    if kind < 0.60:
        container[key] = hostile.value(chosen, container[key])
        done = "replaced"
    elif kind < 0.72:
        del container[key]
        done = "removed"
    elif kind < 0.80:
        other, name, _ = chosen.choice(places)
        container[key] = json.loads(json.dumps(_got(other, name)))
        done = "replaced by another value"
    elif kind < 0.88 and isinstance(container, dict):
        container[chosen.choice([*hostile.NAMES, *hostile.TEXTS])[:5000]] = container.pop(key)
        done = "renamed"
    elif kind < 0.94 and isinstance(container, dict):
        container[str(hostile.value(chosen))[:300]] = hostile.value(chosen)
        done = "another key beside"
    else:
        deep: Any = container[key]
        for _ in range(chosen.choice([3, 30, 90, 600])):
            deep = [deep] if chosen.random() < 0.5 else {"a": deep}
        container[key] = deep
        done = "nested"
    return document, f"{done}: {words[:120]}"


def _got(container: Any, key: Any) -> Any:
    try:
        return container[key]
    except (KeyError, IndexError):
        return None


def _json(path: Path, chosen: random.Random) -> str:
    document, words = mutate_document(json.loads(path.read_bytes()), chosen)
    path.write_bytes(hostile.dumped(document, chosen))
    return words


def _lines(path: Path, chosen: random.Random) -> str:
    lines = path.read_bytes().splitlines()
    if not lines:
        return mutate_bytes(path, chosen)
    place = chosen.randrange(len(lines))
    kind = chosen.random()
    if kind < 0.8:
        document, words = mutate_document(json.loads(lines[place]), chosen)
        if chosen.random() < 0.6:
            document = with_its_id(document)
        lines[place] = hostile.dumped(document, chosen)
    elif kind < 0.85:
        words = "a line twice"
        lines.insert(chosen.randrange(len(lines)), lines[place])
    elif kind < 0.90:
        words = "a line removed"
        del lines[place]
    elif kind < 0.95:
        words = "lines in another order"
        chosen.shuffle(lines)
    else:
        words = "many times the same"
        lines = lines * chosen.choice([2, 100])
    path.write_bytes(b"\n".join([*lines, b""]))
    return f"line {place + 1}, {words}"


def with_its_id(row: Any) -> Any:
    """A row of cases.jsonl with the id of the mutated case, which the attacker can compute, too."""
    if isinstance(row, dict) and isinstance(row.get("case"), dict):
        with contextlib.suppress(ConsistencyError, TypeError, ValueError, RecursionError):
            row["id"] = Case.from_line(json.dumps(row["case"])).id
    return row


def _yaml(path: Path, chosen: random.Random) -> str:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    place = chosen.randrange(len(lines)) if lines else 0
    kind = chosen.random()
    if kind < 0.4:
        document, words = mutate_document(yaml.safe_load(text), chosen)
        try:
            text = yaml.safe_dump(document, allow_unicode=True)
        except yaml.YAMLError:
            text = hostile.dumped(document, chosen).decode("utf-8", "replace")
    elif kind < 0.8:
        name, colon, _ = lines[place].partition(":") if lines else ("a", ":", "")
        lines[place : place + 1] = [f"{name}{colon} {chosen.choice(YAML_TEXTS)}"]
        text, words = "\n".join(lines), f"line {place + 1} has another value"
    elif kind < 0.9:
        lines[place] = chosen.choice([" ", "   ", "\t", "- ", "  - "]) + lines[place]
        text, words = "\n".join(lines), f"line {place + 1} is indented otherwise"
    else:
        text, words = chosen.choice(YAML_TEXTS), "another document"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    return words


def _safetensors(path: Path, chosen: random.Random) -> str:
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, body = data[8 : 8 + size], data[8 + size :]
    if chosen.random() < 0.25:
        size = chosen.choice([0, 1, size - 1, size + 1, len(data), 2**31, 2**40, 2**63, 2**64 - 1])
        path.write_bytes(size.to_bytes(8, "little") + header + body)
        return f"header of {size} bytes"
    document = json.loads(header)
    if chosen.random() < 0.5:
        name = chosen.choice(list(document))
        entry = document[name]
        field, values = chosen.choice([
            ("data_offsets", [[0, 0], [0, 2**40], [8, 0], [-4, 4], [0, len(body) + 1], [0], "x"]),
            ("shape", [[2**40], [2**32, 2**32], [-1], [0], [1] * 60, 3, [2.5], []]),
            ("dtype", ["F64", "BF16", "F8_E4M3", "BOOL", "U64", "C64", "X", "", 5, None]),
        ])  # fmt: skip
        if isinstance(entry, dict):
            entry[field] = chosen.choice(values)
        words = f"tensor {name}: {field}"
    else:
        document, words = mutate_document(document, chosen)
    text = hostile.dumped(document, chosen)
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)
    return f"safetensors header, {words}"


def seal(folder: Path) -> None:
    """Write a manifest that fits a failure's folder, as an attacker would."""
    files = {}
    for path in sorted(folder.iterdir()):
        if path.is_file() and not path.is_symlink() and path.name != "manifest.json":
            data = path.read_bytes() if path.stat().st_size < 1 << 24 else b""
            files[path.name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    text = json.dumps({"format": 1, "files": files})
    (folder / "manifest.json").write_text(text, encoding="utf-8")
