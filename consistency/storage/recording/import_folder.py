"""Convert a folder written by another program into a recording.

The format: ``manifest.jsonl`` (one case per line), ``tensors.safetensors`` (the tensors that lines
name by key), and ``environment.json`` (versions, adapter, and configurations of the device).
docs/record-and-judge.md describes the fields.
"""

from __future__ import annotations

from pathlib import Path

from ...core.reading import read_object
from ...errors import BundleError, RecipeError
from ..bundle import lines
from .header import RECORDING, Header
from .import_line import Line
from .import_tensors import Tensors
from .writing import RecordingWriter

_DEFAULT = ("", "default")


def convert(source: Path, folder: Path) -> tuple[int, int]:
    """Write ``source`` as a recording into ``folder``; returns the number of outcomes and the
    number that cannot be judged.

    Raises BundleError with file and line.
    """
    environment, configurations = _environment(source)
    named = {
        name: {**environment, **extra}
        for name, extra in configurations.items()
        if name not in _DEFAULT
    }
    header = Header(
        RECORDING,
        environment.get("backend") or source.name,
        environment,
        {"imported": source.name},
        named,
    )
    manifest, problems = source / "manifest.jsonl", 0
    if not manifest.is_file():
        raise BundleError(f"{source} holds no manifest.jsonl: it is no recording of this kind")
    writer = RecordingWriter(folder, header, own=False)
    try:
        with Tensors(source / "tensors.safetensors") as tensors:
            for number, line in lines(manifest):
                try:
                    parsed = Line(line, tensors)
                except (BundleError, RecipeError) as error:
                    raise BundleError(f"{manifest}:{number}  {error}") from None
                except (
                    KeyError,
                    TypeError,
                    ValueError,
                    AttributeError,
                    IndexError,
                    OverflowError,
                ) as error:
                    raise BundleError(
                        f"{manifest}:{number}  malformed: {type(error).__name__} {str(error)[:120]}"
                    ) from None
                if parsed.id in writer.done:
                    raise BundleError(
                        f"{manifest}:{number}  the id {parsed.id[:80]!r} stands there twice"
                    )
                writer.case(parsed.case, (parsed.direction,))
                setting = "" if parsed.configuration in _DEFAULT else parsed.configuration
                writer.outcome(
                    parsed.id,
                    parsed.case,
                    parsed.direction,
                    parsed.outcome,
                    configuration=setting,
                    problem=parsed.problem,
                )
                problems += bool(parsed.problem)
        if not writer.done:
            raise BundleError(f"{manifest} holds no case")
        writer.finish()
    finally:
        writer.close()
    return len(writer.done), problems


def _environment(source: Path) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    path = source / "environment.json"
    try:
        data = read_object(path, "an environment")
    except FileNotFoundError:
        data = {}
    if not isinstance(data.get("configurations", {}), dict):
        raise BundleError(f"{path} does not describe an environment")
    plain = {str(key): str(value) for key, value in data.items() if key != "configurations"}
    plain |= {
        "device": plain.get("adapter_name", ""),
        "driver": plain.get("driver_version") or plain.get("driver", ""),
    }
    configurations = {
        str(name): values
        for name, values in data.get("configurations", {}).items()
        if isinstance(values, dict)
    }
    return plain, {
        name: {str(key): str(value) for key, value in values.items()}
        for name, values in configurations.items()
    }
