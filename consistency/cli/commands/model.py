"""``consistency model``: a model, or its training, on every backend beside float64."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...core.files import write_named
from ...errors import UsageError
from ..echo import echo
from ..options import FILE_OR_STDOUT, FOLDER, command, option

if TYPE_CHECKING:
    from ...training.variants import VariantComparison


@command(
    short_help=(
        "A model and its training beside float64: rounding that grew, or which operator "
        "is wrong first."
    )
)
@click.argument("target", metavar="TARGET")
@option("backends", help=("cpu, cpu+onednn=off, cuda:1+tf32, directml, file.py:attribute … "
"(repeatable; default: "
    "all available)."))  # fmt: skip
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    metavar="N",
    help="Steps of training; 0 for one pass [default: the target's].",
)
@click.option(
    "--replicas", type=click.IntRange(min=2), default=6, show_default=True, metavar="N",
    help=("So often is float64 repeated with every number moved by half an ulp; the band is 10 × "
    "their RMS distance."),
)  # fmt: skip
@click.option(
    "--no-local",
    is_flag=True,
    help="Compare whole layers only; do not judge each operator on its own inputs.",
)
@click.option(
    "--against",
    "others",
    multiple=True,
    metavar="TARGET",
    help="Also another way to compute the same, beside TARGET (repeatable).",
)
@click.option(
    "--record", "corpus", type=FOLDER, metavar="FOLDER",
    help="Compare nothing: keep the model's operator calls as a corpus for other machines.",
)  # fmt: skip
@option("case_timeout")
@option("tolerances")
@click.option(
    "--json", "json_file", type=FILE_OR_STDOUT,
    help="Also write everything as one JSON object; - for standard output.",
)  # fmt: skip
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Also write a page with the curves (HTML).",
)
def model(
    target: str, backends: Sequence[str], steps: int | None, replicas: int, no_local: bool,
    others: Sequence[str],
    corpus: Path | None, case_timeout: float, tolerances: str | None, json_file: Path | None,
    out: Path | None,
) -> None:  # fmt: skip
    """A model, or its training, on every backend beside float64: is it rounding that grew, and if
    not, who is wrong first?

    TARGET is module:factory, file.py:factory or examples:NAME; `consistency model examples` lists
    these. The factory returns (model, inputs), (model, inputs, loss), or a consistency.Subject,
    which also has targets, batches, an optimizer and a number of steps.

    \b
    consistency model examples:mlp
    consistency model train.py:small --backend cpu --backend cuda --steps 20 -o drift.html
    consistency model train.py:small --record corpus    its calls, for `run --corpus corpus`

    The same model with the same numbers is trained in float64, in copies of that in which every
    number is moved by half an ulp of the tested format (the band: what rounding alone would do),
    and on every backend. Each operator is also judged by itself, on the inputs that it really got
    there.

    \b
    Exit status: 0 within the band · 1 a backend leaves it, or an operator its budget · 2 bad usage
    3 nothing failed, but nothing could be tested, or not on a backend that was asked for
    """
    if target == "examples":
        from ...training.examples import listing

        echo(listing())
        return
    if corpus is not None:
        _record(target, corpus, steps, [*backends, *others, *filter(None, [json_file, out])])
        return
    to_stdout = json_file is not None and str(json_file) == "-"
    with _Screen() as screen:  # before torch is loaded, which takes a while
        from ...training.entry_points import compare_models

        report = compare_models(
            target, list(backends) or None, steps=steps, replicas=replicas, local=not no_local,
            tolerances=tolerances,
            case_timeout=case_timeout, progress=screen.step,
        )  # fmt: skip
        sound = [
            spec
            for spec, b in zip(backends or report.backends, report.backends.values(), strict=True)
            if not b.lost
        ]
        variants = (
            _variants(target, others, sound, steps, replicas) if report.tested and sound else ()
        )
    if not to_stdout:
        echo(str(report))
        for one in variants:
            echo(
                f"{one}\n" + "".join(f"! {m.words}\n    {m.remedy}\n" for m in one.mistakes),
                nl=False,
            )
    if json_file is not None:
        variant_rows = [asdict(one) | {"fails": one.fails} for one in variants]
        write_text(
            json_file,
            json.dumps(
                report.to_json() | ({"ways": variant_rows} if variant_rows else {}), indent=1
            )
            + "\n",
        )
    if out is not None:
        from ...training.page import page

        write_text(out, page(report))
        echo(f"wrote {out}", err=to_stdout)
    absent = [b for b in report.backends.values() if b.absent]
    fails = report.failures or any(one.fails for one in variants)
    sys.exit(1 if fails else 3 if not report.tested or (backends and absent) else 0)


def _variants(
    target: str, others: Sequence[str], backends: Sequence[str], steps: int | None, replicas: int
) -> tuple[VariantComparison, ...]:
    """Other ways to compute the same result: the requested ones, or those of an example."""
    from ...training import model_targets
    from ...training.variants import Variant, compare_variants, variants_of

    subjects = [Variant(other, model_targets.subject(other)) for other in others] or list(
        variants_of(target)
    )
    if not subjects:
        return ()
    first = model_targets.subject(target)
    return compare_variants(
        Variant(target, first) if others else first,
        subjects,
        list(backends),
        steps=steps,
        replicas=replicas,
    )


def _record(target: str, corpus: Path, steps: int | None, messages: Sequence[Any]) -> None:
    """Record the model's calls and report it."""
    from ...training import capture, model_targets

    if messages:
        raise UsageError(
            "--record takes the model through its steps on the CPU and compares nothing: leave "
            "the other options out"
        )
    recorded = capture.record(
        model_targets.subject(target), corpus, steps=capture.STEPS if steps is None else steps
    )
    echo(str(recorded))
    echo(f"next: consistency run --backend SPEC --corpus {corpus}")


class _Screen:
    """Shows the current computation on one temporary line."""

    def __enter__(self) -> _Screen:
        from ...report.safe_console import SafeConsole

        self._status = SafeConsole(stderr=True).status("loading torch and the model …")
        self._status.start()
        return self

    def step(self, what: str, done: int, total: int) -> None:
        self._status.update(f"{what}: step {done:,} of {total:,}" if total > 1 else f"{what} …")

    def __exit__(self, *error: Any) -> None:
        self._status.stop()


def write_text(path: Path, text: str) -> None:
    if str(path) == "-":
        echo(text, nl=False)
        return
    try:
        write_named(path, text)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
