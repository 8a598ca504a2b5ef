"""The commands that read data from elsewhere, and what each may change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .inputs import NAMES, RUN, consistency, import_recording

Program = Callable[[Sequence[str]], None]
_STEMS = {name.partition(".")[0]: name for name in NAMES}


@dataclass(frozen=True)
class Target:
    """``line`` holds ``{bundle}`` and other inputs, of which the first is mutated most often;
    ``{out}`` is a new folder's parent, ``{own}`` a folder with the user's files, ``{case}`` a
    foreign case's line, ``{sql}`` and ``{formula}`` foreign texts.

    ``writes`` are patterns of what it may change among the inputs; ``weight`` is its share of
    mutations; ``refused`` is the exit status if the header of its first input is no header.
    """

    line: str
    writes: str = ""
    weight: int = 10
    refused: int | None = 2
    program: Program = consistency

    @property
    def runs_cases(self) -> bool:
        """Whether it runs foreign cases: in processes of their own, which take time to start, and
        up to their own bounds."""
        own = r"repro|judge|expect|bisect|check-onnx|.*--case|.*--corpus"
        return re.match(own, self.line) is not None

    @property
    def inputs(self) -> tuple[str, ...]:
        names = re.findall(r"\{(\w+)\}", self.line)
        return tuple(dict.fromkeys(_STEMS[name] for name in names if name in _STEMS))

    @property
    def named_from(self) -> tuple[str, ...]:
        """Inputs in which the ids and cases of its words stand."""
        names = {"{case_id}": "bundle", "{recorded_id}": "recording", "{line}": "failure"}
        return tuple(name for word, name in names.items() if word in self.line)


_PACKS = r"in/\w+/[\w-]+\.jsonl(\.gz)?|in/\w+/failures/.*|in/\w+/running\.lock"
_RESUMES = r"in/interrupted/.*"
ONE = "--examples 1 --dtype float32 --direction forward -b cpu --no-fingerprint"

TARGETS = (
    Target("report {bundle}", writes=r"in/bundle/report\.html", weight=30),
    Target("report {bundle} -o {out}/page.html", weight=20),
    Target("report {packed} -o {out}/page.html", weight=20),
    Target("report {old} -o {out}/page.html", weight=10),
    Target("report {bundle} --text --not-tested", weight=30),
    Target("report {packed} --text", weight=10),
    Target("report {bundle} --markdown", weight=20),
    Target("diff {bundle} {other}", weight=40),
    Target("diff {packed} {bundle} --json", weight=15),
    Target("diff {bundle} {old} --markdown", weight=15),
    Target("matrix {bundle} {other} -o {out}/site", refused=None, weight=25),
    Target("matrix {packed} -o {out}/site --no-artifacts", refused=None, weight=10),
    Target("matrix {bundle} -o {own}", refused=None, weight=4),
    Target("matrix {bundle} -o {other}", refused=None, weight=4),
    Target("query {{sql}} {bundle}", refused=None, weight=8),
    Target("query --filter verdict:fail {packed}", weight=10),
    Target("query --filter verdict:fail {bundle} {other} --json", refused=None, weight=20),
    Target("query {{sql}} {store}", writes=r"in/store\.duckdb.*", refused=None, weight=15),
    Target("pack {bundle}", writes=_PACKS, refused=None, weight=40),
    Target("pack {packed}", writes=_PACKS, refused=None, weight=10),
    Target("corpus show {corpus}", refused=None, weight=20),
    Target("corpus show {corpus} --json", refused=None, weight=10),
    Target("corpus check {corpus}", refused=None, weight=30),
    Target("corpus merge {corpus} {bundle} -o {out}/merged", weight=30),
    Target("corpus merge {failure} -o {out}/merged", refused=None, weight=20),
    Target("corpus merge {bundle} -o {own}", weight=4),
    Target("judge {recording}", weight=12),
    Target(
        "check-onnx {network} --against examples:linear-regression --replicas 2", refused=None,
        weight=4,
    ),  # where nothing is installed that reads it, it ends with 3
    Target("judge {recording} --json - -o {out}/judged", weight=4),
    Target("judge {recording} -o {own}", weight=2),
    Target("judge {recording} --tolerances {tolerances}", weight=3),
    Target("repro {failure}", refused=None, weight=9),
    Target("repro {failure} --script", refused=None, weight=3),
    Target("repro {failure} -b cpu --issue", refused=None, weight=2),
    Target("repro {failure} -b cpu -o {out}/again", refused=None, weight=2),
    Target("repro {bundle} --id {case_id} -b cpu", weight=4),
    Target("repro {recording} --id {recorded_id}", weight=5),
    Target("repro {case} -b cpu", refused=None, weight=6),
    Target("repro {{line}} -b cpu", refused=None, weight=18),
    Target("repro {{line}} -b numpy --minimize --seconds 1s", refused=None, weight=3),
    Target("expect {failure} --ticket X-1 --seconds 0s -o {out}/known.yaml", refused=None,
           weight=3),
    Target("expect {failure} --bundle {bundle} --ticket X-1 --seconds 0s -o {out}/known.yaml",
           refused=None, weight=2),
    Target("bisect {failure} --over cpu --over cpu+threads=1", refused=None, weight=2),
    Target("explain {fingerprint} {probed}", refused=None, weight=40),
    Target("explain {bundle}#cpu {other}#cpu", refused=None, weight=5),
    Target("explain cpu numpy --case {failure}", refused=None, weight=3),
    Target("explain linear {{formula}} --shape 2,3,2", refused=None, weight=4),
    Target("sweep linear --vary K=1..4 --points 2 --formula {{formula}} -o {out}/sweep",
           refused=None, weight=4),
    Target(f"{RUN} --no-shrink --resume --out {{interrupted}}", writes=_RESUMES, weight=4),
    Target(f"run --corpus {{corpus}} exp {ONE} -o {{out}}/run", weight=4),
    Target(f"run exp {ONE} --tolerances {{tolerances}} --no-bundle", weight=20),
    Target(f"run exp {ONE} --expectations {{expectations}} --no-bundle", weight=25),
    Target(f"run exp {ONE} --out {{own}}", refused=None, weight=2),
    Target("record --backend cpu --corpus {corpus} -o {out}/recording", weight=6),
    Target("record -b cpu --corpus {corpus} --resume -o {partial}", writes=r"in/partial/.*",
           refused=None, weight=4),
    Target("calibrate exp --examples 1 --seeds 0 -b cpu --dtype float32 --direction forward "
           "--worst {worst}", weight=4),
    Target("fingerprint --exhaustive exp --range 1..1.0001 -o {worst}",
           writes=r"in/worst\.(json|svg)", weight=15),
    Target("{foreign} {out}/imported", program=import_recording, refused=None, weight=25),
)  # fmt: skip

SQL = (
    "SELECT * FROM results", "SELECT * FROM changes", "SELECT count(*) FROM cells",
    "SELECT * FROM read_text('/etc/passwd')", "SELECT * FROM read_csv('{own}/report.html')",
    "COPY (SELECT 1) TO '{own}/x.csv'", "ATTACH '{own}/x.duckdb'", "INSTALL httpfs",
    "SELECT 1; SELECT 2", "PRAGMA version", "SET memory_limit='1TB'", "EXPORT DATABASE '{own}/x'",
    "SELECT getenv('HOME')", "SELECT * FROM '{own}/report.html'", "SELECT * FROM duckdb_settings()",
    "DROP TABLE nights",
    "SELECT chr(27) || '[31m'", "SELECT '\x1b[31m'", "SELECT \ud800", "SELECT", "", "(", "\x00",
    "SELECT " + "(" * 5000 + "1" + ")" * 5000, "CALL pragma_version()", "LOAD json",
    "CREATE TABLE x AS SELECT 1",
)  # fmt: skip
FORMULAS = (
    "x @ W.T + b", "x", "__import__('os').system('touch {own}/x')", "x.__class__", "().__class__",
    "x.numpy()", "x.data_ptr()", "open('{own}/x', 'w')", "x ** 10 ** 9", "9 ** 9 ** 9 ** 9",
    "torch.load('/etc/passwd')", "(" * 500 + "x" + ")" * 500, "x @", "lambda: x", "exit()", "b'x'",
    "[x for _ in iter(int, 1)]", "x.repeat(2 ** 40)", "'a' * 10 ** 10", "x;y", "x\x1b[31m",
    "x.as_strided((2 ** 30,), (0,))", "torch.zeros(2 ** 20, 2 ** 20)", "x.set_(x)", "x if x else b",
    "\ud800", "f'{{x}}'", "x[10 ** 30]", "x.sum(" + "9" * 5000 + ")", "x.__reduce__()",
    "eval('1')", "",
)  # fmt: skip
