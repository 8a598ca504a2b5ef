"""What a run looks like: the table, the failures, the last line, in a file and on a terminal."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import consistency
from consistency.core import text
from consistency.core.detail import HarnessFailed, NotBegun
from consistency.core.model import Case, Comparison, ElementGroup, Measured, Result, Worst
from consistency.core.recipe import DType, Index, MemoryFormat, TensorRecipe
from consistency.core.verdict import Verdict
from consistency.engine import engine
from consistency.engine.events import Finished, Judged, Minimized, Started, UnitDone
from consistency.report import failure, family_table, progress, terminal
from consistency.report.summary import RunSummary
from consistency.report.terminal import Screen
from tests.support.snapshots import Snapshot

TENSOR = TensorRecipe((3, 4), "float32", stop=5)


class Named(consistency.Backend):
    def __init__(
        self, name: str, reason: str | None = None, environment: dict[str, str] | None = None
    ) -> None:
        self.name, self.reason, self.known = name, reason, environment or {}

    def why_unavailable(self) -> str | None:
        return self.reason

    def environment(self) -> dict[str, str]:
        return self.known


def result(
    verdict: str,
    operator: str = "exp",
    family: str = "unary",
    backend: str = "cpu",
    rho: float | None = None,
    **more: Any,
) -> Result:
    metrics = {} if rho is None else {"rho_max": rho}
    case = Case(
        operator, more.pop("dtype", "float32"), more.pop("args", (TENSOR,)), more.pop("kwargs", {})
    )
    text = more.pop("explanation", f"{rho} × budget" if rho is not None else verdict)
    return Result(
        case,
        backend,
        more.pop("direction", "forward"),
        Verdict(verdict),
        text,
        metrics | more.pop("metrics", {}),
        family,
        **more,
    )


def settings(*backends: Any, **changes: Any) -> engine.RunConfig:
    return engine.configure(["exp"], list(backends) or ["cpu", "numpy"], examples=1, **changes)


def shown(
    results: Sequence[Result],
    chosen: engine.RunConfig | None = None,
    *,
    terminal_width: int = 0,
    seconds: float = 1.5,
    **screen: Any,
) -> list[str]:
    """The lines on the screen after a run with these results."""
    chosen = chosen or settings()
    stream = io.StringIO()
    found = Screen(stream=stream, **screen)
    if terminal_width:
        from rich.console import Console

        found.console = Console(
            file=stream,
            force_terminal=True,
            width=terminal_width,
            soft_wrap=True,
            highlight=False,
            markup=False,
        )
    absent = {b.name: reason for b in chosen.backends if (reason := b.why_unavailable())}
    found(Started(chosen, absent, 1, len(results)))
    for one in results:
        found(Judged(one.case, (one,)))
    found(UnitDone("exp", "float32", 1))
    found(Finished(seconds, False))
    return stream.getvalue().splitlines()


def table(*results: Result, backends: Sequence[str] = ("cpu", "numpy")) -> list[str]:
    summary = RunSummary()
    for one in results:
        summary.add(one)
    return [line.plain for line in family_table.table(summary, backends)]


def test_of_operators_that_fail_without_a_number_the_one_that_errs_most_is_the_worst() -> None:
    summary = RunSummary()
    for name, rho in (("exp", 3.0), ("log", 900.0), ("tan", 1e9)):
        summary.add(result("divergent", name, rho=rho))
        if name != "tan":
            summary.add(result("error", name))
    assert [results[0].operator for results in summary.by_operator()] == ["log", "exp", "tan"]


# --- the table


def test_the_table_shows_the_worst_that_passed(snapshot: Snapshot) -> None:
    snapshot(
        table(
            result("rounding", rho=0.31),
            result("rounding", rho=0.12),
            result("rounding", rho=0.52, backend="numpy"),
            result("exact", "neg", "signs", rho=1.0),
            result("exact", "neg", "signs", backend="numpy"),
        )
    )


def test_the_table_counts_operators_that_fail_or_were_not_tested(snapshot: Snapshot) -> None:
    snapshot(
        table(
            result("rounding", rho=0.31),
            result("divergent", "log", rho=7.0),
            result("error", "tan"),
            result("exact", "neg"),
            result("rounding", rho=0.2, backend="numpy"),
            result("unsupported", "log", backend="numpy"),
            result("unsupported", "exp", backend="numpy", direction="backward"),
            result("rounding", "mm", "matmul", rho=0.5),
            result("known", "mm", "matmul", rho=9.0, backend="numpy"),
            result("fallback", "sum", "reduction"),
            result("unavailable", "sum", "reduction", backend="numpy"),
        )
    )


def test_the_worst_of_an_operator_counts(snapshot: Snapshot) -> None:
    lines = table(
        result("divergent", rho=3.0),
        result("rounding", rho=0.1),
        result("inconclusive"),
        backends=["cpu"],
    )
    snapshot(lines[1])


def test_a_backend_that_met_no_case_of_a_family(snapshot: Snapshot) -> None:
    snapshot(table(result("exact"))[1])
    assert table() == []


def test_the_table_stays_narrow() -> None:
    names = ["cpu", "cpu+onednn=off+threads=1", "x" * 300, "cuda:1+tf32", "numpy", "directml:1"]
    lines = table(
        *(result("divergent", backend=name, family="linear_algebra", rho=1e9) for name in names),
        backends=names,
    )
    assert max(map(len, lines)) <= 160
    assert f"{'x' * 29}…" in lines[0]
    assert len({line.index("✗ 1 of 1") for line in lines[1:2]}) == 1


# --- the last line


def last(*results: Result, **more: Any) -> str:
    return shown(results, **more)[-1]


def test_the_last_line_of_a_run_that_passed(snapshot: Snapshot) -> None:
    snapshot(last(result("rounding", rho=0.3), result("exact")), "1")
    snapshot(last(result("exact"), out=Path("reports/x")), "2")


def test_the_last_line_counts_by_verdict() -> None:
    many = [result("rounding", rho=0.3)] * 1234
    others = [
        result(name)
        for name in (
            "divergent",
            "error",
            "divergent",
            "inconclusive",
            "unsupported",
            "unavailable",
            "known",
        )
    ]
    text = last(*many, *others)
    assert text.startswith(
        "✗ 2 divergent · 1 error · 1,234 rounding or exact · 1 known · 1 inconclusive · 2 not "
        "tested (why: --not-tested)"
    )


def test_a_run_in_which_nothing_was_tested_says_so(snapshot: Snapshot) -> None:
    snapshot(last(result("unavailable")))


def test_failures_of_the_harness_do_not_hide_among_the_inconclusive() -> None:
    broken = result(
        "inconclusive",
        explanation="the harness itself failed to judge this case (ValueError: x)",
        detail=HarnessFailed(),
    )
    assert "1 inconclusive · 1 of them failures of the harness itself: please report one" in last(
        result("exact"), broken
    )


def test_what_was_not_begun_is_not_counted_among_the_inconclusive() -> None:
    late = result("inconclusive", explanation="not begun", detail=NotBegun())
    assert " 1 rounding or exact · 1 inconclusive · 2 not begun    " in last(
        result("exact"), result("inconclusive"), late, late
    )


def test_the_last_line_tells_that_time_was_up() -> None:
    stream = io.StringIO()
    screen = Screen(stream=stream)
    screen(Started(settings(), {}, 1, 1))
    screen(Finished(60.04, True))
    assert stream.getvalue().splitlines()[-1].endswith("    60.0 s, time budget used up")


def test_why_something_was_not_tested(snapshot: Snapshot) -> None:
    absent = result("unavailable", backend="cuda", explanation="no driver\nand more")
    lines = shown(
        [absent, absent, result("inconclusive", explanation="cannot tell: " + "x" * 200)],
        not_tested=True,
    )
    snapshot(lines[-2])
    assert lines[-1].startswith("        1  inconclusive  cpu: cannot tell: xxx")
    assert len(lines[-1]) < 130
    assert "--not-tested" not in "".join(lines)


# --- backends


def test_backends_come_first_each_with_what_is_new(snapshot: Snapshot) -> None:
    common = {"device": "cpu", "torch": "2.13.0", "numpy": "2.4.6", "threads": "2"}
    gpu = {"device": "GeForce", "driver": "595", "numpy": "2.4.6"}
    chosen = settings(
        Named("a", environment=common | {"onednn": "on"}), Named("much longer",
        environment=common | {"onednn": "off"}),
        Named("gpu", environment=gpu), Named("gone", "no adapter"),
    )  # fmt: skip
    lines = shown([], chosen, elsewhere=["mps", "xpu"])
    assert re.fullmatch(
        r"consistency \S+ · torch \S+ · 1 operator × dtype, 1 case each · seed 0", lines[0]
    )
    snapshot(lines[1:6])


# --- failures


def divergent(operator: str = "exp", rho: float = 1400.4, **more: Any) -> Result:
    more = {
        "metrics": {"ulp_max": 8389.0, "rmse_ratio": 30.0},
        "worst": Worst((0, 3), 1.03710938, 1.0000012),
        "output": "out/0",
    } | more
    return result(
        "divergent",
        operator,
        rho=rho,
        explanation=f"{rho:,.0f} × budget",
        shapes=("[3, 4] strides [1, 3] offset 0",),
        **more,
    )


def test_a_failure_is_told_in_a_few_lines(snapshot: Snapshot) -> None:
    first = divergent(backend="numpy", args=(TENSOR, 1, 0.5), kwargs={"dim": -1})
    snapshot(failure.message(first).splitlines())


@pytest.mark.parametrize(("changes", "line"), [
    ({"backend": "cpu"}, "  largest error 8,389 ulp"),
    ({"metrics": {"ulp_max": 2.0, "rmse_ratio": 1.0}}, "  largest error 2 ulp"),
    ({"metrics": {"ulp_max": 2.0, "rmse_ratio": 1e300}},
        "  largest error 2 ulp; the CPU in float32 makes no such error here"),
    ({"metrics": {"ulp_max": 2.0**24}}, "  not one digit is right"),
    ({"metrics": {"ulp_max": 1.4e45, "rmse_ratio": 0.001}},
        "  not one digit is right; RMS error 0.001 × that of the CPU in float32"),
    ({"dtype": "float64", "metrics": {"ulp_max": 3e9, "rmse_ratio": 9.0}},
        "  largest error over 1,000,000 ulp"),
])  # fmt: skip
def test_numbers_are_read_at_a_glance(changes: dict[str, Any], line: str) -> None:
    assert failure.message(divergent(**{"backend": "numpy"} | changes)).splitlines()[2] == line


def test_as_many_digits_as_the_dtype_has(snapshot: Snapshot) -> None:
    def line(dtype: str, actual: float, expected: float, **more: Any) -> str:
        return failure.message(
            divergent(dtype=dtype, worst=Worst((), actual, expected), **more)
        ).splitlines()[1]

    snapshot(line("float32", 2.794281623562331e-39, -0.0))
    assert line("bfloat16", 0.76171875, math.nan).endswith("got 0.7617, float64 says nan")
    assert line("float64", 0.1, 0.1 + 2**-56).endswith(
        "got 0.10000000000000001, float64 says 0.10000000000000002"
    )
    assert line("float16", 0.333251953125, 0.33325).endswith(
        "got 0.333251953125, float64 says 0.33325"
    ), "more where they look alike"
    # An operator on integers that returns floats.
    measured = Comparison("ok", (Measured("out/0", "float32", (), 1, (ElementGroup(None),)),))
    assert line("int64", 1 / 3, 0.25, comparison=measured).endswith(
        "got 0.333333333, float64 says 0.25"
    )


def test_what_is_derived_from_outputs_is_called_so() -> None:
    """Whether a position is the first of equal ones is no output of the operator's."""
    derived = divergent(operator="argmax", output="seen/1", worst=Worst((2,), 0.0, 1.0))
    assert failure.message(derived).splitlines()[1] == (
        "  worst at (2,) of what follows from the outputs (seen/1): got 0, float64 says 1"
    )


