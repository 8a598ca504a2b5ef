"""Another folder in the format of the DirectML recording, made here: every encoding, every kind of
outcome, and damage."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

import consistency
from consistency.errors import BundleError
from consistency.storage.recording.import_folder import convert
from consistency.storage.recording.reading import Recording
from tests.support.paths import ROOT


class Source:
    """A folder in the making. ``add`` writes a line; tensors are given by value, and outputs
    too."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lines: list[dict[str, Any]] = []
        self.tensors: dict[str, torch.Tensor] = {}

    def keep(self, key: str, tensor: torch.Tensor) -> dict[str, Any]:
        self.tensors[key] = tensor.contiguous().clone()
        return {
            "key": key,
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "shape": list(tensor.shape),
        }

    def add(
        self, name: str, call: str, args: list[Any], tensors: dict[str, Any], outputs: dict[str,
        Any], *,
        kwargs: dict[str, Any] | None = None, dtype: str = "float32",
        cotangents: list[Any] | None = None,
        mutates: tuple[str, ...] = (), after: dict[str, torch.Tensor] | None = None, warn: str = "",
        **more: Any,
    ) -> None:  # fmt: skip
        given = {}
        for key, value in tensors.items():
            base, extra = value if isinstance(value, tuple) else (value, {})
            given[key] = (
                self.keep(f"{name}/in/{key}", base) | {"layout": "x", "values": "x"} | extra
            )
        line: dict[str, Any] = {
            "id": name, "operator": call.partition(".")[2], "variant": "", "call": call,
            "args": args, "kwargs": kwargs or {},
            "tensors": given, "dtype": dtype,
            "direction": "backward" if cotangents is not None else "forward",
            "configuration": "default", "outcome": "ok", "stage": None, "exception": None,
            "warnings": [{"category": "UserWarning", "message": warn}] if warn else [],
            "outputs": [
                {"name": key, "device": "directml", "stride": [], **self.keep(f"{name}/{key}",
                value)}
                if isinstance(value, torch.Tensor) else {"name": key, "value": value}
                for key, value in outputs.items()
            ],
            "after": [{"tensor": key, **self.keep(f"{name}/after/{key}", t)} for key,
            t in (after or {}).items()],
            "wall_ms": 1.0, "repeated": 2, "repeats_identical": True,
        }  # fmt: skip
        if mutates:
            line["mutates"] = list(mutates)
        if cotangents is not None:
            line["cotangents"] = [
                self.keep(f"{name}/cotangent/{i}", c) if c is not None else None
                for i, c in enumerate(cotangents)
            ]
        self.lines.append(line | more)

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = "".join(json.dumps(line) + "\n" for line in self.lines)
        (self.folder / "manifest.jsonl").write_text(lines, encoding="utf-8")
        environment = {
            "backend": "directml",
            "adapter_name": "Made Up",
            "driver_version": "31.0",
            "configurations": {
                "default": {"has_float64_support": False},
                "wide": {"has_float64_support": True},
            },
        }
        (self.folder / "environment.json").write_text(json.dumps(environment), encoding="utf-8")
        save_file(self.tensors, self.folder / "tensors.safetensors")
        return self.folder


def T(name: str) -> dict[str, str]:  # noqa: N802 - an encoded tensor
    return {"tensor": name}


