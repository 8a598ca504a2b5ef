"""Literal tensors too long for their case's line, in a folder next to ``cases.jsonl``: one
safetensors file each, named by its SHA-256."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ..core.codec import long_literals
from ..core.files import write_bytes
from ..core.folders import subfolder
from ..core.model import Case
from ..core.reading import read_bytes
from ..core.regular_files import is_link
from ..errors import RecipeError

FOLDER = "literals"
MAX_BYTES = 1 << 30  # of a file
_DIGEST = re.compile(r"[0-9a-f]{64}")


def write_literals(folder: Path, case: Case) -> None:
    """Write the literals that ``case.line`` only names. An existing file has the same content.
    Raises BundleError if their folder is a link, OSError."""
    from safetensors.numpy import save

    for digest, data in long_literals([case]).items():
        path = subfolder(folder, FOLDER) / f"{digest}.safetensors"
        if not path.is_file() or is_link(path):
            write_bytes(path, save({"bytes": np.frombuffer(data, dtype=np.uint8)}))


class LiteralStore(Mapping[str, bytes]):
    """The bytes of literal tensors by SHA-256, read from the folder beside a case on access."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._place = folder, folder / FOLDER

    def __getitem__(self, digest: str) -> bytes:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not _DIGEST.fullmatch(digest):  # untrusted input must not become another path
            raise KeyError(digest)
        path = self._place / f"{digest}.safetensors"
        try:
            data = read_bytes(path, MAX_BYTES, self._folder)
            return load(data)["bytes"].tobytes()
        except FileNotFoundError:
            raise KeyError(digest) from None
        except (OSError, KeyError, SafetensorError) as error:
            raise RecipeError(f"{path} cannot be read: {str(error)[:120]}") from None

    def __iter__(self) -> Iterator[str]:
        names = (path.stem for path in self._place.glob("*.safetensors"))
        return iter([name for name in names if _DIGEST.fullmatch(name)])

    def __len__(self) -> int:
        return sum(1 for _ in self)
