"""consistency: does the same PyTorch operator give the same numbers on every backend?

The public interface; everything is imported on first use, so that ``import consistency`` costs next
to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .core.version import __version__

if TYPE_CHECKING:
    from .api import strategies
    from .api.checks import assert_consistent, save
    from .api.comparisons import compare
    from .api.operator_check.check import check
    from .api.operator_check.report import OperatorReport
    from .api.recordings import judge_recordings, record
    from .api.runs import run
    from .backends.base import Backend, TorchBackend
    from .core.model import Case, Comparison, Outcome, Result
    from .core.verdict import Verdict
    from .engine.engine import Run
    from .errors import (
        BundleError,
        ConfigurationError,
        ConsistencyError,
        Divergence,
        RecipeError,
        Unsupported,
        UsageError,
    )
    from .judge.rule_values import Rule
    from .operators.declare import Operator
    from .training.entry_points import assert_models_match, compare_models
    from .training.findings import ModelReport
    from .training.trace.session import watch
    from .training.training_task import Subject

_HOME = {
    "run": "api.runs", "assert_consistent": "api.checks", "compare": "api.comparisons",
    "save": "api.checks",
    "check": "api.operator_check.check", "OperatorReport": "api.operator_check.report",
    "Run": "engine.engine",
    "record": "api.recordings", "judge_recordings": "api.recordings",
    "watch": "training.trace.session",
    "compare_models": "training.entry_points", "assert_models_match": "training.entry_points",
    "ModelReport": "training.findings",
    "Subject": "training.training_task",
    "Backend": "backends.base", "TorchBackend": "backends.base", "Operator": "operators.declare",
    "Rule": "judge.rule_values",
    "Case": "core.model", "Comparison": "core.model", "Outcome": "core.model",
    "Result": "core.model", "Verdict": "core.verdict",
    "BundleError": "errors", "ConfigurationError": "errors", "ConsistencyError": "errors",
    "Divergence": "errors",
    "RecipeError": "errors", "Unsupported": "errors", "UsageError": "errors",
}  # fmt: skip

__all__ = [
    "Backend",
    "BundleError",
    "Case",
    "Comparison",
    "ConfigurationError",
    "ConsistencyError",
    "Divergence",
    "ModelReport",
    "Operator",
    "OperatorReport",
    "Outcome",
    "RecipeError",
    "Result",
    "Rule",
    "Run",
    "Subject",
    "TorchBackend",
    "Unsupported",
    "UsageError",
    "Verdict",
    "__version__",
    "assert_consistent",
    "assert_models_match",
    "check",
    "compare",
    "compare_models",
    "judge_recordings",
    "record",
    "run",
    "save",
    "strategies",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name == "strategies":  # a module, which imports Hypothesis
        return importlib.import_module(".api.strategies", __name__)
    if name not in _HOME:
        raise AttributeError(f"module 'consistency' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    # A submodule may bear the name of a function (compare): what was asked for wins.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
