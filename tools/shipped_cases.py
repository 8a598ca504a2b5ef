"""Chooses the cases that every run begins with: those that notice the most planted faults.

    python tools/shipped_cases.py select STATE              # all operators × dtypes: an hour
    python tools/shipped_cases.py select STATE --part 1/2   # every second one, beside another
    python tools/shipped_cases.py select STATE --only 'nn.*' --dtype 'uint*'
    python tools/shipped_cases.py shorten STATE             # after other limits in `selection`
    python tools/shipped_cases.py write STATE               # the files of the package
    python tools/shipped_cases.py replace STATE             # only what STATE holds
    python tools/shipped_cases.py reported STATE            # the inputs of public reports
    python tools/shipped_cases.py count STATE               # after a change of the files by hand
    python tools/shipped_cases.py further STATE             # cases where `one-off` is not noticed
    python tools/shipped_cases.py reach STATE               # cases for conditions that none meets
    python tools/shipped_cases.py plain STATE               # plain calls that none is
    python tools/shipped_cases.py alone STATE               # plain calls with one special number
    python tools/shipped_cases.py zeros STATE               # gradients at zeros
    python tools/shipped_cases.py corners STATE             # no elements, six dimensions, …
    python tools/shipped_cases.py promoted STATE            # an operand of another dtype
    python tools/shipped_cases.py formats STATE             # the first dtype's cases in others
    python tools/shipped_cases.py called STATE              # other programs' calls (calls-*.jsonl)
    python tools/shipped_cases.py add STATE                 # these into the files

What the package's cases are worth, without choosing any (docs/adequacy.md):

    python tools/shipped_cases.py measure STATE --first 400 # planted faults; operators at random
    python tools/shipped_cases.py one-off STATE             # one element 1% off, in quick runs
    python tools/shipped_cases.py page STATE                # the page, of what both measured

STATE is a folder outside of the package, where one line per operator × dtype is kept: a selection
that was interrupted goes on. To choose again, delete it.
"""

from __future__ import annotations

import argparse
import fnmatch
import gzip
import json
import random
import sys
import time
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
COMMANDS = (
    "select", "shorten", "write", "replace", "count", "further", "reach", "plain", "alone",
    "zeros", "corners", "promoted", "formats", "called", "reported", "add", "measure", "one-off",
    "page",
)  # fmt: skip
# Files of a state. Other programs' calls are lines of an operator, a dtype and a case, and of the
# "issue" where they are a report's.
ONE_OFF, FURTHER, MEASURED, CALLS = "one-off", "further", "measured", "calls"
# Those that most runs test come first.
ORDER = ("float32", "float16", "bfloat16", "float64", "int64", "int32", "bool", "complex64")


def select(state: Path, part: int, parts: int, only: str, dtypes: str) -> None:
    """Appends one line per operator × dtype to a file of ``state``."""
    from tests.support.adequacy.selection import select as select_cases

    state.mkdir(parents=True, exist_ok=True)
    done = {(row["operator"], row["dtype"]) for row in rows(state)}
    began = time.monotonic()
    with (state / f"part-{part}-of-{parts}.jsonl").open("a", encoding="utf-8") as stream:
        for number, (operator, dtype) in enumerate(pairs()):
            chosen = number % parts == part - 1 and fnmatch.fnmatchcase(operator.name, only)
            chosen = chosen and fnmatch.fnmatchcase(dtype, dtypes)
            if not chosen or (operator.name, dtype) in done:
                continue
            found = select_cases(operator, dtype)
            row = {
                "operator": operator.name,
                "dtype": dtype,
                "cases": [case.to_json() for case in found.cases],
                "shown": sorted(map(": ".join, found.shown)),
                "noticed": sorted(map(": ".join, found.noticed)),
            }
            stream.write(json.dumps(row, sort_keys=True) + "\n")
            stream.flush()
            print(
                f"{time.monotonic() - began:6.0f} s  {number:5} {operator.name} {dtype}: "
                f"{len(found.cases)} cases, {len(found.noticed)} of {len(found.shown)}",
                flush=True,
            )


