"""The ``consistency`` command: a thin front on the engine. Errors of ours become one line and exit status 2."""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

import click

from . import __version__
from .errors import ConsistencyError, UsageError, did_you_mean

PROFILES = {"quick": 10, "default": 50, "nightly": 200}

EXIT = """\b
Exit status: 0 consistent · 1 a verdict fails · 2 bad usage or configuration
3 a backend that was asked for could not be judged, and nothing failed."""


class _Group(click.Group):
    """Unknown commands get a suggestion; every error of ours one line."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is None:
            hint = did_you_mean(cmd_name, self.list_commands(ctx))
            raise UsageError(f"there is no command {cmd_name!r}{hint or '; `consistency --help` lists them'}")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ConsistencyError as error:
            click.echo(f"consistency: {error}", err=True)
            ctx.exit(2)
        except BrokenPipeError:  # `consistency … | head`
            sys.stderr.close()
            ctx.exit(0)


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EXIT)
@click.version_option(__version__, prog_name="consistency")
def main() -> None:
    """Does the same PyTorch operator give the same numbers on every backend?

    Draws inputs for each operator, runs them on every backend, and judges each result against float64 in one unit, × budget: below 1
    is rounding, above is a divergence, shown with the command that repeats it.

    \b
    consistency run                          everything that is available here, in a minute or two
    consistency run matmul 'nn.functional.*' --backend cpu --backend cuda
    consistency backends                     what is available, and why not
    consistency operators --family pooling   what is covered
    """


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)?", value.strip())
    if not match:
        raise click.BadParameter(f"{value!r} is not a time; write 90s, 5m or 2h")
    return float(match[1]) * {"s": 1, None: 1, "m": 60, "min": 60, "h": 3600}[match[2]]


_backend = click.option("--backend", "-b", "backends", multiple=True, metavar="SPEC", help="cpu, cpu+onednn=off, numpy, cuda:1+tf32, directml, file.py:attribute … (repeatable; default: all available).")  # fmt: skip
_direction = click.option("--direction", "directions", multiple=True, metavar="D", help="forward or backward (repeatable; default: both).")  # fmt: skip
_tolerances = click.option("--tolerances", metavar="FILE", help="A tolerances.yaml in place of the packaged one.")


@main.command()
@click.argument("operators", nargs=-1, metavar="[OPERATOR]...")
@_backend
@click.option("--dtype", "dtypes", multiple=True, metavar="D", help="float32, float64, float16, … (repeatable; default: each operator's own).")  # fmt: skip
@_direction
@click.option("--profile", metavar="NAME", default="quick", show_default=True, help="quick (10 cases per operator and dtype), default (50) or nightly (200).")  # fmt: skip
@click.option("--examples", type=click.IntRange(min=1), help="Cases per operator and dtype, in place of the profile's.")
@click.option("--seed", type=int, default=0, show_default=True, help="Other inputs for another number.")
@click.option("--time-budget", callback=_seconds, metavar="TIME", help="Go on with fresh inputs until 60s, 5m or 2h are over.")
@_tolerances
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Folder of the bundle [default: reports/TIME].")
@click.option("--resume", is_flag=True, help="Complete the interrupted bundle in --out.")
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True), help="Also write one object a line per result; - for standard output.")  # fmt: skip
@click.option("--not-tested", is_flag=True, help="List what was not tested, and why.")
@click.option("--no-bundle", is_flag=True, help="Write no bundle.")
@click.option("--no-shrink", is_flag=True, help="Show failing cases as they were drawn.")
def run(
    operators: Sequence[str], backends: Sequence[str], dtypes: Sequence[str], directions: Sequence[str], profile: str,
    examples: int | None, seed: int, time_budget: float | None, tolerances: str | None, out: Path | None, resume: bool,
    json_file: Path | None, not_tested: bool, no_bundle: bool, no_shrink: bool,
) -> None:  # fmt: skip
    """Draw inputs, run them everywhere, judge the differences.

    OPERATOR is a name as in torch (matmul, nn.functional.conv2d), a glob ('linalg.*') or family:NAME; default: all.

    \b
    consistency run --backend cpu --backend cuda --dtype float32
    consistency run matmul --examples 500 --json results.jsonl
    consistency run --profile nightly --time-budget 2h --out reports/tonight
    """
    from . import bundle, engine
    from .report.terminal import Screen, exit_status

    if profile not in PROFILES:
        raise UsageError(f"unknown profile {profile!r}{did_you_mean(profile, PROFILES) or '; known: ' + ', '.join(PROFILES)}")
    if resume and out is None:
        raise UsageError("--resume needs the folder to complete: add --out FOLDER")
    chosen = engine.settings(
        list(operators) or None, list(backends) or None, list(dtypes) or None, list(directions) or engine.DIRECTIONS,
        examples or PROFILES[profile], seed, time_budget, tolerances, not no_shrink,
    )  # fmt: skip
    folder = None if no_bundle else out or _new_folder()
    to_stdout = json_file is not None and str(json_file) == "-"
    screen = Screen(stream=sys.stderr if to_stdout else None, out=folder, not_tested=not_tested)
    handlers: list[engine.Handler] = []
    earlier = bundle.earlier_results(folder) if resume and folder is not None else None
    if folder is not None:
        handlers.append(bundle.Writer(folder, resume=resume))
    stream = _open(json_file)
    if stream is not None:
        handlers.append(_json_writer(stream))
    try:
        engine.drive(chosen, [*handlers, screen], earlier)
    except KeyboardInterrupt:
        screen.stop()
        again = f"; complete it with --resume --out {folder}" if folder else ""
        click.echo(f"interrupted after {screen.tally.results:,} results{again}", err=True)
        sys.exit(130)
    finally:
        if stream is not None and stream is not sys.stdout:
            stream.close()
    sys.exit(exit_status(screen.tally, asked=bool(backends)))


def _new_folder() -> Path:
    return Path("reports") / datetime.datetime.now().strftime("%Y-%m-%dT%H-%M-%S")


def _open(path: Path | None) -> IO[str] | None:
    if path is None:
        return None
    if str(path) == "-":
        return sys.stdout
    try:
        return path.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _json_writer(stream: IO[str]) -> Callable[[Any], None]:
    from .bundle import result_to_json
    from .engine import Judged, Shrunk

    def write(event: Any) -> None:
        results = event.results if isinstance(event, Judged) else (event.result,) if isinstance(event, Shrunk) else ()
        for result in results:
            stream.write(json.dumps(result_to_json(result)) + "\n")
        if results:
            stream.flush()

    return write


@main.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON array instead of text.")
@_backend
def backends(as_json: bool, backends: Sequence[str]) -> None:
    """List the backends: device, driver, versions, float64 or not, or why one is unavailable here."""
    from . import backends as known
    from .backends.listing import describe

    rows = [describe(b) for b in (known.resolve_all(list(backends)) if backends else known.catalogue())]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    for row in rows:
        float64 = {True: "float64", False: "no float64", None: ""}[row["float64"]]
        details = " · ".join(filter(None, [row["device"], row["driver"] and f"driver {row['driver']}", *row["versions"], float64]))
        click.echo(f"{'✓' if row['available'] else '–'} {row['name']:<18} {details if row['available'] else row['reason']}")


@main.command()
@click.argument("patterns", nargs=-1, metavar="[OPERATOR]...")
@click.option("--family", help="Only one family.")
@click.option("--json", "as_json", is_flag=True, help="One object a line: name, family, dtypes, directions, error model, traits.")
def operators(patterns: Sequence[str], family: str | None, as_json: bool) -> None:
    """List the operators: family, dtypes, directions."""
    from . import operators as registry

    chosen = registry.select([f"family:{family}"] if family else list(patterns) or None)
    if as_json:
        for o in chosen:
            row = {"name": o.name, "family": o.family, "dtypes": o.dtypes, "directions": o.directions, "error": o.error.kind}
            click.echo(json.dumps(row | {"traits": sorted(o.traits), "available": o.callable is not None}))
        return
    for o in chosen:
        absent = "" if o.callable is not None else "   (not in this torch)"
        click.echo(f"{o.name:<44} {o.family:<14} {' '.join(o.dtypes)}{'   ↔' if o.differentiable else ''}{absent}")
    families = len({o.family for o in chosen})
    click.echo(f"{len(chosen)} operators in {families} families; ↔ forward and backward", err=True)


@main.command()
@click.argument("case", metavar="CASE")
@_backend
@_direction
@_tolerances
@click.option("--json", "as_json", is_flag=True, help="One object a line per result.")
def repro(case: str, backends: Sequence[str], directions: Sequence[str], tolerances: str | None, as_json: bool) -> None:
    """Run one case again and say what comes out.

    CASE is a case's line of JSON, its id in a bundle under reports/ (matmul-3fa1c2d409), a failure's folder, or a file that holds the
    line. Exit status 1 if it fails again.
    """
    from . import engine
    from .bundle import result_to_json
    from .find import find_case
    from .backends import availability
    from .report.failure import message

    found = find_case(case)
    chosen = engine.settings([found.operator], list(backends) or None, None, list(directions) or engine.DIRECTIONS, tolerances=tolerances)
    absent = {b.name: availability(b) for b in chosen.backends}
    available = [b for b in chosen.backends if not absent[b.name]]
    for backend in chosen.backends:
        if backend not in available:
            click.echo(f"– {backend.name}: cannot run here: {absent[backend.name]}", err=True)
    results = engine.judge_case(found, chosen.operators[0], available, chosen.tolerances, chosen.directions)
    for result in results:
        if as_json:
            click.echo(json.dumps(result_to_json(result)))
        elif result.verdict.fails:
            click.echo(f"✗ {message(result)}")
        else:
            mark = {"passed": "✓", "warned": "!", "not tested": "–"}[result.verdict.group]
            click.echo(f"{mark} {result.operator} · {result.dtype} · {result.direction} · {result.backend}   {result.verdict}: {result.explanation}")
    if any(r.verdict.fails for r in results):
        sys.exit(1)
    sys.exit(3 if len(available) < len(chosen.backends) or not results else 0)
