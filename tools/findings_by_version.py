"""The examples of docs/findings*.md under several Pythons, side by side: python
tools/findings_by_version.py PYTHON [PYTHON…]

The examples run as if they were typed, so that expressions print their values. Prints Markdown: for
every example the beginning of the text above it, what each Python printed, and a mark where the
first two differ. Whether a difference means that a defect was corrected is read by a person: some
examples show uninitialized memory, or depend on the processor.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = ("findings.md", "findings-gradients.md", "findings-float64.md")
SHARED = """
import math
import numpy
import numpy as np
import torch
import torch.nn.functional as F
"""
SECONDS = 600.0

# Compiled in `single` mode, an expression prints its value, as at the prompt. A line of JSON each.
AS_TYPED = """
import ast, contextlib, io, json, sys, warnings
warnings.simplefilter("ignore")
for code in json.load(sys.stdin):
    names, said = {}, io.StringIO()
    with contextlib.redirect_stdout(said):
        try:
            for statement in ast.parse(code).body:
                exec(compile(ast.Interactive([statement]), "example", "single"), names)
        except Exception as error:
            print(f"{type(error).__name__}: {error}")
    text = "\\n".join(x for x in said.getvalue().splitlines() if not x.startswith("<torch._C.Gen"))
    print(json.dumps(text.rstrip()), flush=True)
"""


class Example(NamedTuple):
    page: str
    title: str  # the beginning of the paragraph above it
    code: str


def examples(page: str, text: str) -> Iterator[Example]:
    """The Python blocks of a page, each with the last paragraph that stands before it."""
    position = 0
    title = ""
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        paragraphs = re.split(r"\n\s*\n", text[position : block.start()].strip())
        if paragraphs[-1].strip():
            title = " ".join(paragraphs[-1].split()).replace("**", "")
        yield Example(page, title[:90], block[1])
        position = block.end()


def printed(python: str, codes: Sequence[str]) -> list[str]:
    """What each example prints there. The next one after a crash begins in a new process."""
    texts: list[str] = []
    while len(texts) < len(codes):
        done = subprocess.run(
            [python, "-X", "utf8", "-c", AS_TYPED],
            input=json.dumps([SHARED + code for code in codes[len(texts) :]]),
            encoding="utf-8", capture_output=True, timeout=SECONDS,
        )  # fmt: skip
        texts += [json.loads(line) for line in done.stdout.splitlines()]
        if len(texts) < len(codes):
            reason = done.stderr.rstrip().splitlines()[-1:] or [""]
            texts.append(f"ended with status {done.returncode} {reason[0]}".rstrip())
    return texts


def rows(found: Sequence[Example], pythons: Sequence[str]) -> Iterator[str]:
    said = [printed(python, [example.code for example in found]) for python in pythons]
    for number, (example, *outputs) in enumerate(zip(found, *said, strict=True), 1):
        mark = "differs" if len(set(outputs[:2])) > 1 else "same"
        yield f"## {number} {mark}: {example.page}: {example.title}\n"
        for python, output in zip(pythons, outputs, strict=True):
            yield f"{python}\n```text\n{output}\n```"


def main() -> None:
    pythons = sys.argv[1:]
    if not pythons:
        sys.exit(__doc__)
    found = [
        example
        for page in PAGES
        for example in examples(page, (DOCS / page).read_text(encoding="utf-8"))
    ]
    for row in rows(found, pythons):
        print(row, flush=True)


if __name__ == "__main__":
    main()
