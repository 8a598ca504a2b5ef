"""``consistency matrix``: many bundles as a static site."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ...core.text import pluralize
from ...errors import UsageError
from ..echo import echo
from ..options import FOLDER, command


@command(short_help="Many nights on many machines as a static site: what fails where, since when.")
@click.argument(
    "folders", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR..."
)
@click.option(
    "-o",
    "--out",
    type=FOLDER,
    default=Path("site"),
    show_default=True,
    help="The site.",
)
@click.option(
    "--store",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File that keeps what was read [default: OUT.duckdb].",
)
@click.option(
    "--no-artifacts", is_flag=True, help="Leave out the scripts and issues of what fails now."
)
def matrix(folders: Sequence[Path], out: Path, store: Path | None, no_artifacts: bool) -> None:
    """Many nights on many machines as a static site.

    DIR is a bundle, or a folder with bundles anywhere below it. An environment is a bundle's label
    and a backend; its nights are compared with each other, case by case. The site shows what every
    operator does on every environment, since when it fails and what changed in the environment that
    night, with the command that repeats it.

    What was read is kept in a store, so that tomorrow only new bundles are read; `consistency query
    "SQL" OUT.duckdb` asks it.

    \b
    consistency matrix nightly/ -o site
    consistency matrix rtx3070/ rx6900xt/ lab-cpu/ -o site

    \b
    Exit status: 0 whatever fails in the bundles (`consistency diff` is the gate) · 2 bad usage
    """
    from ...report.history.bundle_sources import bundles
    from ...report.history.site import earlier_files, write
    from ...report.history.snapshot import FAILED, snapshot
    from ...report.history.store import Store

    earlier_files(out)  # fail before the work, not after, if the folder is another one's
    bundle_folders, problems = bundles(folders)
    for problem in problems:
        echo(problem, err=True)
    if not bundle_folders:
        raise UsageError(
            f"there is no bundle in {', '.join(map(str, folders))}; `consistency run --out DIR` "
            "makes one"
        )
    place = out.absolute() if out.name in ("", "..") else out
    with Store(store or place.with_name(f"{place.name}.duckdb")).readable() as history:
        history.take(
            bundle_folders,
            progress=lambda done, of: (
                echo(f"read {done:,} of {of:,} new bundles", err=True) if of > 200 else None
            ),
        )
        history.keep_only(bundle_folders)
        for problem in history.problems:
            echo(problem, err=True)
        site = snapshot(history)
        write(site, out, artifacts=not no_artifacts)
        nights = max((len(one.runs) for one in site.environments.values()), default=0)
        failing = sum(1 for cell in site.cells.values() if cell.rank == FAILED)
        size = (
            f"{pluralize(len(site.by_operator()), 'operator')} × "
            f"{pluralize(len(site.environments), 'environment')}"
        )
        echo(
            f"wrote {out / 'index.html'}: {size}, {pluralize(nights, 'night')} "
            f"({history.fresh:,} of {len(bundle_folders):,} bundles were new), "
            f"{pluralize(failing, 'cell')} {'fails' if failing == 1 else 'fail'}, "
            f"{pluralize(len(site.change_points), 'change')}"
        )
