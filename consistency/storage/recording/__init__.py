"""Recordings: cases and raw outputs in a folder, to be judged on another machine against any
tolerances.

    recording.json  format version, kind (corpus or recording), backend, environment, settings;
                    written first
    cases.jsonl     one case per line: {"id", "directions", "case"}
    literals/       bits of long literal tensors, as in a bundle
    outcomes.jsonl  one object per case and direction: status, exception, message, warnings,
                    seconds, modified, outputs
    tensors/        returned tensors, bit for bit, in safetensors files of bounded size

A corpus has cases only. Folders may come from other machines: everything is JSON or safetensors,
sizes are bounded, names never become paths, and damage raises BundleError with file and line.
"""
