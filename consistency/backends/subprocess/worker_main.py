"""The worker's end: receive cases, run them on one backend, send the outcomes. Needs torch, NumPy
and this package only.

Messages use the original standard input and output; whatever a backend prints goes to standard
error. A worker ends with the process that started it: at once while Python runs, and after the time
limit if a case hangs outside of Python.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import queue
import sys
import threading
import time
import warnings
from dataclasses import replace
from typing import Any, BinaryIO

from ...core.codec import unpack_cases
from ...core.model import Case, Outcome
from ...core.verdict import OutcomeStatus
from . import framing
from .codec import pack_outcome

GRACE_SECONDS = 30.0  # beyond the time limit, before a case that hangs ends the worker by itself
CANARY_SECONDS = (
    0.5  # a case that took longer is not repeated to see whether the backend still works
)


def load() -> None:
    """Load what every worker needs, in the process that forks them."""
    from ...operators import registry
    from .. import base  # noqa: F401

    registry()


def main() -> None:
    requests, replies = take_streams()
    waiting: queue.Queue[framing.Frame] = queue.Queue()
    threading.Thread(target=listen, args=(requests, waiting), daemon=True).start()
    served = _Service(replies)
    while True:
        served.answer(*waiting.get())


def take_streams() -> tuple[BinaryIO, BinaryIO]:
    """The pipes to the run; other users of standard input and output get nothing, or standard
    error."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    if os.name == "nt":
        import ctypes

        windows: Any = ctypes
        windows.windll.kernel32.SetErrorMode(0x8003)  # a crash must not open a dialog
    return requests, replies


def listen(requests: BinaryIO, waiting: queue.Queue[framing.Frame]) -> None:
    """Reads requests; when the run has ended, the worker ends at once."""
    with contextlib.suppress(BaseException):
        while (frame := framing.read(requests)) is not None:
            waiting.put(frame)
    os._exit(0)


