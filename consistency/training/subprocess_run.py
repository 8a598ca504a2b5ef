"""A model run in a separate process: a crash or hang ends the pass of that backend only.

The process creates the model from its target's name, receives tensors that differ from ours, and
sends samples of what it computes and the calls that fail the fast check. Distances and verdicts are
computed here.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..backends.subprocess import framing
from ..backends.subprocess.backend import SubprocessBackend
from ..backends.subprocess.codec import unpack_outcome
from ..backends.subprocess.process import START_SECONDS, LostError, ProgramSource, Worker
from ..core.bits import to_bytes
from ..core.codec import unpack_cases
from ..core.trees import tensors_in
from ..errors import ConsistencyError, RecipeError
from ..judge.tolerances import Tolerances
from .bitwise_equality import digest, named_tensors
from .call_markers import CallMarker
from .reference_samples import KINDS, Distances, Key
from .rule_judge import CallSite, RuleJudge
from .run_pass import PassReport, PassRequest
from .training_task import Subject

PROGRAM = "from consistency.training.subprocess_main import main\nmain()\n"


class SubprocessRun:
    """``backend``'s process for the model named by ``target``; a call may take ``seconds``. Ended
    by :meth:`close`.

    ``reason``: why it cannot be used; empty if it can.
    """

    def __init__(
        self, backend: SubprocessBackend, target: str, subject: Subject, seconds: float
    ) -> None:
        self.backend, self.reason = backend, ""
        self._target, self._subject, self._seconds = target, subject, seconds
        self._path = CallMarker.create_file()
        self._marker = CallMarker(self._path)
        self._worker: Worker | None = None
        self._identity: dict[str, str] = {}
        self._replaced_tensors: dict[int, bytes] = {}
        self.reason = self._open()

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
        self._worker = None
        self._marker.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def judge(self, rules: Tolerances) -> RuleJudge:
        return RuleJudge(self.backend.name, self.backend.tolerance_key, self._identity, rules)

    def run_pass(
        self,
        request: PassRequest,
        found: Distances,
        judge: RuleJudge,
        stepped: Callable[[int], Any],
    ) -> PassReport:
        """Like :func:`.run_pass.run_pass`, in the process. Never raises if the process fails."""
        header = {
            "kind": "run", "steps": request.steps, "every": request.every, "local": request.local,
            "size": found.reference.samples.size,
            "replaced": list(self._replaced_tensors),
        }  # fmt: skip
        try:
            if self._worker is None and self._open():
                raise LostError("crash", self.reason)
            self._send(header, list(self._replaced_tensors.values()))
            while True:
                reply, blobs = self._receive()
                match reply["kind"]:
                    case "tapped":
                        step, kind, name = reply["key"]
                        found.add(
                            Key(int(step), KINDS[kind], str(name)),
                            np.frombuffer(blobs[0], np.float64),
                        )
                    case "step":
                        stepped(int(reply["step"]))
                    case "bound":
                        self._send({"bound": judge.bound(str(reply["name"]), str(reply["family"]))})
                    case "judge":
                        self._send(self._judge_call(reply, blobs, judge))
                    case "done":
                        return PassReport(
                            int(reply["calls"]), int(reply["looked_at"]), {str(k): int(v) for k,
                            v in reply["left_out"].items()},
                            str(reply["raised"]),
                        )  # fmt: skip
                    case _:
                        raise LostError(
                            "crash", f"its process could not do it: {str(reply.get('wrong'))[:300]}"
                        )
        except LostError as lost:
            return self._lost_report(lost)
        except (framing.WireError, OSError, KeyError, ValueError, TypeError, IndexError) as error:
            return self._lost_report(
                LostError(
                    "crash",
                    (
                        f"its process sent what is no reply ({type(error).__name__}: "
                        f"{str(error)[:80]})"
                    ),
                )
            )

    @staticmethod
    def _judge_call(
        reply: framing.Header, blobs: Sequence[bytes], judge: RuleJudge
    ) -> framing.Header:
        """Judge a call here; the process learns which calls cannot be judged."""
        try:
            (case,) = unpack_cases(reply["case"], blobs[: reply["split"]])
            own = unpack_outcome(reply["own"], blobs[reply["split"] :])
            rho = judge.judge(
                case, own, CallSite(int(reply["call"]), str(reply["module"]), int(reply["step"]))
            )
        except (ConsistencyError, RecipeError) as reason:
            return {"refused": str(reason)}
        return {"rho": rho, "full": judge.full}

    def _lost_report(self, lost: LostError) -> PassReport:
        count, running, text = self._marker.read()
        if self._worker is not None:
            self._worker.kill()
        self._worker = None
        where = f" in {text}" if running else f" after {text}" if count else ""
        return PassReport(count, lost=f"{lost.status}{where}: {lost}")

    def _open(self) -> str:
        """Start the process. Returns why it cannot be used, or an empty string."""
        backend = self.backend
        try:
            self._worker = Worker(
                ProgramSource(*backend.origin, PROGRAM), backend.limits.most_bytes
            )
            header: framing.Header = {
                "kind": "open", "spec": backend.spec, "target": self._target,
                "mark": str(self._path),
                "threads": torch.get_num_threads(),
            }  # fmt: skip
            if not backend.python:
                header["path"] = list(sys.path)
            self._worker.send(header)
            reply, _ = self._worker.reply(time.monotonic() + START_SECONDS)
            self.reason = str(reply["wrong"]) if "wrong" in reply else str(reply["reason"] or "")
            if not self.reason:
                self._identity = {str(k): str(v) for k, v in reply["identity"].items()}
                self.reason = self._compare(reply["state"])
        except LostError as lost:
            problem = (
                "did not start in time"
                if lost.status == "timeout"
                else f"could not be used: {lost}"
            )
            self.reason = f"its process {problem}"
        except OSError as error:
            self.reason = (
                f"its process could not be started: {error.strerror or error}: {backend.origin[0]}"
            )
        except (framing.WireError, KeyError, TypeError, AttributeError) as error:
            self.reason = f"its process sent what is no reply ({type(error).__name__})"
        if self.reason and self._worker is not None:
            self._worker.kill()
            self._worker = None
        return self.reason

    def _compare(self, remote_state: Sequence[Sequence[Any]]) -> str:
        """Determine which tensors the process needs from here because its factory made others;
        returns why that is impossible."""
        tensors = list(state(self._subject))
        kinds = [[str(t.dtype), list(t.shape)] for t in tensors]
        if kinds != [list(kind) for *kind, _ in remote_state]:
            return "in its process the target makes a model, or inputs, of other shapes"
        self._replaced_tensors = {
            i: to_bytes(t)
            for i, (t, (*_, remote_digest)) in enumerate(zip(tensors, remote_state,
            strict=True)) if digest(t) != remote_digest
        }  # fmt: skip
        return ""

    def _send(self, header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> None:
        assert self._worker is not None
        self._worker.send(dict(header), blobs)

    def _receive(self) -> framing.Frame:
        """The next message. Raises LostError if a call exceeds its time limit."""
        assert self._worker is not None
        limit, start_time = self._seconds, time.monotonic()
        last_state: tuple[int, bool] | None = None

        def check_time() -> None:
            nonlocal last_state, start_time
            count, running, _ = self._marker.read()
            if (count, running) != last_state:
                last_state, start_time = (count, running), time.monotonic()
            elif running and time.monotonic() - start_time > limit:
                raise LostError("timeout", f"no answer within {limit:g} s")

        return self._worker.reply(float("inf"), check_time)


def state(subject: Subject) -> Iterator[torch.Tensor]:
    """The initial tensors of a subject, in the same order in every process."""
    for owner in (subject.model, subject.loss):
        if hasattr(owner, "parameters"):
            yield from (
                tensor for _, tensor in named_tensors(owner) if tensor.layout == torch.strided
            )
    batches = subject.batches if isinstance(subject.batches, (list, tuple)) else ()
    yield from (
        t
        for t in tensors_in((subject.inputs, subject.targets, batches))
        if t.layout == torch.strided
    )
