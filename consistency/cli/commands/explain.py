"""``consistency explain``: why two backends, or an operator and a formula, give different
numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ...core.files import write_named
from ...errors import UsageError, did_you_mean
from ..echo import echo
from ..options import command, option


@command(
    short_help=(
        "Why two backends, or an operator and a formula, differ: orders of summation, "
        "replayed bit for bit."
    )
)
@click.argument("a", metavar="A")
@click.argument("b", metavar="B", required=False)
@click.option(
    "--case",
    "case_text",
    metavar="CASE",
    help="A case as `repro` takes it: both backends compute it, and that is explained.",
)
@click.option(
    "--shape",
    metavar="N,N,…",
    help="Sizes of the operator, in the order of `sweep`'s dimensions: linear has N,K,M.",
)
@click.option(
    "--backend",
    "-b",
    default="cpu",
    show_default=True,
    metavar="SPEC",
    help="Where an operator and a formula are computed.",
)
@click.option(
    "--dtype", default="float32", show_default=True, metavar="D", help="float32, float64, bfloat16."
)
@option("seed", default=0)
@option("trust")
@click.option("--json", "as_json", is_flag=True, help="One object on standard output.")
@click.option(
    "--out",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The summation trees as a picture (SVG).",
)
def explain(
    a: str,
    b: str | None,
    case_text: str | None,
    shape: str | None,
    backend: str,
    dtype: str,
    seed: int,
    trust: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """Why A and B give different numbers.

    Of two backends, bundles (BUNDLE#BACKEND), or files that `fingerprint --json` wrote: what
    differs in how they compute, the strongest first. Of an operator and a formula of its arguments,
    or of two backends and a case: how far apart they are and whether that is rounding; then the
    order in which each adds its terms is found by probes, and replayed on the actual numbers.
    "Fully explained" is said only where that gives every output of both, bit for bit. Of functions
    of single elements, and of sums that probes do not reach, the errors of both are told in ulp.

    \b
    consistency explain linear 'x @ W.T + b' --shape 32,2048,512
    consistency explain exp 'exp2(x * 1.4426950408889634)'
    consistency explain matmul "einsum('ij,jk->ik', a, b)"
    consistency explain cpu cpu+env:ATEN_CPU_CAPABILITY=default
    consistency explain yesterday.json today.json
    consistency explain cpu numpy --case reports/TIME/failures/ID

    \b
    Exit status: 0 told · 1 the difference is more than rounding · 2 bad usage
    3 rounding, but not (fully) explained
    """
    if b is None:
        raise UsageError(_what_is_missing(a))
    if case_text is not None:
        from ..supervision import supervise

        supervise(case_text, trust=trust)
    from ...report.safe_console import SafeConsole

    with SafeConsole(stderr=True).status("looking") as status:
        if case_text is not None:
            explanation = _of_case(a, b, case_text, status.update)
        elif _is_explained(a):
            _check_no_backend(a, b)
            explanation = _of_formula(a, b, shape, backend, dtype, seed, status.update)
        else:
            left, right = (
                _fingerprint(a, b, status.update),
                _fingerprint(b, a, status.update),
            )
            explanation = None
    if explanation is None:
        if out is not None:
            raise UsageError(
                f"-o {out}: trees are drawn of an operator and a formula, or of two backends and "
                "a --case"
            )
        from ...core.text import printable
        from ...probes.explain import fingerprints

        documents = (
            [fingerprints.to_json(left, right)]
            if as_json
            else [printable(line) for line in fingerprints.lines(left, right)]
        )
        echo("\n".join(documents))
        return
    _tell(explanation, out, as_json=as_json)
    raise SystemExit(
        1
        if not explanation.rounding
        else 0
        if explanation.explained or not explanation.differing
        else 3
    )


def _is_explained(text: str) -> bool:
    """Whether it is an operator, which is explained beside a formula, and no backend."""
    from ... import backends as known
    from ...operators import registry
    from ...operators.public_names import find_name
    from ...probes.sweep.plans import PLANS

    if text in PLANS:
        return True
    return find_name(text, registry()) is not None and not known.is_known(text)


def _what_is_missing(a: str) -> str:
    """What to write beside A."""
    from ...core.text import quote

    if _is_explained(a):
        return (
            f"{a} is an operator; give a formula to compare it with: consistency explain "
            f"{quote(a)} 'FORMULA'; for example: "
            "consistency explain exp 'exp2(x * 1.4426950408889634)'"
        )
    other = "cpu" if a != "cpu" else "cpu+env:ATEN_CPU_CAPABILITY=default"
    return (
        f"what is {a:.80} to be compared with? Give a second backend, bundle or file: consistency "
        f"explain {quote(a)} {other}"
    )


def _check_no_backend(operator: str, formula: str) -> None:
    """Raises UsageError where a backend stands in the place of a formula."""
    from ... import backends as known
    from ...core.text import quote

    if known.is_known(formula):
        raise UsageError(
            f"{formula} is a backend, not a formula; to compare {operator} with a formula there: "
            f"consistency explain {quote(operator)} 'FORMULA' -b {quote(formula)}"
        )


def _fingerprint(text: str, other: str, say: Any) -> Any:
    """The fingerprint of a bundle, of a file that `consistency fingerprint --json` wrote, or
    measured on a backend."""
    from ... import backends as known
    from ...probes.explain import fingerprints
    from ...probes.fingerprint.collect import take
    from ...probes.sweep.plans import PLANS
    from ...storage.fingerprints import in_bundle

    stored = in_bundle(text, other)
    if stored is not None:
        return stored
    path = Path(text)
    if path.is_file() and not text.endswith(".py"):
        return fingerprints.read(path)
    if " " in text.strip():
        raise UsageError(
            f"{other!r:.40} is no operator; beside a formula, `explain` knows {', '.join(PLANS)}, "
            "and most operators of single elements, rows and products"
        )
    backend = known.resolve(text)
    try:
        _present(backend)
        return take(backend, step=lambda title: say(f"{backend.name}: {title}"))
    finally:
        backend.close()


def _of_case(a: str, b: str, text: str, say: Any) -> Any:
    from ... import backends as known
    from ...generate.calls.case_operator import operator_of
    from ...probes import explain as explaining
    from ...storage.lookup import find
    from ..foreign_case import admit

    case = find(text).case
    admit(case, operator_of(case))
    left, right = known.resolve_all([a, b])
    try:
        for backend in (left, right):
            _present(backend)
        return explaining.of_case(case, left, right, say)
    finally:
        left.close()
        right.close()


def _of_formula(
    operator: str, formula: str, shape: str | None, spec: str, dtype: str, seed: int, say: Any
) -> Any:
    from ... import backends as known
    from ...core.dtypes import FORMATS
    from ...probes import explain as explaining
    from ...probes.sweep.plans import plan_of

    plan = plan_of(operator)
    if dtype not in FORMATS:
        raise UsageError(
            f"--dtype "
            f"{dtype!r:.40}{did_you_mean(dtype, FORMATS) or '; known: ' + ', '.join(FORMATS)}"
        )
    backend = known.resolve(spec)
    try:
        _present(backend)
        return explaining.of_formula(
            plan, formula, backend, _sizes(plan, shape), dtype, seed=seed, say=say
        )
    finally:
        backend.close()


def _present(backend: Any) -> None:
    from ... import backends as known

    reason = known.availability(backend)
    if reason:
        raise UsageError(f"backend {backend.name!r} cannot be used here: {reason}")


def _sizes(plan: Any, shape: str | None) -> dict[str, int]:
    """``--shape 32,2048,512`` by the names of the operator's dimensions. Raises UsageError."""
    if shape is None:
        return {}
    names, parts = list(plan.usual), [part.strip() for part in shape.split(",")]
    if len(parts) != len(names) or not all(
        part.isascii() and part.isdecimal() and 0 < int(part) <= 1 << 20 for part in parts
    ):
        usual = ",".join(str(n) for n in plan.usual.values())
        raise UsageError(
            f"--shape {shape!r:.60}: {plan.operator} has the sizes {', '.join(names)}, such as "
            f"{usual}"
        )
    return dict(zip(names, map(int, parts), strict=True))


def _tell(explanation: Any, out: Path | None, *, as_json: bool) -> None:
    from ...core.text import printable
    from ...probes.explain import rendering

    if out is not None:
        picture = rendering.picture(explanation)
        if not picture:
            raise UsageError(
                f"no order of summation was found, so there is nothing to draw in {out}: "
                f"{rendering.lines(explanation)[-1]}"
            )
        try:
            out.parent.mkdir(parents=True, exist_ok=True)
            write_named(out, picture)
        except OSError as error:
            raise UsageError(
                f"cannot write {out}: {error.strerror}; name another file with -o"
            ) from None
    if as_json:
        echo(json.dumps(rendering.to_json(explanation)))
        return
    for line in rendering.lines(explanation):
        echo(printable(line))
    if out is not None:
        echo(f"wrote {out}")
