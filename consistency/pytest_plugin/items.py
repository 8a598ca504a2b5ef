"""The items of ``consistency.suite``: one operator × dtype × direction × backend each."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from . import not_tested

if TYPE_CHECKING:
    from ..core.model import Case, Result
    from ..engine.config import RunConfig
    from ..operators.declare import Operator
    from ..report.failure_groups import FailureGroup

MOST_OTHERS = 3  # other faults that a message names
_spent = [0.0]  # seconds of this process for minimizing failures
_artifacts_left = [200]  # folders that this process may still write; nobody reads more
# By item, until its report: what became of the expectations that cover it.
STANDINGS: dict[str, list[dict[str, object]]] = {}
TESTED: dict[str, list[str]] = {}  # by item, until its report: not_tested.ATTRIBUTE


@dataclass(frozen=True)
class Item:
    """One operator × dtype × direction × backend of the suite."""

    config: RunConfig
    declared: Operator
    dtype: str
    direction: str
    backend: str
    artifacts: Path | None = None
    fail_fast: bool = False  # whether the first failing case ends the item

    @property
    def operator(self) -> str:
        """The operator's name, with the variant if PyTorch's database has several: ``norm/fro``."""
        from ..generate.calls import opinfo

        return "/".join(filter(None, (self.declared.name, opinfo.variant(self.declared))))

    @property
    def id(self) -> str:
        return f"{self.operator}-{self.dtype}-{self.direction}-{self.backend}"

    def check(self, record_property: Callable[[str, object], None]) -> None:
        """Judge every case of the item. Fails with the smallest failing case and the cause that its
        failing cases elect; skips when nothing could be tested."""
        __tracebackhide__ = True
        results = self._results()
        STANDINGS[self.id] = self._standings(results)
        self._record(results, record_property)
        failing = [r for r in results if r.verdict.fails]
        TESTED[self.id] = [self.backend, *_untested(results)]
        if failing:
            group, *others = self._groups(failing)
            self._record_failure(group, record_property)
            text = self._message(group, others, len(failing), len(results))
            pytest.fail(text, pytrace=False)
        if not any(r.verdict.tested for r in results):
            pytest.skip(_reason(results))

    def _results(self) -> list[Result]:
        from ..backends import availability, refusal
        from ..core.model import Case
        from ..diagnose import evaluation
        from ..engine import engine
        from ..engine.config import examples_of

        operator = self.declared
        config = self.config
        (backend,) = (b for b in self.config.backends if b.name == self.backend)
        examples = examples_of(config, self.dtype)
        cases, problem = (
            _cases(operator, self.dtype, examples, config.seed) if examples else ([], "")
        )
        begin = engine.shipped_cases(config, operator, self.dtype)
        further = engine.further_cases(config, operator, self.dtype)
        cases = [*begin, *engine.without(cases, begin), *further]
        problem = "" if begin else problem
        if not cases and not problem:
            problem = engine.NO_LARGE_CASE
        for verdict, reason in (
            ("unavailable", availability(backend)),
            ("unsupported", refusal(backend, operator, self.dtype, self.direction)),
            ("inconclusive", problem),
        ):
            if reason:
                stand_in = cases[0] if cases else Case(operator.name, self.dtype)
                return [
                    evaluation.unavailable(
                        stand_in, operator, backend, self.direction, reason, verdict
                    )
                ]
        judged = functools.partial(
            engine.judge_case,
            diagnosis_budget=engine.DiagnosisBudget(),
            against=self.config.reference,
        )
        results: list[Result] = []
        for position, case in enumerate(cases):
            backend.prefetch(
                (operator, coming, self.direction)
                for coming in cases[position : position + engine.AHEAD]
            )
            results += judged(case, operator, [backend], self.config.tolerances, (self.direction,))
            if self.fail_fast and any(result.verdict.fails for result in results):
                break
        backend.discard_prefetched()
        return results

    def _standings(self, results: list[Result]) -> list[dict[str, object]]:
        from ..engine.known.status import StatusCollector

        (backend,) = (b for b in self.config.backends if b.name == self.backend)
        entries = self.config.tolerances.expectations
        collector = StatusCollector(
            entries,
            {self.backend: backend.identity} if any(r.verdict.tested for r in results) else {},
        )
        for result in results:
            collector.add(result)
        return [standing.to_json() for standing in collector.covered()]

    def _record(
        self, results: list[Result], record_property: Callable[[str, object], None]
    ) -> None:
        counts = Counter(r.verdict.value for r in results)
        for name in ("operator", "dtype", "direction", "backend"):
            record_property(name, getattr(self, name))
        record_property("cases", len(results))
        record_property(
            "verdicts", " ".join(f"{name}:{count}" for name, count in sorted(counts.items()))
        )
        passing = [r.metrics.get("rho_max", 0.0) for r in results if r.verdict.tested]
        if passing:
            record_property("rho_max", max(passing))

    def _record_failure(
        self, group: FailureGroup, record_property: Callable[[str, object], None]
    ) -> None:
        """Properties for the JUnit file: the verdict, the cause, the work-around, the command."""
        from ..core.text import printable
        from ..report.failure import command

        shown = _shown(group)
        record = {
            "verdict": shown.verdict.value,
            "cause": group.elected.name,
            "workaround": shown.workaround,
        }
        for name, value in record.items():
            if value:
                record_property(name, value)
        record_property(
            "again", printable(command(shown, spec=self.config.specs.get(self.backend)))
        )

    def _groups(self, failing: list[Result]) -> list[FailureGroup]:
        """The item's failures by cause, those with the most evidence first; of these the worst one
        is minimized if time remains."""
        from ..engine import engine
        from ..report.failure_groups import Failures

        failures = Failures()
        for result in failing:
            failures.add(result)
        group, *others = failures.by_operator()[0]
        backends = [b for b in self.config.backends if b.name == self.backend]
        began, small = time.monotonic(), None
        if (
            _spent[0] < engine.MINIMIZATION_SECONDS
        ):  # nobody reads every small case if every item fails
            small = engine.smallest_failure(group.headed, self.declared, backends, self.config)
            _spent[0] += time.monotonic() - began
        return [replace(group, smallest=small), *others]

    def _message(
        self, group: FailureGroup, others: Sequence[FailureGroup], failing: int, judged: int
    ) -> str:
        from ..core.text import one_line
        from ..report.failure import message

        also = "".join(
            f"\n  also:    {other.headed.verdict}: {one_line(other.headed.explanation)}"
            for other in others[:MOST_OTHERS]
        )
        count = f"\n  {failing} of {judged} cases fail" if failing > 1 else ""
        shown = _shown(group)
        spec = self.config.specs.get(self.backend)
        return (
            message(shown, spec=spec, cause=str(group.elected))
            + also
            + count
            + self._write_artifact(shown)
        )

    def _write_artifact(self, result: Result) -> str:
        """Write the script and the issue; return a line that names their folder."""
        if self.artifacts is None or _artifacts_left[0] <= 0:
            return ""
        from ..errors import ConsistencyError
        from ..report import repro_script
        from ..storage.bundle import failure_id

        _artifacts_left[0] -= 1
        folder = self.artifacts / failure_id(result)
        spec = self.config.specs.get(self.backend)
        (identity,) = (b.identity for b in self.config.backends if b.name == self.backend)
        try:
            repro_script.write(folder, result, spec=spec, identity=identity)
        except (ConsistencyError, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            return f"\n  artifact: {folder} cannot be written: {reason}"
        current = Path.cwd()
        shown = folder.relative_to(current) if folder.is_relative_to(current) else folder
        return f"\n  artifact: {shown} (repro.py, issue.md)"


def _shown(group: FailureGroup) -> Result:
    """The result that a message is about: the smallest, else the worst with the elected cause."""
    return group.smallest or group.headed


def _reason(results: list[Result]) -> str:
    ((verdict, explanation), count) = Counter(
        (r.verdict.value, r.explanation) for r in results
    ).most_common(1)[0]
    return f"{verdict}: {explanation}" + (f" ({count} cases)" if count > 1 else "")


def _untested(results: list[Result]) -> tuple[str, str]:
    """The verdict and the reason where a backend was lost, or nothing was tested; else nothing."""
    lost = [r for r in results if r.verdict.value == not_tested.UNAVAILABLE]
    if not lost and any(r.verdict.tested for r in results):
        return "", ""
    one = (lost or results)[0]
    return one.verdict.value, one.explanation


@functools.lru_cache(maxsize=4)
def _cases(operator: Operator, dtype: str, examples: int, seed: int) -> tuple[list[Case], str]:
    """The cases of engine.draw, cached while the items of one operator × dtype run."""
    from ..engine import engine

    return engine.draw(operator, dtype, examples, seed)
