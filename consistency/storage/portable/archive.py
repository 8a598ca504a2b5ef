"""The zip of a portable recording: cases, this package's rooms that run them, instructions."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ...core.codec import long_literals
from ...core.output import writing
from ...core.version import __version__
from ...errors import BundleError
from ..cases import FILE as CASES
from ..cases import read_cases
from ..recording.header import read_header
from .recorder import RAW_LITERALS, SETTINGS

PACKAGE = Path(__file__).resolve().parents[2]
ROOMS = ("core", "operators", "generate", "backends", "storage")
LOOSE = ("__init__.py", "errors.py")
_DATE = (2020, 1, 1, 0, 0, 0)  # the same zip from the same files

RECORD = """\"\"\"python record.py [--backend SPEC] [-o FOLDER]\"\"\"
import importlib.util
import sys
from pathlib import Path

HOME = Path(__file__).resolve().parent
if sys.version_info < (3, 11):
    sys.exit(f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}")
missing = [name for name in ("torch", "numpy") if importlib.util.find_spec(name) is None]
if missing:
    sys.exit(f"{' and '.join(missing)} not installed for {sys.executable}: see README.txt")
sys.path.insert(0, str(HOME))
if __name__ == "__main__":
    from consistency.storage.portable.recorder import main

    sys.exit(main(sys.argv[1:], HOME))
"""
# The environment of README.txt where it is there: only that one has torch.
COMMAND = """@echo off\r
if exist "%~dp0venv\\Scripts\\python.exe" (\r
    "%~dp0venv\\Scripts\\python.exe" "%~dp0record.py" %*\r
) else (\r
    py "%~dp0record.py" %*\r
)\r
pause\r
"""
README = """What this folder does: it runs {count} cases of PyTorch operators on a device and writes
down, bit by bit, what came out. Nothing is judged here and nothing is sent anywhere.

Needed: Python 3.11 or 3.12 with torch, NumPy and, for DirectML, torch-directml 0.2.5:

    py -3.12 -m venv venv
    venv\\Scripts\\python -m pip install torch==2.4.1 numpy torch-directml==0.2.5.dev240914

(A machine without a package index: `pip download` these three on another Windows machine with the
same Python, copy the folder, and add `--no-index --find-links FOLDER` to `pip install`.)

Run, in this folder:

    venv\\Scripts\\python record.py                      the backend {backend}
    venv\\Scripts\\python record.py --backend directml:1 -o second-adapter

A case that crashes or hangs costs that case. Ctrl-C stops; the same command completes. Afterwards
bring the folder `recorded` back; there,

    consistency judge recorded

says which results are wrong and why. Made by consistency {version}.
"""


def write(corpus: Path, path: Path, backend: str) -> int:
    """Write the zip that records ``corpus`` on ``backend``; returns the number of cases. Raises
    BundleError for a damaged or empty corpus, and OutputError."""
    header, entries = read_header(corpus), list(read_cases(corpus))
    if not entries:
        raise BundleError(f"{corpus} holds no case")
    sourced = next((e.case for e in entries if e.case.source), None)
    if sourced is not None:
        raise BundleError(
            f"{corpus}: {sourced.id} is a case of {sourced.source}; a portable recording holds "
            "drawn cases only, because it runs without the packages that others need"
        )
    settings = {"backend": backend, "settings": dict(header.settings)}
    with writing(path), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        texts = {
            "README.txt": README.format(
                count=f"{len(entries):,}", backend=backend, version=__version__
            ),
            "record.py": RECORD,
            "record.cmd": COMMAND,
            SETTINGS: json.dumps(settings, indent=1),
        }
        for name, text in texts.items():
            _add(archive, name, text.encode("utf-8"))
        _add(archive, CASES, (corpus / CASES).read_bytes())
        for digest, data in long_literals(entry.case for entry in entries).items():
            _add(archive, f"{RAW_LITERALS}/{digest}.bin", data)
        for source in sources():
            name = f"consistency/{source.relative_to(PACKAGE).as_posix()}"
            _add(archive, name, source.read_bytes())
    return len(entries)


def sources() -> Iterator[Path]:
    """The modules that the zip holds."""
    yield from (PACKAGE / name for name in LOOSE)
    for room in ROOMS:
        yield from sorted((PACKAGE / room).rglob("*.py"))


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    item = zipfile.ZipInfo(name, _DATE)
    item.compress_type = zipfile.ZIP_DEFLATED
    item.external_attr = 0o644 << 16
    archive.writestr(item, data)