def test_the_call_is_told_like_a_call() -> None:
    args = (
        [TENSOR, TENSOR],
        (TensorRecipe((), "float32"),),
        DType("float16"),
        Index(None, 3, None),
        MemoryFormat("channels_last"),
    )
    one = result("error", "cat", args=args, shapes=("[3, 4]", "[4]", "[]"))
    assert (
        "  call:    cat([[3, 4], [4]], (0-d tensor,), torch.float16, slice(None, 3, None), "
        "torch.channels_last)"
    ) in failure.message(one)
    long = failure.message(result("error", args=(list(range(1000)),))).splitlines()
    assert len(long[1]) < 160
    assert long[1].endswith("…")


def test_no_command_where_none_would_do() -> None:
    assert "again" not in failure.message(divergent(), again=False)


def test_the_command_names_what_the_user_wrote(tmp_path: Path) -> None:
    one = divergent(backend="mine")
    assert "--backend mine.py:Mine --direction forward" in failure.command(one, spec="mine.py:Mine")
    assert "--backend 'my files/mine.py:Mine' " in failure.command(
        one, spec="my files/mine.py:Mine"
    )
    assert failure.command(one, bundle=tmp_path).startswith("consistency repro '{"), (
        "no folder there"
    )


def test_a_command_for_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "os", SimpleNamespace(name="nt"))
    assert text.quote("cpu+onednn=off") == "cpu+onednn=off"
    assert text.quote("C:\\my files\\x") == '"C:\\my files\\x"'
    assert text.quote('{"a":1}') == '"{\\"a\\":1}"'


