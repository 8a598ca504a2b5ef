"""The process started by :mod:`.subprocess_run`: creates the model by its target's name, runs
its steps on one backend, and has the parent judge every doubtful call."""

from __future__ import annotations

import queue
import sys
import threading
from collections.abc import Sequence
from typing import Any, BinaryIO

import torch

from .. import backends
from ..backends.base import prepared
from ..backends.subprocess import framing
from ..backends.subprocess.codec import pack_outcome
from ..backends.subprocess.worker_main import listen, take_streams
from ..core.codec import pack_cases
from ..core.model import Case, Outcome
from ..errors import ConsistencyError, UsageError
from . import model_targets
from .bitwise_equality import digest
from .call_markers import CallMarker
from .reference_samples import KINDS, Key, TensorSampler
from .rule_judge import CallSite
from .run_pass import PassRequest, run_pass
from .subprocess_run import state
from .training_task import Subject


def main() -> None:
    requests, replies = take_streams()
    waiting: queue.Queue[framing.Frame] = queue.Queue()
    threading.Thread(target=listen, args=(requests, waiting), daemon=True).start()
    served = _ServedModel(replies, waiting)
    while True:
        header, blobs = waiting.get()
        try:
            served.answer(header, blobs)
        except ConsistencyError as error:
            served.send({"kind": "wrong", "wrong": str(error)})
        except Exception as error:
            served.send({"kind": "wrong", "wrong": f"{type(error).__name__}: {str(error)[:300]}"})


class _ServedModel:
    """One subject on one backend; implements :class:`.per_op_check.CallJudge` by asking the
    parent process."""

    full = False

    def __init__(self, replies: BinaryIO, waiting: queue.Queue[framing.Frame]) -> None:
        self._replies, self._waiting = replies, waiting
        self._backend: Any = None
        self._subject: Subject | None = None
        self._marker: CallMarker | None = None

    def send(self, header: framing.Header, blobs: Sequence[bytes] = ()) -> None:
        framing.write(self._replies, header, blobs)

    def answer(self, header: framing.Header, blobs: Sequence[bytes]) -> None:
        if header["kind"] == "open":
            self.send({"kind": "opened", **self._open(header)})
        else:
            self._run(header, blobs)

    def _open(self, header: framing.Header) -> framing.Header:
        torch.set_num_threads(int(header["threads"]))
        sys.path += [entry for entry in header.get("path", ()) if entry not in sys.path]
        self._marker = CallMarker(header["mark"])
        self._backend = backends.resolve(str(header["spec"]), here=True)
        reason = prepared(self._backend)
        if reason:
            return {"reason": reason}
        self._subject = model_targets.named(str(header["target"])).settled()
        tensors = [[str(t.dtype), list(t.shape), digest(t)] for t in state(self._subject)]
        return {"reason": None, "identity": self._backend.identity, "state": tensors}

    def _run(self, header: framing.Header, blobs: Sequence[bytes]) -> None:
        if self._subject is None:
            raise UsageError("nothing was opened")
        tensors = list(state(self._subject))
        for position, blob in zip(header["replaced"], blobs, strict=True):
            with torch.no_grad():
                tensors[position].copy_(
                    torch.frombuffer(bytearray(blob), dtype=tensors[position].dtype).reshape(
                        tensors[position].shape
                    )
                )
        samples = TensorSampler(1)
        samples.size, self.full = int(header["size"]), False

        def tap(key: Key, tensor: torch.Tensor) -> None:
            self.send(
                {"kind": "tapped", "key": [key.step, KINDS.index(key.kind), key.name]},
                [samples.of(tensor).tobytes()],
            )

        request = PassRequest(int(header["steps"]), bool(header["every"]), bool(header["local"]))
        report = run_pass(
            self._subject,
            self._backend,
            request,
            tap,
            self,
            lambda step: self.send({"kind": "step", "step": step}),
            self._marker,
        )
        self.send(
            {
                "kind": "done", "calls": report.calls, "looked_at": report.looked_at,
                "left_out": dict(report.left_out),
                "raised": report.raised,
            }
        )  # fmt: skip

    def bound(self, name: str, family: str) -> float:
        self.send({"kind": "bound", "name": name, "family": family})
        return float(self._waiting.get()[0]["bound"])

    def judge(self, case: Case, own: Outcome, site: CallSite) -> float | None:
        packed, literals = pack_cases([case])
        outcome, results = pack_outcome(own)
        self.send(
            {
                "kind": "judge", "case": packed, "own": outcome, "split": len(literals),
                "call": site.call, "module": site.module,
                "step": site.step,
            },
            [*literals, *results],
        )  # fmt: skip
        reply, _ = self._waiting.get()
        if "refused" in reply:
            raise UsageError(str(reply["refused"]))
        self.full = bool(reply["full"])
        return None if reply["rho"] is None else float(reply["rho"])
