"""A run's options as one value: what is derived from it, and runs that older versions stored."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from checkers.judge import judge, judgement_of
from harness.cli.main import COMMANDS, app
from harness.core.errors import UsageError
from harness.core.ranges import RANGES
from harness.core.seed import Seed
from harness.core.verdict import Status
from harness.run.run_request import RunRequest
from harness.search.replay import check_same, repeatable_spec
from harness.spec.run_options import OPTIONS, command_of, option_values, with_options
from harness.spec.run_spec import RunSpec
from harness.spec.stored_spec import current, spec_fields, stored_fields
from harness.spec.workload_options import named_options, workload_of
from harness.store.run_info import run_info_of
from harness.store.store import RunDirectory
from harness.web.summary import summary_of

STORED = Path(__file__).parent / "stored" / "schema-1"
"""Runs that the last version with a plan in run.json has stored."""

GIVEN = with_options(
    RunSpec(),
    {
        "nemesis": "partition,kill", "seed": "0x5eed", "server-seed": 7, "time-limit": "1m",
        "rate": 40, "option": ["keys=2", "cancel=never"], "quorum": "auto", "nodes": "ch1,ch3",
        "links": ["peer"], "cluster": "sim", "bug": "quorum-aba", "promise": "session",
    },
)  # fmt: skip


def test_a_run_is_the_same_after_json_and_after_a_command_line() -> None:
    stored = json.loads(json.dumps(spec_fields(GIVEN)))
    assert msgspec.convert(stored_fields(stored), RunSpec) == GIVEN
    words = shlex.split(command_of(GIVEN, beyond=RunSpec()))[2:]
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert told.pop("-o") == "cancel=never", "the last of two"
    values = {name.removeprefix("--"): value for name, value in told.items()}
    assert with_options(RunSpec(option=GIVEN.option), values) == GIVEN


def test_a_command_names_what_differs_and_what_must_be_stated() -> None:
    base = with_options(RunSpec(), {"nemesis": "partition,kill", "rate": 40})
    run = with_options(base, {"seed": 7, "clickhouse": "25.8", "time-limit": 0.1 + 0.2})
    assert command_of(run, beyond=base, stated=["workload"]) == (
        "harness run --workload quorum-set --time-limit 0.30000000000000004 --clickhouse 25.8 "
        "--seed 0x7"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("250ms", 0.25), ("30s", 30), ("2m", 120), ("1.5h", 5_400), ("7d", 604_800)],
)
def test_a_duration_may_have_a_unit(text: str, seconds: float) -> None:
    assert with_options(RunSpec(), {"time-limit": text}).time_limit_s == seconds
    assert RANGES["quorum_timeout_ms"].parse("3s") == 3_000
    assert RANGES["hours"].parse("30m") == 0.5


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"time-limit": "1w"}, "--time-limit: 1w: expected a number of seconds from 0.001 to"),
        ({"time-limit": "8d"}, "--time-limit: 8d: expected a number of seconds"),
        ({"rate": "1h"}, "--rate: 1h: expected a number of operations a second"),
        ({"keys": "2s"}, "--keys: 2s: expected a whole number"),
        ({"quorum-timeout": "0.1ms"}, "--quorum-timeout: 0.1ms: expected a whole number"),
        ({"nemesis": 3}, "--nemesis: 3: expected text"),
        ({"rate": True}, "--rate: True: expected a number"),
        ({"nodes": "ch1,ch1"}, "--nodes: 'ch1' is named twice"),
        ({"worklod": "x"}, "option 'worklod' is unknown; did you mean workload?"),
        ({"workload": "x"}, "--workload: 'x' is unknown; see `harness list workloads`"),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused(values: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError) as refused:
        with_options(RunSpec(), values)
    assert says in str(refused.value)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_ends_with_an_example_that_it_accepts(name: str) -> None:
    runner = CliRunner(env={"COLUMNS": "200"})
    shown = runner.invoke(app, [name, "--help"]).output
    example = COMMANDS[name][2]
    assert shown.rstrip().endswith(f"Example: {example}")
    command = app.get_command(None, name)  # type: ignore[arg-type]
    assert command is not None
    flags = {flag for param in command.params for flag in param.opts}
    given = {word for word in shlex.split(example) if word.startswith("--")}
    assert given <= flags


def test_the_help_of_run_shows_the_common_options_a_panel_or_all() -> None:
    runner = CliRunner(env={"COLUMNS": "100"})
    short, faults, everything, wrong = (
        runner.invoke(app, ["run", "--help", *words]).output
        for words in ([], ["faults"], ["all"], ["fault"])
    )
    assert len(short.splitlines()) < 60
    assert ("--nemesis" in short, "--keeper-route" in short) == (True, False)
    assert ("--interval" in faults, "--workload" in faults) == (True, False)
    assert all(f"--{name}" in everything for name in OPTIONS)
    assert "'fault' is unknown; did you mean faults?" in " ".join(wrong.split())


def info_of(name: str) -> Any:
    return RunDirectory(STORED / name).info()


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("simulated", "keys=2, insert plain, read plain"),
        ("real", "defaults"),
        ("scenario", "defaults"),
    ],
)
def test_a_run_with_a_plan_is_read_as_it_was(name: str, settings: str) -> None:
    directory = RunDirectory(STORED / name)
    info, before = directory.info(), json.loads(directory.info_file.read_text())
    plan = before["plan"]
    assert (info.spec.workload, info.spec.nemesis, str(info.spec.seed), info.spec.promise) == (
        plan["workload"], plan["nemesis"], plan["seed"], plan["promise"]
    )  # fmt: skip
    assert (info.spec.time_limit_s, info.spec.rate) == (plan["time_limit_s"], plan["rate"])
    assert info.spec.command == plan["again"]
    assert {node: str(engine.version) for node, engine in info.engines.nodes.items()} == {
        node: engine["version"] for node, engine in plan["engines"]["nodes"].items()
    }
    assert run_info_of(info.stored()) == info
    assert summary_of(directory).settings == settings


@pytest.mark.parametrize("name", ["simulated", "real", "scenario"])
def test_a_run_with_a_plan_is_judged_as_it_was(name: str) -> None:
    directory = RunDirectory(STORED / name)
    spec, before = directory.info().spec, judgement_of(directory.results())
    checkers = workload_of(spec).checkers()
    again = judge(directory.history(), checkers, spec.check_s, spec.promise)
    known = {verdict.checker: verdict for verdict in before.verdicts}
    assert again.status is before.status
    assert again.verdicts == tuple(known[verdict.checker] for verdict in again.verdicts)


def test_a_run_with_a_plan_is_repeated_as_it_was() -> None:
    info = info_of("simulated")
    spec = repeatable_spec("simulated", info)
    request = RunRequest(spec)
    check_same("simulated", info, request)
    assert (spec.server_seed, spec.option, spec.insert) == (Seed(9), ("keys=2",), "plain")
    assert request.spec(spec.seed).command == info.spec.command.replace(
        "--workload quorum-set ", ""
    )
    with pytest.raises(UsageError, match="was made by harness scenario; expected a run of"):
        repeatable_spec("scenario", info_of("scenario"))


def test_a_run_of_an_older_form_of_its_workload_is_not_judged_again() -> None:
    spec = RunSpec(
        workload="mutations",
        promise="eventual",
        workload_options={"mutations": 2, "timeout_s": 10.0},
    )
    with pytest.raises(UsageError, match="has its option mutations, and calls of a form that only"):
        workload_of(spec)
    with pytest.raises(UsageError, match="no longer has this option; expected ops-per-s=…"):
        named_options("mutations", ["pause-ms=100"])
    assert workload_of(RunSpec(workload="mutations", promise="eventual")).name == "mutations"


def test_the_stored_scenario_found_what_it_is_about() -> None:
    assert judgement_of(RunDirectory(STORED / "scenario").results()).status is Status.INVALID


def test_every_field_is_an_option_or_derived() -> None:
    fields = {field.name for field in msgspec.structs.fields(RunSpec)}
    derived = fields - {entry.field for entry in OPTIONS.values()}
    assert derived == {"workload_options", "command"}
    assert not any(dataclasses.is_dataclass(value) for value in option_values(GIVEN).values())


def test_engines_of_the_oldest_files_are_read_by_node() -> None:
    nodes = [{"name": "ch1", "role": "clickhouse"}, {"name": "zk1", "role": "zookeeper"}]
    oldest = {"clickhouse": "25.8.2.1", "clickhouse_build": "b", "zookeeper": "3.8.0"}
    stored = current({"plan": {"engines": oldest}, "topology": {"nodes": nodes}})
    assert stored["engines"] == {
        "nodes": {
            "ch1": {"role": "clickhouse", "version": "25.8.2.1", "build": "b"},
            "zk1": {"role": "zookeeper", "version": "3.8.0", "build": ""},
        }
    }
