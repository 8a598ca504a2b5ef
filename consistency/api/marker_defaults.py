"""What a test's marker says in place of arguments that the test does not give."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

# Arguments of assert_consistent: backends, rule, operator, directions.
DEFAULTS: ContextVar[Mapping[str, Any]] = ContextVar(
    "consistency_test_defaults", default=MappingProxyType({})
)
