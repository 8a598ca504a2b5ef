"""``consistency report``: a stored run as a page, on the terminal, or as Markdown."""

from __future__ import annotations

from pathlib import Path

import click

from ...core.files import write_named
from ...errors import UsageError
from ..echo import echo
from ..options import command
from ._last_run import last_run


@command(short_help="Show a stored run: a page, the terminal screen, or Markdown.")
@click.argument("bundle", type=click.Path(path_type=Path), metavar="[BUNDLE]", required=False)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file [default: report.html in the bundle].",
)
@click.option(
    "--text", "as_text", is_flag=True, help="The terminal screen of the run instead of a page."
)
@click.option(
    "--markdown",
    "as_markdown",
    is_flag=True,
    help="At most 60 lines of Markdown, worst first, for a CI step summary.",
)
@click.option("--not-tested", is_flag=True, help="With --text: list what was not tested, and why.")
def report(
    bundle: Path | None, out: Path | None, as_text: bool, as_markdown: bool, not_tested: bool
) -> None:
    """Show a stored run.

    BUNDLE is the folder that `consistency run` wrote; default: the last one under reports/. The
    page is one file that needs nothing else:
    verdicts, a map of operators and backends, errors against size, the worst cases with the
    commands that repeat them.

    \b
    consistency report reports/TIME                              writes reports/TIME/report.html
    consistency report reports/TIME -o tonight.html
    consistency report reports/TIME --text
    consistency report reports/TIME --markdown >> "$GITHUB_STEP_SUMMARY"

    Exit status: 0 whatever fails in the bundle · 2 bad usage, or a damaged bundle
    """
    if as_text and as_markdown:
        raise UsageError(
            "--text and --markdown are two forms of the same report: ask for one of them"
        )
    if not_tested and not as_text:
        raise UsageError("--not-tested lengthens the terminal screen: add --text")
    bundle = last_run() if bundle is None else bundle
    if as_text:
        if out is not None:
            raise UsageError("--text writes to the terminal: leave -o out, or redirect its output")
        from ...report.replay import show

        show(bundle, not_tested=not_tested)
    elif as_markdown:
        from ...report.bundle_view import read
        from ...report.markdown import markdown

        text = markdown(read(bundle))
        if out is None:
            echo(text)
        else:
            _save(out, text)
    else:
        from ...report.page import write

        echo(f"wrote {write(bundle, out)}")


def _save(path: Path, text: str) -> None:
    try:
        write_named(path, text + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None
