"""Literal tensors too long for their case's line, in a folder next to ``cases.jsonl``: one
safetensors file each, named by its SHA-256."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ..core.codec import long_literals
from ..core.files import write_bytes
from ..core.model import Case
from ..core.recipe import MAX_ELEMENTS
from ..errors import RecipeError

FOLDER = "literals"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def write_literals(folder: Path, case: Case) -> None:
    """Write the literals that ``case.line`` only names. An existing file has the same content."""
    from safetensors.numpy import save

    for digest, data in long_literals([case]).items():
        path = folder / FOLDER / f"{digest}.safetensors"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, save({"bytes": np.frombuffer(data, dtype=np.uint8)}))


class LiteralStore(Mapping[str, bytes]):
    """The bytes of literal tensors by SHA-256, read from the folder beside a case on access."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / FOLDER

    def __getitem__(self, digest: str) -> bytes:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        if not _DIGEST.fullmatch(digest):  # untrusted input must not become another path
            raise KeyError(digest)
        path = self._folder / f"{digest}.safetensors"
        try:
            if path.stat().st_size > 16 * MAX_ELEMENTS:
                raise RecipeError(f"{path} is larger than a literal tensor may be")
            return load(path.read_bytes())["bytes"].tobytes()
        except FileNotFoundError:
            raise KeyError(digest) from None
        except (OSError, KeyError, SafetensorError) as error:
            raise RecipeError(f"{path} cannot be read: {str(error)[:120]}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(path.stem for path in self._folder.glob("*.safetensors"))

    def __len__(self) -> int:
        return sum(1 for _ in self)
