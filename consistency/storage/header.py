"""The header of a bundle, recording or corpus: a JSON file with the folder's kind and format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.reading import read_object
from ..core.text import shown
from ..core.version import __version__
from ..errors import BundleError


def article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def read_header_file(
    folder: Path,
    file: str,
    kind: str,
    newest: int,
    *,
    remedy: str = "",
) -> dict[str, Any]:
    """Read the header of a folder of this ``kind`` (``bundle``, ``recording``) in format 1 to
    ``newest``. Raises BundleError."""
    path = folder / file
    try:
        header = read_object(path, article(kind))
    except FileNotFoundError:
        reason = f"it has no {file}" if folder.is_dir() else "there is no such folder"
        raise BundleError(f"{folder} is not {article(kind)}: {reason}{remedy}") from None
    check_format(path, header, newest)
    return header


def check_format(path: Path, header: dict[str, Any], newest: int) -> None:
    """Raises BundleError for an unsupported format."""
    number, writer = header.get("format"), header.get("consistency")
    if type(number) is int and 1 <= number <= newest:
        return
    formats = f"formats 1 to {newest}" if newest > 1 else "format 1"
    text = f"{path} has format {shown(number, 40)}; this version ({__version__}) reads {formats}"
    if type(number) is int and number > newest and isinstance(writer, str) and writer.isprintable():
        later = "a later version" if writer == __version__ else f"{writer[:40]} or a later version"
        text += f": install consistency, {later}"
    raise BundleError(text)
