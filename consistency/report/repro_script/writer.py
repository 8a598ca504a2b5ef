"""The folder of a failure: the case, its tensors, the environment, the script and the text of an
issue."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.files import write_bytes, write_text
from ...core.folders import is_ours, is_unused
from ...core.model import Result
from ...errors import UsageError
from ...operators.declare import Operator
from ...storage import manifest, provenance
from ...storage.literals import write_literals
from ..failure import message, tensors_of
from . import environment
from .collected_environment import collected
from .issue import text as text_of_issue
from .script import Script, script_of

if TYPE_CHECKING:
    from ...diagnose.shrink import MinimalCase


def write(
    folder: Path,
    result: Result,
    *,
    spec: str | None = None,
    identity: Mapping[str, str] | None = None,
    others: Sequence[Result] = (),
    minimal: MinimalCase | None = None,
    operator: Operator | None = None,
    own: bool = False,
    versions: bool = True,
) -> None:
    """Write case.json, result.json, tensors.safetensors, environment.json, repro.py, issue.md and
    message.txt into ``folder``.

    ``spec`` is the user's spec of the backend (for a recorded result the recording's folder),
    ``identity`` its environment, ``others`` are results of the same case on other backends.
    ``operator`` is the called one, if no registry has it. ``own``: the case is the user's own
    (:mod:`consistency.storage.provenance`). ``versions``: the issue ends with what torch's
    template asks for, of this machine. A file that cannot
    be made is replaced by a text file with the reason. Raises UsageError if the folder holds
    anything else than a failure, OSError if it cannot be written.
    """
    from ...storage.bundle import row_of

    identity = identity or {}
    folder.mkdir(parents=True, exist_ok=True)
    is_ours(folder, "failure's folder", "case.json", "name another folder")
    write_text(folder / "case.json", result.case.line + "\n")
    write_literals(folder, result.case)
    found = {
        "backend": environment.of_backend(result, identity),
        "judged with": environment.here(),
        "spec": spec or result.backend,
    }
    write_text(folder / "environment.json", json.dumps(found, indent=1) + "\n")
    bundle = folder.parent.parent if folder.parent.name == "failures" else None
    write_text(folder / "message.txt", message(result, bundle=bundle, spec=spec) + "\n")
    try:
        made = script_of(result, spec, identity, operator)
    except Exception as error:  # a failing artifact must not end the run
        write_text(folder / "repro.txt", f"no script: {type(error).__name__}: {error}\n")
        made = Script("", limits=(f"{type(error).__name__}: {error}",))
    else:
        write_text(folder / "repro.py", made.text)
        for name, data in made.files.items():
            write_bytes(folder / name, data)
    told = text_of_issue(
        result, made, spec=spec, identity=identity, others=others, minimal=minimal,
        versions=collected() if versions and not result.recorded_id else "",
    )  # fmt: skip
    write_text(folder / "issue.md", told)
    try:
        tensors = tensors_of(result)
    except Exception as error:
        write_text(folder / "tensors.txt", f"no tensors: {error}\n")
    else:
        if tensors:
            write_bytes(folder / "tensors.safetensors", tensors)
    write_text(folder / "result.json", json.dumps(row_of(result), default=str) + "\n")
    manifest.seal(folder)
    if own:
        provenance.register(folder / "case.json")


def keep(
    folder: str | Path, result: Result, *, spec: str | None = None, operator: Operator | None = None
) -> Path:
    """As :func:`write`, into a new or empty folder, which is returned. Raises UsageError if it
    cannot be written, or is not empty."""
    path = Path(folder)
    try:
        if not is_unused(path):
            raise UsageError(f"{path} holds something already; name another folder")
        write(path, result, spec=spec, operator=operator, own=True)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another folder") from None
    return path