def test_failures_come_worst_first_one_block_an_operator(
    snapshot: Snapshot, tmp_path: Path
) -> None:
    found = [
        divergent("exp", 5.0),
        divergent("exp", 90.0, backend="numpy"),
        divergent("log", 7000.0),
        result("structure", "tan"),
    ]
    found += [
        divergent("exp", 4.0, direction="backward"),
        divergent("exp", 3.0, direction="backward", backend="numpy"),
    ]
    lines = shown(found)
    heads = [
        line.split("   ")[0]
        for line in lines
        if line.startswith("✗ ") and "·" in line.split("   ")[0]
    ]
    snapshot(heads[:3], "1")
    also = [line for line in lines if "also:" in line]
    snapshot(also, "2")
    assert lines.count("  2 failing cases") == 2


def test_only_the_worst_are_told_in_full() -> None:
    found = [divergent(f"op{i:02}", 100.0 - i) for i in range(30)]
    lines = shown(found, out=Path("reports/x"))
    assert sum("again:" in line for line in lines) == terminal.IN_FULL
    assert "✗ op19 · float32 · forward · cpu   divergent: 81 × budget" in lines
    assert not any("op20" in line for line in lines)
    assert "… and 10 more operators fail" in lines
    assert any(
        line.startswith("  the commands that repeat them: ") and "message.txt" in line
        for line in lines
    )


