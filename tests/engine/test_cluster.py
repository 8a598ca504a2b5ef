"""A run on many workers equals the serial one, case for case, whatever becomes of the workers."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from consistency import operators as registry
from consistency.engine import engine
from consistency.engine.config import RunConfig
from consistency.engine.events import (
    DeterminismChecked,
    Event,
    Finished,
    Judged,
    Minimized,
    PrecisionScalingMeasured,
    ResumeState,
    Started,
    UnitDone,
)
from consistency.engine.executors.dask import client as dask_client
from consistency.engine.executors.workers import coordinator as coordinator_module
from consistency.engine.executors.workers import fingerprints, membership
from consistency.engine.executors.workers.client import EventBatch, Reply
from consistency.engine.executors.workers.coordinator import Coordinator
from consistency.engine.executors.workers.environments import (
    Member,
    RemoteBackend,
    WorkerEnvironment,
    label_for,
    labels_chosen,
)
from consistency.engine.executors.workers.membership import NoWorkersError
from consistency.engine.executors.workers.serialization import pack_event, unpack_event
from consistency.errors import BundleError, UsageError
from consistency.judge import tolerances
from consistency.probes.fingerprint import cache
from consistency.probes.fingerprint.facts import Fact, Fingerprint
from consistency.storage import bundle
from consistency.storage.bundle import read_environment, row_of
from consistency.storage.corpus.corpus import Corpus
from tests.support.commands import command
from tests.support.fake_client import FakeClient, Process
from tests.support.planting import needs_unix
from tests.support.snapshots import Snapshot

PLAIN = frozenset[str]()
CUDA = frozenset({"cuda"})
WRONG = """
import consistency

class Wrong(consistency.Backend):
    name = "wrong"

    def call(self, operator, args, kwargs):
        return super().call(operator, args, kwargs) * 1.001
"""
EXPECTED = """
expectations:
  - operator: exp
    backend: wrong
    verdicts: [divergent]
    reason: it multiplies by 1.001
