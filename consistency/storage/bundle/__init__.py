"""A run on disk: a folder written line by line, which survives a kill at any moment and can be
resumed.

    bundle.json        format version, id, label, machine, corpus, when, settings (first thing
    written) environment.json   what every backend ran on cases.jsonl        one case a line, before
    the first result that refers to it literals/          the bits of literal tensors that are too
    long for a line, a safetensors file each, named by its SHA-256 results.jsonl      one result a
    line failures/<id>/     repro.py, issue.md, case.json, message.txt, environment.json, literals/,
                       tensors.safetensors (input storages, float64 reference)
    running.lock       held by the run that writes; of no meaning to others

Bundles come from other machines: everything is JSON or safetensors, sizes are bounded, names never
become paths unchecked.
"""

from __future__ import annotations

from ...core.files import MAX_LINE, lines, mend
from .bundle_search import ListedBundle, gather
from .header import FORMAT, read_environment, read_header
from .naming import failure_id
from .reading import cases_of, read_results
from .results import result_from_json
from .rows import result_to_json, row_of

__all__ = [
    "FORMAT",
    "MAX_LINE",
    "ListedBundle",
    "cases_of",
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
