"""Commands that run cases from elsewhere: in another process, within bounds, or not at all."""

from __future__ import annotations

import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest

from consistency.cli import supervision
from consistency.core.model import Case
from consistency.storage.cases import CaseEntry
from consistency.storage.corpus.merging import write
from tests.support.commands import command
from tests.support.foreign_attacks import ATTACKS, WATCHED, case, tensor

HEALTHY = case("exp", tensor(40, values=["uniform", -1.0, 1.0], stop=5000))
CRASHES = """
import os, signal
from consistency import Backend

class Crashes(Backend):
    name = "crashes"
    def call(self, operator, args, kwargs):
        os.kill(os.getpid(), signal.SIGSEGV)
"""


# A small process between this one and the command: the system counts what a process held before
# it became another program, and this one may hold a gigabyte.
METER = """
import json, resource, subprocess, sys
ended = subprocess.run(sys.argv[1:], capture_output=True, text=True, timeout=300)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
words = [ended.returncode, ended.stdout, ended.stderr]
print(json.dumps([*words, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""


def run_process(*words: str, folder: Path) -> tuple[subprocess.CompletedProcess[str], float, int]:
    """A command in a process of its own: how it ended, its processor time, its largest memory."""
    program = [sys.executable, "-m", "consistency", *words]
    metered = subprocess.run(
        [sys.executable, "-S", "-c", METER, *program],
        capture_output=True, text=True, timeout=330, cwd=folder, check=True,
    )  # fmt: skip
    status, out, err, seconds, memory = json.loads(metered.stdout)
    ended = subprocess.CompletedProcess(program, status, out, err)
    return ended, seconds, memory * (1 if sys.platform == "darwin" else 1024)


@functools.cache
def startup() -> float:
    """Processor time, in seconds, of a command and its process that run next to nothing."""
    with tempfile.TemporaryDirectory() as folder:
        return run_process("repro", HEALTHY, "-b", "cpu", folder=Path(folder))[1]


def check_harmless(name: str, line: str, folder: Path) -> str:
    (folder / "case.json").write_text(line, encoding="utf-8")  # longer than a command line may be
    ended, seconds, memory = run_process("repro", "case.json", "-b", "cpu", folder=folder)
    assert ended.returncode in (1, 2), (name, ended)
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("\n") == 1, (name, ended.stderr)
    assert seconds < 10.0 + 1.5 * startup() + 0.5, name  # the system looks at intervals
    assert memory < 1.1e9, name
    return ended.stderr


needs_rusage = pytest.mark.skipif(os.name == "nt", reason="Windows has no resource module")


@needs_rusage
@pytest.mark.nightly
@pytest.mark.parametrize("name", [*ATTACKS, *WATCHED])
def test_no_attack_harms(name: str, tmp_path: Path) -> None:
    check_harmless(name, (ATTACKS | WATCHED)[name], tmp_path)


@pytest.mark.nightly
@needs_rusage
def test_the_process_is_ended_at_its_bounds(tmp_path: Path) -> None:
    told = check_harmless("split", WATCHED["split"], tmp_path)
    limit = "(1 GB of memory|10 s); a case from elsewhere may take 1 GB and 10 s"
    assert re.match(
        f"consistency: torch.split · float32 was ended: it took more than {limit}", told
    )
    assert "add --trust" in told


@pytest.mark.nightly
@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals to send")
def test_a_crash_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(CRASHES, encoding="utf-8")
    ended, *_ = run_process("repro", HEALTHY, "-b", "mine.py:Crashes", folder=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "✗ exp · float32   crash: the process that ran it ended (SIGSEGV)\n"


def test_a_foreign_case_runs_as_ones_own_does() -> None:
    foreign = command("repro {} -b cpu --json", HEALTHY)
    trusted = command("repro {} -b cpu --json --trust", HEALTHY)
    assert foreign.exit_code == trusted.exit_code == 0
    rows = [[json.loads(line) for line in ran.stdout.splitlines()] for ran in (foreign, trusted)]
    assert rows[0] == rows[1]


def test_what_is_not_allowed_is_one_line_before_it_runs() -> None:
    for name in ("reshape-alias", "exp"):
        refused = command("repro {} -b cpu", ATTACKS[name])
        assert refused.exit_code == 2
        assert refused.output.startswith("consistency: ")
        assert "add --trust" in refused.output


@pytest.mark.nightly
@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "words", ["explain cpu numpy --case {}", "bisect {}", "expect {} --ticket T -b cpu"]
)
def test_other_commands_that_run_a_case_have_the_same_bounds(words: str) -> None:
    refused = command(words, ATTACKS["data-ptr"])
    assert refused.exit_code == 2
    assert "not among the calls that a case from elsewhere may make" in refused.output


def test_ones_own_cases_run_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> int:
        raise AssertionError("a second process was started")

    monkeypatch.setattr(supervision, "_run", never)
    ran = command("run exp --dtype float32 --examples 2 --no-fingerprint -b cpu -o {}",
                  tmp_path / "own")  # fmt: skip
    assert ran.exit_code == 0
    rows = (tmp_path / "own" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    identifier = json.loads(rows[0])["id"]
    again = command("repro {} --id {} -b cpu", tmp_path / "own", identifier)
    assert again.exit_code in (0, 3)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two attacks, and a healthy case of the same kinds."""
    lines = [HEALTHY, ATTACKS["exp"], ATTACKS["reshape-alias"], ATTACKS["data-ptr"]]
    folder = tmp_path_factory.mktemp("foreign") / "corpus"
    write(folder, [CaseEntry(Case.from_line(line), ("forward",)) for line in lines], "c", own=False)
    return folder