"""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(coordinator_module, "GRACE_SECONDS", 0.05)
    monkeypatch.setattr(membership, "JOIN_SECONDS", 0.05)


def chosen_for(**changes: Any) -> RunConfig:
    requested: dict[str, Any] = {
        "operators": ["softmax", "sign"],
        "backends": ["cpu", "numpy"],
        "dtypes": ["float32", "float64"],
    }
    return engine.configure(**{**requested, "examples": 4, "shrink": False, **changes})


def rows(events: Iterable[Event]) -> list[str]:
    found = [
        row_of(result) for event in events if isinstance(event, Judged) for result in event.results
    ]
    return sorted(json.dumps(row, sort_keys=True) for row in found)


@functools.cache
def serial(repeat: int = 0) -> tuple[str, ...]:
    return tuple(rows(engine.run(chosen_for(repeat=repeat))))


def clustered(
    client: FakeClient, labels: dict[str, str] | None = None, asked: bool = True, **changes: Any
) -> dict[str, list[Event]]:
    coordinator = Coordinator(chosen_for(**changes), client, labels=labels, backends_named=asked)
    coordinator.gather()
    found: dict[str, list[Event]] = {
        environment.name: [] for environment in coordinator.environments
    }
    for environment, event in coordinator.run():
        found[environment.name].append(event)
    return found


def verdicts(events: Iterable[Event]) -> Counter[str]:
    return Counter(
        r.verdict.value for event in events if isinstance(event, Judged) for r in event.results
    )


def case_number(number: int) -> str:
    """The id of a case in the middle of the run: it is drawn the same way everywhere."""
    groups = list(engine.plan(chosen_for(), lambda: False))
    return groups[0].cases[number].id


def test_a_killed_worker_changes_nothing() -> None:
    client = FakeClient({"a": PLAIN, "b": PLAIN}, lose_at=[1, 5])
    (events,) = clustered(client, repeat=1).values()
    assert len(client.lost) == 2
    assert rows(events) == list(serial(repeat=1))
    kinds = Counter(type(event) for event in events)
    assert kinds[Started] == kinds[Finished] == 1
    assert kinds[UnitDone] == 4, "one for each operator × dtype, however often it was tried"
    assert kinds[DeterminismChecked] == 4
    assert kinds[PrecisionScalingMeasured] == 1
    (alone,) = [
        event for event in engine.run(chosen_for()) if isinstance(event, PrecisionScalingMeasured)
    ]
    (there,) = [event for event in events if isinstance(event, PrecisionScalingMeasured)]
    assert [s.to_json() for s in there.scalings] == [s.to_json() for s in alone.scalings]


def test_workers_that_are_alike_share_the_groups() -> None:
    client = FakeClient({"a": PLAIN, "b": PLAIN})
    clustered(client)
    assert set(client.sent) == {"a", "b"}
    assert sum(client.sent.values()) == 4


def test_a_case_that_ends_the_process_is_a_crash_and_the_others_are_not() -> None:
    case = case_number(2)
    client = FakeClient({"a": PLAIN}, process=lambda: Process(killers=[(case, "numpy")]))
    (events,) = clustered(client).values()
    found = [json.loads(row) for row in rows(events)]
    crashed = [
        (row["case_id"], row["backend"], row["direction"])
        for row in found
        if row["verdict"] == "crash"
    ]
    assert crashed == [(case, "numpy", "forward")]
    assert "the process ended (SIGSEGV), again when the case was tried by itself" in str(found)
    others = {
        row
        for row in serial()
        if json.loads(row)["case_id"] != case or json.loads(row)["backend"] != "numpy"
    }
    assert others <= set(rows(events))
    assert len(found) == len(serial())
    assert not client.lost


def test_a_process_that_ended_once_changes_nothing() -> None:
    flaky = {case_number(3)}
    client = FakeClient({"a": PLAIN}, process=lambda: Process(flaky=flaky))
    (events,) = clustered(client).values()
    assert not flaky
    assert rows(events) == list(serial())


def test_a_case_that_takes_workers_away_is_found() -> None:
    case = case_number(1)
    client = FakeClient({"a": PLAIN, "b": PLAIN}, deadly=[case])
    (events,) = clustered(client).values()
    found = [json.loads(row) for row in rows(events)]
    assert {row["case_id"] for row in found if row["verdict"] == "crash"} == {case}
    assert all(
        "workers were lost while this case ran" in row["explanation"]
        for row in found
        if row["verdict"] == "crash"
    )
    others = [
        row for row in serial() if json.loads(row)["case_id"] != case and "scaling_pairs" not in row
    ]
    assert set(others) <= set(rows(events))
    assert sum(isinstance(event, UnitDone) for event in events) == 4
    assert len(client.lost) <= 6


def test_when_no_worker_is_left_the_rest_is_not_tested() -> None:
    client = FakeClient({"a": PLAIN}, lose_at=[3], comes_back=False)
    (events,) = clustered(client).values()
    found = verdicts(events)
    assert found["unavailable"] > 0
    assert found["rounding"] + found["exact"] > 0
    told = {
        (r.operator, r.dtype)
        for event in events
        if isinstance(event, Judged)
        for r in event.results
    }
    assert told == {
        (operator.name, dtype) for operator, dtype in engine.operator_dtypes(chosen_for())
    }, "drawn or not"
    assert isinstance(events[-1], Finished)


def test_every_environment_gets_every_case() -> None:
    client = FakeClient({"a": PLAIN, "old": PLAIN, "b": PLAIN}, torch={"old": "2.4.1"})
    found = clustered(client)
    assert len(found) == 2
    assert all(rows(events) == list(serial()) for events in found.values())
    assert client.sent["old"] == 4
    assert client.sent["a"] + client.sent["b"] == 4


def test_a_backend_goes_to_workers_with_its_resource() -> None:
    labels = {"cpu+threads=1": "fpga"}
    client = FakeClient({"a": PLAIN, "b": frozenset({"fpga"})})
    (events,) = clustered(client, labels, backends=["cpu", "cpu+threads=1"]).values()
    there = {
        name: address
        for address, header in client.serialization
        for name in header["backends"]
        if name != "cpu"
    }
    assert there == {"cpu+threads=1": "b"}
    assert all(
        header["backends"] in (["cpu"], ["cpu+threads=1"]) for _, header in client.serialization
    )
    assert verdicts(events)["unavailable"] == 0
    assert sum(isinstance(event, UnitDone) for event in events) == 4


def test_what_every_worker_has_is_judged_together() -> None:
    client = FakeClient({"a": frozenset({"fpga", "other"}), "b": frozenset({"fpga"})})
    (events,) = clustered(client, {"numpy": "fpga"}).values()
    assert all(header["backends"] == ["cpu", "numpy"] for _, header in client.serialization)
    assert rows(events) == list(serial())


def test_without_a_worker_for_it_a_backend_is_unavailable(snapshot: Snapshot) -> None:
    client = FakeClient({"a": PLAIN})
    (events,) = clustered(client, {"numpy": "fpga"}).values()
    assert verdicts(events)["unavailable"] == len(
        {row["operator"] + row["dtype"] + row["direction"] for row in map(json.loads, serial())}
    )
    text = next(
        r.explanation
        for e in events
        if isinstance(e, Judged)
        for r in e.results
        if r.verdict.value == "unavailable"
    )
    snapshot(text)
    assert not any("numpy" in header["backends"] for _, header in client.serialization)


def test_backends_that_nobody_asked_for_are_not_missed() -> None:
    (events,) = clustered(
        FakeClient({"a": PLAIN}), asked=False, backends=["cpu", "numpy", "cuda", "directml"]
    ).values()
    started = events[0]
    assert isinstance(started, Started)
    if "cuda" not in {b.name for b in started.config.backends}:
        assert [b.name for b in started.config.backends] == ["cpu", "numpy"]
    assert not started.unavailable


def test_a_worker_that_comes_late_helps_where_it_fits(snapshot: Snapshot) -> None:
    client = FakeClient({"a": PLAIN}, torch={"c": "2.4.1"})
    said: list[str] = []
    coordinator = Coordinator(chosen_for(), client, notify=said.append)
    coordinator.gather()
    events = []
    for _, event in coordinator.run():
        if isinstance(event, Started):
            client.workers |= {"b": Member("b"), "c": Member("c")}
        events.append(event)
    assert rows(events) == list(serial())
    assert client.sent["b"] > 0
    assert client.sent["c"] == 0
    snapshot(said)


def test_results_that_are_there_are_not_asked_for_again() -> None:
    whole = [event for event in engine.run(chosen_for()) if isinstance(event, Judged)]
    half = {
        r.key: r
        for event in whole[: len(whole) // 2]
        for r in event.results
        if r.comparison is not None
    }
    client = FakeClient({"a": PLAIN})
    coordinator = Coordinator(chosen_for(), client)
    coordinator.gather()
    events = [event for _, event in coordinator.run(lambda environment: ResumeState(half))]
    taken = [
        r
        for event in events
        if isinstance(event, Judged) and not event.fresh
        for r in event.results
        if r.comparison is not None
    ]
    assert {r.key for r in taken} == set(half)
    assert sum(len(header["earlier"]) for _, header in client.serialization) == len(half)
    assert rows(events) == list(serial())


@pytest.mark.nightly
def test_failures_are_made_smaller_at_the_worker(tmp_path: Path) -> None:
    path = tmp_path / "wrong.py"
    path.write_text(WRONG, encoding="utf-8")
    requested: dict[str, Any] = {
        "operators": ["exp"],
        "dtypes": ["float32"],
        "directions": ["forward"],
        "examples": 3,
    }
    (events,) = clustered(
        FakeClient({"a": PLAIN}), **requested, backends=["cpu", f"{path}:Wrong"], shrink=True
    ).values()
    (small,) = [event for event in events if isinstance(event, Minimized)]
    assert small.result.verdict.fails
    assert len(small.result.case.line) <= len(small.original.case.line)


def test_nobody_there_is_one_line() -> None:
    with pytest.raises(
        NoWorkersError,
        match=r"no worker is connected to the scheduler after 0 s; start one with: dask worker",
    ):
        Coordinator(chosen_for(), FakeClient({})).gather()
    with pytest.raises(NoWorkersError, match="1 of 2 workers are connected"):
        Coordinator(chosen_for(), FakeClient({"a": PLAIN}), wait_for=2).gather()


def test_other_rules_at_the_worker_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("extends: packaged\n", encoding="utf-8")
    assert Coordinator(chosen_for(tolerances=path), FakeClient({"a": PLAIN})).gather()
    coordinator = Coordinator(chosen_for(tolerances=path), FakeClient({"a": PLAIN}))
    coordinator.config_json["digest"] = "another"
    with pytest.raises(NoWorkersError, match="worker a: its rules are others"):
        coordinator.gather()


@pytest.mark.parametrize(
    ("spec", "label"),
    [("cpu+onednn=off", ""), ("numpy", ""), ("cuda:1+tf32", "cuda"), ("directml", "directml"),
    ("mine.py:Backend", ""),
     ("cuda@/opt/x/bin/python", "cuda"), ("cpu+env:A=b", ""), ("package.module:thing", ""), ("mps",
     "mps")],
)  # fmt: skip
def test_which_resource_a_backend_needs(spec: str, label: str) -> None:
    assert label_for(spec, {}) == label
    assert label_for(spec, {spec: "mine"}) == "mine"


def test_resources_as_users_write_them() -> None:
    assert labels_chosen(["cpu+onednn=off=fast", "cuda=none"]) == {
        "cpu+onednn=off": "fast",
        "cuda": "",
    }
    with pytest.raises(UsageError, match="--resource 'cuda' is not SPEC=LABEL"):
        labels_chosen(["cuda"])


@pytest.mark.parametrize(
    "damage",
    [lambda t: b"{", lambda t: b"[]", lambda t: b'{"kind":"judged"}',
    lambda t: t.replace(b'"judged"', b'"other"', 1),
     lambda t: t.replace(b'"rounding"', b'"fine"'), lambda t: t.replace(b'"metrics"', b'"metrik"'),
     lambda t: t.replace(b'"case_id": "', b'"case_id": "x'),
     lambda t: b'{"kind":"judged","strangers":{}}'],
)  # fmt: skip
def test_what_is_no_event_is_one_line(damage: Callable[[bytes], bytes]) -> None:
    event = next(
        e
        for e in engine.run(chosen_for(operators=["softmax"]))
        if isinstance(e, Judged) and e.results[0].verdict.value == "rounding"
    )
    known = {event.case.id: event.case}
    text = pack_event(event, known)
    assert rows([unpack_event(text, known, "w")]) == rows([event])
    assert rows([unpack_event(pack_event(event, {}), {}, "w")]) == rows([event])
    with pytest.raises(BundleError, match=r"^worker tcp://w sent what is no result: [^\n]+$"):
        unpack_event(damage(text), known, "tcp://w")


def invoke(client: FakeClient, monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(dask_client, "DaskClient", lambda address: client)
    plan = ["softmax", "--dtype", "float32", "--examples", "3", "--no-shrink"]
    return command("run --cluster tcp://head:8786", *plan, *words)


@pytest.mark.nightly
def test_a_bundle_for_each_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = FakeClient({"a": PLAIN, "old": PLAIN}, torch={"old": "2.4.1"})
    done = invoke(
        client,
        monkeypatch,
        "-b",
        "cpu",
        "-b",
        "numpy",
        "--out",
        str(tmp_path),
        "--json",
        str(tmp_path / "rows.jsonl"),
    )
    assert done.exit_code == 0, done.output
    folders = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert len(folders) == 2
    headers = [bundle.read_header(folder) for folder in folders]
    assert [header["label"] for header in headers] == [folder.name for folder in folders]
    assert headers[0]["id"] != headers[1]["id"]
    assert all((folder / "report.html").is_file() for folder in folders)
    one, other = (bundle.read_results(folder) for folder in folders)
    assert [r.key for r in sorted(one, key=lambda r: r.key)] == [
        r.key for r in sorted(other, key=lambda r: r.key)
    ]
    named = [
        json.loads(line)["environment"]
        for line in (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert set(named) == {folder.name for folder in folders}
    assert done.output.count("rounding or exact") == 2
    assert done.output.count("torch2.4.1 · torch 2.4.1 · 1 worker") == 2, (
        "above what is run, and above what came out"
    )


@needs_unix
def test_a_bundle_is_not_written_through_a_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tmp_path / "first"
    client = FakeClient({"a": PLAIN})
    assert invoke(client, monkeypatch, "-b", "cpu", "--out", str(first)).exit_code == 0
    (name,) = (path.name for path in first.iterdir())
    second, outside = tmp_path / "second", tmp_path / "outside"
    outside.mkdir()
    second.mkdir()
    (second / name).symlink_to(outside)
    client = FakeClient({"a": PLAIN})
    said = invoke(client, monkeypatch, "-b", "cpu", "--out", str(second))
    assert said.exit_code == 2
    assert f"{second / name} is a link" in said.output
    assert list(outside.iterdir()) == []


def test_an_interrupted_run_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(FakeClient):
        def next(self, seconds: float) -> Any:
            message = super().next(seconds)
            if self.groups and isinstance(message, EventBatch):
                self.forget_all = True
                raise KeyboardInterrupt
            return message

    words = ("-b", "cpu", "-b", "numpy", "--out", str(tmp_path))
    done = invoke(Interrupted({"a": PLAIN}), monkeypatch, *words)
    assert done.exit_code == 130
    assert f"complete it with --resume --out {tmp_path}" in done.output
    done = invoke(FakeClient({"a": PLAIN}), monkeypatch, *words, "--resume")
    assert done.exit_code == 0, done.output
    (folder,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    chosen = {"operators": ["softmax"], "dtypes": ["float32"], "examples": 3, "shipped": True}
    alone = engine.run(chosen_for(**chosen))
    keys = Counter(r.key for event in alone if isinstance(event, Judged) for r in event.results)
    assert Counter(r.key for r in bundle.read_results(folder)) == keys


def test_a_backend_that_was_asked_for_and_is_nowhere_is_status_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = invoke(
        FakeClient({"a": PLAIN}),
        monkeypatch,
        "-b",
        "cpu",
        "-b",
        "numpy",
        "--resource",
        "numpy=fpga",
        "--no-bundle",
    )
    assert done.exit_code == 3, done.output
    assert "no worker has the resource fpga" in done.output


def test_bundles_hold_how_the_backends_of_their_workers_compute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        cache,
        "take",
        lambda backend, **more: Fingerprint.of(
            backend.name, [Fact("exp/float32/ulp", f"of {backend.name}")]
        ),
    )
    monkeypatch.setenv("CONSISTENCY_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CONSISTENCY_PROBES")
    monkeypatch.setattr(coordinator_module, "LONG_SECONDS", 0.0)
    words = ("-b", "cpu", "-b", "numpy", "--resource", "numpy=big")
    client = FakeClient({"a": PLAIN, "b": frozenset({"big"})}, torch={"b": "2.4.1"})
    done = invoke(client, monkeypatch, *words, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.output
    found = [read_environment(folder) for folder in sorted((tmp_path / "out").iterdir())]
    told = {
        name: known["fingerprint"]["hash"]
        for one in found
        for name, known in one.items()
        if "fingerprint" in known
    }
    assert set(told) == {"cpu", "numpy"}
    assert len(set(told.values())) == 2
    invoke(
        FakeClient({"a": PLAIN}),
        monkeypatch,
        "-b",
        "cpu",
        "--no-fingerprint",
        "--out",
        str(tmp_path / "none"),
    )
    (folder,) = (tmp_path / "none").iterdir()
    assert "fingerprint" not in read_environment(folder)["cpu"]


def test_a_worker_that_says_nonsense_of_itself_leaves_no_fingerprint() -> None:
    remote = RemoteBackend("cpu", {})
    environment = WorkerEnvironment(
        "k", {}, "", "", dataclasses.replace(chosen_for(), backends=(remote,)), {}
    )
    for text in (
        "",
        "[]",
        '{"lines": []}',
        '{"lines": {"cpu": {"a": 1}}}',
        '{"lines": {"cpu": "x"}}',
    ):
        fingerprints._take(environment, Reply("t", text=text))
        assert dict(remote.fingerprint) == {}
    fingerprints._take(
        environment, Reply("t", text='{"lines": {"cpu": {"a": "b"}, "other": {"a": "b"}}}')
    )
    assert remote.fingerprint == {"a": "b"}


@pytest.mark.parametrize(
    ("words", "text"),
    [(("--label", "x"), ("consistency: --label names this machine; workers are named where they "
    "run, by the variable CONSISTENCY")),
     (("--resource", "x"), "consistency: --resource 'x' is not SPEC=LABEL")],
)  # fmt: skip
def test_mistakes_are_one_line(
    words: tuple[str, ...], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = invoke(FakeClient({"a": PLAIN}), monkeypatch, "--no-bundle", *words)
    assert done.exit_code == 2
    assert text in done.output


def test_its_options_belong_to_a_cluster() -> None:
    done = command("run --workers 2")
    assert (done.exit_code, done.output) == (
        2,
        "consistency: --resource and --workers belong to --cluster ADDRESS\n",
    )


def test_a_corpus_is_replayed_first_and_says_so() -> None:
    cases = tuple(
        case for group in engine.plan(chosen_for(), lambda: False) for case in group.cases[:3]
    )
    given: dict[str, Any] = {"corpus": Corpus("shared", cases), "examples": 2, "seed": 1}
    (events,) = clustered(FakeClient({"a": PLAIN, "b": PLAIN}, lose_at=[2]), **given).values()
    alone = list(engine.run(chosen_for(**given)))
    assert rows(events) == rows(alone)
    told, expected = (
        Counter((e.case.id, e.origin) for e in some if isinstance(e, Judged) and e.fresh)
        for some in (events, alone)
    )
    assert told == expected
    assert {origin for _, origin in told} == {"replayed", "explored"}


def test_a_time_budget_ends_the_run() -> None:
    (events,) = clustered(FakeClient({"a": PLAIN}), operators=["sign"], time_budget=0.4).values()
    assert isinstance(events[-1], Finished)
    assert events[-1].out_of_time
    keys = [
        r.key
        for event in events
        if isinstance(event, Judged)
        for r in event.results
        if r.comparison is not None
    ]
    assert len(keys) == len(set(keys)) > 0


def test_expectations_hold_at_the_worker(tmp_path: Path) -> None:
    path, known = tmp_path / "wrong.py", tmp_path / "known.yaml"
    path.write_text(WRONG, encoding="utf-8")
    known.write_text(EXPECTED, encoding="utf-8")
    requested: dict[str, Any] = {
        "operators": ["exp"],
        "dtypes": ["float32"],
        "directions": ["forward"],
        "examples": 4,
    }
    chosen = chosen_for(**requested, backends=["cpu", f"{path}:Wrong"], expectations=[known])
    coordinator = Coordinator(chosen, FakeClient({"a": PLAIN}), expectations=[str(known)])
    coordinator.gather()
    events = [event for _, event in coordinator.run()]
    assert verdicts(events)["known"] > 0
    assert verdicts(events)["divergent"] == 0
    assert rows(events) == rows(engine.run(chosen))


def test_nothing_is_computed_here_in_the_name_of_another_machine() -> None:
    (case, *_) = engine.plan(chosen_for(), lambda: False).__next__().cases
    (result,) = engine.judge_case(
        case, registry.get("softmax"), [RemoteBackend("cuda", {})], tolerances.load(), ("forward",)
    )
    assert (result.verdict.value, result.comparison is None or result.comparison.status) == (
        "unsupported",
        "unsupported",
    )
