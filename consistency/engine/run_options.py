"""The options of a run, declared once for the command line and the pytest plugin, and the values
that become a :class:`~consistency.engine.config.RunConfig`.

Needs neither torch nor click: the pytest plugin is loaded with every pytest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from .config import RunConfig

PROFILES = {"quick": 5, "default": 50, "nightly": 200}  # cases per operator × dtype


@dataclass(frozen=True)
class Declared:
    """The help of an option; ``default`` describes the default value. ``many``: it takes several
    values."""

    metavar: str
    text: str
    default: str
    many: bool = False


DECLARED = {
    "operators": Declared("NAME", "operators: names, globs or family:NAME", "all", many=True),
    "backends": Declared(
        "SPEC",
        "backends: cpu, cpu+onednn=off, numpy, cuda:1+tf32, directml, file.py:attribute …",
        "all available",
        many=True,
    ),
    "dtypes": Declared(
        "D", "dtypes: float32, float64, float16, …", "each operator's own", many=True
    ),
    "directions": Declared("D", "forward or backward", "both", many=True),
    "profile": Declared(
        "NAME", "cases per operator and dtype: quick 5, default 50, nightly 200", "quick"
    ),
    "examples": Declared("N", "cases per operator and dtype, in place of the profile's", ""),
    "seed": Declared("N", "other inputs for another number", "0"),
    "reference": Declared(
        "MODE",
        "what is right: float64 on the CPU (float64), the same with some elements proved (spot), "
        "or all (verified)",
        "spot",
    ),
    "source": Declared(
        "NAME",
        "where cases come from: drawn by our own strategies, or opinfo, the samples of PyTorch's "
        "installed operator database",
        "drawn",
    ),
    "tolerances": Declared("FILE", "a tolerances.yaml in place of the packaged one", ""),
    "expectations": Declared(
        "FILE",
        "files of known divergences, beside those of the tolerances; `consistency expect` writes "
        "them",
        "",
        many=True,
    ),
}


@dataclass(frozen=True)
class RunOptions:
    """The user's values; None is the default. ``time_budget`` and ``case_timeout`` are in seconds,
    ``worker_memory`` in bytes."""

    operators: Sequence[str] | None = None
    backends: Sequence[str] | None = None
    dtypes: Sequence[str] | None = None
    directions: Sequence[str] | None = None
    profile: str | None = None
    examples: int | None = None
    seed: int | None = None
    time_budget: float | None = None
    repeat: int = 0
    reference: str | None = None
    source: str | None = None
    tolerances: str | Path | None = None
    expectations: Sequence[str] | None = None
    case_timeout: float | None = None
    worker_memory: int = 0
    no_shrink: bool = False
    exhaustive: bool | None = None

    @property
    def cases(self) -> int:
        """The number of cases per operator × dtype. Raises UsageError for an unknown profile."""
        profile = self.profile or "quick"
        if profile not in PROFILES:
            hint = did_you_mean(profile, PROFILES) or "; known: " + ", ".join(PROFILES)
            raise UsageError(f"unknown profile {profile!r}{hint}")
        return PROFILES[profile] if self.examples is None else self.examples

    def config(self, backends: Sequence[str] | None = None) -> RunConfig:
        """The configuration of the run; ``backends`` are used if the user named none. Raises
        UsageError or ConfigurationError."""
        from ..backends.subprocess.requests import CASE_SECONDS
        from ..core.model import DIRECTIONS
        from .config import SOURCES, configure

        return configure(
            self.operators, backends if self.backends is None else self.backends, self.dtypes,
            self.directions or DIRECTIONS, self.cases, self.seed or 0, time_budget=self.time_budget,
            tolerances=self.tolerances, shrink=not self.no_shrink,
            reference=self.reference or "spot", source=self.source or SOURCES[0],
            case_timeout=CASE_SECONDS if self.case_timeout is None else self.case_timeout,
            worker_memory=self.worker_memory, repeat=self.repeat,
            expectations=self.expectations or (), exhaustive=self.exhaustive,
        )  # fmt: skip
