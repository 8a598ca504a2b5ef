"""Fingerprints of a run's backends in its bundle: a handler of events."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from ..backends.base import Backend
from ..core.files import write_json
from ..core.output import writing
from ..probes.fingerprint import cache
from ..storage.bundle.header import stored_environment
from .events import Event, Finished, Started

Step = Callable[[str], None]  # called with the title of each probe
Progress = Callable[
    [Sequence[str], int], AbstractContextManager[Step]
]  # of these backends, so many probes in all


@contextlib.contextmanager
def _silent(names: Sequence[str], probes: int) -> Iterator[Step]:
    yield lambda title: None


class Fingerprints:
    """Follows the bundle's writer. Cached fingerprints are stored at the start; the others, which
    cost seconds, are measured after the run, so that an interruption (Ctrl-C) loses nothing
    else."""

    def __init__(
        self, folder: Path, wanted: bool | None = None, progress: Progress = _silent
    ) -> None:
        """``wanted``: None measures backends without a cached fingerprint after a long run
        (:mod:`consistency.probes.fingerprint.cache`), True all, False none."""
        self.folder, self._wanted, self._progress = folder, wanted, progress
        self.asked: Sequence[Backend] = ()
        self._backends: Sequence[Backend] = ()

    def __call__(self, event: Event) -> None:
        if self._wanted is False:
            return
        match event:
            case Started():
                self._backends = [
                    b for b in event.config.backends if b.name not in event.unavailable
                ]
                if self._wanted is None:
                    self._keep({b.name: cache.before(b) for b in self._backends})
            case Finished():
                self._finish(event.seconds)

    def _finish(self, seconds: float) -> None:
        stored = {b.name: {} if self._wanted else cache.before(b) for b in self._backends}
        self.asked = [
            b
            for b in self._backends
            if not stored[b.name] and (self._wanted or cache.due(b, seconds))
        ]
        self._keep({b.name: cache.before(b) for b in self._backends if b not in self.asked})
        if self.asked:
            with self._progress(
                [b.name for b in self.asked], cache.probes_of_each() * len(self.asked)
            ) as step:
                for backend in self.asked:
                    self._keep({backend.name: cache.probe(backend, step)})

    def _keep(self, lines_by_backend: Mapping[str, Mapping[str, str]]) -> None:
        identities = stored_environment(self.folder)
        lines = {
            name: {"fingerprint": dict(text)}
            for name, text in lines_by_backend.items()
            if text and name in identities
        }
        if lines:
            completed = {
                name: {**about, **lines.get(name, {})} for name, about in identities.items()
            }
            path = self.folder / "environment.json"
            with writing(path, "the bundle lacks fingerprints only"):
                write_json(path, completed)
