"""``consistency expect``: write an expectation for a failing case, with the narrowest condition
that was found by trying."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path

import click

from ...errors import UsageError
from ..echo import echo
from ..options import command, option, seconds


@command(short_help="Write an expectation for a failing case, with the narrowest condition.")
@click.argument("case", metavar="CASE")
@click.option(
    "--ticket",
    required=True,
    metavar="URL",
    help="Address of the issue that the divergence is reported in.",
)
@click.option(
    "--reason",
    metavar="TEXT",
    help="What goes wrong, in a few words [default: what was found out].",
)
@click.option(
    "--expires",
    metavar="DATE",
    help="Last day on which it is expected, such as 2027-01-31 [default: for ever].",
)
@click.option("--file", "-o", "path", type=click.Path(path_type=Path, dir_okay=False),
default=Path("expectations.yaml"),
              show_default=True, help=("The file that the entry is added to; of expectations, or "
              "of tolerances."))  # fmt: skip
@click.option(
    "--backend", "-b", "spec", metavar="SPEC", help="Where it fails [default: where it failed]."
)
@click.option(
    "--direction",
    type=click.Choice(["forward", "backward"]),
    help="Which direction fails [default: the one that failed].",
)
@option("identifier")
@click.option(
    "--bundle",
    "folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="A run with more cases of the operator [default: the one that CASE is from].",
)
@click.option(
    "--seconds",
    "limit",
    callback=seconds,
    default="20s",
    show_default=True,
    metavar="TIME",
    help="Longest that cases are run here to find the condition; 0s for none.",
)
@option("tolerances")
@option("expectations")
@option("trust")
def expect(
    case: str, ticket: str, reason: str | None, expires: str | None, path: Path, spec: str | None,
    direction: str | None,
    identifier: str | None, folder: Path | None, limit: float, tolerances: str | None,
    expectations: Sequence[str], trust: bool,
) -> None:  # fmt: skip
    """Write an expectation for a failing case, with the narrowest condition that covers its like.

    CASE is whatever `consistency repro` takes: a failure's folder, an id in a bundle under
    reports/, a case's line. The condition is found by trying: on the other cases of the bundle, and
    on drawn cases and relatives of this one that are run here. It covers the failing ones and, if
    it can be had, no passing one. The entry is added to the file as text; nothing else in it
    changes.

    \b
    consistency expect reports/TIME/failures/ID --ticket https://example.org/issues/431
    consistency expect matmul-3fa1c2d409 --ticket DML-431 --expires 2027-01-31 -o known.yaml
    consistency run --expectations known.yaml

    \b
    Exit status: 0 an entry was written · 2 it does not fail here, is expected already, or bad usage
    """
    from ..supervision import supervise

    supervise(case, identifier, trust=trust, more_seconds=limit)
    from ...core.text import printable
    from ...engine.known import propose
    from ...engine.known.failing_case import ProposalRequest
    from ...generate.calls.case_operator import operator_of
    from ...storage.lookup import find
    from ..foreign_case import admit

    def say(text: str) -> None:
        echo(printable(text))

    last = _date(expires)
    found = find(case, identifier)
    admit(found.case, operator_of(found.case))
    request = ProposalRequest(
        found,
        spec,
        direction,
        folder,
        limit,
        path,
        tolerances,
        tuple(expectations),
    )
    proposal = propose.propose(request, ticket=ticket, reason=reason, expires=last, say=say)
    say(f"wrote {proposal.written()}")
    for line in proposal.text.splitlines():
        say(line)
    for line in proposal.told:
        say(line)
    say(f"use it: consistency run --expectations {path}")


def _date(text: str | None) -> datetime.date | None:
    if text is None:
        return None
    try:
        date = datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--expires {text!r:.40} is no date; write it like 2027-01-31") from None
    if date < datetime.date.today():
        raise UsageError(f"--expires {date} has passed already; name a day to come")
    return date