def shorten(state: Path) -> None:
    """Brings an earlier selection to the present numbers of cases, and measures again what those
    that are left notice."""
    from consistency import operators
    from consistency.core.model import Case
    from tests.support.adequacy.measure import look
    from tests.support.adequacy.selection import most_of, paired

    changed = state / "part-shortened.jsonl"
    with changed.open("a", encoding="utf-8") as stream:
        for row in list(rows(state)):
            operator, dtype = operators.get(row["operator"]), row["dtype"]
            cases = [Case.from_json(case) for case in row["cases"]]
            kept = cases[: most_of(dtype)]
            pair = paired(operator, kept) if dtype == "float32" and kept else []
            if len(kept) == len(cases) and all(case in cases for case in pair):
                continue
            if len(kept) < len(cases):
                row["noticed"] = sorted(map(": ".join, look(operator, kept).noticed))
            row["cases"] = [case.to_json() for case in (*kept, *pair)]
            stream.write(json.dumps(row, sort_keys=True) + "\n")
            stream.flush()


def pairs() -> list[tuple[Any, str]]:
    """Every operator × dtype."""
    from consistency import operators

    found = [(o, d) for o in operators.registry().values() for d in o.dtypes]
    return sorted(found, key=lambda p: (ORDER.index(p[1]) if p[1] in ORDER else 9, p[1], p[0].name))