def verdicts(path: Path) -> dict[str, str]:
    rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    found = {f"{row['operator']} {row['case_id']}": row for row in rows}
    for row in found.values():
        if row["verdict"] == "unsupported":
            assert "add --trust" in row["explanation"]
    return {name.partition(" ")[0] + str(i): row["verdict"]
            for i, (name, row) in enumerate(sorted(found.items()))}  # fmt: skip


def test_a_corpus_from_elsewhere_is_replayed_without_what_is_not_allowed(
    corpus: Path, tmp_path: Path
) -> None:
    words = "run --corpus {} -b cpu --direction forward --no-fingerprint --json {} -o {}"
    ran = command(words, corpus, tmp_path / "rows", tmp_path / "out")
    assert ran.exit_code == 0, ran.output
    assert sorted(verdicts(tmp_path / "rows").values()) == sorted(
        ["rounding", "unsupported", "unsupported", "unsupported"]
    )


@pytest.mark.nightly
def test_recordings_from_elsewhere_are_judged_without_what_is_not_allowed(
    corpus: Path, tmp_path: Path
) -> None:
    recorded = command("record --corpus {} -b cpu -o {}", corpus, tmp_path / "recording")
    assert recorded.exit_code == 0
    assert "3 unsupported" in recorded.output
    judged = command("judge {} --json {}", tmp_path / "recording", tmp_path / "rows")
    assert judged.exit_code == 0, judged.output
    assert "rounding" in verdicts(tmp_path / "rows").values()


def test_a_case_that_ends_the_process_costs_only_its_own_result(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        CRASHES.replace("        os.kill", "        if args[0].numel() == 40: os.kill")
        + "        return operator(*args, **kwargs)\n",
        encoding="utf-8",
    )
    others = [case("exp", tensor(n, values=["uniform", -1.0, 1.0], stop=5000)) for n in (39, 41)]
    entries = [CaseEntry(Case.from_line(line), ("forward",)) for line in (HEALTHY, *others)]
    write(tmp_path / "corpus", entries, "c", own=False)
    ran = command("run --corpus {} -b {} --direction forward --no-fingerprint --no-shrink --json "
                  "{} -o {}", tmp_path / "corpus", f"{tmp_path / 'mine.py'}:Crashes",
                  tmp_path / "rows", tmp_path / "out")  # fmt: skip
    assert ran.exit_code == 1, ran.output
    assert sorted(verdicts(tmp_path / "rows").values()) == ["crash", "rounding", "rounding"]


def test_bounds_use_both_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    from consistency.backends.subprocess.process import LostError, TimeWatch

    class Worker:
        seconds = 0.0

        def computed(self) -> float:
            return self.seconds

    worker: Any = Worker()
    watch = TimeWatch(worker, 10.0)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 20.0)
    watch()  # a busy machine: it waited for others
    worker.seconds = 11.0
    with pytest.raises(LostError, match="took more than 10 s"):
        watch()
    watch.restart()
    watch()
    monkeypatch.setattr(time, "monotonic", lambda: now + 100.0)
    with pytest.raises(LostError):  # it waits for something
        watch()
