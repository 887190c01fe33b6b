"""The store: a directory a run, saved before anything is checked, found again by name."""

import json
import math
import os
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from store_cases import OPS

from checkers.judge import Judgement, judge
from checkers.ladder import Level, ladder_of
from harness.core.engines import Engines
from harness.core.errors import HarnessError, HistoryError, UsageError
from harness.core.history import History
from harness.core.op import Json, Kind, Op
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.core.verdict import Anomaly, Status, Verdict
from harness.report.run_files import facts_in
from harness.spec.run_spec import RunSpec
from harness.store.journal import Journal, journal_digest
from harness.store.parquet import read_parquet
from harness.store.store import RunDirectory, Store

UTC_TIME = datetime(2026, 11, 20, 17, 45, 9, tzinfo=UTC)
SEED = Seed(0x5EED)
SPEC = RunSpec(
    workload="quorum-set",
    nemesis="partition",
    seed=SEED,
    command="harness run --seed 0x5eed",
    promise="linearizable",
    rate=100.0,
    nodes=("ch1", "ch2"),
    workload_options={"insert": "quorum"},
)


class Lost:
    name = "set-full"

    def check(self, history: History) -> Verdict:
        anomaly = Anomaly(kind="lost", text="7 is lost", ops=(0, 2), key=1, value=7)
        return Verdict(
            checker=self.name,
            status=Status.INVALID,
            summary="1 of 2 lost",
            checked=2,
            anomalies=(anomaly,),
            figures={"lag_ms_max": 3.5},
        )


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def created(store: Store) -> RunDirectory:
    return store.create("quorum-set", "partition", SEED, UTC_TIME)


def begun(store: Store, ops: tuple[Op, ...] = OPS) -> RunDirectory:
    run = created(store)
    run.begin(SPEC, Engines(), Topology.of(), {"ch1": "18.16.1", "zk1": "3.8.0"})
    journal = Journal(run.journal)
    for op in ops:
        journal.append(op)
    journal.close()
    return run


def judged(run: RunDirectory) -> Judgement:
    return judge(run.history(), [Lost()], 10, "linearizable")


def test_a_run_is_named_by_workload_nemesis_time_and_seed(store: Store) -> None:
    run = created(store)
    assert run.path == store.root / "quorum-set+partition" / "20261120T174509Z-0x5eed"
    assert run.path.is_dir()


def test_two_runs_of_one_second_and_seed_do_not_clash(store: Store) -> None:
    names = [created(store).path.name for _ in range(3)]
    assert names == [f"20261120T174509Z-0x5eed{end}" for end in ("", ".2", ".3")]


@pytest.mark.parametrize(
    ("nemesis", "folder"),
    [
        ("partition,kill", "w+partition,kill"),
        ("../../etc", "w+_.._etc"),
        ("a b/c;d", "w+a_b_c_d"),
        ("..", "w+_"),
        ("", "w+_"),
        ("x" * 300, "w+" + "x" * 80),
    ],
)
def test_names_are_safe(store: Store, nemesis: str, folder: str) -> None:
    run = store.create("w", nemesis, SEED, UTC_TIME)
    assert run.path.parent == store.root / folder


def test_latest_leads_to_the_run_begun_last_in_the_store_and_in_each_folder(store: Store) -> None:
    first = store.create("quorum-set", "none", SEED, UTC_TIME)
    last = created(store)
    assert (store.root / "latest").resolve() == last.path.resolve()
    assert (store.root / "quorum-set+none" / "latest").resolve() == first.path.resolve()
    assert not (store.root / "latest").readlink().is_absolute(), "a store may be moved"


def test_a_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file")
    with pytest.raises(HarnessError, match=r"cannot be written: .*; give another --store"):
        created(Store(tmp_path / "store"))


def test_run_json_says_what_is_run_from_the_start(store: Store) -> None:
    run = begun(store)
    raw = json.loads(run.info_file.read_text())
    assert raw["schema"] == 2
    assert raw["state"] == "running"
    assert raw["spec"]["seed"] == "0x5eed"
    assert raw["again"] == "harness run --seed 0x5eed"
    assert raw["topology"]["nodes"][0] == {
        "name": "ch1",
        "role": "clickhouse",
        "shard": 1,
        "replica": 1,
        "keepers": ["zk1"],
        "version": "",
    }
    info = run.info()
    assert (info.spec, info.topology) == (SPEC, Topology.of())
    assert info.versions == {"ch1": "18.16.1", "zk1": "3.8.0"}
    assert info.ended_utc is None