def test_the_smaller_case_is_the_one_that_is_shown() -> None:
    stream = io.StringIO()
    screen = Screen(stream=stream)
    large, small = (
        divergent(rho=90.0),
        divergent(rho=5.0, args=(TensorRecipe((), "float32", stop=1),)),
    )
    for event in (
        Started(settings(), {}, 1, 1),
        Judged(large.case, (large,)),
        Minimized(large, small),
        Finished(1.0, False),
    ):
        screen(event)
    assert small.case.line in stream.getvalue()
    assert large.case.line not in stream.getvalue()


def test_a_long_operator_name() -> None:
    name = "nn.functional." + "very_" * 20 + "long"
    lines = shown([divergent(name), result("rounding", name, "family", rho=0.1, backend="numpy")])
    assert f"✗ {name} · float32 · forward · cpu   divergent: 1,400 × budget" in lines
    assert all(len(line) <= 160 for line in lines if "repro" not in line and "✗ nn" not in line)


# --- where it is shown


HOSTILE = "\x1b[31m[red]\x07[/bold]\r\t\ud800\u202e"


def test_text_from_elsewhere_is_only_text() -> None:
    """Neither escape codes nor rich's markup nor broken characters get through."""
    chosen = settings(Named("[red]mine[/bold]", HOSTILE))
    bad = result("error", HOSTILE, HOSTILE, HOSTILE, explanation=HOSTILE)
    text = "\n".join(
        shown(
            [bad, result("inconclusive", backend=HOSTILE, explanation=HOSTILE)],
            chosen,
            not_tested=True,
        )
    )
    assert "[red]" in text
    assert "[/bold]" in text
    assert not set("\x1b\x07\r\t\u202e\ud800") & set(text)
    text.encode("utf-8")


def test_a_file_gets_no_escape_codes_and_a_terminal_colors() -> None:
    results = [result("rounding", rho=0.5), divergent("log")]
    assert "\x1b" not in "".join(shown(results))
    colored = "\n".join(shown(results, terminal_width=100))
    assert "\x1b[31m✗" in colored
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", colored)
    assert "✗ log · float32 · forward · cpu   divergent: 1,400 × budget" in plain
    assert colored.count("\x1b[?25l") == colored.count("\x1b[?25h"), "the cursor is given back"


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    lines = shown([result("rounding", rho=0.5), result("rounding", "log", rho=0.5)])
    assert "  1 / 2 cases  exp" in lines
    assert "  2 / 2 cases  log" in lines
    lines = shown([result("rounding", rho=0.5)], settings(time_budget=60.0))
    assert "  1 cases  exp" in lines


def test_stopping_gives_the_terminal_back() -> None:
    from rich.console import Console

    stream = io.StringIO()
    screen = Screen(stream=stream)
    screen.console = screen.meter.console = Console(file=stream, force_terminal=True, width=80)
    screen(Started(settings(), {}, 1, 1))
    screen.stop()
    screen.stop()
    assert stream.getvalue().count("\x1b[?25l") == stream.getvalue().count("\x1b[?25h") == 1
