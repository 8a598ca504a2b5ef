"""Fingerprints that bundles keep."""

from __future__ import annotations

from pathlib import Path

from ..errors import UsageError
from ..probes.explain.fingerprints import kept_fact
from ..probes.fingerprint.facts import Fingerprint
from ..probes.fingerprint.summary import lines_of, stored_in
from .bundle.header import stored_environment


def in_bundle(text: str, beside: str) -> Fingerprint | None:
    """The lines that a run stored of a backend, as facts ``kept/LINE``: of ``FOLDER#BACKEND``,
    or of ``FOLDER``, which then has one, or one named ``beside``. None where ``text`` names no
    folder. Raises BundleError or UsageError.
    """
    folder, hash_, name = text.rpartition("#")
    if Path(text).is_dir():
        folder, name = text, ""
    elif not hash_ or not Path(folder).is_dir():
        return None
    known = {
        backend: kept
        for backend, environment in stored_environment(Path(folder)).items()
        if (kept := lines_of(stored_in(environment)))
    }
    if not known:
        raise UsageError(
            f"{folder} keeps no fingerprint; make one there with: consistency run "
            f"--fingerprint "
            f"--out FOLDER"
        )
    name = name or (beside if beside in known else next(iter(known)) if len(known) == 1 else "")
    if name not in known:
        raise UsageError(
            f"{folder} keeps fingerprints of {', '.join(map(str, known))}; write "
            f"{folder}#{next(iter(known))}"
        )
    return Fingerprint.of(f"{name} in {folder}", [kept_fact(*pair) for pair in known[name].items()])
