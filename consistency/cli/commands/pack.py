"""``consistency pack``: old bundles in less room."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ...core.output import output_error
from ...core.text import format_bytes
from ...errors import BundleError, OutputError, UsageError
from ..echo import echo
from ..options import command


@command(short_help="Pack old bundles: a tenth of the room, or less, and read as before.")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR..."
)
@click.option(
    "--keep",
    type=click.IntRange(min=0),
    default=0,
    metavar="N",
    help="Leave the newest N bundles of each label plain.",
)
def pack(folders: Sequence[Path], keep: int) -> None:
    """Pack old bundles.

    DIR is a bundle, or a folder with bundles anywhere below it. The cases and results of runs that
    have ended become ….jsonl.gz, which every command reads, only more slowly; `run --resume`
    unpacks them. A bundle that is being written is left alone.

    \b
    consistency pack nights --keep 14

    Exit status: 0 whatever was passed over · 2 bad usage, no bundle, or one that cannot be written
    """
    from ...storage.bundle import gather
    from ...storage.bundle.packing import pack as packed

    listed, problems = gather(folders)
    if not listed and not problems:
        raise UsageError(f"there is no bundle in {', '.join(map(str, folders))}")
    skipped: dict[str, int] = {}
    many = before = after = 0
    failed: OutputError | None = None
    for one in reversed(listed):  # the newest first
        skipped[one.label] = skipped.get(one.label, 0) + 1
        if skipped[one.label] <= keep:
            continue
        try:
            was, is_ = packed(one.folder)
        except BundleError as error:
            problems.append(f"passed over: {error}")
        except OSError as error:
            told = output_error(one.folder, error, "what is not packed stays as it was")
            failed = failed or told.then("pack again")
        else:
            many, before, after = many + bool(was), before + was, after + is_
    for problem in problems:
        echo(problem, err=True)
    if failed is not None and not many:
        raise failed
    echo(
        f"packed {many:,} of {len(listed):,} bundles: {format_bytes(before)} are "
        f"{format_bytes(after)} now"
    )
    if failed is not None:
        raise failed
