"""Fingerprints stored in bundles."""

from __future__ import annotations

from pathlib import Path

from ..errors import UsageError
from ..probes.explain.fingerprints import kept_fact
from ..probes.fingerprint.facts import Fingerprint
from ..probes.fingerprint.summary import lines_of, stored_in
from .bundle.header import stored_environment


def in_bundle(text: str, beside: str) -> Fingerprint | None:
    """The stored summary of a backend as facts ``kept/LINE``. ``text`` is ``FOLDER#BACKEND``, or
    ``FOLDER`` if it has only one backend or one named ``beside``. None if ``text`` names no folder.
    Raises BundleError or UsageError.
    """
    folder, hash_, name = text.rpartition("#")
    if Path(text).is_dir():
        folder, name = text, ""
    elif not hash_ or not Path(folder).is_dir():
        return None
    summaries = {
        backend: stored_lines
        for backend, environment in stored_environment(Path(folder)).items()
        if (stored_lines := lines_of(stored_in(environment)))
    }
    if not summaries:
        raise UsageError(
            f"{folder} keeps no fingerprint; make one there with: consistency run --fingerprint "
            "--out FOLDER"
        )
    name = name or (
        beside if beside in summaries else next(iter(summaries)) if len(summaries) == 1 else ""
    )
    if name not in summaries:
        raise UsageError(
            f"{folder} keeps fingerprints of {', '.join(map(str, summaries))}; write "
            f"{folder}#{next(iter(summaries))}"
        )
    return Fingerprint.of(
        f"{name} in {folder}", [kept_fact(*pair) for pair in summaries[name].items()]
    )
