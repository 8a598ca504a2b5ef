"""A run on disk: a folder written line by line, which survives a kill at any moment and can be
resumed.

    bundle.json       format version, id, label, machine, corpus, time, settings; written first
    environment.json  environment of every backend
    cases.jsonl       one case per line, before the first result that refers to it
    literals/         bits of long literal tensors: a safetensors file each, named by its SHA-256
    results.jsonl     one result per line
    failures/<id>/    repro.py, issue.md, case.json, message.txt, environment.json, literals/,
                      tensors.safetensors (input storages, float64 reference)
    running.lock      locked by the run that writes; otherwise meaningless

Bundles may come from other machines: everything is JSON or safetensors, sizes are bounded, names
never become paths unchecked.
"""

from __future__ import annotations

from ...core.files import mend
from ...core.reading import MAX_LINE, lines
from .bundle_search import ListedBundle, gather
from .header import FORMAT, cut_off, read_environment, read_header
from .naming import failure_id
from .reading import cases_of, read_results
from .results import result_from_json
from .rows import result_to_json, row_of

__all__ = [
    "FORMAT",
    "MAX_LINE",
    "ListedBundle",
    "cases_of",
    "cut_off",
    "failure_id",
    "gather",
    "lines",
    "mend",
    "read_environment",
    "read_header",
    "read_results",
    "result_from_json",
    "result_to_json",
    "row_of",
]
