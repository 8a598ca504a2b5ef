"""Write the folders of failures whose cases are from elsewhere: in a process with bounds, because a
script and a reference are made by calling what the case names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..backends.subprocess import framing
from ..backends.subprocess.process import LostError
from ..core.codec import pack_cases, unpack_cases
from ..core.files import write_text
from ..core.foreign import Bounds
from ..core.model import Result
from ..engine.foreign.process import BoundedProcess, serve
from ..storage.bundle import result_from_json, row_of
from ..storage.literals import write_literals
from . import repro_script

_PROGRAM = "from consistency.report.foreign_failures import main\nmain()\n"


class Writer:
    """As :func:`consistency.report.repro_script.write`. A case that ends the process gets a folder
    without a script."""

    def __init__(self, bounds: Bounds | None = None) -> None:
        self._process = BoundedProcess(_PROGRAM, {"kind": "open"}, bounds or Bounds())

    def __call__(
        self,
        folder: Path,
        result: Result,
        *,
        spec: str | None = None,
        identity: Mapping[str, str] | None = None,
        others: Sequence[Result] = (),
    ) -> None:
        results = [result, *others]
        packed, blobs = pack_cases([r.case for r in results])
        header = {
            "kind": "write", "folder": str(folder.resolve()), "spec": spec,
            "identity": dict(identity or {}), "rows": [row_of(r) for r in results],
        }  # fmt: skip
        try:
            self._process.ask(header | packed, blobs)
        except LostError as lost:
            folder.mkdir(parents=True, exist_ok=True)
            write_literals(folder, result.case)
            write_text(folder / "case.json", result.case.line + "\n")
            write_text(folder / "repro.txt", f"no script: {lost}\n")

    def close(self) -> None:
        self._process.close()


def _answer(header: framing.Header, blobs: list[bytes]) -> tuple[framing.Header, Sequence[bytes]]:
    if header["kind"] == "write":
        folder, cases = Path(header["folder"]), unpack_cases(header, blobs)
        by_id = {case.id: case for case in cases}
        first, *others = (
            result_from_json(folder, number, row, by_id)
            for number, row in enumerate(header["rows"], start=1)
        )
        repro_script.write(
            folder,
            first,
            spec=header["spec"],
            identity=header["identity"],
            others=others,
            versions=False,
        )
    return {}, ()


def main() -> None:
    serve(_answer)
