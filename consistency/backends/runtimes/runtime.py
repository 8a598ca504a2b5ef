"""What all runtimes share as backends: a name, switches, an extra that pip installs, and words for
its absence."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from collections.abc import Mapping
from types import ModuleType
from typing import ClassVar

from ...errors import UsageError, did_you_mean
from ...operators.declare import Operator
from .._messages import told
from ..base import Backend


class Runtime(Backend):
    """A runtime with ``SWITCHES``, each with its values (empty: a positive number).

    ``TITLE`` is its name in sentences, ``EXTRA`` its name in specs and what pip installs,
    ``PACKAGES`` what that is, the one that is imported first.
    """

    TITLE: ClassVar[str]
    EXTRA: ClassVar[str]
    PACKAGES: ClassVar[tuple[str, ...]]
    SWITCHES: ClassVar[Mapping[str, tuple[str, ...]]]
    keeps_contract = False  # compiled graphs know neither views nor strides

    def __init__(self, name: str = "", switches: Mapping[str, str] | None = None) -> None:
        self.name = name or self.EXTRA
        self.switched = dict(switches or {})
        for key, value in self.switched.items():
            if key not in self.SWITCHES:
                hint = did_you_mean(key, self.SWITCHES) or f"; known: {', '.join(self.SWITCHES)}"
                raise UsageError(f"backend {name!r:.80}: {self.TITLE} has no switch {key!r}{hint}")
            values = self.SWITCHES[key]
            number = value.isascii() and value.isdecimal() and 0 < int(value) < 1 << 16
            if value not in values and (values or not number):
                expected = "|".join(values or ("NUMBER",))
                raise UsageError(
                    f"backend {name!r:.80}: {key}={value!r:.40}; expected {key}={expected}"
                )

    @classmethod
    def not_installed(cls) -> list[str]:
        """The packages of the extra that are absent; nothing is imported."""
        return [name for name in cls.PACKAGES if importlib.util.find_spec(name) is None]

    @classmethod
    def remedy(cls) -> str:
        """What installs the packages."""
        return f'pip install "consistency[{cls.EXTRA}]"'

    def why_unavailable(self) -> str | None:
        missing = self.not_installed()
        if missing:
            are = "is" if len(missing) == 1 else "are"
            return f"{' and '.join(missing)} {are} not installed: {self.remedy()}"
        try:
            return self._lacks(self._imported())
        except Exception as error:  # a native library may raise anything
            return f"{self.PACKAGES[0]} cannot be imported: {told(error)}"

    def _imported(self) -> ModuleType:
        return importlib.import_module(self.PACKAGES[0])

    def _lacks(self, package: ModuleType) -> str | None:
        """What this build of the runtime or this machine lacks for the switches."""
        return None

    def unsupported(self, operator: Operator, dtype: str, direction: str) -> str | None:
        if "random" in operator.traits:
            return f"{self.TITLE} draws random numbers of its own"
        return super().unsupported(operator, dtype, direction)

    def environment(self) -> dict[str, str]:
        versions = {name: importlib.metadata.version(name) for name in self.PACKAGES}
        return super().environment() | {"runtime": self.TITLE} | versions
