"""The dataset of verdicts: the last generation counts, and nothing is rewritten."""

import time
from functools import partial

import fleet_cases as cases
import pytest
from msgspec.structs import replace

from harness.core.errors import HarnessError, UsageError
from harness.fleet import engine, found_runs
from harness.fleet.code_digest import closure, judge_digest
from harness.fleet.engine import SPARK_FROM, ChosenEngine, EngineName, choose_engine
from harness.fleet.found_runs import found
from harness.fleet.location import Location
from harness.fleet.rows import VerdictRow, write_rows
from harness.fleet.stored_runs import StoredRuns, check_fleet
from harness.fleet.verdicts import COMPACT_AT, Verdicts
from harness.nights.findings import FailOn
from harness.nights.night import Night
from harness.nights.runner import NightOptions
from harness.spec.workload_options import workload_of

ROW = VerdictRow(run="a/1", checker="stats", status="VALID", history="h", judge="j")


def append(verdicts: Verdicts, place: Location, *rows: VerdictRow, stamp: str = "s") -> None:
    write_rows(rows, place)
    verdicts.append([place], {row.run: stamp for row in rows})


def test_the_last_generation_counts_and_compaction_keeps_what_counts(tmp_path) -> None:
    place, verdicts = Location.of(tmp_path / "rows"), Verdicts(Location.of(tmp_path / "verdicts"))
    assert verdicts.judged() == {}
    for turn in range(COMPACT_AT - 2):
        append(verdicts, place, replace(ROW, run="a/1", reason=f"turn {turn}"), stamp=f"s{turn}")
    append(verdicts, place, replace(ROW, run="a/2"), replace(ROW, run="a/1", status="INVALID"))
    assert len(list(tmp_path.rglob("fresh-*"))) == 2 * (COMPACT_AT - 1)
    before = verdicts.rows().sort_by("run"), verdicts.judged()
    append(verdicts, place, replace(ROW, run="a/3"))
    files = [path.relative_to(tmp_path / "verdicts").as_posix() for path in tmp_path.rglob("c*-*")]
    assert sorted(file.split("/")[:2] for file in files) == [
        ["rows", f"generation={COMPACT_AT + 1:08}"],
        ["runs", f"generation={COMPACT_AT + 1:08}"],
    ]
    assert not list(tmp_path.rglob("fresh-*"))
    after = verdicts.judged()
    assert {run: after[run].summary for run in before[1]} == {
        run: one.summary for run, one in before[1].items()
    }
    assert after["a/1"].summary.status.value == "INVALID"
    assert verdicts.rows({"a/1", "a/2"}).sort_by("run") == before[0]
    verdicts.compact(forgotten={"a/1"})
    assert sorted(verdicts.judged()) == ["a/2", "a/3"]


def test_rows_without_their_last_file_count_for_nothing(tmp_path) -> None:
    verdicts = Verdicts(Location.of(tmp_path / "verdicts"))
    write_rows([ROW], Location.of(tmp_path / "rows"))
    with pytest.raises(HarnessError, match="1 runs were judged and have no verdict: a/2"):
        verdicts.append([Location.of(tmp_path / "rows")], {"a/1": "", "a/2": ""})
    assert verdicts.judged() == {}
    assert not len(verdicts.rows())


