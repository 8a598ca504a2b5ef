"""Healthy inputs of every kind, each made once by the command that makes it for users."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from tests.support.paths import DATA, ROOT

from .contents import seal
from .process import run

BACKENDS = f"-b cpu -b {DATA / 'wrong_backend.py'}:backend"
RUN = f"run neg exp matmul {BACKENDS} --examples 2 --dtype float32 --direction forward"
LINES = 12  # of the recording of another program
FACTS = {
    "add/float64/width": "53 bits", "matmul/float32/products": "exact",
    "matmul/float32/running sum": "24 bits", "sum/float32/order": "pairwise",
    "exp/float32/error": "0.51 ulp", "div/float32/rounding": "to nearest",
    "add/float32/subnormal": "kept", "matmul/float16/running sum": "float32",
}  # fmt: skip


def consistency(words: Sequence[str]) -> None:
    from consistency.cli.main import main

    main(list(words), prog_name="consistency")


def import_recording(words: Sequence[str]) -> None:
    """tools/import_recording.py SOURCE DEST."""
    import runpy
    import sys

    sys.argv = ["import_recording.py", *words]
    runpy.run_path(str(ROOT / "tools" / "import_recording.py"), run_name="__main__")


class Inputs:
    """Prototypes below ``folder``, by name; each is made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def path(self, name: str) -> Path:
        path = self.folder / name
        if not path.exists():
            getattr(self, f"_{name.partition('.')[0]}")(path)
        return path

    @functools.cached_property
    def healthy_case(self) -> str:
        """The line of a case that fails."""
        return (self.path("failure") / "case.json").read_text(encoding="utf-8").strip()

    @functools.cached_property
    def case_id(self) -> str:
        return self._first(self.path("bundle") / "cases.jsonl", "id")

    @functools.cached_property
    def recorded_id(self) -> str:
        return self._first(self.path("recording") / "outcomes.jsonl", "id")

    @staticmethod
    def _first(path: Path, key: str) -> str:
        with path.open(encoding="utf-8") as stream:
            return str(json.loads(stream.readline())[key])

    def _run(self, line: str, *words: Path | str, allowed: tuple[int, ...] = (0,)) -> str:
        ended = run(
            consistency,
            [*line.split(), *map(str, words)],
            cwd=self.folder,
            environment=ENVIRONMENT | {"CONSISTENCY_CACHE": str(self.folder.parent / "cache")},
            seconds=300,
            memory=4 << 30,
        )
        if ended.status not in allowed:
            raise RuntimeError(f"consistency {line}: {ended.errors or ended.output}")
        return ended.output

    def _bundle(self, path: Path) -> None:
        self._run(f"{RUN} --out", path, allowed=(1,))
        (path / "report.html").unlink(missing_ok=True)
        failures = sorted((path / "failures").iterdir())
        for folder in failures[2:]:
            shutil.rmtree(folder)
        _add_fingerprint(path, "pairwise")
        _fixed(path)

    def _other(self, path: Path) -> None:
        self._run(f"{RUN} --no-shrink --out", path, allowed=(1,))
        (path / "report.html").unlink(missing_ok=True)
        shutil.rmtree(path / "failures")
        _add_fingerprint(path, "in order")
        _fixed(path)

    def _packed(self, path: Path) -> None:
        shutil.copytree(self.path("bundle"), path)
        self._run("pack", path)

    def _interrupted(self, path: Path) -> None:
        shutil.copytree(self.path("other"), path)
        header = json.loads((path / "bundle.json").read_text(encoding="utf-8"))
        header |= {"complete": False, "seconds": None}
        (path / "bundle.json").write_text(json.dumps(header), encoding="utf-8")
        results = path / "results.jsonl"
        results.write_bytes(results.read_bytes()[: results.stat().st_size // 2])

    def _failure(self, path: Path) -> None:
        shutil.copytree(min((self.path("bundle") / "failures").iterdir()), path)
        text = (path / "environment.json").read_text(encoding="utf-8")
        spec = json.dumps(BACKENDS.rpartition(" ")[2])
        (path / "environment.json").write_text(text.replace(spec, '"cpu"'), encoding="utf-8")
        seal(path)

    def _network(self, path: Path) -> None:
        shutil.copyfile(DATA / "linear-regression.onnx", path)

    def _old(self, path: Path) -> None:
        shutil.copytree(DATA / "bundle-format-2", path)

    def _recording(self, path: Path) -> None:
        self._run(
            "record exp matmul -b cpu --dtype float32 --direction forward --examples 2 -o", path
        )
        _fixed(path)

    def _corpus(self, path: Path) -> None:
        self._run("record matmul exp --dtype float32 --examples 2 --literal -o", path)
        _fixed(path)

    def _partial(self, path: Path) -> None:
        """A recording of the corpus that was interrupted."""
        self._run("record -b cpu --corpus", self.path("corpus"), "-o", path)
        header = json.loads((path / "recording.json").read_text(encoding="utf-8"))
        header["complete"] = False
        (path / "recording.json").write_text(json.dumps(header), encoding="utf-8")
        rows = (path / "outcomes.jsonl").read_bytes().splitlines(keepends=True)
        (path / "outcomes.jsonl").write_bytes(b"".join(rows[:2]) + rows[2][:50])
        _fixed(path)

    def _foreign(self, path: Path) -> None:
        """A recording that another program wrote."""
        source = DATA / "directml-recording"
        path.mkdir()
        for name in ("environment.json", "tensors.safetensors"):
            shutil.copyfile(source / name, path / name)
        lines = (source / "manifest.jsonl").read_bytes().splitlines(keepends=True)
        (path / "manifest.jsonl").write_bytes(b"".join(lines[:LINES]))

    def _tolerances(self, path: Path) -> None:
        shutil.copyfile(ROOT / "tolerances.yaml", path)

    def _expectations(self, path: Path) -> None:
        shutil.copyfile(DATA / "known-divergences.yaml", path)

    def _fingerprint(self, path: Path) -> None:
        facts = [
            {"question": question, "answer": answer, "evidence": "x", "usual": True}
            for question, answer in FACTS.items()
        ]
        found = {"fingerprint": 1, "backend": "cpu", "hash": "0", "seconds": 1.0, "calls": 9}
        environment = {"device": "cpu", "torch": "2.13.0"}
        text = json.dumps({**found, "facts": facts, "environment": environment})
        path.write_text(text, encoding="utf-8")

    def _probed(self, path: Path) -> None:
        path.write_bytes(self.path("fingerprint.json").read_bytes().replace(b"24 b", b"11 b"))

    def _worst(self, path: Path) -> None:
        self._run("fingerprint --exhaustive exp --range 1..1.0001 -o", path)
        path.with_suffix(".svg").unlink(missing_ok=True)

    def _case(self, path: Path) -> None:
        path.write_text(self.healthy_case + "\n", encoding="utf-8")

    def _store(self, path: Path) -> None:
        site = self.folder.parent / "site"
        self._run("matrix --store", path, "-o", site, self.path("bundle"), self.path("other"))
        shutil.rmtree(site, ignore_errors=True)


def _fixed(folder: Path) -> None:
    """Numbers of a mutation give the same mutation tomorrow only if sizes stay the same: times and
    ids do not vary."""
    for path in sorted(folder.rglob("*.json*")):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r'("seconds": )[0-9.e+-]+', r"\g<1>1.25", text)
        text = re.sub(r'("memory": )[0-9.e+-]+', r"\g<1>4096", text)
        text = re.sub(r'("created": ")[^"]*', r"\g<1>2026-01-02T03:04:05+00:00", text)
        path.write_text(text, encoding="utf-8")
    header = folder / "bundle.json"
    if header.exists():
        text = header.read_text(encoding="utf-8")
        text = re.sub(r'("id": ")[^"]*', r"\g<1>20260102T030405Z-0123456789ab", text)
        header.write_text(text, encoding="utf-8")


def _add_fingerprint(bundle: Path, order: str) -> None:
    path = bundle / "environment.json"
    environments = json.loads(path.read_text(encoding="utf-8"))
    environments["cpu"]["fingerprint"] = {"matmul float32": "53 bits", "sum float32": order}
    path.write_text(json.dumps(environments), encoding="utf-8")


NAMES = (
    "bundle", "other", "packed", "interrupted", "failure", "old", "recording", "corpus", "partial",
    "foreign", "tolerances.yaml", "expectations.yaml", "fingerprint.json", "probed.json",
    "worst.json", "case.json", "store.duckdb", "network.onnx",
)  # fmt: skip
ENVIRONMENT = {
    "CONSISTENCY_PROBES": "off",
    "PYTHONDONTWRITEBYTECODE": "1",
    "COLUMNS": "132",
    "PYTHONPATH": os.pathsep.join(
        filter(None, [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    ),
}


def remove(path: Path) -> None:
    """A folder with whatever a mutation put into it."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