def everything(folder: Path) -> dict[str, str]:
    """Writes a folder; returns the verdict that each of its cases deserves."""
    s, x = Source(folder), torch.linspace(-2.0, 3.0, 24).reshape(4, 6)
    y = torch.linspace(1.0, 2.0, 24).reshape(4, 6)
    good = ("exact", "rounding")
    expected: dict[str, Any] = {}

    def add(name: str, verdict: str | tuple[str, ...], *args: Any, **more: Any) -> None:
        expected[name] = verdict
        s.add(name, *args, **more)

    # Encodings of arguments.
    add(
        "clamp inf",
        good,
        "torch.clamp",
        [T("a"), {"float": "-inf"}, 1.0],
        {"a": x},
        {"out/0": x.clamp(max=1.0)},
    )
    add(
        "sum nan", good, "torch.nan_to_num", [T("a"), {"float": "nan"}, 9.0], {"a": x}, {"out/0": x}
    )
    add(
        "nan_to_num",
        good,
        "torch.nan_to_num",
        [T("a")],
        {"a": x / 0.0},
        {"out/0": (x / 0.0).nan_to_num()},
    )
    add("getitem", good, "operator.getitem", [T("a"), {"tuple": [{"ellipsis": True}, {"slice": [1,
    None, 2]}]}], {"a": x},
        {"out/0": x[..., 1::2]})  # fmt: skip
    add("getitem int", "divergent", "operator.getitem", [T("a"), 1], {"a": x}, {"out/0": x[2]})
    add("to half", good, "Tensor.to", [T("a"), {"dtype": "float16"}], {"a": x}, {"out/0": x.half()})
    add("to device", good, "Tensor.to", [T("a"), {"device": "backend"}], {"a": x}, {"out/0": x})
    add("format", good, "Tensor.contiguous", [], {"a": x.reshape(1, 4, 3, 2)},
    {"out/0": x.reshape(1, 4, 3, 2)},
        kwargs={"memory_format": {"memory_format": "channels_last"}})  # fmt: skip
    s.lines[-1]["args"] = [T("a")]
    add(
        "list",
        good,
        "torch.cat",
        [[T("a"), T("b")], 1],
        {"a": x, "b": y},
        {"out/0": torch.cat([x, y], 1)},
    )
    add("null", good, "torch.sum", [T("a"), None], {"a": x}, {"out/0": x.sum()})
    add(
        "ones",
        good,
        "torch.ones",
        [[2, 3]],
        {},
        {"out/0": torch.ones(2, 3)},
        kwargs={"device": {"device": "backend"}},
    )
    add("linspace", good, "torch.linspace", [0.0, 1.0, 7], {}, {"out/0": torch.linspace(0.0, 1.0,
    7)},
        kwargs={"device": {"device": "backend"}})  # fmt: skip
    add("item", good, "Tensor.item", [T("a")], {"a": torch.tensor(2.5)}, {"out/0": 2.5})
    add(
        "item nan",
        good,
        "Tensor.item",
        [T("a")],
        {"a": torch.tensor(float("nan"))},
        {"out/0": {"float": "nan"}},
    )
    add(
        "item wrong", "divergent", "Tensor.item", [T("a")], {"a": torch.tensor(2.5)}, {"out/0": 3.5}
    )
    add(
        "int8",
        good,
        "torch.neg",
        [T("a")],
        {"a": x.to(torch.int8)},
        {"out/0": -x.to(torch.int8)},
        dtype="int8",
    )
    add("bool", good, "torch.logical_not", [T("a")], {"a": x > 0}, {"out/0": x <= 0}, dtype="bool")
    add(
        "saturating",
        "divergent",
        "torch.add",
        [T("a"), T("a2")],
        {
            "a": torch.full((3,), 2**31 - 2, dtype=torch.int32),
            "a2": torch.tensor([1, 5, 9], dtype=torch.int32),
        },
        {"out/0": torch.full((3,), 2**31 - 1, dtype=torch.int32)},
        dtype="int32",
    )
    # Views: a chain, one that recipes do not have, and strides alone.
    base = torch.linspace(0.5, 4.0, 56).reshape(7, 8)
    inner = {"shape": [5, 3], "stride": [8, 2], "storage_offset": 9}
    chain = [{"getitem": {"tuple": [{"slice": [1, -1, None]}, {"slice": [1, -1, None]}]}},
    {"getitem": {"tuple": [
        {"ellipsis": True}, {"slice": [None, None, 2]}]}}]  # fmt: skip
    view = base.as_strided((5, 3), (8, 2), 9)
    for name, steps in (
        ("chain", chain),
        ("odd chain", [{"method": "narrow", "args": [0, 1, 5]}]),
        ("no chain", None),
    ):
        extra = inner | ({"view": steps} if steps is not None else {})
        add(name, good, "torch.sqrt", [T("a")], {"a": (base, extra)}, {"out/0": view.sqrt()})
        add(
            f"{name} misread",
            "divergent",
            "torch.sqrt",
            [T("a")],
            {"a": (base, extra)},
            {"out/0": base.flatten()[:15].reshape(5, 3).sqrt()},
        )
        kept = base.clone()
        kept.as_strided((5, 3), (8, 2), 9).fill_(3.0)
        add(f"{name} written", good, "Tensor.fill_", [T("a"), 3.0], {"a": (base, extra)},
        {"out/0": torch.full((5, 3), 3.0)},
            mutates=("a",), after={"a": kept})  # fmt: skip
        add(f"{name} lost", "divergent", "Tensor.fill_", [T("a"), 3.0], {"a": (base, extra)},
        {"out/0": torch.full((5, 3), 3.0)},
            mutates=("a",), after={"a": base})  # fmt: skip
    running = {"b": torch.zeros(6), "c": torch.ones(6)}
    norm = [T("a"), T("b"), T("c"), None, None, True]
    out = torch.nn.functional.batch_norm(x, *(t.clone() for t in running.values()), training=True)
    stats = {key: t.clone() for key, t in running.items()}
    torch.nn.functional.batch_norm(x, stats["b"], stats["c"], training=True)
    add(
        "statistics",
        good,
        "torch.nn.functional.batch_norm",
        norm,
        {"a": x, **running},
        {"out/0": out},
        mutates=("b", "c"),
        after=stats,
    )
    add("statistics kept", "divergent", "torch.nn.functional.batch_norm", norm, {"a": x, **running},
    {"out/0": out},
        mutates=("b", "c"), after=running)  # fmt: skip
    # Gradients against given cotangents.
    leaf, against = {"requires_grad": True}, torch.linspace(-1.0, 1.0, 24).reshape(4, 6)
    add(
        "gradient",
        good,
        "torch.mul",
        [T("a"), T("b")],
        {"a": (x, leaf), "b": y},
        {"grad/a": y * against},
        cotangents=[against],
    )
    add("gradient wrong", "divergent", "torch.mul", [T("a"), T("b")], {"a": (x, leaf), "b": y},
    {"grad/a": x * against},
        cotangents=[against])  # fmt: skip
    add("gradient missing", "structure", "torch.mul", [T("a"), T("b")], {"a": (x, leaf), "b": (y,
    leaf)}, {"grad/a": y * against},
        cotangents=[against])  # fmt: skip
    order = x.argsort(dim=1, descending=True)
    gradient = torch.zeros_like(x).scatter(1, order, against)
    add(
        "gradient of sort",
        good,
        "torch.sort",
        [T("a"), 1, True],
        {"a": (x, leaf)},
        {"grad/a": gradient},
        cotangents=[against, None],
    )
    index = torch.tensor([[0, 0, 2], [1, 1, 1], [0, 1, 2], [5, 5, 0]])
    once = torch.zeros_like(x).scatter(1, index, against[:, :3])
    add("gradient of gather", "divergent", "torch.gather", [T("a"), 1, T("b")], {"a": (x, leaf),
    "b": index}, {"grad/a": once},
        cotangents=[against[:, :3]])  # fmt: skip
    # Ends of another kind.
    refused = {
        "outcome": "raises",
        "stage": "call",
        "exception": {"type": "RuntimeError", "message": "does not support Double"},
    }
    add(
        "refused",
        "unsupported",
        "torch.exp",
        [T("a")],
        {"a": x.double()},
        {},
        dtype="float64",
        **refused,
    )
    add(
        "raised",
        "error",
        "torch.exp",
        [T("a")],
        {"a": x},
        {},
        **refused | {"exception": {"type": "E", "message": ""}},
    )
    add(
        "both raise",
        "inconclusive",
        "torch.mm",
        [T("a"), T("b")],
        {"a": x, "b": y},
        {},
        **refused | {"exception": {"type": "E", "message": "x"}},
    )
    for how, verdict in (("abort", "crash"), ("segfault", "crash"), ("timeout", "timeout")):
        add(
            how,
            verdict,
            "torch.exp",
            [T("a")],
            {"a": x},
            {},
            outcome=how,
            stage="readback",
            wall_ms=None,
        )
    add(
        "float8",
        "crash",
        "torch.clone",
        [T("a")],
        {"a": x.to(torch.float8_e4m3fn)},
        {},
        dtype="float8_e4m3fn",
        outcome="abort",
    )
    add("unknown", "inconclusive", "torch.os.getcwd", [], {}, {"out/0": "/"})
    add("hidden", "crash", "torch.made_up", [T("a")], {"a": x}, {}, outcome="segfault")
    fell = (
        "The operator 'aten::exp.out' is not currently supported on the DML backend and will "
        "fall back to run on the CPU."
    )
    add("fell back", "fallback", "torch.exp", [T("a")], {"a": x}, {"out/0": x.exp()}, warn=fell)
    add(
        "fell back wrong",
        "divergent",
        "torch.exp",
        [T("a")],
        {"a": x},
        {"out/0": x.exp() + 0.1},
        warn=fell,
    )
    add("another warning", good, "torch.exp", [T("a")], {"a": x}, {"out/0": x.exp()}, warn="beware")
    add(
        "unsteady",
        "nondeterministic",
        "torch.exp",
        [T("a")],
        {"a": x},
        {"out/0": x.exp()},
        repeats_identical=False,
    )
    wide = x.double()
    add("wide", "precision-scaling", "torch.exp", [T("a")], {"a": wide / 3},
    {"out/0": (wide / 3).float().exp().double()},
        dtype="float64", configuration="wide")  # fmt: skip
    far = wide * 60
    add("wide overflow", "precision-scaling", "torch.exp", [T("a")], {"a": far},
    {"out/0": far.float().exp().double()},
        dtype="float64", configuration="wide")  # fmt: skip
    for name, verdict, function in (
        ("ties", good, "torch.median"),
        ("ties of a maximum", "divergent", "torch.max"),  # of which the first is documented
    ):
        add(
            name,
            verdict,
            function,
            [T("a"), 1],
            {"a": torch.ones(2, 3)},
            {"out/0": torch.ones(2), "out/1": torch.tensor([2, 1])},
        )
    add(
        "no tie",
        ("divergent", "special-values"),
        "torch.max",
        [T("a"), 1],
        {"a": x},
        {"out/0": x[:, -1], "out/1": torch.tensor([0, 1, 2, 3])},
    )
    add("beyond a cast", good, "Tensor.to", [T("a"), {"dtype": "int32"}], {"a": torch.tensor([1.5,
    3e9, -3e9])},
        {"out/0": torch.tensor([1, 2**31 - 1, -(2**31)], dtype=torch.int32)})  # fmt: skip
    add("all beyond a cast", "inconclusive", "Tensor.to", [T("a"), {"dtype": "int32"}],
    {"a": torch.tensor([3e9, -3e9])},
        {"out/0": torch.tensor([2**31 - 1, -(2**31)], dtype=torch.int32)})  # fmt: skip
    s.write()
    return expected


