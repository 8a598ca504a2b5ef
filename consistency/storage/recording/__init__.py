"""Record here, judge there: cases and raw outputs in a folder, to be judged on another machine
against any tolerances.

    recording.json     format version, kind (corpus or recording), backend, environment, settings
    (first thing written) cases.jsonl        one case a line: {"id", "directions", "case"} literals/
    the bits of literal tensors that are too long for a line, as in a bundle outcomes.jsonl     one
    object per case and direction: status, exception, message, warnings, seconds, modified, outputs
    tensors/           what came back, bit by bit, in safetensors files of bounded size

A corpus has cases only. Folders come from other machines: everything is JSON or safetensors, sizes
are bounded, names never become paths, and whatever is wrong is one line with file and line
(BundleError).
"""
