"""Where rules come from: what :class:`consistency.judge.tolerances.Tolerances` is to others."""

from __future__ import annotations

from typing import Protocol

from .known import Expectation
from .rule_values import Policy, Rule


class Rules(Protocol):
    """The source of rules: :class:`consistency.judge.tolerances.Tolerances`, or anything with
    the same interface."""

    @property
    def expectations(self) -> tuple[Expectation, ...]: ...
    def rule(
        self, operator: str, dtype: str, *, family: str = "", direction: str = "forward",
        backend: str = "cpu",
        device: str = "", driver: str = "",
    ) -> Rule: ...  # fmt: skip
    def policy(
        self,
        backend: str,
        *,
        operator: str = "",
        dtype: str = "",
        family: str = "",
        device: str = "",
        driver: str = "",
    ) -> Policy: ...
