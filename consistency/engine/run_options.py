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

# drawn cases per operator × dtype, beside the shipped ones; "large" draws none
PROFILES = {"quick": 2, "default": 50, "nightly": 200, "large": 0}
UNSHIPPED = 5  # in a quick run without shipped cases
# Seconds after which a run of a profile ends, its best cases first, if nothing else says how much.
TIME_LIMIT = {"quick": 55.0}  # with the start of Python and the page a minute
# Bytes for the large cases of a profile, if --memory does not say.
MEMORY = {"nightly": 2 << 30, "large": 4 << 30}


@dataclass(frozen=True)
class Declared:
    """The help of an option; ``default`` describes the default value. ``many``: it takes several
    values."""

    metavar: str
    text: str
    default: str
    many: bool = False


NO_SHIPPED = (
    "leave out the cases that come with the package, which every run begins with: some four of "
    "each operator and dtype, chosen because together they notice the most planted faults"
)
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
        "NAME",
        "fresh cases per operator and dtype, after the shipped ones: quick 2, default 50, nightly "
        "200; large: tensors of 2^15 to 2^24 elements and more, in place of all these",
        "quick",
    ),
    "memory": Declared(
        "SIZE",
        "with the profiles large and nightly: most memory that a large case may take, e.g. 8G",
        "4G; 2G in nightly",
    ),
    "examples": Declared(
        "N", "fresh cases per operator and dtype, in place of the profile's number", ""
    ),
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
    no_shipped: bool = False
    exhaustive: bool | None = None
    memory: int | None = None
    fills: int = 1

    @property
    def cases(self) -> int:
        """The number of fresh cases per operator × dtype. Raises UsageError for an unknown
        profile."""
        profile = self.profile or "quick"
        if profile not in PROFILES:
            hint = did_you_mean(profile, PROFILES) or "; known: " + ", ".join(PROFILES)
            raise UsageError(f"unknown profile {profile!r}{hint}")
        if self.examples is not None:
            return self.examples
        drawn_only = self.no_shipped or self.source not in (None, "drawn")
        return UNSHIPPED if profile == "quick" and drawn_only else PROFILES[profile]

    @property
    def time_limit(self) -> float | None:
        """The seconds after which the run ends; None where the user says how much is tested."""
        if self.examples is not None or self.time_budget is not None:
            return None
        return TIME_LIMIT.get(self.profile or "quick")

    @property
    def large_memory(self) -> int:
        """The bytes that a large case may take; 0 if there are none. Raises UsageError."""
        profile = self.profile or "quick"
        if self.memory is not None and profile not in MEMORY:
            raise UsageError(
                f"--memory is for large cases, which the profile {profile} has none of: "
                "add --profile large"
            )
        return MEMORY.get(profile, 0) if self.memory is None else self.memory

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
            memory=self.large_memory, long=self.examples is None and self.exhaustive is not False,
            shipped=not self.no_shipped, time_limit=self.time_limit, fills=self.fills,
        )  # fmt: skip
