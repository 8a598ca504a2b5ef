"""Backends that misbehave on chosen cases, for tests of worker processes:
``tests/support/bad_backends.py:NAME+isolated``.

Each computes as the CPU does but for the cases whose first argument holds a multiple of some number
of elements.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch

import consistency


class Bad(consistency.Backend):
    """Misbehaves in ``strike`` where the tensors' checksum says so."""

    every = 5

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        x = next(item for item in args if isinstance(item, torch.Tensor))
        if chosen(x.numel(), self.every):
            return self.strike(operator, args, kwargs)
        return super().call(operator, args, kwargs)

    def strike(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        raise NotImplementedError


def chosen(elements: int, every: int = Bad.every) -> bool:
    return elements % every == every - 1


class Raises(Bad):
    name = "raises"

    def strike(self, *_: Any) -> Any:
        raise RuntimeError("CUDA error: something went wrong")


class Garbage(Bad):
    name = "garbage"

    def strike(self, *_: Any) -> Any:
        return torch.zeros(3, 1, 7, dtype=torch.int16)


class Aborts(Bad):
    name = "aborts"

    def strike(self, *_: Any) -> Any:
        os.abort()


class Segfaults(Bad):
    name = "segfaults"

    def strike(self, *_: Any) -> Any:
        ctypes.string_at(0)


class Killed(Bad):
    name = "killed"

    def strike(self, *_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)


class Exits(Bad):
    name = "exits"

    def strike(self, *_: Any) -> Any:
        print("device removed", file=sys.stderr, flush=True)
        os._exit(7)


class Sleeps(Bad):
    name = "sleeps"

    def strike(self, *_: Any) -> Any:
        while True:
            time.sleep(1000)


class Spins(Bad):
    """Hangs without ever letting Python run."""

    name = "spins"

    def strike(self, *_: Any) -> Any:
        ctypes.pythonapi.PyEval_SaveThread  # noqa: B018 - the lock is kept, on purpose
        library = ctypes.PyDLL(None)
        library.sleep(100_000)


class Hoards(Bad):
    name = "hoards"

    def strike(self, *_: Any) -> Any:
        held = []
        while True:
            held.append(torch.ones(1 << 22))


class Noisy(Bad):
    """Prints on every call, and answers rightly."""

    name = "noisy"
    every = 1

    def strike(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        print("noise" * 1000, flush=True)
        os.write(1, b"\x00\xff" * 500)
        os.write(2, b"more noise\n" * 500)
        return operator(*args, **kwargs)


class Sticky(Bad):
    """Fails forever after its first failure, as a CUDA context does."""

    name = "sticky"
    broken = False

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if self.broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return super().call(operator, args, kwargs)

    def strike(self, *_: Any) -> Any:
        type(self).broken = True
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


class Removed(Bad):
    """A device that is gone for good, for new processes, too, once the file in REMOVED exists."""

    name = "removed"
    every = 2

    def why_unavailable(self) -> str | None:
        return "the device was removed" if os.path.exists(os.environ["REMOVED"]) else None  # noqa: PTH110

    def strike(self, *_: Any) -> Any:
        with open(os.environ["REMOVED"], "w", encoding="utf-8"):  # noqa: PTH123
            os._exit(3)


class FailsInModels(consistency.Backend):
    """The third matrix product with a bias is wrong, the fifth is the last thing that ever
    happens."""

    calls, wrong, last = 0, 3, 5

    def call(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        found = super().call(operator, args, kwargs)
        if operator.name != "aten.addmm":
            return found
        self.calls += 1
        if self.calls == self.last:
            self.strike()
        return found * 1.01 if self.calls == self.wrong else found

    def strike(self) -> None:
        os.abort()


class HangsInModels(FailsInModels):
    wrong, last = 0, 4

    def strike(self) -> None:
        time.sleep(3600)


class Leaks(Bad):
    """Keeps a megabyte of every call."""

    name = "leaks"
    every = 1
    held: list[torch.Tensor] = []  # noqa: RUF012

    def strike(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        self.held.append(torch.ones(1 << 18))
        return operator(*args, **kwargs)


class AlwaysAborts(Aborts):
    name = "always aborts"
    every = 1


class Dies(Bad):
    """Ends its process in one case of a hundred, whichever it is."""

    name = "dies"
    every = 1

    def strike(
        self, operator: consistency.Operator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        if int.from_bytes(os.urandom(4), "little") % 100 == 0:
            os._exit(9)
        return operator(*args, **kwargs)