class _Service:
    """One backend and its state."""

    def __init__(self, replies: BinaryIO) -> None:
        self.replies = replies
        self.limit = 30.0
        self.backend: Any = None
        self.canary: tuple[Any, Any, str] | None = (
            None  # a case that worked: operator, materials, direction
        )
        self._held = False  # the device has held a tensor

    def answer(self, header: framing.Header, blobs: list[bytes]) -> None:
        kind, number = header.get("kind"), header.get("n", 0)
        if self.limit:
            faulthandler.dump_traceback_later(self.limit + GRACE_SECONDS, exit=True)
        reply: framing.Header
        sent: list[bytes] = []
        try:
            if kind == "open":
                reply = self._open(header, blobs)
            elif kind == "run":
                reply, sent = self._run(header, blobs)
            elif kind == "canary":
                self._keep_canary(header, blobs)
                reply = {}
            elif kind == "refusal":
                reply = {"reason": self._refusal(header)}
            elif kind == "grow":
                reply = {"bytes": self._device_bytes()}
            else:
                reply = {"wrong": f"{kind!r} is not understood"}
        except Exception as error:  # a bug of this program, or an invalid recipe
            reply = {
                "wrong": f"{type(error).__name__}: {str(error)[:300]}",
                "recipe": type(error).__name__ == "RecipeError",
            }
        faulthandler.cancel_dump_traceback_later()
        framing.write(self.replies, {**reply, "n": number}, sent)

    def _open(self, header: framing.Header, blobs: list[bytes]) -> framing.Header:
        import torch

        from ... import backends
        from ...errors import ConsistencyError
        from .. import _directml_adapters, batched_factors
        from ..base import prepared

        began = time.monotonic()
        batched_factors.leave_threads()  # who started this process can stop it
        self.limit = float(header["limit"])
        _directml_adapters.adopt(header.get("adapters"))
        sys.path += [entry for entry in header.get("path", ()) if entry not in sys.path]
        try:
            self.backend = backends.resolve(str(header["spec"]), here=True)
        except ConsistencyError as error:
            return {"reason": str(error)}
        reason = prepared(self.backend)
        if reason:
            return {"reason": reason}
        self._held = not self._cannot_hold()
        if header.get("canary"):
            self._keep_canary(header, blobs)
        try:
            float64, words = self.backend.has_float64(), list(self.backend.variants())
        except Exception:  # a user's own
            float64, words = None, []
        description = {
            "reason": None,
            "identity": self.backend.identity,
            "float64": float64,
            "variants": words,
        }
        return description | {
            "device": str(self.backend.device), "torch": torch.__version__,
            "adapters": _directml_adapters.known(), "seconds": time.monotonic() - began,
        }  # fmt: skip

    def _keep_canary(self, header: framing.Header, blobs: list[bytes]) -> None:
        """A case that worked in another process: repeated where one fails, to see what works."""
        canary = header["canary"]
        self.canary = (*self._materials(canary, blobs), str(canary["direction"]))

    def _materials(self, header: framing.Header, blobs: list[bytes]) -> tuple[Any, Any]:
        from ...generate.materialize import prepare

        (case,) = unpack_cases(header, blobs)
        return _operator(case), prepare(case)

    def _run(
        self, header: framing.Header, blobs: list[bytes]
    ) -> tuple[framing.Header, list[bytes]]:
        operator, materials = self._materials(header, blobs)
        backend, direction = self.backend, str(header["direction"])
        if header.get("variant"):
            backend = self.backend.variants()[header["variant"]]
        if header.get("formulation"):
            from ...operators.formulas import FORMULAS

            how = dict(FORMULAS[operator.name])[header["formulation"]]
            backend = backend.with_decomposition(header["formulation"], how)
        if materials.case.source:
            from ... import backends

            reason = backends.refusal(backend, operator, materials.case.dtype, direction)
            if reason:
                return pack_outcome(Outcome(OutcomeStatus.UNSUPPORTED, message=reason))
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = backend.run(operator, materials, direction, header.get("dtype"))
            changes = backend.state_changes.take()
            packed, sent = pack_outcome(replace(outcome, state_changes=changes))
        itself = not any(header.get(key) for key in ("dtype", "variant", "formulation"))
        if itself and outcome.ok and time.perf_counter() - began < CANARY_SECONDS:
            self.canary = (operator, materials, direction)
        elif outcome.status in ("raised", "unavailable"):
            packed["spoiled"] = self._spoiled()
        return packed, sent

    def _spoiled(self) -> str:
        """Why nothing works since a case failed, found by repeating a case that worked before;
        empty if it still works."""
        if self.canary is None:
            return self._cannot_hold() if self._held else ""
        outcome = self.backend.run(*self.canary)
        return "" if outcome.ok else f"{outcome.exception}: {outcome.message}"

    def _cannot_hold(self) -> str:
        """Why a tensor cannot be brought to the device and back; empty if it can."""
        import torch

        from ..base import failed

        try:
            torch.zeros(1).to(self.backend.device).cpu()
        except Exception as error:
            outcome = failed(error)
            return f"{outcome.exception}: {outcome.message}"
        return ""

    def _refusal(self, header: framing.Header) -> str | None:
        from ... import backends

        operator = _operator(Case(str(header["operator"]), str(header["dtype"])))
        return backends.refusal(
            self.backend, operator, str(header["dtype"]), str(header["direction"])
        )

    def _device_bytes(self) -> int:
        import torch

        device = str(self.backend.device)
        return int(torch.cuda.memory_allocated(device)) if device.startswith("cuda") else 0


def _operator(case: Case) -> Any:
    """The operator that a case calls; those of PyTorch's database need more than torch and
    NumPy."""
    if case.source:
        from ...generate.calls.case_operator import operator_of

        return operator_of(case)
    from ... import operators

    return operators.exactly(case.operator)