@pytest.mark.parametrize("durable", [True, False])
def test_a_durable_runs_files_are_on_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name.removeprefix("."))

    monkeypatch.setattr(os, "fsync", fsync)
    run = replace(begun(store), durable=durable)
    synced.clear()
    run.save(judged(run))
    assert [name.partition(".json")[0] for name in synced] == (["results"] if durable else [])
    run.crash("why")
    assert len(synced) == 2 * durable
    journal = Journal(run.path / "more.jsonl", durable=durable)
    journal.append(OPS[0])
    journal.close()
    assert len(synced) == 3 * durable
    assert run.info().error == "why"


def test_a_finished_run_has_everything(store: Store) -> None:
    run = begun(store)
    judgement = judged(run)
    run.finish(judgement, ["zk2 was slow"], run.history())
    info = run.info()
    assert (info.state, info.status, info.spec) == ("finished", "INVALID", SPEC)
    assert info.ended_utc is not None
    results = run.results()
    assert results == {
        "schema": 1,
        "troubles": ["zk2 was slow"],
        "journal": journal_digest(run.journal),
        **json.loads(json.dumps(judgement.results())),
    }
    assert results["status"] == "INVALID"
    assert tuple(read_parquet(run.parquet_file)) == OPS
    files = {file.name for file in run.path.iterdir()}
    assert files == {"run.json", "history.jsonl", "history.parquet", "results.json"}


@pytest.mark.parametrize("figure", [3.5, 1e-6, 1e16, 10**40, math.nan, -math.inf, "ü\x00", [], {}])
def test_results_are_indented_as_json_does(store: Store, figure: Json) -> None:
    run = begun(store)
    verdict = Verdict(
        checker="c", status=Status.VALID, summary="", checked=1, figures={"a": [figure, {"b": 1}]}
    )
    run.save(Judgement(Status.VALID, (verdict,), ladder_of(Level.EVENTUAL, []), {}))
    text = run.results_file.read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    (output,) = json.loads(text)["verdicts"]
    assert str(output["figures"]["a"][0]) == str(figure)


def test_a_crashed_run_says_why_and_keeps_its_history(store: Store) -> None:
    run = begun(store)
    run.crash("ClusterError: the Docker engine is gone")
    assert run.info().state == "crashed"
    assert run.info().error == "ClusterError: the Docker engine is gone"
    assert tuple(run.history()) == OPS
    with pytest.raises(HarnessError, match=r"results.json: cannot be read"):
        run.results()


def test_a_stored_run_may_be_judged_again(store: Store) -> None:
    run = begun(store)
    run.finish(judged(run), ["zk2 was slow"])
    run.save(judged(run))
    assert run.results()["troubles"] == []
    assert run.info().state == "finished"


def test_parquet_is_made_again_when_it_is_missing_or_older_than_the_journal(store: Store) -> None:
    run = begun(store, OPS[:4])
    assert tuple(read_parquet(run.parquet())) == OPS[:4]
    made = run.parquet_file.stat().st_mtime_ns
    assert run.parquet().stat().st_mtime_ns == made, "not without need"
    run.journal.unlink()
    whole = Journal(run.journal)
    for op in OPS:
        whole.append(op)
    whole.close()
    assert tuple(read_parquet(run.parquet())) == OPS
    run.parquet_file.write_text("broken")
    assert tuple(read_parquet(run.parquet())) == OPS


def test_without_a_journal_the_history_is_parquets(store: Store) -> None:
    run = begun(store)
    run.parquet()
    run.journal.unlink()
    assert tuple(run.history()) == OPS
    assert run.parquet() == run.parquet_file


def test_a_verdict_is_of_the_journal_that_was_judged_and_of_no_other(store: Store) -> None:
    run = begun(store)
    run.finish(judged(run))
    assert facts_in(run).troubles == ()
    whole = run.journal.read_bytes()
    run.journal.write_bytes(whole.replace(b'"value":8', b'"value":9'))
    assert facts_in(run).troubles == (
        "history.jsonl has changed since it was judged: the verdict is that of other operations; "
        "harness check judges it again",
    )
    run.save(judged(run))
    assert facts_in(run).troubles == ()


def test_a_run_without_a_history_is_named(store: Store) -> None:
    with pytest.raises(HistoryError, match=r"history.jsonl: cannot be read"):
        created(store).parquet()


