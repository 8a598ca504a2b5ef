"""The command line in this process."""

from __future__ import annotations

import shlex

from click.testing import CliRunner, Result

from consistency.cli.main import main


def command(line: str, *values: object) -> Result:
    """``consistency LINE``. Values take the place of the words ``{}``; the rest of them follow."""
    rest = iter(values)
    words = [str(next(rest)) if word == "{}" else word for word in shlex.split(line)]
    return CliRunner().invoke(main, [*words, *map(str, rest)], prog_name="consistency")
