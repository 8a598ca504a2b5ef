"""``consistency judge``: verdicts on what backends did elsewhere."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...errors import UsageError
from ..echo import echo
from ..options import FILE_OR_STDOUT, FOLDER, INTERRUPTED, command, option

if TYPE_CHECKING:
    from ...engine.bundle_writer import BundleWriter


@command(short_help="Judge recordings made elsewhere, against any tolerances.")
@click.argument("recordings", nargs=-1, required=True, metavar="RECORDING... [OPERATOR]...")
@option("tolerances")
@option("expectations")
@click.option(
    "--id",
    "ids",
    multiple=True,
    metavar="ID",
    help="Only the outcome with this recorded id (repeatable).",
)
@click.option(
    "--out",
    "-o",
    type=FOLDER,
    help="Also write a bundle, as `run` does.",
)
@click.option(
    "--json", "json_file", type=FILE_OR_STDOUT,
    help="Also write one object a line per outcome, with its recorded_id; - for standard output.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Complete the interrupted bundle in --out.")
@option("trust")
@option("not_tested")
def judge(
    recordings: Sequence[str],
    tolerances: str | None,
    ids: Sequence[str],
    out: Path | None,
    json_file: Path | None,
    resume: bool,
    trust: bool,
    not_tested: bool,
    expectations: Sequence[str],
) -> None:
    """Judge recordings made elsewhere, against any tolerances.

    RECORDING is a folder that `consistency record --backend` wrote, or a converted one; several
    stand side by side. OPERATOR is a name, a glob or family:NAME among what was recorded; default:
    all. The reference (float64 on the CPU) is computed here, from the stored inputs. Rules are
    looked up by the name of the recorded backend, its device and its driver.

    \b
    consistency judge from-windows from-linux --json verdicts.jsonl
    consistency judge from-windows matmul 'nn.functional.*' --tolerances mine.yaml

    \b
    Exit status: 0 consistent · 1 a verdict fails · 2 bad usage, or a damaged recording
    3 nothing failed, but something could not be judged
    """
    from ...core.foreign import Bounds
    from ...engine.events import Handler, dispatch
    from ...engine.fingerprints import Fingerprints
    from ...engine.foreign import recordings as foreign_recordings
    from ...engine.judge_recordings import events, plan
    from ...engine.known import status
    from ...report import bundles, page
    from ...report.terminal import Screen, exit_status
    from ...storage.provenance import is_own_folder
    from ._incomplete import completion_told
    from ._rows import json_writer, opened

    if resume and out is None:
        raise UsageError("--resume needs the folder to complete: add --out FOLDER")
    folders = [name for name in recordings if Path(name).is_dir()] or list(recordings[:1])
    patterns = [name for name in recordings if name not in folders]
    planned = plan(folders, patterns or None, tolerances, ids, expectations)
    own = trust or all(is_own_folder(Path(folder)) for folder in folders)
    steps = (
        events(planned)
        if own
        else foreign_recordings.events(
            planned, patterns=patterns or None, tolerances=tolerances, ids=ids,
            expectations=expectations, bounds=Bounds(),
        )
    )  # fmt: skip
    to_stdout = json_file is not None and str(json_file) == "-"
    known = status.StatusWriter(out)
    screen = Screen(
        stream=sys.stderr if to_stdout else None, out=out, not_tested=not_tested, known=known
    )
    with contextlib.ExitStack() as stack:
        stack.callback(planned.close)
        stack.callback(screen.stop)
        handlers: list[Handler] = [known]
        writers: list[BundleWriter] = []
        if out is not None:
            writer = bundles.writer(out, resume=resume, own=own, bounded=not own)
            writers.append(writer)
            stack.callback(writer.close)
            handlers = [writer, known, Fingerprints(out), page.after(out)]
        stack.enter_context(completion_told([screen], out, writers))
        stream = stack.enter_context(opened(json_file))
        if stream is not None:
            handlers.append(json_writer(stream))
        try:
            for event in steps:
                dispatch(event, [*handlers, screen])
        except KeyboardInterrupt:
            screen.stop()
            echo(f"interrupted after {screen.summary.results:,} results", err=True)
            sys.exit(INTERRUPTED)
    sys.exit(exit_status(screen.summary, asked=True))
