"""Every number and text of a command line is within bounds, or is refused by one clear message."""

import json
import subprocess
import sys
from dataclasses import fields
from importlib import import_module
from math import inf, isfinite, nan
from pathlib import Path
from typing import get_type_hints

import pytest
import rich_click as click
from click.testing import CliRunner

from harness.cli.main import COMMANDS, app
from harness.cli.parameter_types import Number, StoreDirectory
from harness.core.errors import UsageError
from harness.core.ranges import RANGES, Range
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.spec.catalogue import WORKLOADS
from nemesis.options import FaultOptions

SIM = ("run", "--cluster", "sim", "--time-limit", "1", "--rate", "20", "--report", "none")


def command(name: str) -> click.Command:
    module, _, function = COMMANDS[name][0].partition(":")
    return getattr(import_module(module), function)


def refusal(*words: str) -> str:
    """Return the message with which a command line is refused while it is parsed, before anything
    runs."""
    try:
        app.main(list(words), prog_name="harness", standalone_mode=False)
    except (click.UsageError, UsageError) as error:
        return error.format_message() if isinstance(error, click.UsageError) else str(error)
    raise AssertionError(f"{words} was not refused")


def test_every_number_of_every_command_has_a_finite_range() -> None:
    numbers = {
        (name, param.name): param.type
        for name in COMMANDS
        for param in command(name).params
        if isinstance(param.type, Number | click.types.IntParamType | click.types.FloatParamType)
    }
    assert len(numbers) > 30
    for option, kind in numbers.items():
        assert isinstance(kind, Number), f"{option} has no range"
        assert isfinite(kind.range.low), option
        assert isfinite(kind.range.high), option


def test_every_default_of_a_command_is_within_its_range() -> None:
    for name in COMMANDS:
        for param in command(name).params:
            if isinstance(param.type, Number) and isinstance(param.default, int | float):
                assert param.type.range.parse(param.default) == param.default


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_number_of_a_workload_has_a_range_that_holds_its_default(name: str) -> None:
    kinds = get_type_hints(WORKLOADS[name].options)
    for field in fields(WORKLOADS[name].options):
        if kinds[field.name] in (int, float):
            assert RANGES[field.name].parse(field.default) == field.default
            assert RANGES[field.name].whole == (kinds[field.name] is int)


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "257",
        "2.5",
        2.5,
        "nan",
        "inf",
        nan,
        inf,
        "",
        "x",
        True,
        None,
        [1],
        "9" * 5_000,
        10**400,
    ],
)
def test_what_is_no_whole_number_of_the_range_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected a whole number from 1 to 256$") as caught:
        Range(1, 256).parse(value)
    assert len(str(caught.value)) < 100, "a long value is cut off"


