"""Mutations by number: which input is changed, how, which command reads it, and what was wrong."""

from __future__ import annotations

import dataclasses
import os
import random
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from . import cases, contents, entries, oracle, snapshot
from .entries import Surroundings
from .inputs import ENVIRONMENT, Inputs, remove
from .process import MEMORY, MORE_MEMORY, MORE_SECONDS, SECONDS, Ended, run
from .targets import FORMULAS, SQL, TARGETS, Target

HEADERS = ("bundle.json", "recording.json")
USERS_FILES = (
    "victim.txt", "report.html", "results.jsonl", "index.html", "failures/keep/issue.md",
    "operators/matmul.html", "cases.jsonl", "literals/x.safetensors", "failures/keep.txt",
)  # fmt: skip
# Hostile names name this program: if anything executes it, a new file stands in the user's folder.
PROGRAM = "import pathlib\n(pathlib.Path.home() / 'executed').touch()\nbackend = None\n"


@dataclass(frozen=True)
class Attempt:
    """One mutation and what became of it; ``complaints`` are (kind, words)."""

    number: int
    command: str
    mutation: str
    ended: Ended
    complaints: tuple[tuple[str, str], ...]


class Campaign:
    """Works below ``folder``; the same ``seed`` and number give the same mutation."""

    def __init__(
        self, folder: Path, seed: int = 0, keep: bool = False, seconds: float = SECONDS
    ) -> None:
        self.folder, self.seed, self.keep = folder.resolve(), seed, keep
        self.seconds = seconds
        self.inputs = Inputs(self.folder / "inputs")
        self.bombs = self.folder / "bombs"
        self.targets: tuple[Target, ...] = TARGETS

    def prepare(self) -> None:
        """Make the inputs of the commands: forks then need not."""
        names = {name for target in self.targets for name in target.inputs}
        names |= {name for target in self.targets for name in target.named_from}
        for name in sorted(names):
            self.inputs.path(name)
        if not self.bombs.exists():
            entries.make_bombs(self.bombs)

    def attempts(self, numbers: Iterable[int]) -> Iterator[Attempt]:
        for number in numbers:
            yield self.attempt(number)

    def attempt(self, number: int) -> Attempt:
        """Make the mutation with this number, and run its command on it; twice if it was too slow,
        since the machine may be busy."""
        attempt = self._attempt(number)
        if attempt.ended.why == "time":
            attempt = self._attempt(number)
        return attempt

    def healthy(self, target: Target) -> Attempt:
        """The command on inputs that nothing was done to."""
        return self._attempt(0, target)

    def _attempt(self, number: int, untouched: Target | None = None) -> Attempt:
        chosen = random.Random(f"{self.seed} {number}")
        target = (
            untouched
            or chosen.choices(self.targets, weights=[target.weight for target in self.targets])[0]
        )
        folder = self.folder / "work" / f"{self.seed}-{number}-{os.getpid()}"
        remove(folder)
        for name in ("in", "out", "cwd", "temporary", "cache"):
            (folder / name).mkdir(parents=True)
        own = self.folder / "cache" / "own-cases"
        if own.is_dir() and chosen.random() < 0.5:  # what is not mutated is the user's own
            shutil.copytree(own, folder / "cache" / own.name)
        self._users_files(folder / "own")
        (folder / "cwd" / "evil.py").write_text(PROGRAM, encoding="utf-8")
        (folder / "cwd" / "evil.sh").write_text("#!/bin/sh\ntouch ~/executed\n", encoding="utf-8")
        (folder / "cwd" / "evil.sh").chmod(0o755)
        for name in target.inputs:
            source = self.inputs.path(name)
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, folder / "in" / name)
        mutation, refused = "nothing", None
        if untouched is None:
            mutation, refused = self._mutate(target, folder, chosen)
        words = self._words(target, folder, chosen, untouched is not None)
        before = snapshot.take(folder)
        ended = run(
            target.program,
            words,
            seconds=self.seconds + MORE_SECONDS * target.runs_cases,
            memory=MEMORY + MORE_MEMORY * target.runs_cases,
            cwd=folder / "cwd",
            environment=ENVIRONMENT
            | {
                "TMPDIR": str(folder / "temporary"),
                "HOME": str(folder / "own"),
                "CONSISTENCY_CACHE": str(folder / "cache"),
                "XDG_CACHE_HOME": str(folder / "cache"),
            },
        )
        after = snapshot.take(folder)
        allowed = "|".join(filter(None, [target.writes, "cache/.*", "temporary/torchinductor_.*"]))
        found = tuple(oracle.complaints(ended, before, after, folder, allowed, refused))
        if not self.keep:
            remove(folder)
        line = " ".join(shlex.quote(word[:2000]) for word in words)
        return Attempt(number, line, mutation, _shortened(ended), found)

    @staticmethod
    def _users_files(folder: Path) -> None:
        for name in USERS_FILES:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"the user's own {name}\n", encoding="utf-8")

    def _mutate(
        self, target: Target, folder: Path, chosen: random.Random
    ) -> tuple[str, int | None]:
        """Change one input in one to three places. Returns words, and the exit status that is
        right for certain."""
        if not target.inputs or ("{{line}}" in target.line):
            return "its words", None
        first = chosen.random() < 0.85
        name = target.inputs[0] if first else chosen.choice(target.inputs)
        root, done, refused = folder / "in" / name, [], None
        around = Surroundings(folder / "own", self.bombs, self.inputs.folder)
        if first and target.refused is not None and chosen.random() < 0.05:
            return self._no_header(root, chosen), target.refused
        for _ in range(chosen.choice([1, 1, 1, 2, 3])):
            if chosen.random() < 0.3:
                done.append(entries.mutate_entry(root, chosen, around))
            else:
                done.append(self._mutated_contents(root, chosen))
        if (root / "manifest.json").is_file() and chosen.random() < 0.75:
            contents.seal(root)
        return "; ".join(done), refused

    @staticmethod
    def _mutated_contents(root: Path, chosen: random.Random) -> str:
        files = (
            [p for p in sorted(root.rglob("*")) if p.is_file() and not p.is_symlink()]
            if root.is_dir() and not root.is_symlink()
            else [root]
            if root.is_file() and not root.is_symlink()
            else []
        )
        files = [path for path in files if path.stat().st_size < 1 << 24]
        if not files:
            return "nothing"
        top = [p for p in files if p.parent == root and p.suffix in (".json", ".jsonl")]
        path = chosen.choice(top if top and chosen.random() < 0.7 else files)
        try:
            return f"{path.relative_to(root.parent)}: {contents.mutate_file(path, chosen)}"
        except (
            ValueError,
            TypeError,
            KeyError,
            IndexError,
            AttributeError,
            RecursionError,
            yaml.YAMLError,
        ):  # fmt: skip - an earlier mutation left what cannot be taken apart
            return f"{path.relative_to(root.parent)}: {contents.mutate_bytes(path, chosen)}"

    @staticmethod
    def _no_header(root: Path, chosen: random.Random) -> str:
        """Something that nobody can take for the header of such a folder, or for such a file."""
        path = next((root / name for name in HEADERS if (root / name).exists()), root)
        if path.is_dir():
            shutil.rmtree(path)
        text = chosen.choice(["", "x", "[]", "null", "{", '{"format": 99}', "\x00" * 99, "1", '""'])
        path.write_text(text if path != root else "{", encoding="utf-8")
        return f"{path.relative_to(root.parent)} is {text!r}"

    def _words(
        self, target: Target, folder: Path, chosen: random.Random, healthy: bool
    ) -> list[str]:
        texts = {
            "out": str(folder / "out"),
            "own": str(folder / "own"),
            **{name.partition(".")[0]: str(folder / "in" / name) for name in target.inputs},
        }
        if "{case_id}" in target.line:
            texts["case_id"] = self.inputs.case_id
        if "{recorded_id}" in target.line:
            texts["recorded_id"] = self.inputs.recorded_id
        own = texts["own"]
        foreign = {
            "{sql}": lambda: SQL[0] if healthy else chosen.choice(SQL),
            "{formula}": lambda: FORMULAS[0] if healthy else chosen.choice(FORMULAS),
            "{line}": lambda: (
                self.inputs.healthy_case
                if healthy
                else cases.line(chosen, self.inputs.healthy_case)
            ),
        }
        words = [word.format_map(texts) for word in target.line.split()]
        return [
            foreign[word]().replace("{own}", own).replace("\0", "\\0") if word in foreign else word
            for word in words
        ]


def _shortened(ended: Ended) -> Ended:
    return dataclasses.replace(
        ended, output=ended.output[-2000:], errors=ended.errors[-4000:], written=ended.written[:20]
    )