def test_another_folder_of_that_format_is_judged_as_it_deserves(tmp_path: Path) -> None:
    expected = everything(tmp_path / "source")
    assert convert(tmp_path / "source", tmp_path / "recording") == (len(expected), 2)
    found = {r.recorded_id: r for r in consistency.judge_recordings(tmp_path / "recording").results}
    assert set(found) == set(expected)
    verdicts = {name: r.verdict.value for name, r in found.items()}
    wrong = {
        n: (v, found[n].explanation)
        for n, v in verdicts.items()
        if v not in ((expected[n],) if isinstance(expected[n], str) else expected[n])
    }
    assert wrong == {}
    for name, words in {
        "chain lost": "writes to the view are lost", "no chain lost": "writes to the view are lost",
        "gradient of gather": "duplicate indices do not accumulate",
        "saturating": "integers saturate at 32 bits",
        "ties of a maximum": "another than the first of several equal elements",
        "wide": "float32 arithmetic in place of float64",
        "timeout": "timed out while its result was read back",
        "unknown": "no function of torch, Tensor or operator that a recording may call",
        "chain misread": "argument 0",
        "float8": "aborted", "unsteady": "2 more recordings",
    }.items():  # fmt: skip
        assert words in found[name].explanation, (name, found[name].explanation)
    assert {found[n].backend for n in ("wide", "chain")} == {"directml", "directml+wide"}


