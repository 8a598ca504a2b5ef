"""docs/float64.md: how far torch's float64 on this CPU is from certified values, operator by
operator.

    python tools/float64_errors.py measure STORE.jsonl [--cases 1000] [--share I/N] [--only
    PATTERN…] python tools/float64_errors.py write STORE.jsonl… -o docs/float64.md

``measure`` appends a line per operator and direction, and goes on where an earlier run stopped;
``--share 0/2`` and ``1/2`` are the halves for two processes. A case is drawn once in twenty; the
others are the same recipe with its numbers taken from elsewhere on the tape. Errors are in ulp of
float64, and in u·S (S: the magnitude that is summed; docs/judging.md, section 2).
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from consistency import operators
from consistency.core import recipe
from consistency.core.model import Case
from consistency.diagnose.evaluation import differentiates
from consistency.errors import ConsistencyError
from consistency.generate.materialize import prepare
from consistency.generate.search import batch
from consistency.operators.declare import Operator
from consistency.reference import Reference, quiet
from consistency.reference.proofs import spots

ELEMENTS = 2  # of every output of a case
SHIFTS = 20
MANY = 3600.0  # seconds for one operator and direction
NOT_OURS = frozenset(
    {"forms", "formulas", "programs", "optimizers", "foreach", "random", "sequences"}
)  # made of the others


def shifted(case: Case, by: int) -> Case:
    """The same recipe with numbers from elsewhere on the tape."""

    def moved(value: recipe.Arg) -> recipe.Arg:
        match value:
            case recipe.TensorRecipe() if value.stop:
                return replace(value, stop=value.stop + by)
            case list():
                return [moved(item) for item in value]
            case tuple():
                return tuple(moved(item) for item in value)
        return value

    kwargs = {name: moved(value) for name, value in case.kwargs.items()}
    return replace(
        case, args=tuple(map(moved, case.args)), kwargs=kwargs, cotangent=case.cotangent + by
    )


def cases(operator: Operator, count: int) -> Iterator[Case]:
    drawn = batch(operator, "float64", -(-count // SHIFTS))
    for turn in range(-(-count // max(len(drawn), 1))):
        for case in drawn:
            yield case if not turn else shifted(case, 4099 * turn)


def measured(operator: Operator, direction: str, count: int) -> dict[str, Any]:
    """The worst element of ``count`` cases, in ulp and in u·S, with the case that shows it."""
    row: dict[str, Any] = {"operator": operator.name, "family": operator.family,
    "direction": direction, "cases": 0, "elements": 0,
                           "ulp": 0.0, "scaled": 0.0, "unproved": 0, "reason": ""}  # fmt: skip
    until = time.monotonic() + MANY
    for case in cases(operator, count):
        if row["cases"] == count or time.monotonic() > until:
            break
        with quiet():
            try:
                reference = Reference(operator, prepare(case), direction)
                if reference.outcome.status == "ok":
                    look_at(reference, case, row)
            except (ConsistencyError, RuntimeError, LookupError, ValueError, TypeError) as error:
                row["reason"] = row["reason"] or f"{type(error).__name__}: {str(error)[:120]}"
                continue
        row["cases"] += 1
    return row


def look_at(reference: Reference, case: Case, row: dict[str, Any]) -> None:
    for index, output in enumerate(reference.outputs):
        tensor = output.tensor
        if tensor is None or not tensor.numel() or tensor.dtype != torch.float64:
            continue
        own = tensor.detach().reshape(-1).numpy().copy()
        places = spots(case.digest, index, own.size, ELEMENTS)
        reference.proofs.settle(index, places)
        row["unproved"] += sum((index, p) not in reference.proofs.certificates for p in places)
        row["reason"] = row["reason"] or reference.proofs.reason
        for place in places:
            certificate = reference.proofs.certificates.get((index, place))
            if certificate is not None and type(certificate.high) is float:
                note(reference, index, place, own[place], case, row)


def note(
    reference: Reference, index: int, place: int, own: float, case: Case, row: dict[str, Any]
) -> None:
    certificate = reference.proofs.certificates[index, place]
    row["elements"] += 1
    if own == certificate.high and not certificate.tail:
        return
    if not np.isfinite(certificate.high) or not np.isfinite(own):
        error = (
            0.0
            if own == certificate.high or (own != own and certificate.high != certificate.high)
            else np.inf
        )
    else:
        error = abs(own - certificate.high - certificate.tail)
    ulp = (
        error / float(np.spacing(max(abs(certificate.high), 2.0**-1022)))
        if np.isfinite(error)
        else 1e300
    )
    if ulp > row["ulp"] or ulp > 1.0:
        s = reference.magnitudes[index] if index < len(reference.magnitudes) else None
        if isinstance(s, torch.Tensor):
            s = float(
                torch.broadcast_to(s, reference.outputs[index].tensor.shape).reshape(-1)[place]
            )
        scaled = (
            float(error / (2.0**-53 * s)) if s and np.isfinite(error) and np.isfinite(s) else 0.0
        )
        if scaled > row["scaled"]:
            row["scaled"] = scaled
        if ulp > row["ulp"]:
            row |= {
                "ulp": float(ulp),
                "case": case.line,
                "place": place,
                "output": reference.outputs[index].name,
            }
            row |= {
                "got": repr(float(own)),
                "right": certificate.digits,
                "at": inputs_at(reference, index, place),
            }


def inputs_at(reference: Reference, index: int, place: int) -> str:
    """The numbers that a function of corresponding elements was given, or the shapes."""
    shape = tuple(reference.outputs[index].tensor.shape)  # type: ignore[union-attr]
    tensors = reference.arguments.tensors
    if "elementwise" in reference.operator.traits and all(tuple(t.shape) == shape for t in tensors):
        return ", ".join(repr(t.detach().reshape(-1)[place].item()) for t in tensors)
    return " ".join(str(list(t.shape)) for t in tensors)


def chosen(patterns: list[str]) -> list[tuple[Operator, str]]:
    rows = []
    for operator in operators.registry().values():
        if (
            operator.callable is None
            or operator.form_of is not None
            or operator.family in NOT_OURS
            or "float64" not in operator.dtypes
        ):
            continue
        if operator.error.kind in ("exact", "structure") or (
            patterns and not any(fnmatch.fnmatchcase(operator.name, p) for p in patterns)
        ):
            continue
        rows.append((operator, "forward"))
        if differentiates(operator, "float64"):
            rows.append((operator, "backward"))
    return rows


def measure(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    store = Path(options.store)
    known = {(row["operator"], row["direction"]) for row in read([store])}
    part, parts = map(int, options.share.split("/"))
    for number, (operator, direction) in enumerate(chosen(options.only)):
        if number % parts == part and (operator.name, direction) not in known:
            row = measured(operator, direction, options.cases)
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read(stores: list[Path]) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for store in stores
        if store.exists()
        for line in store.read_text(encoding="utf-8").splitlines()
    ]


def figure(value: float) -> str:
    """In ulp; beside a zero, or an infinity, there is nothing to count in."""
    if value >= 1e200:
        return "∞"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def page(rows: list[dict[str, Any]]) -> Iterator[str]:
    from consistency.backends.cpu import Cpu

    identity = Cpu().identity
    where = ", ".join(
        f"{key} {identity[key]}"
        for key in ("processor", "torch", "numpy", "blas", "mkl")
        if identity.get(key)
    )
    proved, count = sum(row["elements"] for row in rows), sum(row["cases"] for row in rows)
    yield from ("# float64 on the CPU, measured against certified values", "")
    yield (
        "For whoever takes float64 for the truth and wants to know how far it is from it, "
        "operator by operator."
    )
    yield ""
    yield (
        "Written by `tools/float64_errors.py`: the worst error of torch's float64 on one machine, "
        "compared with"
    )
    yield (
        "proved values ([judging](judging.md#10-proof)). Another processor has other kernels with "
        "other errors. This"
    )
    yield (
        f"one: {where}. {len(rows):,} operators × directions, {count:,} cases, "
        f"{proved:,} elements proved."
    )
    yield ""
    yield (
        "Errors are in ulp of the result, and in u·S (u = 2⁻⁵³; S is the magnitude that was "
        "summed). A large number of ulp beside"
    )
    yield (
        "a small one of u·S is cancellation (∞ where the exact value is 0); large in both is a "
        "defect ([findings](findings-float64.md))."
    )
    yield ""
    for direction, title in (("forward", "Forwards"), ("backward", "Gradients")):
        yield from (
            f"## {title}",
            "",
            "| operator | cases | worst, ulp | worst, u·S | where | torch | exact |",
            "|---|---|---|---|---|---|---|",
        )
        for row in sorted(
            (r for r in rows if r["direction"] == direction and r["elements"]),
            key=lambda r: (-min(r["ulp"], r["scaled"]), -r["ulp"]),
        ):
            place = (
                f"x = {row['at']}"
                if row.get("at") and "[" not in row["at"]
                else f"{row.get('at', '')} {row.get('output', '')}[{row.get('place', '')}]"
            )
            told = (place, row["got"], row["right"][:24]) if row["ulp"] else ("", "", "")
            scaled = figure(row["scaled"]) if row["scaled"] else "–"
            yield (
                f"| `{row['operator']}` | {row['cases']:,} | {figure(row['ulp'])} | {scaled} | "
                f"{' | '.join(told)} |"
            )
        yield ""
    missing = [row for row in rows if not row["elements"]]
    if missing:
        yield from ("## Not measured", "", "| operator | direction | reason |", "|---|---|---|")
        yield from (
            f"| `{row['operator']}` | {row['direction']} | {row['reason'] or 'nothing to prove'} |"
            for row in missing
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.add_argument("store")
    one.add_argument("--only", nargs="*", default=[])
    one.add_argument("--cases", type=int, default=1000)
    one.add_argument("--share", default="0/1")
    one.set_defaults(do=measure)
    two = commands.add_parser("write")
    two.add_argument("stores", nargs="+", type=Path)
    two.add_argument("-o", "--output", type=Path, required=True)
    two.set_defaults(
        do=lambda given: given.output.write_text(
            "\n".join(page(read(given.stores))).rstrip() + "\n", encoding="utf-8", newline="\n"
        )
    )
    options = parser.parse_args()
    options.do(options)


if __name__ == "__main__":
    main()
