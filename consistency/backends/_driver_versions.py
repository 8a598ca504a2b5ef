"""The version of a display adapter's driver: on Windows from the registry, on WSL from the driver
packages of Windows, which it mounts.

torch_directml has no function for it, but numbers change with drivers: ``consistency diff`` needs
to see an update.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from pathlib import Path
from typing import Any

# Windows: display adapters
_CLASS = r"SYSTEM\CurrentControlSet\Control\Class\{4d36e968-e325-11ce-bfc1-08002be10318}"
WSL_DRIVERS = Path("/usr/lib/wsl/drivers")
_VERSION = re.compile(r"^\s*DriverVer\s*=\s*[\d/]+\s*,\s*([\d.]+)", re.MULTILINE | re.IGNORECASE)
_MOST_BYTES = 8 << 20  # of one .inf; those of graphics drivers have 1 to 2 MB


def driver_version(adapter: str) -> str:
    """Such as ``31.0.15.5222``; empty where it cannot be found."""
    return _from_registry(adapter) or (_from_packages(adapter, WSL_DRIVERS) if adapter else "")


def _from_registry(adapter: str) -> str:
    with contextlib.suppress(Exception):
        registry: Any = importlib.import_module("winreg")
        with registry.OpenKey(registry.HKEY_LOCAL_MACHINE, _CLASS) as folder:
            for number in range(registry.QueryInfoKey(folder)[0]):
                with (
                    contextlib.suppress(OSError),
                    registry.OpenKey(folder, f"{number:04d}") as entry,
                ):
                    if registry.QueryValueEx(entry, "DriverDesc")[0].strip() == adapter:
                        return str(registry.QueryValueEx(entry, "DriverVersion")[0])
    return ""


def _from_packages(adapter: str, drivers: Path) -> str:
    """From the packages' .inf files that name the adapter; the newest version of several."""
    versions = []
    with contextlib.suppress(OSError):
        for path in drivers.glob("*/*.inf"):
            with contextlib.suppress(OSError):
                if path.stat().st_size > _MOST_BYTES:
                    continue
                raw = path.read_bytes()
                wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
                text = raw.decode("utf-16" if wide else "utf-8", "replace")
                found = _VERSION.search(text)
                if found and adapter.lower() in text.lower():
                    versions.append(tuple(int(part) for part in found[1].split(".") if part))
    return ".".join(map(str, max(versions))) if versions else ""