def test_views_are_kept_as_chains_where_recipes_have_them(tmp_path: Path) -> None:
    everything(tmp_path / "source")
    convert(tmp_path / "source", tmp_path / "recording")
    recording = Recording(tmp_path / "recording")
    views = {
        row.id: recording.cases[row.case_id].literals[0].view
        for row in recording.rows
        if "chain" in row.id
    }
    assert views["chain"] == (
        ("slice", 0, 1, -1, None),
        ("slice", 1, 1, -1, None),
        ("slice", 1, None, None, 2),
    )
    assert views["odd chain"] == views["no chain"] == ()
    assert recording.header.environment["device"] == "Made Up"
    assert recording.header.configurations["wide"]["has_float64_support"] == "True"


def said_of_a(dtype: str, shape: list[int]) -> dict[str, Any]:
    return {"tensors": {"a": {"key": "one/in/a", "dtype": dtype, "shape": shape}}}


DAMAGE: dict[str, tuple[Any, str]] = {
    "no manifest": (lambda f: (f / "manifest.jsonl").unlink(), "holds no manifest.jsonl"),
    "empty": (lambda f: (f / "manifest.jsonl").write_text(""), "holds no case"),
    "no JSON": (lambda f: (f / "manifest.jsonl").write_text("{\n"), r"manifest\.jsonl:1  damaged"),
    "a list": (lambda f: (f / "manifest.jsonl").write_text("[]\n"),
    r"manifest\.jsonl:1  damaged: not an object"),
    "no tensors": (lambda f: (f / "tensors.safetensors").unlink(),
    r"tensors\.safetensors cannot be read"),
    "tensors cut short": (lambda f: (f / "tensors.safetensors").write_bytes(b"\0" * 5),
    r"tensors\.safetensors cannot be read"),
    "environment no JSON": (lambda f: (f / "environment.json").write_text("{"),
    r"environment\.json cannot be read"),
    "environment a list": (lambda f: (f / "environment.json").write_text("[]"),
    r"environment\.json does not describe"),
    "no id": ({"id": None}, r"manifest\.jsonl:1  malformed: ValueError None is no text"),
    "unknown direction": ({"direction": "up"}, r"manifest\.jsonl:1  unknown direction 'up'"),
    "unknown outcome": ({"outcome": "fine"}, r"manifest\.jsonl:1  unknown outcome 'fine'"),
    "no such key": ({"tensors": {"a": {"key": "x", "dtype": "float32", "shape": [2]}}},
    r"manifest\.jsonl:1  .*has no tensor 'x'"),
    "another shape": (said_of_a("float32", [3]), r"manifest\.jsonl:1  the tensor .* says"),
    "another dtype": (said_of_a("int32", [2]), r"manifest\.jsonl:1  the tensor .* says"),
    "an argument nobody knows": ({"args": [{"what": 1}]}, (r"manifest\.jsonl:1  'what' is not a "
    r"kind of argument")),
    "a tensor nobody knows": ({"args": [{"tensor": "z"}]},
    r"manifest\.jsonl:1  there is no tensor 'z'"),
    "args a number": ({"args": 3}, r"manifest\.jsonl:1  malformed"),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_folder_is_one_line_with_its_place(kind: str, tmp_path: Path) -> None:
    damage, expected = DAMAGE[kind]
    source = Source(tmp_path / "s")
    source.add("one", "torch.exp", [T("a")], {"a": torch.ones(2)}, {"out/0": torch.ones(2)})
    if isinstance(damage, dict):
        source.lines[0].update(damage)
        source.write()
    else:
        damage(source.write())
    with pytest.raises(BundleError, match=expected) as caught:
        convert(tmp_path / "s", tmp_path / "r")
    assert "\n" not in str(caught.value)


def test_the_tool_says_it_in_one_line_and_exit_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        "import_recording", ROOT / "tools" / "import_recording.py"
    )
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.main(["nowhere", str(tmp_path / "r")]) == 2
    assert re.fullmatch(
        r"import_recording: nowhere holds no manifest\.jsonl: .*\n", capsys.readouterr().err
    )
    assert tool.main([]) == 2
    assert capsys.readouterr().err.startswith("usage: ")
