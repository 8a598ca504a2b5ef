"""``consistency corpus``: make, merge, show and check the cases that runs replay."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.folders import is_ours
from ...core.text import pluralize
from ...errors import UsageError
from ..echo import echo
from ..options import Command, option

if TYPE_CHECKING:
    from ...storage.corpus.validation import CorpusCheck

_FOLDER = click.Path(path_type=Path, file_okay=False)
_out = click.option("-o", "--out", type=_FOLDER, required=True, help="Folder of the corpus.")
_name = click.option(
    "--name", metavar="NAME", default="", help="What bundles call it [default: the folder's name]."
)
MOST = 12


@click.group(short_help="Make, merge, show or check the cases that runs replay.")
def corpus() -> None:
    """The cases that runs replay before they explore, identical on every machine.

    \b
    consistency corpus make -o corpus                    a few cases of everything, to be shared
    consistency run --profile nightly --corpus corpus --time-budget 2h --out reports/tonight
    consistency corpus merge corpus reports/tonight -o corpus     adds failures found by exploring
    consistency corpus show corpus

    Exit status: 0 · 1 what `check` or `show` read is damaged · 2 bad usage
    """


@corpus.command(
    cls=Command, short_help=("Draw a few cases of every operator and dtype into a folder.")
)
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@option("dtypes", help="Only this one (repeatable; default: each operator's own).")
@option(
    "examples",
    metavar="N",
    help="Cases of each operator and dtype [default: 12].",
)
@_out
@_name
def make(
    operators: Sequence[str], dtypes: Sequence[str], examples: int | None, out: Path, name: str
) -> None:
    """Draw a few cases of every operator and dtype into a folder.

    What is drawn depends on the versions of consistency, Hypothesis and torch here; the folder does
    not: share it, so that other machines replay the same cases. Without one, `consistency run
    --profile nightly` draws the same cases as this command does here.

    \b
    consistency corpus make -o corpus
    consistency corpus make -o mine matmul 'nn.functional.*' --dtype float32 --examples 50
    """
    from ...engine.config import configure, operator_dtypes
    from ...engine.standard_corpus import EXAMPLES, standard
    from ...storage.cases import CaseEntry
    from ...storage.corpus.merging import write

    _unused(out, ())
    chosen = configure(list(operators) or None, ["cpu"], list(dtypes) or None)
    result = standard(operator_dtypes(chosen), examples=examples or EXAMPLES, told=progress())
    write(out, [CaseEntry(case) for case in result.cases], name or out.resolve().name)
    echo(
        f"{len(result.cases):,} cases of "
        f"{pluralize(len({c.operator for c in result.cases}), 'operator')} in {out}"
    )
    echo(f"digest {result.digest}")


@corpus.command(cls=Command, short_help="Put corpora, and what runs found by exploring, into one.")
@click.argument("sources", nargs=-1, required=True, metavar="CORPUS|BUNDLE...", type=_FOLDER)
@_out
@_name
def merge(sources: Sequence[Path], out: Path, name: str) -> None:
    """Put corpora, and what runs found by exploring, into one.

    Of a bundle the failing cases are taken that it did not replay, as drawn and made smaller; of
    failures that look alike (operator, dtype, direction, verdict, cause, backend) the 2 smallest
    and 3 others. The order of the sources makes no difference, nor does merging the same again. To
    add to a corpus, name it both as a source and after -o. A failure's folder is a source, too.

    \b
    consistency corpus merge corpus reports/tonight -o corpus
    consistency corpus merge corpus nightly/*/ for-the-issue -o larger
    """
    from ...storage.corpus.corpus import digest_of
    from ...storage.corpus.merging import CorpusMerger, write
    from ...storage.corpus.reading import load
    from ...storage.provenance import is_own_folder

    _unused(out, sources)
    merged = CorpusMerger()
    for place in sources:
        merged.add(place)
    lines = merged.chosen()
    if not lines:
        raise UsageError(
            "there is no case in any of them: no corpus, and no failure that was found by exploring"
        )
    named = name or (load(out).name if (out / "recording.json").is_file() else out.resolve().name)
    write(out, lines, named, own=all(map(is_own_folder, sources)))
    for place, what, count in merged.sources:
        echo(f"{count:>8,}  from the {what} {place}")
    failing = sum(bool(line.failures) for line in lines)
    dropped = len(merged.lines) - len(lines)
    text = f"{len(lines):,} cases in {out}, {failing:,} of them with which failures were found"
    echo(text + (f"; {dropped:,} were too much like others" if dropped else ""))
    echo(f"digest {digest_of(line.case.digest for line in lines)}")


@corpus.command(cls=Command, short_help="What a corpus holds.")
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def show(folder: Path, as_json: bool) -> None:
    """What a corpus holds: operators, dtypes, and the failures that its cases were found with."""
    from ...storage.corpus.validation import check

    result = check(folder)
    if as_json:
        echo(json.dumps(result.to_json(), indent=1))
    else:
        _show(result)
    sys.exit(0 if result.fine else 1)


@corpus.command("check", cls=Command, short_help="Whether a corpus can be replayed here.")
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def check_command(folder: Path, as_json: bool) -> None:
    """Whether a corpus can be replayed here: damaged lines, unknown operators, cases that take much
    memory.

    Exit status: 0 it can · 1 it is damaged · 2 it is no corpus
    """
    from ...storage.corpus.validation import check

    result = check(folder)
    if as_json:
        echo(json.dumps(result.to_json(), indent=1))
        sys.exit(0 if result.fine else 1)
    _problems(result)
    if result.fine:
        lost = sum(result.unknown.values())
        echo(f"✓ {result.cases - lost:,} of {result.cases:,} cases can be replayed here")
    else:
        echo(
            f"✗ {pluralize(len(result.damaged), 'damaged line')}"
            if result.damaged
            else "✗ it holds no case"
        )
    sys.exit(0 if result.fine else 1)


def _show(result: CorpusCheck) -> None:
    echo(
        _text(
            f"{result.name}   {pluralize(result.cases, 'case')}   "
            f"{pluralize(len(result.operators), 'operator')}   {result.digest}"
        )
    )
    echo(f"dtypes     {_counts(result.dtypes)}")
    echo(f"sources    {_counts(result.sources)}")
    echo(f"operators  {_counts(result.operators)}")
    echo(f"numbers    {result.elements:,} in all tensors" if result.elements else "numbers    none")
    echo(
        f"failures   {pluralize(result.found, 'case')} with which failures were found"
        if result.found
        else "failures   none"
    )
    for kind, count in result.kinds.most_common(MOST):
        echo(_text(f"  {count:>5,}  {' · '.join(part for part in kind if part)}"))
    if len(result.kinds) > MOST:
        echo(f"         and {len(result.kinds) - MOST} other kinds (--json has all)")
    _problems(result)


def _problems(result: CorpusCheck) -> None:
    for line in result.damaged[:MOST]:
        echo(_text(f"✗ {line}"))
    for words, count in result.unknown.most_common(MOST):
        echo(_text(f"– {pluralize(count, 'case')} not replayed here: {words}"))
    for size, name in result.large[:MOST]:
        echo(_text(f"! {name} has {size:,} numbers: it needs some {size * 40 / 2**30:.1f} GB"))
    if result.duplicates:
        echo(f"! {pluralize(result.duplicates, 'line')} twice; the case is replayed once")


def progress() -> Any:
    """A progress function for drawing: on a terminal's standard error, in a log an occasional
    line."""
    import time

    last = [time.monotonic()]

    def told(done: int, of: int) -> None:
        if time.monotonic() - last[0] > 5.0:
            last[0] = time.monotonic()
            echo(
                f"  drawing the standard corpus, once: {done:,} of {of:,} operators × dtypes",
                err=True,
            )

    return told


def _unused(out: Path, sources: Sequence[Path]) -> None:
    """Refuse to overwrite a folder unless it is one of the sources."""
    try:
        if not is_ours(out, "corpus", "recording.json", "name another folder with -o"):
            return
    except OSError as error:
        raise UsageError(
            f"cannot write {out}: {error.strerror}; name another folder with -o"
        ) from None
    if out.resolve() not in {place.resolve() for place in sources}:
        command = f"consistency corpus merge {out} BUNDLE -o {out}"
        raise UsageError(
            f"{out} already holds a corpus; add to it with `{command}`, or name another folder"
        )


def _counts(counts: Mapping[str, int]) -> str:
    shown = Counter(counts).most_common(MOST)
    return (
        _text(
            ", ".join(f"{name} {count:,}" for name, count in shown)
            + (" …" if len(counts) > MOST else "")
        )
        or "none"
    )


def _text(line: str) -> str:
    from ...core.text import printable

    return printable(line)
