"""Scenarios: what they are made of, and a few of them on real servers."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checkers.every_run import every_run
from checkers.judge import Judgement
from checkers.ladder import Ladder, Level
from harness.core.seed import Seed
from harness.core.verdict import Status, Verdict
from harness.generators.script import Do, ScriptStep, Until
from harness.run.scenario_runs import topology_of
from nemesis.catalogue import parse_nemesis
from nemesis.options import FaultOptions
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Held, Scenario, Shown

HARNESS = [sys.executable, "-m", "harness.cli.main"]


def scenario(*arguments: str, within_s: float = 550) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HARNESS, "scenario", *arguments],
        capture_output=True,
        text=True,
        timeout=within_s,
        check=False,
    )


def calls(steps: tuple[ScriptStep, ...]) -> list[Do | Until]:
    return [step for step in steps if isinstance(step, Do | Until)]


@pytest.mark.parametrize("one", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_names_faults_clients_replicas_and_a_checker_that_there_are(
    one: Scenario,
) -> None:
    topology = topology_of(one)
    nemesis = parse_nemesis(one.nemesis, topology, Seed(1), FaultOptions())
    steps = calls(tuple(one.steps))
    faults = [step.call for step in steps if step.call.nemesis]
    assert {call.f for call in faults} == nemesis.fs
    assert all(step.by < one.clients for step in steps)
    assert all(step.call.node in topology.replicas for step in steps if not step.call.nemesis)
    checkers = (*one.workload.checkers(), *every_run())
    assert one.finding.checker in {checker.name for checker in checkers}


@pytest.mark.parametrize(
    ("status", "figures", "shown"),
    [
        (Status.VALID, {"known": 1, "again": 2}, Shown("it holds")),
        (Status.VALID, {"known": 1, "again": 0}, None),
        (Status.UNKNOWN, {"known": 1, "again": 2}, None),
    ],
)
def test_what_holds_is_shown_where_its_path_was_taken(
    status: Status, figures: dict[str, int], shown: Shown | None
) -> None:
    verdict = Verdict(
        checker="parts", status=status, summary="it holds", checked=1, figures=figures
    )
    assert Held("parts", ("known", "again")).shown(verdict) == shown


@pytest.mark.parametrize(
    ("verdicts", "why"),
    [
        ([(Status.VALID, "all is well")], None),
        ([(Status.UNKNOWN, "not at rest")], "parts: not at rest"),
        ([], "checker parts does not judge these servers"),
    ],
)
def test_a_finding_is_absent_only_if_its_checker_reached_a_conclusion(
    verdicts: list[tuple[Status, str]], why: str | None
) -> None:
    one = replace(SCENARIOS["stale-read"], finding=Held("parts", ("known",)))
    made = [Verdict(checker="parts", status=s, summary=text, checked=1) for s, text in verdicts]
    judgement = Judgement(Status.UNKNOWN, tuple(made), Ladder(Level.EVENTUAL, (), ()), {})
    assert one.undecided(judgement) == why


def test_without_a_name_all_are_listed_and_another_name_is_refused() -> None:
    listed = scenario("--json")
    assert (listed.returncode, json.loads(listed.stdout).keys()) == (0, SCENARIOS.keys())
    refused = scenario("stale-reed")
    assert refused.returncode == 254
    assert "scenario 'stale-reed' is unknown; did you mean stale-read" in refused.stderr


def test_what_a_server_cannot_show_is_refused_by_name() -> None:
    refused = scenario("half-alter", "--clickhouse", "18.16")
    assert refused.returncode == 254
    assert "scenario half-alter: needs ALTER as an entry of the replication log" in refused.stderr


@pytest.mark.containers
def test_known_anomalies_come_about_on_real_servers(tmp_path: Path) -> None:
    # The first leaves dead servers behind, so that the next has others; phantom-part wants a proxy,
    # and what comes after it passes through.
    names = ["crashing-mutation", "stale-read", "phantom-part", "hidden-insert", "torn-insert"]
    done = scenario(*names, "--clickhouse", "18.16", "--store", str(tmp_path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    output = json.loads(done.stdout)
    assert [(one["scenario"], one["result"]) for one in output] == [
        (n, "REPRODUCED") for n in names
    ]
    for one in output:
        results = json.loads((Path(one["run"]) / "results.json").read_text())
        assert results["status"] == "INVALID"


@pytest.mark.containers
def test_a_server_of_today_half_inserts_a_block_and_half_alters_a_table(tmp_path: Path) -> None:
    names = ["half-insert", "half-alter"]
    done = scenario(*names, "--clickhouse", "25.8", "--store", str(tmp_path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    output = json.loads(done.stdout)
    assert [(one["scenario"], one["result"]) for one in output] == [
        (n, "REPRODUCED") for n in names
    ]
    assert "242 TABLE_IS_READ_ONLY" in output[1]["witness"]


@pytest.mark.containers
@pytest.mark.parametrize(
    "names",
    [
        ["orphaned-commit", "orphaned-unlock", "acknowledged-failure"],
        ["half-moved", "attached-nowhere", "doubled-view", "copied-nothing", "lost-update"],
    ],
    ids=["lost sessions and failing disks", "statements"],
)
def test_what_is_reproduced_is_explained(tmp_path: Path, names: Sequence[str]) -> None:
    done = scenario(*names, "--clickhouse", "25.8", "--store", str(tmp_path), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    for name, one in zip(names, json.loads(done.stdout), strict=True):
        assert (one["scenario"], one["result"]) == (name, "REPRODUCED")
        results = json.loads((Path(one["run"]) / "results.json").read_text())
        assert results["explanation"]["status"] == "known"
        # A slow machine may show one more.
        assert name in [defect["name"] for defect in results["explanation"]["defects"]]
