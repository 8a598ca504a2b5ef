"""A process with bounds that answers requests about foreign cases, and is replaced if one ends
it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from ...backends.subprocess import framing
from ...backends.subprocess.process import START_SECONDS, LostError, TimeWatch, Worker
from ...backends.subprocess.worker_main import listen, take_streams
from ...core.foreign import Bounds
from ..executors.workers.start import start_process

Answer = Callable[[framing.Header, list[bytes]], tuple[framing.Header, Sequence[bytes]]]


class BoundedProcess:
    """Starts ``program`` on the first request, and again after it was lost. ``opening``: what it is
    sent first each time."""

    def __init__(self, program: str, opening: framing.Header, bounds: Bounds) -> None:
        self._program, self._opening, self._bounds = program, opening, bounds
        self._worker: Worker | None = None

    def ask(self, header: framing.Header, blobs: Sequence[bytes] = ()) -> framing.Frame:
        """The answer to one request. Raises LostError if the process ended, or had to be."""
        try:
            worker = self._started()
            watch = TimeWatch(worker, self._bounds.seconds)
            worker.send(header, blobs)
            answer, sent = worker.reply(time.monotonic() + START_SECONDS, watch)
        except LostError:
            self.close()
            raise
        if "wrong" in answer:
            raise LostError("crash", str(answer["wrong"]))
        return answer, sent

    def close(self) -> None:
        if self._worker is not None:
            self._worker.kill()
        self._worker = None

    def _started(self) -> Worker:
        if self._worker is None:
            import torch

            self._worker = start_process(
                torch.get_num_threads(), bounds=self._bounds, program=self._program
            )
            self._worker.send(self._opening)
            answer, _ = self._worker.reply(time.monotonic() + START_SECONDS)
            if "wrong" in answer:
                raise LostError("crash", str(answer["wrong"]))
        return self._worker


def serve(answer: Answer) -> None:
    """The other end: answer requests until the run has ended. An exception is the answer, too."""
    requests, replies = take_streams()
    waiting: queue.Queue[framing.Frame] = queue.Queue()
    threading.Thread(target=listen, args=(requests, waiting), daemon=True).start()
    while True:
        header, blobs = waiting.get()
        try:
            reply, sent = answer(header, blobs)
        except Exception as error:
            reply, sent = {"wrong": f"{type(error).__name__}: {str(error)[:300]}"}, ()
        framing.write(replies, reply, sent)
