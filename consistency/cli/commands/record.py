"""``consistency record``: a corpus of cases, or what a backend does with one, kept so that it can
be judged elsewhere."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...core.text import format_bytes, format_seconds, quote
from ...engine.run_options import RunOptions
from ...errors import OutputError, UsageError
from ..echo import echo
from ..options import FOLDER, INTERRUPTED, command, option, run_options

if TYPE_CHECKING:
    from ...engine.config import RunConfig
    from ...engine.record import Taken

SECONDS_BETWEEN_LINES = 10.0  # of progress, where there is no terminal


@command(short_help="Keep cases, or what a backend does with them, to be judged elsewhere.")
@run_options(
    "dtypes", "directions", "source", "seed", "profile", "examples", "no_shipped", "backends",
    backends={"help": "Run the cases on it; left out, only cases are kept."},
)  # fmt: skip
@click.option("--corpus", type=FOLDER, help="The cases to run, in place of OPERATORs.")
@click.option("--out", "-o", type=FOLDER, required=True, help="The folder to write.")
@click.option(
    "--literal",
    is_flag=True,
    help="Keep the bits of every tensor in place of the recipe they are drawn from.",
)
@click.option("--resume", is_flag=True, help="Complete the interrupted folder in --out.")
@click.option(
    "--portable",
    is_flag=True,
    help="Write a zip (--out) that records on a machine with torch and NumPy only.",
)
@option("trust")
def record(
    options: RunOptions, corpus: Path | None, out: Path, literal: bool, resume: bool,
    portable: bool, trust: bool,
) -> None:  # fmt: skip
    """Keep cases, or what a backend does with them, to be judged elsewhere.

    Without --backend a corpus is written: cases and no outcomes. With it, every case of a corpus
    (or of the OPERATORs) runs on that backend and what comes out is stored bit by bit.

    \b
    consistency record -o corpus 'nn.functional.*' --examples 20
    consistency record --backend directml --corpus corpus -o from-windows      on the other machine
    consistency record matmul --backend cuda -o from-linux                     both in one step
    consistency judge from-windows from-linux
    consistency record --portable -o directml.zip --profile quick              to take along

    Exit status: 0 whatever came out · 2 bad usage · 3 the backend cannot run here
    """
    from ... import backends as known
    from ...core.foreign import Bounds, bounded
    from ...engine import record as taking
    from ...storage.provenance import is_own_folder

    backends = options.backends or ()
    if len(backends) > 1:
        raise UsageError("a recording is of one backend: record each into a folder of its own")
    if options.profile == "large":
        raise UsageError(
            "recordings and corpora hold drawn cases: the profile large is for `consistency run`"
        )
    drawing = {
        "OPERATOR": options.operators, "--dtype": options.dtypes,
        "--direction": options.directions, "--profile": options.profile,
        "--examples": options.examples, "--no-shipped": options.no_shipped,
        "--seed": options.seed, "--source": options.source,
        "--literal": literal,
    }  # fmt: skip
    if corpus is not None:
        conflicting = [name for name, value in drawing.items() if value]
        if conflicting:
            raise UsageError(f"--corpus says which cases to run: leave {conflicting[0]} out")
        if not backends and not portable:
            raise UsageError("--corpus needs the --backend that runs its cases")
    if portable and resume:
        raise UsageError("--portable writes a zip anew: leave --resume out")
    chosen = None if corpus is not None else replace(options, backends=("cpu",)).config()
    if portable:
        _pack(corpus, chosen, out, str((backends or ("directml",))[0]), literal)
        return
    if not backends:
        assert chosen is not None
        _follow(taking.write_corpus(chosen, out, literal=literal, resume=resume), "cases", out)
        return
    if literal:
        raise UsageError(
            "--literal is for a corpus: write one without --backend, and record from it with "
            "--corpus"
        )
    source = corpus if corpus is not None else chosen
    assert source is not None
    own = trust or corpus is None or is_own_folder(corpus)
    with contextlib.nullcontext() if own else bounded(Bounds()):
        backend = taking.resolved(backends[0]) if own else taking.bounded(backends[0])
        reason = known.availability(backend)
        if reason:
            echo(f"– {backend.name}: cannot run here: {reason}", err=True)
            sys.exit(3)
        _follow(taking.record(backend, source, out, resume=resume, own=own), "outcomes", out)


def _pack(
    corpus: Path | None, drawn: RunConfig | None, out: Path, backend: str, literal: bool
) -> None:
    """Write the zip of a portable recording."""
    from ...engine.record import write_corpus
    from ...storage.portable import archive

    with tempfile.TemporaryDirectory() as folder:
        if corpus is None:
            assert drawn is not None
            corpus = Path(folder) / "corpus"
            for _ in write_corpus(drawn, corpus, literal=literal):
                pass
        count = archive.write(corpus, out, backend)
    size = format_bytes(out.stat().st_size)
    echo(f"✓ {count:,} cases in {out} ({size}): unpack it there and read its README.txt")


def _follow(steps: Iterator[Taken], what: str, out: Path) -> None:
    """Record with a progress bar (or lines, without a terminal) and report the result."""
    from ...report.progress import progress_bar
    from ...report.safe_console import SafeConsole

    console = SafeConsole()
    counts: Counter[str] = Counter()
    began = last = time.monotonic()
    done = earlier = 0
    bar = progress_bar(console) if console.is_terminal else None
    task = (
        bar.add_task("", total=None, now="", count="", rate="", failing="")
        if bar is not None
        else None
    )
    try:
        if bar is not None:
            bar.start()
        for taken in steps:
            done, now = taken.done, time.monotonic()
            earlier += not taken.fresh
            if taken.outcome is not None:
                counts[taken.outcome.status] += 1
            text = f"{taken.done:,} / {taken.total:,} {what}"
            if bar is not None and task is not None:
                rate = f"{taken.done / (now - began):,.0f}/s" if now - began > 0.5 else ""
                bar.update(
                    task,
                    completed=taken.done,
                    total=taken.total,
                    now=taken.case.operator,
                    count=text,
                    rate=rate,
                )
            elif now - last > SECONDS_BETWEEN_LINES:
                last = now
                console.print(f"  {text}  {taken.case.operator}")
    except KeyboardInterrupt:
        if bar is not None:
            bar.stop()
        echo(f"interrupted after {done:,} {what}; complete them with --resume -o {out}", err=True)
        sys.exit(INTERRUPTED)
    except OutputError as error:
        raise error.then(f"complete it with --resume -o {quote(str(out))}") from None
    finally:
        if bar is not None:
            bar.stop()
    console.print(_ended(done, earlier, counts, what, out, time.monotonic() - began))


def _ended(
    done: int, earlier: int, counts: Counter[str], what: str, out: Path, seconds: float
) -> str:
    statuses = ", ".join(f"{count:,} {status}" for status, count in counts.most_common())
    before = f", {earlier:,} were there already" if earlier else ""
    then = (
        f"consistency judge {out}"
        if what == "outcomes"
        else f"consistency record --backend SPEC --corpus {out} -o FOLDER"
    )
    mark = "✓" if done else "– nothing was kept:"
    return (
        f"{mark} {done:,} {what} in {out}{f' ({statuses})' if statuses else ''}{before}    "
        f"{format_seconds(seconds)}    next: {then}"
    )
