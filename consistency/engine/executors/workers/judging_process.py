"""The process in which a worker judges: the engine judges what requests name and replies with its
events as they come.

It is separate from the worker's own process, so that a case which ends it does not end the worker,
and so that it computes with the worker's number of threads. It ends when the worker does.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ....backends.subprocess import framing
from ....backends.subprocess.worker_main import listen, take_streams
from ....core import interrupts
from ....core.process_setup import freeze_garbage
from ....errors import ConsistencyError, UsageError

LABEL = "CONSISTENCY_LABEL"  # a variable that names the environment of a worker
SendReply = Callable[[framing.Header, Sequence[bytes]], None]


def main() -> None:
    requests, replies = take_streams()
    waiting: queue.Queue[framing.Frame] = queue.Queue()
    threading.Thread(target=listen, args=(requests, waiting), daemon=True).start()
    load()
    judge = JudgingProcess(lambda header, blobs: framing.write(replies, header, blobs))
    with interrupts.watched():
        while True:
            judge.answer(*waiting.get())


def load() -> None:
    """Load what every run needs, while the coordinator may still be loading torch."""
    from ....judge import tolerances
    from ... import config, unit_runner  # noqa: F401

    tolerances.load()


class JudgingProcess:
    """The service in a worker's process; ``reply`` sends a frame back."""

    def __init__(self, reply: SendReply) -> None:
        self._reply = reply
        self._config: Any = None
        self._brief = False  # what of a result is sent back (serialization.pack_event)
        # remaining seconds of the whole run for diagnosing failures, as in a serial run
        self._effort: float | None = None

    def answer(self, header: framing.Header, blobs: Sequence[bytes]) -> None:
        """Handle one request. Errors are replies, too."""
        try:
            if "config" in header:
                self._open(header["config"])
            if self._config is None:
                raise UsageError("it has no configuration")
            match header["kind"]:
                case "describe":
                    self._reply({"kind": "described", **self._description()}, ())
                case "judge":
                    self._judge(header, blobs)
                case "probe":
                    self._probe(header, blobs)
                case "fingerprint":
                    self._reply(
                        {"kind": "fingerprinted", "lines": self._fingerprints(header["backends"])},
                        (),
                    )
        except ConsistencyError as error:
            self._reply({"kind": "wrong", "text": str(error)}, ())
        except Exception as error:
            self._reply(
                {"kind": "wrong", "text": f"{type(error).__name__}: {str(error)[:300]}"}, ()
            )

    def _open(self, config_json: Any) -> None:
        """Take the coordinator's configuration, which a run's first request has."""
        from ....judge import tolerances
        from ... import config as run_config

        if self._config is not None:
            for backend in self._config.backends:
                backend.close()
        self._config = None
        rules = (
            tolerances.load()
            if config_json["tolerances"] is None
            else tolerances.from_text(*config_json["tolerances"])
        )
        config = run_config.configure(
            config_json["operators"], config_json["backends"], config_json["dtypes"],
            config_json["directions"],
            config_json["examples"], config_json["seed"],
            None, tolerances.with_texts(rules, config_json["expectations"]), config_json["shrink"],
            config_json["reference"], config_json["source"],
            config_json["case_timeout"], config_json["worker_memory"], config_json["repeat"],
            memory=config_json["memory"],
        )  # fmt: skip
        if config.tolerances.digest != config_json["digest"]:
            raise UsageError(
                "its rules are others (tolerances.yaml); install the same version of "
                "consistency there"
            )
        self._config, self._effort, self._brief = config, None, bool(config_json["brief"])
        freeze_garbage()

    def _description(self) -> dict[str, Any]:
        """The description of this machine and of each backend."""
        import torch

        from .... import backends
        from ....storage.bundle.machine import label_of, machine, tidy

        for backend in self._config.backends:
            backend.prefetch(())
        descriptions = {}
        for backend in self._config.backends:
            reason = backends.availability(backend)
            descriptions[backend.name] = {
                "reason": reason,
                "identity": {} if reason else backend.identity,
            }
        about = machine() | {
            "torch": str(torch.__version__),
            "threads": str(torch.get_num_threads()),
        }
        label = tidy(os.environ.get(LABEL, ""))
        called = label_of(
            {key: value for key, value in about.items() if key != "host"}, about["torch"]
        )
        return {"machine": about, "label": label, "called": called, "backends": descriptions}

    def _fingerprints(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """The fingerprints of some backends: cached, or measured now."""
        from ....probes.fingerprint import cache

        backends = [b for b in self._config.backends if b.name in names]
        return {
            b.name: cache.before(b) or (cache.probe(b) if cache.due(b, cache.LONG_SECONDS) else {})
            for b in backends
        }

    def _unit(self, header: framing.Header, blobs: Sequence[bytes]) -> Any:
        from ....core.codec import unpack_cases
        from ...plan import REPLAYED, operator_in
        from ...unit_cases import drawn
        from ...work_unit import Fresh, WorkUnit

        cases = tuple(unpack_cases(header, blobs))
        if header["origin"] == REPLAYED:
            operator = operator_in(self._config, cases[0])
        else:
            operator = self._config.operators_by_name.get(header["operator"])
        if operator is None:
            raise UsageError(f"the operator {header['operator']} is unknown there")
        more = {key: header[key] for key in ("problem", "round", "origin", "seed", "part", "more")}
        asked = header["fresh"]
        if asked is None:
            return WorkUnit(operator, header["dtype"], cases, **more)
        after, excluded = asked["after"], tuple(asked["excluded"])
        fresh = Fresh(asked["examples"], excluded, cases[after:])
        return drawn(WorkUnit(operator, header["dtype"], cases[:after], **more, fresh=fresh))

    def _judge(self, header: framing.Header, blobs: Sequence[bytes]) -> None:
        from ....diagnose.diagnosis_budget import DiagnosisBudget
        from ...events import Judged
        from ...unit_runner import RunState, judge_unit
        from .serialization import pack_drawn, pack_event

        unit = self._unit(header, blobs)
        if header["fresh"] is not None:
            ids = [case.id for case in unit.cases]
            self._reply({"kind": "event", "judged": [], "ids": ids}, (pack_drawn(unit),))
        cases = {case.id: case for case in unit.cases}
        requested = tuple(b for b in self._config.backends if b.name in header["backends"])
        config = replace(self._config, backends=requested)
        until = header["seconds"]
        earlier = self._earlier_results(header, cases, unit.operator.family)
        diagnosis_budget = (
            DiagnosisBudget() if self._effort is None else DiagnosisBudget(effort=self._effort)
        )
        state = RunState(
            {}, earlier, deadline=float("inf") if until is None else time.monotonic() + until,
            effort=header["effort"], cases_only=header["plain"], diagnosis_budget=diagnosis_budget,
            searched={tuple(kind) for kind in header["searched"]},
        )  # fmt: skip
        half = ""  # part of this case's results existed already: the others follow
        for event in judge_unit(config, unit, state):
            through = (
                [half] if half and not (isinstance(event, Judged) and event.case.id == half) else []
            )
            half = ""
            if isinstance(event, Judged) and event.fresh:
                through.append(event.case.id)
            elif isinstance(event, Judged) and any(
                r.comparison is not None or r.verdict.tested for r in event.results
            ):
                half = event.case.id
            packed = pack_event(event, cases, self._brief)
            self._reply({"kind": "event", "judged": through}, (packed,))
        self._effort = diagnosis_budget.effort
        searched = [list(kind) for kind in state.searched]
        self._reply(
            {"kind": "done", "spent": header["effort"] - state.effort, "searched": searched}, ()
        )

    def _earlier_results(self, header: framing.Header, cases: Any, family: str) -> Any:
        """Results that exist already, and those of cases that ended such a process."""
        from ....core.model import Result, kind
        from ....core.verdict import Verdict
        from ....diagnose.known_results import expected
        from ....storage.bundle import result_from_json
        from ...events import ResumeState

        path = Path("earlier")
        results = [
            result_from_json(path, n, row, cases)
            for n, row in enumerate(header["earlier"], start=1)
        ]
        backends = {backend.name: backend for backend in self._config.backends}
        results += [
            expected(
                Result(cases[case], backend, direction, Verdict(verdict), text, family=family),
                self._config.tolerances,
                backends[backend],
            )
            for case, backend, direction, verdict, text in header["crashed"]
        ]
        ended = {
            kind(r): r for r in reversed(results) if r.comparison is None and r.verdict.fails
        }  # not to be made smaller
        return ResumeState({result.key: result for result in results}, ended)

    def _probe(self, header: framing.Header, blobs: Sequence[bytes]) -> None:
        """Run one case on one backend to see whether this process survives: as it is judged, or
        the backend's call alone."""
        from ....backends import attempt
        from ....diagnose.case_runner import judge_case
        from ....generate.materialize import prepare

        unit = self._unit(header, blobs)
        backends = [b for b in self._config.backends if b.name in header["backends"]]
        case = next(case for case in unit.cases if case.id == header["case"])
        if header["alone"]:
            outcome = attempt(backends[0], unit.operator, prepare(case), header["direction"])
            survived = {"status": str(outcome.status), "text": outcome.message}
            self._reply({"kind": "survived", **survived}, ())
            return
        judge_case(
            case,
            unit.operator,
            backends,
            self._config.tolerances,
            (header["direction"],),
            against=self._config.reference,
        )
        self._reply({"kind": "survived"}, ())


__all__ = ["JudgingProcess", "main"]