@pytest.mark.parametrize("value", ["nan", "-inf", "inf", "1e400", nan, inf, -1, 0, 10**400])
def test_a_number_of_seconds_is_finite(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected a number of seconds from 0\.001 to 604,800$"):
        RANGES["time_limit"].parse(value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*SIM, "--count", "99999999999"), "'--count': 99999999999: expected a whole number"),
        ((*SIM, "--jobs", "100000"), "'--jobs': 100000: expected a whole number from 1 to 256"),
        ((*SIM, "--rate", "nan"), "'--rate': nan: expected a number of operations a second from"),
        ((*SIM, "--time-limit", "inf"), "'--time-limit': inf: expected a number of seconds from"),
        ((*SIM, "--replicas", "5000"), "'--replicas': 5000: expected a whole number from 1 to 32"),
        ((*SIM, "--shards", "3", "--replicas", "32"), "are 99 servers: expected at most 64"),
        ((*SIM, "-o", "keys=1000000000"), "--option 'keys=1000000000': expected a whole number"),
        ((*SIM, "-o", "timeout-s=nan"), "--option 'timeout-s=nan': expected a number of seconds"),
        ((*SIM, "--keys", "9" * 23), f"'--keys': {'9' * 23}: expected a whole number from 1 to 10"),
        ((*SIM, "--seed", "9" * 5_000), "expected a number, such as 7 or 0x5eed"),
        ((*SIM, "--store", ""), "'--store': '': expected a directory, such as store"),
        ((*SIM, "--reuse", ""), "'--reuse': '': expected text that is not empty"),
        ((*SIM, "--bug", ""), "'--bug': '': expected words separated by commas"),
        (("scenario", "stale-read", "--count", "0"), "'--count': 0: expected a whole number"),
        (("explore", "quorum", "--memory-mb", "nan"), "'--memory-mb': nan: expected a number of"),
        (("explore", "quorum", "--records", "99999999999"), "'--records': 99999999999: expected a"),
        (("check", "--check-time", "nan"), "'--check-time': nan: expected a number of seconds"),
        (("check", ""), "'[RUN | FILE…]': '': expected text"),
        (("report", ""), "'[RUN]': '': expected text that is not empty"),
        (("torture", "m.toml", "--hours", "inf"), "'--hours': inf: expected a number of hours"),
        (("torture", "m.toml", "--clusters", "99"), "'--clusters': 99: expected a whole number"),
        (("serve", "--port", "99999"), "'--port': 99999: expected a whole number from 0 to 65,535"),
        (("serve", "--host", ""), "'--host': '': expected text that is not empty"),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_refused_by_a_clear_message(
    words: tuple[str, ...], says: str
) -> None:
    assert says in refusal(*words)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            (*SIM, "--nemesis", "upgrade", "--upgrade-to", "25.8"),
            "--upgrade-to 25.8: --cluster sim has no containers",
        ),
        (
            ("run", "--nemesis", "upgrade"),
            "nemesis 'upgrade': no target version given, expected one in",
        ),
        (
            ("run", "--nemesis", "upgrade", "--clickhouse", "25.8", "--upgrade-to", "25.8"),
            "nemesis 'upgrade': all servers run 25.8 already",
        ),
        (
            ("run", "--nemesis", "upgrade", "--upgrade-to", "26.1"),
            "--upgrade-to '26.1': no such version can be had; expected one of 18.16",
        ),
        (
            ("run", "--nemesis", "kill", "--upgrade-to", "25.8"),
            "--upgrade-to 25.8: the nemesis kill upgrades nothing; expected --nemesis upgrade",
        ),
        (
            ("run", "--upgrade-end", "old"),
            "--upgrade-end old: the nemesis none upgrades nothing; expected --nemesis upgrade",
        ),
        ((*SIM, "--parts", "old"), "--parts old: --cluster sim has no containers"),
        (
            ("run", "--parts", "older"),
            "'--parts': 'older' is unknown; did you mean old? expected one of new, old",
        ),
        (
            ("run", "--clickhouse", "24.8,ch7=25.8"),
            "--clickhouse 24.8,ch7=25.8: 'ch7=25.8': expected VERSION or SERVER=VERSION",
        ),
        (
            ("run", "--clickhouse", "24.8,25.9"),
            "--clickhouse '25.9': no such version can be had; expected one of 18.16",
        ),
        (
            ("run", "--clickhouse", "24.8,25.8", "--clickhouse-image", "mine:1"),
            "--clickhouse 24.8,25.8: --clickhouse-image mine:1 takes its place",
        ),
        (
            ("run", "--clickhouse", "18.16,25.8", "--nemesis", "kill-clickhouse-leader"),
            "needs a single leading replica per table, which not all of ClickHouse 18.16.1, 25.8.2",
        ),
    ],
)
def test_versions_that_make_no_cluster_are_refused(words: tuple[str, ...], says: str) -> None:
    assert says in refusal(*words)


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("list", "doctor")])
def test_an_empty_store_is_refused_by_every_command_that_has_one(name: str) -> None:
    own = [param for param in command(name).params if param.name == "store"]
    if name in ("build", "new"):
        assert own == []
        return
    assert [type(param.type) for param in own] == [StoreDirectory]


def test_help_shows_the_range_of_a_number() -> None:
    shown = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["run", "--help", "all"]).output
    assert "1…256" in shown
    assert "0.001…604800" in shown


def test_the_seed_after_the_greatest_is_zero(tmp_path: Path) -> None:
    assert Seed(2**64 - 1).after(1) == Seed(0)
    words = [*SIM, "--seed", str(2**64 - 1), "--count", "2", "--json", "--store", str(tmp_path)]
    run = [sys.executable, "-m", "harness.cli.main", *words]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    names = [Path(one["run"]).name.partition("-")[2] for one in json.loads(done.stdout)]
    assert names == ["0xffffffffffffffff", "0x0"]


def test_a_topology_and_faults_of_a_program_have_the_same_ranges() -> None:
    with pytest.raises(UsageError, match="keepers 100: expected a whole number from 1 to 15"):
        Topology.of(keepers=100)
    with pytest.raises(UsageError, match="interval_s inf: expected a number of seconds from"):
        FaultOptions(interval_s=inf)
