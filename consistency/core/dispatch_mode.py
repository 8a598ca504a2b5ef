"""The base of dispatch modes that no compiler is to know of."""

from __future__ import annotations

from torch.utils._python_dispatch import TorchDispatchMode


class PlainDispatchMode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A dispatch mode whose first call does not load torch's compiler, which takes a second of
    processor time in every process (torch 2.13)."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False
