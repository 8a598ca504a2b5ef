"""``consistency check-onnx``: an ONNX file beside the torch model that it was made from."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ...core.foreign import TRUST, Bounds
from ...core.text import printable
from ..echo import echo
from ..options import FILE_OR_STDOUT, command
from ..supervision import note, supervise_file
from .model import write_text

BOUNDS = Bounds(bytes=8 * 10**9, seconds=600.0)  # torch and the runtime included


@command(
    "check-onnx",
    short_help="An ONNX file beside the torch model that it was made from.",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--against", "target", required=True, metavar="TARGET",
    help="The torch model: module:factory, file.py:factory or examples:NAME.",
)  # fmt: skip
@click.option(
    "--backend", "backends", multiple=True, metavar="SPEC", default=("onnxruntime",),
    show_default=True, help="A runtime: onnxruntime+opt=off, openvino+precision=f32 (repeatable).",
)  # fmt: skip
@click.option(
    "--replicas", type=click.IntRange(min=2), default=6, show_default=True, metavar="N",
    help="So often is float64 repeated with every number moved by half an ulp.",
)  # fmt: skip
@click.option(
    "--json", "json_file", type=FILE_OR_STDOUT,
    help="Also write everything as one JSON object; - for standard output.",
)  # fmt: skip
@click.option(TRUST, "trust", is_flag=True, help="Run the file in this process, without bounds.")
def check_onnx(
    file: Path, target: str, backends: Sequence[str], replicas: int, json_file: Path | None,
    trust: bool,
) -> None:  # fmt: skip
    """Does an ONNX file compute what the torch model computes, and if not, which node is the first
    that does not, and which torch call did it come from?

    TARGET is what `consistency model` takes; its model runs in evaluation mode with the inputs of
    its first step, in float64 and in copies of that in which every number is moved by half an ulp
    (the band). The file runs on each backend. If an output leaves the band, onnx's reference
    evaluator tells whether the file says something else (and which attribute, constant or opset
    would be right), or the runtime computes it wrong.

    \b
    consistency check-onnx net.onnx --against train.py:small

    The file may come from elsewhere: it has less than 2 GiB, external data only in its own folder,
    and a process of its own with 8 GB and 10 minutes. TARGET is your own code.

    \b
    Exit status: 0 within the band · 1 it leaves the band, or a runtime refuses it · 2 bad usage,
    or no valid ONNX file · 3 no runtime could be used
    """
    supervise_file(BOUNDS, trust=trust)
    from ...training.exported.file_check import check_file, check_json

    note(f"{file}")
    checks, absent = check_file(file, target, backends, replicas)
    to_stdout = json_file is not None and str(json_file) == "-"
    if not to_stdout:
        for check in checks:
            echo(printable(str(check)))
        for name, reason in absent.items():
            echo(f"– {name}: {reason}")
    if json_file is not None:
        rows = [check_json(check) for check in checks]
        write_text(json_file, json.dumps({"checks": rows, "absent": absent}, indent=1) + "\n")
    fails = any(check.fails for check in checks)
    sys.exit(1 if fails else 3 if absent else 0)
