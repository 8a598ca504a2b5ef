"""Mutations of a folder: what stands in the place of a file, and what lies beside it."""

from __future__ import annotations

import gzip
import os
import random
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

GIB = 1 << 30
# Names that a command might write to, or lock, while it reads the folder.
WRITTEN = (
    "report.html.tmp", "results.jsonl.gz.tmp", "cases.jsonl.gz.tmp", "bundle.json.tmp",
    "running.lock", "report.html", "results.jsonl.gz", "cases.jsonl.gz", "results.jsonl.zst",
    "results.jsonl.tmp", "manifest.json.tmp", "environment.json.tmp", "case.json.tmp", "literals",
    "failures", "recording.json.tmp", "outcomes.jsonl.gz", ".lock", "tensors", "determinism.jsonl",
)  # fmt: skip


@dataclass(frozen=True)
class Surroundings:
    """Where mutations point to: ``beside`` holds the user's own files, ``bombs`` files that are
    small and expand, ``inputs`` the healthy inputs."""

    beside: Path
    bombs: Path
    inputs: Path


def make_bombs(folder: Path) -> None:
    """Packed files: 1 GB without an end of line, 100 million objects, and the same as zstd."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, block, times in (("zeros", b"\0", 32), ("lines", b"{}\n", 10)):
        packed = gzip.compress(block * (1 << 25), compresslevel=1)
        (folder / f"{name}.gz").write_bytes(packed * times)  # members of one file
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(
            f"COPY (SELECT '{{}}' FROM range(100_000_000)) TO '{folder / 'lines.zst'}' "
            "(FORMAT csv, HEADER false, QUOTE '', ESCAPE '', COMPRESSION zstd)"
        )


def mutate_entry(root: Path, chosen: random.Random, around: Surroundings) -> str:
    """Put something else in the place of a file or folder below ``root``, or add something."""
    files, folders = [root], list[Path]()
    if root.is_dir() and not root.is_symlink():
        inside = sorted(root.rglob("*"))
        files = [path for path in inside if path.is_symlink() or path.is_file()]
        folders = [root, *(path for path in inside if path.is_dir() and not path.is_symlink())]
    path = chosen.choice(files or [root])
    if folders and chosen.random() < 0.35:  # a file that the command writes, or a new one
        path = chosen.choice(folders) / chosen.choice(WRITTEN)
    elif folders and chosen.random() < 0.5:  # the files at the top are read first
        path = chosen.choice([p for p in files if p.parent == root] or [path])
    kind = chosen.choice(KINDS)
    if path == root and kind is _unpacked_folder:
        kind = _dangling
    donor = _healthy_file(chosen, around)
    _remove(path)
    words = kind(path, chosen, around, donor)
    return f"{path.relative_to(root.parent)}: {words}"


def _healthy_file(chosen: random.Random, around: Surroundings) -> Path:
    return chosen.choice([path for path in sorted(around.inputs.rglob("*")) if path.is_file()])


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


Kind = Callable[[Path, random.Random, Surroundings, Path], str]


def _missing(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    return "missing"


def _link_inside(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    siblings = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    path.symlink_to(chosen.choice(sorted(siblings) or ["x"]))
    return "a link to its neighbor"


def _link_outside(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    own = [p for p in sorted(around.beside.rglob("*")) if p.is_file()]
    target = chosen.choice([*own, Path("/etc/passwd"), donor])
    path.symlink_to(target)
    return f"a link to {target}"


def _link_to_folder(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    target = chosen.choice([around.beside, around.beside / "failures", Path("/"), Path("/proc")])
    path.symlink_to(target, target_is_directory=True)
    return f"a link to the folder {target}"


def _dangling(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    path.symlink_to(around.beside / "new.txt")
    return "a link to a file of the user's folder that does not exist"


def _loop(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    path.symlink_to(chosen.choice([path.name, "."]))
    return "a link to itself"


def _device(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    device = chosen.choice(["/dev/zero", "/dev/zero", "/dev/full", "/dev/null", "/dev/urandom"])
    path.symlink_to(device)
    return f"a link to {device}"


def _fifo(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    os.mkfifo(path)
    return "a fifo"


def _socket(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)
    return "a socket"


def _folder(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    path.mkdir()
    if chosen.random() < 0.5:
        (path / "x").write_bytes(b"{}")
    return "a folder"


def _sparse(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    size = chosen.choice([3 * GIB, 64 * GIB, 1 << 40])
    with path.open("wb") as stream:
        stream.write(b"{")
        stream.truncate(size)
    return f"a sparse file of {size} bytes"


def _packed_bomb(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    bomb = chosen.choice(sorted(around.bombs.iterdir()))
    if path.suffix == ".jsonl":
        path = path.with_name(f"{path.name}{bomb.suffix}")
        _remove(path)
    shutil.copyfile(bomb, path)
    return f"{path.name}: {bomb.name}, which expands"


def _other_file(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    shutil.copyfile(donor, path)
    return f"the contents of {donor.relative_to(around.inputs)}"


def _unpacked_folder(path: Path, chosen: random.Random, around: Surroundings, donor: Path) -> str:
    many = chosen.choice([50, 500])
    path.mkdir()
    for number in range(many):
        (path / f"{number}").mkdir()
    return f"a folder with {many} folders"


KINDS: tuple[Kind, ...] = (
    _missing, _link_inside, _link_outside, _link_outside, _link_to_folder, _dangling, _loop,
    _device, _device, _fifo, _socket, _folder, _sparse, _packed_bomb, _other_file, _other_file,
    _unpacked_folder,
)  # fmt: skip