def test_nothing_is_read_to_learn_that_nothing_changed(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(found_runs, "SETTLED_S", 0.0)
    run = cases.run(tmp_path, "none", 1, cases.sound(), journal=True)
    runs = StoredRuns(workload_of)

    def check() -> tuple[int, int]:
        index = sum(file.stat().st_size for file in tmp_path.glob("verdicts/runs/*/*"))
        checked = check_fleet(found(tmp_path), runs, cases.in_process)
        assert [one.status.value for one in checked.runs.values()] == ["VALID"]
        return len(checked.judged), checked.bytes_read - index

    first = check()
    assert first[0] == 1
    assert check() == (0, 0)
    content = run.journal.read_bytes()
    time.sleep(0.02)  # a tick of the file system's clock
    run.journal.write_bytes(content)
    judged, read = check()
    assert judged == 0
    assert read > len(content), "the time changed, so it was read, and not judged"
    assert check() == (0, 0)


def test_a_comment_judges_nothing_again_and_code_does(tmp_path, monkeypatch) -> None:
    package = tmp_path / "checkers_of_mine"
    package.mkdir()
    (package / "__init__.py").touch()
    module = package / "rule.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("harness.fleet.code_digest._OWN", ("checkers_of_mine",))

    def digest(text: str) -> str:
        module.write_text(text)
        for cached in ("_digest_of", "_closure", "_files", "_origin"):
            getattr(__import__("harness.fleet.code_digest").fleet.code_digest, cached).cache_clear()
        return judge_digest(["checkers_of_mine.rule"])

    first = digest("def worst(a):\n    return max(a)\n")
    assert (
        digest('"""Rule."""\n# why\ndef worst(a):\n    "Say."\n    return max(a)  # all\n') == first
    )
    assert digest("def worst(a):\n    return min(a)\n") != first


def test_a_workload_answers_for_its_own_checkers_only() -> None:
    register, sets = closure(["workloads.zookeeper"]), closure(["workloads.quorum_set"])
    assert "checkers.sets.set_full" in sets
    assert not any(name.startswith("checkers.ddl") for name in (*register, *sets))
    assert not any(name.startswith("harness.clients") for name in (*register, *sets))


def test_spark_judges_from_the_number_on_at_which_its_start_is_a_tenth(monkeypatch) -> None:
    auto, forced, processes = EngineName.AUTO, EngineName.SPARK, EngineName.PROCESSES
    few, many = SPARK_FROM - 1, SPARK_FROM
    monkeypatch.delenv("SPARK_MASTER", raising=False)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    named = choose_engine(auto, "spark://h:7077", 1)
    assert named == ChosenEngine(True, "spark://h:7077", "Spark (spark://h:7077): --spark")
    assert not choose_engine(auto, None, few).on_spark
    assert choose_engine(forced, None, few).on_spark
    assert not choose_engine(processes, None, many).on_spark
    with pytest.raises(UsageError, match="expected --engine spark or auto, not processes"):
        choose_engine(processes, "local[2]", 1)
    monkeypatch.setattr(engine, "_lack_of_spark", lambda: "pyspark is not installed")
    assert choose_engine(auto, None, many) == ChosenEngine(
        False,
        None,
        "processes of this machine: Spark judges from 25,000 histories on, and pyspark is not "
        "installed",
    )
    monkeypatch.setattr(engine, "_lack_of_spark", str)
    assert choose_engine(auto, None, many) == ChosenEngine(
        True,
        None,
        "Spark (local[*], or the master of its configuration): 25,000 histories or more to judge",
    )
    monkeypatch.setenv("SPARK_MASTER", "spark://h:7077")
    assert choose_engine(auto, None, many).master == "spark://h:7077"
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert choose_engine(auto, None, few).text == "Spark, by spark-submit"


@pytest.mark.parametrize(
    ("unjudged", "runs", "given", "on_spark"),
    [
        (3, None, EngineName.AUTO, False),
        (3, SPARK_FROM - 3, EngineName.AUTO, False),  # three of them have run
        (3, SPARK_FROM, EngineName.AUTO, True),
        (3, SPARK_FROM, EngineName.PROCESSES, False),
        (0, 1, EngineName.SPARK, True),
    ],
)
def test_a_night_is_judged_by_what_judges_a_store_of_as_many_runs(
    tmp_path, monkeypatch, unjudged, runs, given, on_spark
):
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    night = Night.begun(tmp_path / "night", {"matrix": "m", "seed": "1"})
    for number in range(unjudged):
        night.say("begin", number, cell="a", seed="0x1")
        night.say("directory", number, path=f"a/{number}")
    options = partial(
        NightOptions, store=tmp_path, hours=1.0, runs=runs, fail_fast=False, clusters=1,
        fail_on=FailOn.ANY, steer=False, notify=None, markdown=None, engine=given,
    )  # fmt: skip
    assert options(spark=None).engine_of(night).on_spark is on_spark
    if given is EngineName.PROCESSES:
        with pytest.raises(UsageError, match="expected --engine spark or auto, not processes"):
            options(spark="local[2]")