def test_a_history_that_parquet_cannot_hold_is_a_trouble_not_a_crash(store: Store) -> None:
    big = Op(index=0, process=0, kind=Kind.INVOKE, f="insert", time_ns=0, value=2**64 - 1)
    run = begun(store, (big,))
    run.finish(judged(run), history=run.history())
    assert run.info().state == "finished"
    troubles = run.results()["troubles"]
    assert isinstance(troubles, list)
    assert "op #0: value 18446744073709551615 does not fit" in troubles[0]
    assert tuple(run.history()) == (big,)


def test_a_truncated_journal_is_reported(store: Store) -> None:
    run = begun(store)
    run.journal.write_bytes(run.journal.read_bytes()[:-9])
    assert tuple(run.history()) == OPS[:-1]
    assert "line 8 is cut off" in (run.contents().damage or "")


def test_runs_are_found_by_path_by_name_and_as_latest(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begun(store)
    name = "quorum-set+partition/20261120T174509Z-0x5eed"
    wanted = run.path.resolve()
    for text in (run.path, str(run.path), name, "latest", "quorum-set+partition/latest"):
        assert store.find(text).path == wanted
    monkeypatch.chdir(run.path)
    assert store.find(".").path == wanted


def test_latest_of_a_store_with_several_folders_is_the_run_begun_last(store: Store) -> None:
    first = store.create("quorum-set", "none", SEED, UTC_TIME)
    first.begin(SPEC, Engines(), Topology.of(), {})
    last = begun(store)
    assert store.find("latest").path == last.path.resolve()
    assert store.find("quorum-set+none/latest").path == first.path.resolve()


@pytest.mark.parametrize("kind", ["run", "link", "file"])
def test_a_name_is_looked_up_in_the_store_and_never_in_the_working_directory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    run = begun(store)
    elsewhere = tmp_path / "elsewhere"
    other = begun(Store(elsewhere / "other"))
    monkeypatch.chdir(elsewhere)
    if kind == "file":
        Path("latest").write_text("somebody's")
    elif kind == "link":
        Path("latest").symlink_to(other.path)
    else:
        other.path.rename("latest")
    assert store.find("latest").path == run.path.resolve()
    assert store.find(run.path.name).path == run.path.resolve()
    if kind == "file":
        with pytest.raises(UsageError, match=r"run './latest': no run.json in latest"):
            store.find("./latest")
    else:
        assert store.find("./latest").path == Path("latest").resolve()


def test_a_path_within_the_store_and_one_from_here_must_not_be_confused(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, other = begun(store), begun(Store(tmp_path / "other"))
    name = str(run.path.relative_to(store.root))
    monkeypatch.chdir(store.root)
    assert store.find(name).path == run.path.resolve(), "both are the same run"
    monkeypatch.chdir(tmp_path / "other")
    with pytest.raises(
        UsageError,
        match=rf"may be \./{re.escape(name)} or {store.root}/{re.escape(name)}; say which",
    ):
        store.find(name)
    assert store.find(f"./{name}").path == other.path.resolve()


def test_a_name_that_only_the_working_directory_has_is_refused_with_the_way_to_say_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(Store(tmp_path / "others"))
    begun(store)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"the working directory, say \./others$"):
        store.find("others")
    with pytest.raises(UsageError, match=r"^run '': is empty"):
        store.find("")
    with pytest.raises(UsageError, match=r"File name too long"):
        store.find("x" * 300)


def test_a_run_that_is_not_there_is_refused_with_those_that_are(store: Store) -> None:
    with pytest.raises(UsageError, match=r"run 'latest': no run.json in .*the store has no runs"):
        store.find("latest")
    begun(store)
    with pytest.raises(UsageError, match=r"the store has quorum-set\+partition/20261120T174509Z"):
        store.find("yesterday")
    with pytest.raises(UsageError, match=r"no run.json in /not/here; expected"):
        store.find("/not/here")


def test_the_store_lists_its_runs_latest_first(store: Store) -> None:
    runs = []
    for day in (20, 22, 21):
        run = store.create("w", f"n{day}", SEED, UTC_TIME.replace(day=day))
        run.begin(SPEC, Engines(), Topology.of(), {})
        runs.append(run)
    assert store.runs() == (runs[1], runs[2], runs[0])


@pytest.mark.parametrize(
    "raw", ["", "[]", "{}", '{"state": "running", "spec": {"seed": "x"}}', '{"spec": 3}']
)
def test_a_broken_run_json_is_named(store: Store, raw: str) -> None:
    run = created(store)
    run.info_file.write_text(raw)
    with pytest.raises(HarnessError, match=r"run.json: "):
        run.info()
