"""The default backend of a script: a spec as the lines that choose its device and set its
switches."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass, field

from ...backends import is_spec
from ...backends._named_backends import named
from ...backends._specs import Apart, Spec, apart, is_users_file, parse
from ...core.model import Result
from ...errors import ConsistencyError
from .script_context import Sheet

# Variables that a process reads before the script runs must be set outside of it.
_FROM_OUTSIDE = ("PYTHON", "LD_", "DYLD_", "GLIBC_", "MALLOC_")
_HALVES = ("float16", "bfloat16")


@dataclass
class Place:
    """``before`` are the lines above ``import torch``, ``after`` those below it, ending with the
    line that sets ``device``.

    ``usage`` is the command that runs the script, ``kind`` the device's name in messages.
    ``foreign`` is the reason why the script cannot run the tested backend (one that is not a torch
    device), or empty.
    """

    kind: str
    usage: str = "python repro.py"
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    compiled: bool = False
    dynamic_shapes: bool = False  # of what is compiled
    foreign: str = ""


def place_of(result: Result, spec: str | None, sheet: Sheet) -> Place:
    """The place of a result; ``spec`` is the user's spec of its backend (for a recorded result: the
    recording's folder)."""
    text = result.backend.partition("#")[0] if result.recorded_id else spec or result.backend
    text = _meant(text)
    try:
        inner = apart(text) or Apart(text)
        parsed = None if is_users_file(inner.spec) else parse(inner.spec)
    except ConsistencyError:
        inner, parsed = Apart(text), None
    if result.recorded_id and parsed is not None and parsed.kind not in ("cpu", "cuda"):
        parsed = _known_switches(parsed, sheet)
    place = _place(parsed, inner.spec, result, sheet)
    outside = {
        name: value for name, value in inner.environment.items() if name.startswith(_FROM_OUTSIDE)
    }
    inside = {name: value for name, value in inner.environment.items() if name not in outside}
    if outside:
        place.usage = (
            " ".join(f"{name}={shlex.quote(value)}" for name, value in outside.items())
            + f" {place.usage}"
        )
    if inside:
        sheet.modules.add("os")
        place.before += [f"os.environ[{name!r}] = {value!r}" for name, value in inside.items()]
    if inner.python:
        sheet.note(
            f"Found with another interpreter than this project's own: {inner.python!r:.200}."
        )
    return place


def _meant(text: str) -> str:
    """The spec of a name from the project's configuration."""
    try:
        return named().get(text, text)
    except ConsistencyError:
        return text


def _known_switches(parsed: Spec, sheet: Sheet) -> Spec:
    """The known switches. Recordings name configurations like switches; the script notes unknown
    ones."""
    known = {
        key: value
        for key, value in parsed.switches.items()
        if parsed.kind == "directml" and key == "tiled"
    }
    for key in parsed.switches:
        if key not in known:
            sheet.note(
                f"It was recorded in a configuration called {key!r:.60} there, which this script "
                "does not know how to set."
            )
    return Spec(parsed.text, parsed.kind, parsed.place, known)


def _place(parsed: Spec | None, text: str, result: Result, sheet: Sheet) -> Place:
    sheet.modules.add("sys")
    if (
        parsed is None
        or not is_spec(text)
        or (parsed.place and not parsed.place.isdecimal() and parsed.kind != "directml")
    ):
        why = (
            f"It was found on a backend of your own ({text!r:.120}), whose code is not here: "
            f"this calls torch itself."
        )
        return Place(result.backend, after=_device("cpu"), foreign=why)
    match parsed.kind:
        case "numpy":
            why = (
                "It was found on this project's NumPy formula of the operator, which is not "
                "part of torch: this calls torch itself."
            )
            return Place("cpu", after=_device("cpu"), foreign=why)
        case "cpu":
            return Place(
                "cpu",
                after=[*_cpu(parsed), *_device("cpu")],
                compiled="compile" in parsed.switches,
                dynamic_shapes=parsed.switches.get("compile") == "dynamic",
            )
        case "cuda":
            name = f"cuda:{parsed.place}" if parsed.place else "cuda"
            return Place(
                name,
                before=_before_cuda(parsed, sheet),
                after=[*_cuda(parsed, result.dtype), *_device(name)],
                compiled="compile" in parsed.switches,
                dynamic_shapes=parsed.switches.get("compile") == "dynamic",
            )
        case "directml":
            return Place("directml", after=_directml(parsed))
    name = f"{parsed.kind}:{parsed.place}" if parsed.place else parsed.kind
    return Place(name, after=_device(name))


def _device(default: str) -> list[str]:
    return [f"device = sys.argv[1] if len(sys.argv) > 1 else {json.dumps(default)}"]


def _cpu(spec: Spec) -> list[str]:
    lines = []
    if spec.switches.get("onednn"):
        lines.append(f"torch.backends.mkldnn.enabled = {spec.switches['onednn'] == 'on'}")
    if spec.switches.get("threads", "").isdecimal():
        lines.append(f"torch.set_num_threads({int(spec.switches['threads'])})")
    return lines


def _before_cuda(spec: Spec, sheet: Sheet) -> list[str]:
    if "deterministic" not in spec.switches:
        return []
    sheet.modules.add("os")
    return ['os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")']


def _cuda(spec: Spec, dtype: str) -> list[str]:
    """Set the switches to the backend's state, which differs from torch's defaults."""
    tf32 = "tf32" in spec.switches
    lines = [f"torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = {tf32}"]
    if dtype in _HALVES:
        name = "fp16" if dtype == "float16" else "bf16"
        lines.append(f"torch.backends.cuda.matmul.allow_{name}_reduced_precision_reduction = False")
    if "benchmark" in spec.switches:
        lines.append("torch.backends.cudnn.benchmark = True")
    if "deterministic" in spec.switches:
        lines.append("torch.use_deterministic_algorithms(True)")
    return lines


def _directml(spec: Spec) -> list[str]:
    lines = [
        "if len(sys.argv) > 1:",
        "    device = torch.device(sys.argv[1])",
        "else:",
        "    import torch_directml",
        "",
    ]
    if spec.switches.get("tiled") == "off":
        lines.append("    torch_directml.disable_tiled_resources(True)")
    chosen = spec.place
    if chosen and not chosen.isdecimal():
        names = (
            "torch_directml.device_name(i).lower() for i in range(torch_directml.device_count())"
        )
        lines.append(
            f"    chosen = next(i for i, name in enumerate({names}) if {chosen.lower()!r} in name)"
        )
        chosen = "chosen"
    return [*lines, f"    device = torch_directml.device({chosen})"]
