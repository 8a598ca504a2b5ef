"""The checked configuration of a run: operators, backends, dtypes, directions, number of cases,
duration."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .. import backends as _backends
from .. import operators
from ..backends.base import Backend
from ..backends.origins import origin_of
from ..backends.subprocess.backend import SubprocessBackend
from ..backends.subprocess.requests import CASE_SECONDS, Limits
from ..core import dtypes as _dtypes
from ..core.model import DIRECTIONS
from ..diagnose import evaluation
from ..errors import UsageError, did_you_mean
from ..generate.calls import opinfo
from ..judge import tolerances
from ..judge.tolerances import Tolerances
from ..operators.declare import Operator
from ..reference import high_precision
from ..storage.bundle.header import RunSettings
from ..storage.corpus.corpus import Corpus

SOURCES = (
    "drawn",
    opinfo.NAME,
)  # of cases: our own strategies, or the samples of PyTorch's operator database


@dataclass(frozen=True)
class RunConfig:
    """The configuration of a run. ``examples`` are cases per operator × dtype (see
    :func:`examples_of`); ``time_budget`` is in seconds, None for no limit. With a time budget the
    plan is repeated with fresh examples until the time is up.

    ``specs`` maps a backend's name to the user's spec, so that a command which repeats a failure
    can name it. ``reference`` is a mode of :mod:`consistency.reference.high_precision`: how much of
    float64 on the CPU is proved. ``source`` says where cases come from. The cases of a ``corpus``
    are replayed first; ``explore``: whether others are drawn afterwards. ``identity`` is the id of
    the run if it is known before the bundle's; ``used`` are seconds of the time budget that were
    spent on preparing the run. ``exhaustive`` cases (:mod:`consistency.generate.exhaustive`) are
    not counted as examples: all (True), those of 16 bits (None), or none. ``memory``: the bytes
    that a large case (:mod:`consistency.generate.large`) may take; 0: there are none, and else
    ``examples`` may be 0. ``long``: whether float32 has moderately large cases, of some 2**16 rows,
    beside the examples. ``shipped``: whether each operator × dtype begins with the cases that the
    package brings (:mod:`consistency.generate.shipped`), beside the examples. ``fills``: with how
    many sets of numbers each of these cases is judged (:mod:`consistency.generate.fills`).
    """

    operators: tuple[Operator, ...]
    backends: tuple[Backend, ...]
    dtypes: tuple[str, ...] | None
    directions: tuple[str, ...] = DIRECTIONS
    examples: int = 50
    seed: int = 0
    time_budget: float | None = None
    shrink: bool = True
    tolerances: Tolerances = field(default_factory=tolerances.load)
    tolerances_path: Path | None = None
    specs: Mapping[str, str] = field(default_factory=dict)
    reference: str = "spot"
    source: str = SOURCES[0]
    limits: Limits = field(default_factory=Limits)
    repeat: int = 0
    corpus: Corpus | None = None
    explore: bool = True
    identity: str = ""
    used: float = 0.0
    exhaustive: bool | None = None
    memory: int = 0
    long: bool = False
    shipped: bool = False
    time_limit: float | None = None
    fills: int = 1

    @cached_property
    def operators_by_name(self) -> Mapping[str, Operator]:
        return {operator.name: operator for operator in self.operators}

    @property
    def seconds(self) -> float:
        """How long the run may take: its time budget or its time limit, infinity without either."""
        if self.time_budget is not None:
            return self.time_budget - self.used
        return math.inf if self.time_limit is None else self.time_limit - self.used

    @property
    def spelled(self) -> dict[str, str]:
        """What commands call the backends: the specs, and where objects of a program come from."""
        origins = {one.name: origin_of(one) for one in self.backends if one.name not in self.specs}
        return {name: spec for name, spec in origins.items() if spec} | dict(self.specs)

    def describe(self) -> RunSettings:
        """As JSON data for a bundle."""
        return {
            "operators": [o.name for o in self.operators],
            "backends": [b.name for b in self.backends],
            "dtypes": list(self.dtypes) if self.dtypes else None,
            "directions": list(self.directions),
            "examples": self.examples, "seed": self.seed, "time_budget": self.time_budget,
            "shrink": self.shrink,
            "tolerances": self.tolerances.digest, "reference": self.reference,
            "source": self.source, "repeat": self.repeat, "specs": self.spelled,
            "exhaustive": self.exhaustive, "memory": self.memory, "long": self.long,
            "shipped": self.shipped, "time_limit": self.time_limit, "fills": self.fills,
        }  # fmt: skip


def configure(
    operators: Iterable[str | Operator] | None = None,
    backends: Iterable[str | Backend] | None = None,
    dtypes: Iterable[str] | None = None,
    directions: Iterable[str] = DIRECTIONS,
    examples: int = 50,
    seed: int = 0,
    time_budget: float | None = None,
    tolerances: str | Path | Tolerances | None = None,
    shrink: bool = True,
    reference: str = "spot",
    source: str = SOURCES[0],
    case_timeout: float = CASE_SECONDS,
    worker_memory: int = 0,
    repeat: int = 0,
    expectations: Iterable[str | Path] | str | Path = (),
    corpus: Corpus | None = None,
    explore: bool = True,
    identity: str = "",
    exhaustive: bool | None = None,
    memory: int = 0,
    long: bool = False,
    shipped: bool = False,
    time_limit: float | None = None,
    fills: int = 1,
) -> RunConfig:
    """A checked configuration. Raises UsageError or ConfigurationError with one clear line.

    ``case_timeout`` (seconds) and ``worker_memory`` (bytes; 0: three quarters of the machine's)
    limit one case on a backend in its own process. ``repeat``: how often some cases of each
    operator are repeated to compare the bits. ``expectations``: files of known divergences, in
    addition to those of the tolerances. ``corpus``: cases to replay first; ``explore``: whether
    others are drawn afterwards. ``identity``: the id of the run. ``exhaustive``: whether every bit
    pattern is tried in float32 and all pairs of chosen numbers in 16 bits as well (True), every one
    of 16 bits (None), or none (False), beside the examples. ``memory``: bytes that a
    large case may take; 0 for no large cases, and with large ones ``examples`` may be 0. ``long``:
    whether float32 has moderately large cases beside the examples. ``shipped``: whether each
    operator × dtype begins with the cases that the package brings. ``time_limit``: seconds after
    which a run without a time budget ends, its best cases first; it ends earlier with its cases.
    ``fills``: with how many sets of numbers each shipped and drawn case is judged, itself counted.
    """
    from ..judge.tolerances import load, with_more

    loaded = with_more(load(tolerances), expectations)
    path = Path(tolerances) if isinstance(tolerances, (str, Path)) else None
    limits = Limits(_seconds(case_timeout, "case_timeout"), worker_memory)
    resolved, specs = resolved_backends(backends, limits)
    config = RunConfig(
        tuple(_select(operators, source)), resolved, _names(dtypes, "dtype", _dtypes.ALL),
        _names(directions, "direction", DIRECTIONS) or DIRECTIONS,
        _positive(examples, memory), seed,
        _duration(time_budget), shrink,
        loaded, path, specs, high_precision.usable(reference), source, limits, repeat, corpus,
        explore, identity, exhaustive=exhaustive, memory=memory, long=long, shipped=shipped,
        time_limit=_duration(time_limit, "time_limit"), fills=_fills(fills),
    )  # fmt: skip
    _check_not_empty(config)
    return config


def _select(patterns: Iterable[str | Operator] | None, source: str) -> list[Operator]:
    if source not in SOURCES:
        raise UsageError(
            f"unknown source "
            f"{source!r:.80}{did_you_mean(source, SOURCES) or '; known: ' + ', '.join(SOURCES)}"
        )
    if isinstance(patterns, (str, Operator)):
        patterns = [patterns]
    if source == opinfo.NAME:
        return opinfo.select(patterns)
    return operators.select(patterns)


def resolved_backends(
    specs: Iterable[str | Backend] | None, limits: Limits
) -> tuple[tuple[Backend, ...], dict[str, str]]:
    """The backends, accelerators in processes of their own, and the spec of each that was given as
    one."""
    requested: list[str | Backend] | None = (
        [specs] if isinstance(specs, (str, Backend)) else list(specs) if specs is not None else None
    )
    plain = _backends.default_backends() if requested is None else _backends.resolve_all(requested)
    resolvable = requested if requested is not None else [backend.name for backend in plain]
    resolved = tuple(
        _backends.isolated(b, spec) if isinstance(spec, str) else b
        for b, spec in zip(plain, resolvable, strict=True)
    )
    for backend in resolved:
        if isinstance(backend, SubprocessBackend):
            backend.limits = limits
    spelled = (
        {}
        if requested is None
        else {
            b.name: spec
            for b, spec in zip(resolved, requested, strict=True)
            if isinstance(spec, str)
        }
    )
    return resolved, spelled


def _names(
    config: Iterable[str] | None, what: str, available: Sequence[str]
) -> tuple[str, ...] | None:
    if config is None:
        return None
    names = (config,) if isinstance(config, str) else tuple(config)
    for name in names:
        if name not in available:
            meant = did_you_mean(name, available, _dtypes.OTHER_NAMES)
            raise UsageError(
                f"unknown {what} {name!r:.80}{meant or '; known: ' + ', '.join(available)}"
            )
    return names


def _positive(examples: int, memory: int) -> int:
    if memory < 0:
        raise UsageError(f"memory = {memory}; give a number of bytes, or 0 for no large cases")
    if examples < (0 if memory else 1):
        raise UsageError(f"examples = {examples}; at least 1 case per operator and dtype is needed")
    return examples


def _fills(fills: int) -> int:
    if fills < 1:
        raise UsageError(f"fills = {fills}; give 1 for each case as it was drawn, or more")
    return fills


def _duration(seconds: float | None, name: str = "time_budget") -> float | None:
    if seconds is not None and not (seconds > 0 and math.isfinite(seconds)):
        raise UsageError(
            f"{name} = {seconds}; give a number of seconds above 0, or None for no limit"
        )
    return seconds


def _seconds(value: float, what: str) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise UsageError(f"{what} = {value}; give a number of seconds above 0")
    return float(value)


def _check_not_empty(config: RunConfig) -> None:
    """Refuse a run without cases: it would look like a run without failures."""
    if not config.operators:
        raise UsageError("no operator is chosen; leave operators out for all of them")
    if not config.backends:
        raise UsageError("no backend is chosen; leave backends out for every one that is available")
    pairs = operator_dtypes(config)
    first = config.operators[0]
    if not pairs:
        requested, offered = ", ".join(config.dtypes or ()), ", ".join(first.dtypes)
        raise UsageError(
            f"nothing to test: none of the chosen operators takes {requested}; {first.name} takes "
            f"{offered}"
        )
    if not any(directions_of(config, operator, dtype) for operator, dtype in pairs):
        raise UsageError(
            f"nothing to test: {first.name} has no gradients in {pairs[0][1]}; choose direction "
            "forward or a floating dtype"
        )


def operator_dtypes(config: RunConfig) -> list[tuple[Operator, str]]:
    """The operator × dtype pairs of a run, in registry order."""
    return [
        (operator, dtype)
        for operator in config.operators
        for dtype in (operator.dtypes if config.dtypes is None else config.dtypes)
        if dtype in operator.dtypes
    ]


# Share of the examples if complex dtypes were not requested by name: most run the real ones' code.
_SHARE = {
    "complex64": 0.4,
    "complex128": 0.2,
    "int16": 0.2,
    "int8": 0.2,
    "uint8": 0.2,
    **dict.fromkeys(_dtypes.WIDE_UNSIGNED, 0.1),
}


def examples_of(config: RunConfig, dtype: str) -> int:
    """How many cases an operator gets in one dtype: fewer in complex dtypes that were not requested
    by name."""
    if config.dtypes is None and config.examples:
        return max(round(config.examples * _SHARE.get(dtype, 1.0)), 1)
    return config.examples


def directions_of(config: RunConfig, operator: Operator, dtype: str) -> tuple[str, ...]:
    return tuple(
        d for d in config.directions if d == "forward" or evaluation.differentiates(operator, dtype)
    )
