"""docs/budgets.md: how large budgets are beside the results that they admit, operator by operator.

    python tools/budget_audit.py measure STORE.jsonl [--share I/N] [--only PATTERN…]
    python tools/budget_audit.py write STORE.jsonl… [-o docs/budgets.md]

A budget that exceeds the result admits everything (``tests/support/budgets/``). ``measure`` appends
a line per operator, dtype and direction to STORE, and goes on where an earlier run stopped; all of
them take a quarter of an hour of processor time.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))


def measure(options: argparse.Namespace) -> None:
    from tests.support.budgets.measure import entries, measured

    torch.set_num_threads(1)
    store = Path(options.store)
    known = {(row["operator"], row["dtype"], row["direction"]) for row in read([store])}
    part, parts = map(int, options.share.split("/"))
    for number, (operator, dtype, direction) in enumerate(entries(options.only)):
        if number % parts == part and (operator.name, dtype, direction) not in known:
            row = measured(operator, dtype, direction)
            with store.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


def read(stores: list[Path]) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for store in stores
        if store.exists()
        for line in store.read_text(encoding="utf-8").splitlines()
    ]


def write(options: argparse.Namespace) -> None:
    from tests.support.budgets.page import page

    text = page(read(list(map(Path, options.stores))))
    Path(options.output).write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("measure")
    one.add_argument("store")
    one.add_argument("--share", default="0/1")
    one.add_argument("--only", nargs="*", default=[])
    one.set_defaults(run=measure)
    two = commands.add_parser("write")
    two.add_argument("stores", nargs="+")
    two.add_argument("-o", "--output", default=str(ROOT / "docs" / "budgets.md"))
    two.set_defaults(run=write)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