def rows(state: Path) -> Iterator[dict[str, Any]]:
    """What was selected so far, the last of each pair; an incomplete last line is left out."""
    found = {}
    for path in sorted(state.glob("part-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                row = json.loads(line)
                found[row["operator"], row["dtype"]] = row
    yield from found.values()


def write(state: Path) -> None:
    """Writes the files of the package from what was selected, and the reported cases."""
    from consistency import operators
    from consistency.generate.shipped.adequacy import FILE
    from consistency.generate.shipped.cases import FOLDER, REPORTED, path_of

    dropped = (
        (state / "dropped.txt").read_text().split() if (state / "dropped.txt").exists() else ()
    )
    families: dict[str, list[dict[str, Any]]] = {}
    shares: list[dict[str, Any]] = []
    for row in sorted(rows(state), key=lambda row: (row["operator"], row["dtype"])):
        family = operators.get(row["operator"]).family
        cases = without(row["cases"], dropped)
        if cases:
            families.setdefault(family, []).append(line(row["operator"], row["dtype"], cases))
        shares.append(share(row))
    families[REPORTED] = reported_rows(dropped)
    for path in FOLDER.glob("*.jsonl.gz"):
        path.unlink()
    total = 0
    for name, found in [*families.items(), (FILE.stem, shares)]:
        total += write_packed(path_of(name), found)
    write_counts()
    count = sum(len(r["cases"]) for found in families.values() for r in found)
    pairs = sum(map(len, families.values()))
    print(f"{count:,} cases of {pairs:,} operators × dtypes in {total:,} bytes")


def reported_rows(dropped: Collection[str] = ()) -> list[dict[str, Any]]:
    """The lines of the inputs of public reports."""
    from tests.support.adequacy import reported

    public: dict[tuple[str, str], list[Any]] = {}
    for _, case in reported.chosen():
        public.setdefault((case.operator, case.dtype), []).append(case.to_json())
    return [line(*key, without(cases, dropped)) for key, cases in sorted(public.items())]


def write_reported() -> None:
    """Writes the inputs of public reports again, and the counts."""
    from consistency.generate.shipped.cases import REPORTED, path_of

    write_packed(path_of(REPORTED), reported_rows())
    write_counts()


def replace_some(state: Path) -> None:
    """Replaces the cases of what was selected in the package's files, and leaves the others."""
    from consistency import operators
    from consistency.core.reading import lines
    from consistency.generate.shipped.adequacy import FILE
    from consistency.generate.shipped.cases import path_of

    selected = {(row["operator"], row["dtype"]): row for row in rows(state)}
    families = {operators.get(operator).family for operator, _ in selected}
    for name in [*sorted(families), FILE.stem]:
        kept = {(row["operator"], row["dtype"]): row for _, row in lines(path_of(name))}
        for key, row in selected.items():
            if name == FILE.stem:
                kept[key] = share(row)
            elif operators.get(key[0]).family == name and row["cases"]:
                kept[key] = line(*key, row["cases"])
        write_packed(path_of(name), [row for _, row in sorted(kept.items())])


def measure(state: Path, name: str, part: int, parts: int, only: str, first: int | None) -> None:
    """Plants every fault (``MEASURED``), or one element that is 1% off (``ONE_OFF``), into the
    package's cases of all operators × dtypes, or of the ``first`` of them in a random order."""
    from tests.support.adequacy import one_element
    from tests.support.adequacy.measure import compared

    look = compared if name == MEASURED else one_element.measured
    state.mkdir(parents=True, exist_ok=True)
    done = {(row["operator"], row["dtype"]) for row in lines_of(state, name)}
    with (state / f"{name}-{part}.jsonl").open("a", encoding="utf-8") as stream:
        for number, (operator, dtype) in enumerate(at_random()[:first]):
            chosen = number % parts == part - 1 and fnmatch.fnmatchcase(operator.name, only)
            if chosen and (operator.name, dtype) not in done:
                stream.write(json.dumps(look(operator, dtype)) + "\n")
                stream.flush()


def at_random() -> list[tuple[Any, str]]:
    """Every operator × dtype, in an order that is random and the same each time: whatever is
    measured first is a sample of all."""
    found = pairs()
    random.Random(0).shuffle(found)
    return found


def further(state: Path, part: int, parts: int) -> None:
    """Seeks cases that notice it where those of a quick run do not."""
    from consistency import operators
    from tests.support.adequacy.one_element import further as seek

    done = {(row["operator"], row["dtype"]) for row in lines_of(state, FURTHER)}
    with (state / f"{FURTHER}-{part}.jsonl").open("a", encoding="utf-8") as stream:
        for number, row in enumerate(list(lines_of(state, ONE_OFF))):
            missed = [d for d in ("forward", "backward") if row.get(d) in ("missed", "none")]
            key = row["operator"], row["dtype"]
            if not missed or number % parts != part - 1 or key in done:
                continue
            found = list(seek(operators.get(key[0]), key[1], missed))
            stream.write(
                json.dumps({"operator": key[0], "dtype": key[1], "missed": missed, "found": found})
                + "\n"
            )
            stream.flush()


def reach(state: Path, part: int, parts: int, only: str, dtypes: str, what: str) -> None:
    """Seeks cases that meet conditions on which defects depend, ``plain`` calls, gradients at
    ``zeros``, ``corners``, ``promoted`` operands, or cases of other ``formats``, where those of a
    quick run do not; forms of other operators (``.out``, ``.method``) come last."""
    from tests.support.adequacy import search

    seek = {
        "reach": search.further, "plain": search.plain, "alone": search.alone,
        "zeros": search.zeros, "corners": search.corners,
        "promoted": search.promoted, "formats": search.in_other_formats,
    }[what]  # fmt: skip

    state.mkdir(parents=True, exist_ok=True)
    done = {(row["operator"], row["dtype"]) for row in lines_of(state, FURTHER)}
    chosen = [
        (operator, dtype)
        for operator, dtype in sorted(pairs(), key=lambda pair: pair[0].family == "forms")
        if fnmatch.fnmatchcase(dtype, operator.dtypes[0] if dtypes == "first" else dtypes)
        and fnmatch.fnmatchcase(operator.name, only)
        and operator.cases is None
    ]
    told = dtypes.replace("*", "all")
    with (state / f"{FURTHER}-{told}-{part}.jsonl").open("a", encoding="utf-8") as stream:
        for operator, dtype in chosen[part - 1 :: parts]:
            if (operator.name, dtype) not in done:
                row = {"operator": operator.name, "dtype": dtype, "missed": []}
                failing: list[Any] = []  # on the CPU itself: to be looked into
                found = [{"case": case.to_json()} for case in seek(operator, dtype, failing)]
                row |= {"found": found, "failing": [case.line for case in failing]}
                stream.write(json.dumps(row) + "\n")
                stream.flush()


def called(state: Path, part: int, parts: int, only: str) -> None:
    """Chooses among calls that other people's programs and tests make, by what no case meets."""
    from consistency import operators
    from consistency.core.model import Case
    from tests.support.adequacy.search import called as chosen

    calls: dict[tuple[str, str], list[Case]] = {}
    reports: set[tuple[str, str]] = set()
    for row in lines_of(state, CALLS):
        operator = operators.get(row["operator"])
        usable = row["dtype"] in operator.dtypes and "random" not in operator.traits
        if usable and operator.cases is None and fnmatch.fnmatchcase(operator.name, only):
            case = Case.from_json(row["case"])
            calls.setdefault((operator.name, row["dtype"]), []).append(case)
            if "issue" in row:
                reports.add((operator.name, row["dtype"]))
    done = {(row["operator"], row["dtype"]) for row in lines_of(state, FURTHER)}
    with (state / f"{FURTHER}-called-{part}.jsonl").open("a", encoding="utf-8") as stream:
        for key in sorted(calls)[part - 1 :: parts]:
            if key not in done:
                failing: list[Case] = []
                operator, reported = operators.get(key[0]), key in reports
                found = chosen(operator, key[1], calls[key], failing, reported=reported)
                row = {"operator": key[0], "dtype": key[1], "missed": []}
                row |= {"found": [{"case": case.to_json()} for case in found]}
                row |= {"failing": [case.line for case in failing]}
                stream.write(json.dumps(row) + "\n")
                stream.flush()


def lines_of(state: Path, name: str) -> Iterator[dict[str, Any]]:
    """The rows of the files of one kind."""
    for path in sorted(state.glob(f"{name}-*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
            if line.endswith("\n"):
                yield json.loads(line)


def add(state: Path) -> None:
    """Adds the further cases to the files of the package."""
    from consistency import operators
    from consistency.core.model import Case
    from consistency.core.reading import lines
    from consistency.generate.shipped.cases import path_of

    wanted: dict[str, dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for row in lines_of(state, FURTHER):
        family = operators.get(row["operator"]).family
        cases = [found["case"] for found in row["found"]]
        of_family = wanted.setdefault(family, {})
        of_family.setdefault((row["operator"], row["dtype"]), []).extend(cases)
    for family, added in wanted.items():
        path = path_of(family)
        found = {(row["operator"], row["dtype"]): row for _, row in lines(path)}
        for key, cases in added.items():
            kept = found.setdefault(key, line(*key, []))["cases"]
            ids = {Case.from_json({"operator": key[0], "dtype": key[1], **c}).id for c in kept}
            new = {Case.from_json(c).id: c for c in cases}
            kept += line(*key, [c for name, c in new.items() if name not in ids])["cases"]
        rows = [found[key] for key in sorted(found) if found[key]["cases"]]
        write_packed(path, rows)
    write_counts()


def write_counts() -> None:
    """Counts the cases in the package's files, so that a run knows without reading them all."""
    from consistency.core.reading import lines
    from consistency.generate.shipped.adequacy import FILE
    from consistency.generate.shipped.cases import COUNTS, FOLDER, path_of

    counts: dict[tuple[str, str], int] = {}
    for packed in sorted(FOLDER.glob("*.jsonl.gz")):
        name = packed.name.partition(".")[0]
        for _, row in lines(path_of(name)) if name not in (COUNTS, FILE.stem) else ():
            key = row["operator"], row["dtype"]
            counts[key] = counts.get(key, 0) + len(row["cases"])
    found = [{"operator": o, "dtype": d, "cases": n} for (o, d), n in sorted(counts.items())]
    write_packed(path_of(COUNTS), found)


def write_packed(path: Path, rows: list[dict[str, Any]]) -> int:
    """Writes one packed file; returns its bytes."""
    text = "".join(json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
    packed = gzip.compress(text.encode("utf-8"), 9, mtime=0)
    return path.with_name(f"{path.name}.gz").write_bytes(packed)


def write_page(state: Path) -> None:
    """Writes docs/adequacy.md of what ``state`` measured; a part that it lacks stays as it is."""
    import torch

    from tests.support.adequacy.page import FILE, SECTION, one_element, page

    text, _, section = FILE.read_text(encoding="utf-8").partition(SECTION)
    section, of = f"{SECTION}{section}", len(pairs())
    if measured := list(lines_of(state, MEASURED)):
        version = torch.__version__.partition("+")[0]
        text = "\n".join(page(measured, version, of)) + "\n"
    if single := list(lines_of(state, ONE_OFF)):
        section = "\n".join(one_element(single, of)) + "\n"
    FILE.write_text(text + section, encoding="utf-8")


def without(cases: list[dict[str, Any]], dropped: Collection[str]) -> list[dict[str, Any]]:
    """The cases that were not found to be unusable."""
    from consistency.core.model import Case

    return [case for case in cases if Case.from_json(case).id not in dropped]


def line(operator: str, dtype: str, cases: list[dict[str, Any]]) -> dict[str, Any]:
    """One line of a file: what all of its cases share is told once."""
    kept = [
        {
            k: without_derived(v)
            for k, v in case.items()
            if k not in ("operator", "dtype") and v not in ({}, [], 0)
        }
        for case in cases
    ]
    return {"operator": operator, "dtype": dtype, "cases": kept}


def without_derived(value: Any) -> Any:
    """An argument whose literal tensors lack what their bytes tell: length and SHA-256."""
    if isinstance(value, list):
        return [without_derived(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"literal"} and "hex" in value["literal"]:
        body = value["literal"]
        left_out = {"sha256", "bytes", *(() if body.get("offset") else ("offset",))}
        return {"literal": {k: v for k, v in body.items() if k not in left_out}}
    return {k: without_derived(v) for k, v in value.items()}


def share(row: dict[str, Any]) -> dict[str, Any]:
    """How many of the planted faults that any case shows are noticed, and which are not."""
    counts: dict[str, Any] = {"operator": row["operator"], "dtype": row["dtype"]}
    for direction in ("forward", "backward"):
        shown, noticed = (
            {item for item in row[name] if item.startswith(direction)}
            for name in ("shown", "noticed")
        )
        if shown:
            counts[direction] = [len(noticed & shown), len(shown)]
            missed = [item.partition(": ")[2] for item in sorted(shown - noticed)]
            counts |= {f"missed {direction}": missed} if missed else {}
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )

    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("state", type=Path)
    parser.add_argument("--part", default="1/1", help="which of how many parts, such as 1/2")
    parser.add_argument("--only", default="*", help="a pattern of operators")
    parser.add_argument(
        "--dtype", help="of `select` and `reach`: a pattern; `reach`: each operator's first"
    )
    parser.add_argument(
        "--first", type=int, help="of `measure`, `one-off`: how many of a random order"
    )
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    part, parts = map(int, chosen.part.split("/"))
    if chosen.command == "select":
        select(chosen.state, part, parts, chosen.only, chosen.dtype or "*")
    elif chosen.command in ("measure", ONE_OFF):
        name = ONE_OFF if chosen.command == ONE_OFF else MEASURED
        measure(chosen.state, name, part, parts, chosen.only, chosen.first)
    elif chosen.command == "page":
        write_page(chosen.state)
    elif chosen.command == "further":
        further(chosen.state, part, parts)
    elif chosen.command in ("reach", "plain", "alone", "zeros", "corners", "promoted", "formats"):
        reach(chosen.state, part, parts, chosen.only, chosen.dtype or "first", chosen.command)
    elif chosen.command == "called":
        called(chosen.state, part, parts, chosen.only)
    elif chosen.command == "add":
        add(chosen.state)
    elif chosen.command == "shorten":
        shorten(chosen.state)
    elif chosen.command == "replace":
        replace_some(chosen.state)
    elif chosen.command == "reported":
        write_reported()
    elif chosen.command == "count":
        write_counts()
    else:
        write(chosen.state)


if __name__ == "__main__":
    main()
