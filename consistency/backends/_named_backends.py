"""Backends that a project has given names: ``[tool.consistency.backends]`` of its pyproject.toml,
or its backends.yaml.

lab = "cuda:1+tf32"
old = "cpu@/opt/torch-2.4/bin/python"
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError

_NAME = re.compile(r"[A-Za-z][\w-]{0,39}", re.ASCII)
FILES = ("backends.yaml", "pyproject.toml")


def named(folder: Path | None = None) -> Mapping[str, str]:
    """Specs by name, from the nearest of the two files in ``folder`` (default: the current one) or
    above.

    Raises ConfigurationError.
    """
    directory = (folder or Path.cwd()).absolute()
    for place in (directory, *directory.parents):
        for name in FILES:
            path = place / name
            if path.is_file():
                definitions = _read(path, path.stat().st_mtime_ns)
                if definitions is not None:
                    return definitions
    return {}


@functools.lru_cache(maxsize=8)
def _read(path: Path, _changed: int) -> Mapping[str, str] | None:
    """The backends that one file defines; None if it defines none."""
    try:
        text = path.read_text(encoding="utf-8")
        data = (
            _yaml(text, path)
            if path.suffix == ".yaml"
            else tomllib.loads(text).get("tool", {}).get("consistency", {}).get("backends")
        )
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, AttributeError) as error:
        if path.name == "pyproject.toml":
            return None  # another tool's file: that tool reports the mistake
        raise ConfigurationError(
            f"{path} cannot be read: {str(error).splitlines()[0][:120]}"
        ) from None
    if data is None:
        return None
    if not isinstance(data, dict):
        raise ConfigurationError(
            f"{path}  backends: expected names with a spec each, such as lab: cuda:1"
        )
    for name, spec in data.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(
                f"{path}  backends.{name!s:.40}: a name is made of letters, digits, - and _, and "
                "begins with a letter"
            )
        if not isinstance(spec, str) or not spec.strip():
            raise ConfigurationError(
                f"{path}  backends.{name}: {spec!r:.60} is no spec; write one such as "
                f"cuda:1+tf32 or cpu@PYTHON"
            )
    return dict(data)


def _yaml(text: str, path: Path) -> Any:
    import yaml

    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = f":{mark.line + 1}" if mark is not None else ""
        raise ConfigurationError(
            f"{path}{place}  cannot be read: {getattr(error, 'problem', None) or error}"
        ) from None
    return data.get("backends", data) if isinstance(data, dict) else data
