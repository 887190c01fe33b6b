"""`harness compare` and `harness bisect`: what they take, what a try counts as, what they print."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import rich_click as click
from msgspec import structs
from real_servers import THREE, left
from report_cases import finished, sound, stale

from compose.releases import CLICKHOUSE, ImageOptions
from harness.cli.compare import percent, player_of
from harness.cli.main import app
from harness.cli.run import request_for
from harness.cli.terminal import Terminal
from harness.clusters.sim_cluster import SimCluster
from harness.core.engines import Engine, Engines
from harness.core.errors import ClusterError, MissingMechanismError, UsageError
from harness.core.seed import Seed
from harness.core.topology import Role
from harness.run.campaign import Campaign, ClusterSource, FinishedRun
from harness.run.monitor import Monitor, Phase
from harness.run.stop import Stop
from harness.run.trial import Trial, TryResult
from harness.search.bisection import Answer, Boundary
from harness.search.replay import RunReplay, ScenarioReplay, replay_of
from harness.search.tried_servers import TriedServers, tried_servers
from harness.search.version_bisection import conclude, round_down
from harness.search.version_tries import CRASHES_MAX, Player, VersionTries
from harness.spec.run_spec import RunSpec
from harness.spec.workload_options import workload_of
from harness.store.store import RunDirectory, Store

HIT, MISS, UNKNOWN, BROKE = (
    TryResult.REPRODUCED,
    TryResult.NOT_REPRODUCED,
    TryResult.UNKNOWN,
    TryResult.BROKE_OFF,
)
WORDS = (
    "--nemesis", "partition,kill", "--time-limit", "7.5", "--keepers", "1", "-o", "keys=2",
    "--interval", "1", "--promise", "sequential", "--clickhouse", "18.16", "--zookeeper", "3.8",
)  # fmt: skip

MET = Engines(
    nodes={
        **{f"ch{i}": Engine(role=Role.CLICKHOUSE, version="18.16.1") for i in (1, 2, 3)},
        "zk1": Engine(role=Role.ZOOKEEPER, version="3.8.0"),
    }
)


def refusal(*words: str) -> str:
    try:
        app.main(list(words), prog_name="harness", standalone_mode=False)
    except (click.UsageError, UsageError) as error:
        return error.format_message() if isinstance(error, click.UsageError) else str(error)
    raise AssertionError(f"{words} was not refused")


def stored(store: Path, *words: str, ops: Any = None) -> RunDirectory:
    """Return a run as `harness run` with these arguments stores it, judged on another history."""
    request = request_for([*words, "--store", str(store)])
    spec = request.spec(Seed(0x5EED))
    directory = finished(store, ops or stale())
    judged = directory.results()
    directory.begin(spec, MET, request.topology, {"ch1": "18.16.1"})
    directory.recorded(())
    directory.results_file.write_text(json.dumps(judged))
    return directory


@pytest.mark.parametrize("command", ["compare", "bisect"])
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["stale-reed"], "'stale-reed' is no scenario (`harness scenario` lists them); run 'stale"),
        (["stale-read", "--versions", "19.1,25.8"], "--versions '19.1': no such version can be"),
        (["stale-read", "--versions", "25.8,25.8.2.1"], "--versions 25.8,25.8.2.1: expected each"),
        (["stale-read", "--versions", ""], "expected words separated by commas"),
        (["stale-read", "--tries", "0"], "0: expected a whole number from 1"),
        (["stale-read", "--zookeeper", "2.0"], "--zookeeper '2.0': no such version"),
        ([], "Missing argument 'WHAT'"),
    ],
)
def test_what_cannot_be_played_is_refused(
    command: str, words: list[str], why: str, tmp_path: Path
) -> None:
    assert why in refusal(command, *words, "--store", str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--versions", "25.8"], "--versions 25.8: expected two versions or more"),
        (["--confidence", "1"], "1: expected a probability from 0.5 to 0.999999"),
    ],
)
def test_a_bisection_needs_versions_and_a_confidence(
    words: list[str], why: str, tmp_path: Path
) -> None:
    assert why in refusal("bisect", "stale-read", *words, "--store", str(tmp_path))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ((["19.1"], []), "25.8 (25.8.2.1), or an image such as my/clickhouse:tag"),
        (([], ["2.0"]), "3.9 (3.9.5), or an image such as my/zookeeper:tag"),
        (
            (["18.16", "25.8"], ["3.8", "3.9"]),
            "--zookeeper 3.8,3.9: versions of ZooKeeper are compared on one of ClickHouse; "
            "expected one --versions, and no --build",
        ),
        ((["a:1", "a:1"], []), "--versions a:1,a:1: expected each version once"),
        (
            (["v1", "v2"], [], "./build.sh"),
            "--build './build.sh': expected a command with {revision",
        ),
        ((["24.8", "a:1"], [], "x {revision}"), "--versions has no revision; expected one"),
        ((["v1"], [], "x '{revision}"), '--build "x \'{revision}": No closing quotation'),
    ],
)
def test_servers_that_cannot_be_compared_are_refused(given: tuple[Any, ...], why: str) -> None:
    with pytest.raises(UsageError) as refused:
        tried_servers(*given)
    assert why in str(refused.value)


def test_images_stay_in_the_order_in_which_they_were_given() -> None:
    found, beside = tried_servers(["my/ch:b", "24.8", "my/ch"], ["my/zk:1"])
    assert [one.options(beside) for one in found] == [
        ImageOptions(clickhouse_image="my/ch:b", zookeeper_image="my/zk:1"),
        ImageOptions(clickhouse="24.8", zookeeper_image="my/zk:1"),
        ImageOptions(clickhouse_image="my/ch", zookeeper_image="my/zk:1"),
    ]


def test_versions_of_zookeeper_are_compared_on_one_of_clickhouse() -> None:
    found, beside = tried_servers(["24.8"], ["3.9", "3.8.0"])
    assert [one.options(beside) for one in found] == [
        ImageOptions(clickhouse="24.8", zookeeper="3.8.0"),
        ImageOptions(clickhouse="24.8", zookeeper="3.9"),
    ]


def test_a_revision_is_built_when_it_is_first_tried() -> None:
    command = "sh -c 'echo building; echo my/ch:\"$0\"' {revision}"
    found, beside = tried_servers(["v1", "feature/x", "my/ch:3"], [], command)
    assert [one.options(beside).clickhouse_image for one in found] == [
        "my/ch:v1", "my/ch:feature/x", "my/ch:3",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("sh -c 'exit 3' {revision}", "sh -c 'exit 3' v1: exit status 3"),
        ("true {revision}", "true v1: expected the image's name in its last line"),
        ("./no-such-command {revision}", "No such file or directory"),
    ],
)
def test_a_revision_that_cannot_be_built_is_left_out(
    command: str, why: str, tmp_path: Path
) -> None:
    found, _ = tried_servers(["v1"], [], command)
    on, replay = played(tmp_path, [HIT], servers=found[0])
    assert why in str(on.unbuilt)
    assert (on.tries, replay.clusters) == ([], [])


def test_on_a_pipe_builds_and_the_steps_of_tries_have_a_line_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    player = player_of("stale-read", ImageOptions(), str(tmp_path), Terminal())
    found, _ = tried_servers(["v1"], [], "false {revision}")
    player.play(VersionTries(found[0]), lambda: True)
    monitor = Monitor("scenario stale-read", 1)
    assert player.shown is not None
    with player.shown(monitor):
        monitor.enter(Phase.SET_UP, "building ClickHouse 24.8.4.1")
    assert capsys.readouterr().out.splitlines() == [
        "building v1: false v1",
        "set up: building ClickHouse 24.8.4.1",
    ]


def versions_of(names: list[str]) -> list[VersionTries]:
    return [*map(VersionTries, tried_servers(names, [])[0])]


def test_all_known_versions_go_from_old_to_new() -> None:
    assert [on.name for on in versions_of([])] == [release.alias for release in CLICKHOUSE]
    assert [on.exact for on in versions_of(["25.8", "18.16.1"])] == ["18.16.1", "25.8.2.1"]


def test_a_stored_run_is_repeated_as_it_was_but_for_the_servers(tmp_path: Path) -> None:
    directory = stored(tmp_path, *WORDS)
    replay = replay_of("latest", Store(tmp_path))
    assert isinstance(replay, RunReplay)
    assert (replay.kinds, replay.met) == ({"cycle", "stale"}, "18.16.1")
    campaign, spec = replay.open(ImageOptions(clickhouse="25.8"), Store(tmp_path), None, Stop())
    first, second = spec(0), spec(1)
    was = directory.info().spec
    assert structs.replace(first, clickhouse="18.16", command=was.command) == was
    assert first == second

    assert first.command == was.command.replace("--clickhouse 18.16", "--clickhouse 25.8")
    assert not campaign.clusters.leave
    _, spec = replay.open(
        ImageOptions(clickhouse="25.8", zookeeper="3.9"), Store(tmp_path), None, Stop()
    )
    assert "--zookeeper 3.9" in spec(0).command


def test_a_version_that_lacks_a_mechanism_is_named(tmp_path: Path) -> None:
    stored(tmp_path, "--nemesis", "kill-clickhouse-leader", "--clickhouse", "18.16")
    replay = replay_of("latest", Store(tmp_path))
    on = versions_of(["25.8"])[0]
    told: list[Trial] = []
    Player(
        replay=replay, store=Store(tmp_path), beside=ImageOptions(), shown=None, stop=Stop(),
        on_try=lambda _, one: told.append(one),
    ).play(on, lambda: True)  # fmt: skip
    assert (on.missing, told) == ("a single leading replica per table", [])


def edited(directory: RunDirectory, **fields: object) -> None:
    info = json.loads(directory.info_file.read_text())
    info |= {name: value for name, value in fields.items() if name in info}
    info["spec"] |= {name: value for name, value in fields.items() if name not in info}
    directory.info_file.write_text(json.dumps(info))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"again": "harness explore quorum"}, "was made by harness explore; expected a run of"),
        ({"again": ""}, "was made by an unknown command; expected a run of"),
        ({"cluster": "sim"}, "its servers were simulated"),
        ({"servers": "their.toml"}, "has commands that are executed"),
        ({"workload_options": {"keys": 3}}, "'keys': 3"),
        ({"replicas": 5}, "topology: it had"),
    ],
)
def test_a_run_that_cannot_be_repeated_as_it_was_is_refused(
    fields: dict[str, object], why: str, tmp_path: Path
) -> None:
    edited(stored(tmp_path, *WORDS), **fields)
    replay = replay_of("latest", Store(tmp_path))
    with pytest.raises(UsageError) as refused:
        replay.open(ImageOptions(clickhouse="25.8"), Store(tmp_path), None, Stop())
    assert why in str(refused.value)


def test_a_run_that_is_not_invalid_has_nothing_to_reproduce(tmp_path: Path) -> None:
    finished(tmp_path, sound(), least=10)
    with pytest.raises(UsageError, match="is VALID, so that there is nothing to reproduce"):
        replay_of("latest", Store(tmp_path))


def test_a_stored_run_of_a_scenario_is_the_scenario(tmp_path: Path) -> None:
    directory = finished(tmp_path, stale(), workload="scenario-stale-read")
    info = directory.info()
    directory.begin(info.spec, MET, info.topology, info.versions)
    replay = replay_of("latest", Store(tmp_path))
    assert isinstance(replay, ScenarioReplay)
    assert (replay.name, replay.met) == ("stale-read", "18.16.1")


def test_an_interval_is_rounded_outwards() -> None:
    assert (percent(0.2924, 1.0), percent(0.0, 0.7076)) == ("29–100 %", "0–71 %")


def test_a_confidence_is_never_rounded_up() -> None:
    told = [round_down(value) for value in (0.5, 0.99, 0.9, 0.996, 0.9999, 0.876)]
    assert told == ["0.50", "0.99", "0.90", "0.996", "0.9999", "0.876"]


@pytest.mark.parametrize(
    ("boundaries", "said"),
    [
        ((True, "18.16", "24.8", ()), "fixed in 24.8.4.1 (last bad 18.16.1), confidence 0.99"),
        (
            (False, "24.8", "18.16", ()),
            "introduced in 24.8.4.1 (last good 18.16.1), confidence 0.99",
        ),
        (
            (True, "18.16", "25.5", ("24.8",)),
            "fixed between 18.16.1 and 25.5.2.1, confidence 0.99; undecided where: 24.8.4.1 "
            "UNKNOWN",
        ),
        (
            (False, "25.5", "18.16", ("24.8",)),
            "introduced between 18.16.1 and 25.5.2.1, confidence 0.99; undecided where: 24.8.4.1 "
            "UNKNOWN",
        ),
        (
            (True, "25.5", None, ("25.8",)),
            "undecided after 25.5.2.1, which is bad: 25.8.2.1 UNKNOWN",
        ),
        (
            (False, "24.8", None, ("18.16",)),
            "undecided before 24.8.4.1, which is bad: 18.16.1 UNKNOWN",
        ),
    ],
)
def test_the_last_line_says_where_it_changed(
    boundaries: tuple[bool, str, str | None, tuple[str, ...]], said: str
) -> None:
    fixed, bad, good, between = boundaries
    boundary = Boundary(fixed=fixed, bad=bad, good=good, between=between)
    answer = Answer(reference=bad, boundaries=(boundary,), confidence=0.99)
    assert conclude(answer, {on.name: on for on in versions_of([])}) == [said]


SPEC = RunSpec(
    workload="quorum-set", nemesis="none", seed=Seed(1), promise="eventual",
    time_limit_s=0.3, quiesce_s=2, workload_options={"insert": "plain", "read": "plain"},
)  # fmt: skip


@dataclass
class Scripted:
    """A replay on simulated servers, whose results are given; an error is raised in its place
    before the servers are up."""

    results: Iterator[TryResult | Exception]
    name: str = "scripted"
    criterion: str = "as given"
    met: str | None = None
    clusters: list[SimCluster] = field(default_factory=list)
    due: TryResult = UNKNOWN

    def open(
        self,
        options: ImageOptions,
        store: Store,
        console: object,
        stop: Stop,
    ) -> tuple[Campaign, Callable[[int], RunSpec]]:
        def make(_: RunSpec, __: Callable[[str], None]) -> SimCluster:
            self.clusters.append(SimCluster(THREE, Seed(len(self.clusters))))
            return self.clusters[-1]

        def spec(number: int) -> RunSpec:
            due = next(self.results)
            if isinstance(due, Exception):
                raise due
            self.due = due
            return structs.replace(SPEC, seed=Seed(number))

        campaign = Campaign(
            store=store, clusters=ClusterSource(make=make), workload=workload_of,
            commands={}, shown=lambda _: nullcontext(),
            draw=lambda *_: None, stop=stop,
        )  # fmt: skip
        return campaign, spec

    def judge(self, run: FinishedRun) -> Trial:
        return Trial.of(run, self.due)


def played(
    store: Path,
    results: list[TryResult | Exception],
    stop_after: int | None = None,
    servers: TriedServers | None = None,
) -> tuple[VersionTries, Scripted]:
    """Play as many tries as there are results."""
    on = VersionTries(servers) if servers else versions_of(["25.8"])[0]
    stop, replay = Stop(), Scripted(iter(results))

    def told(_: VersionTries, __: Trial) -> None:
        if len(on.tries) == stop_after:
            stop.request("SIGINT received")

    player = Player(
        replay=replay, store=Store(store), beside=ImageOptions(), shown=None, stop=stop, on_try=told
    )
    player.play(on, lambda: len(on.tries) < len(results))
    return on, replay


def test_the_tries_of_a_version_share_a_cluster_and_are_stored(tmp_path: Path) -> None:
    on, replay = played(tmp_path, [HIT, MISS, UNKNOWN, BROKE])
    assert [one.result for one in on.tries] == [HIT, MISS, UNKNOWN, BROKE]
    assert len(replay.clusters) == 1
    assert {one.run for one in on.tries} == {str(r.path) for r in Store(tmp_path).runs()}
    assert on.engines is not None
    tally = on.tally
    assert (tally.hits, tally.misses, tally.conclusive, tally.total) == (1, 1, 2, 4)


def test_after_a_crash_the_next_try_has_a_fresh_cluster(tmp_path: Path) -> None:
    lost = ClusterError("the engine is gone")
    on, replay = played(tmp_path, [HIT, lost, MISS])
    assert [one.result for one in on.tries] == [HIT, BROKE, MISS]
    assert (on.tries[1].why, on.tries[1].run) == ("the engine is gone", None)
    assert len(replay.clusters) == 2


def test_crashes_in_a_row_end_the_tries_of_a_version(tmp_path: Path) -> None:
    on, _ = played(tmp_path, [ClusterError("no image")] * 9)
    assert [one.result for one in on.tries] == [BROKE] * CRASHES_MAX


def test_a_mechanism_that_is_missing_ends_the_tries(tmp_path: Path) -> None:
    on, _ = played(tmp_path, [MissingMechanismError("scenario x: needs leaders", "leaders"), HIT])
    assert (on.missing, on.tries) == ("leaders", [])


def test_ctrl_c_ends_after_the_try_that_goes_on(tmp_path: Path) -> None:
    on, _ = played(tmp_path, [HIT, MISS, MISS], stop_after=2)
    assert [one.result for one in on.tries] == [HIT, MISS]


def test_what_an_interrupted_try_did_not_show_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for due, counts in ((MISS, UNKNOWN), (HIT, HIT)):
        on, stop, replay = versions_of(["25.8"])[0], Stop(), Scripted(iter([due, due]))
        player = Player(
            replay=replay, store=Store(tmp_path), beside=ImageOptions(), shown=None, stop=stop,
            on_try=lambda *_: None,
        )  # fmt: skip
        opened = replay.open

        def stopping(*given: Any, opened: Any = opened, stop: Stop = stop) -> Any:
            campaign, spec = opened(*given)
            return replace(campaign, script=lambda _: stop.request("SIGINT")), spec

        monkeypatch.setattr(replay, "open", stopping)
        player.play(on, lambda: True)
        assert [one.result for one in on.tries] == [counts]


@pytest.mark.containers
def test_a_scenario_is_compared_on_real_servers_of_two_versions(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness.cli.main", "compare", "lagging-writer"]
    words = ["--versions", "25.8,18.16", "--tries", "1", "--store", str(tmp_path), "--json"]
    done = subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=550, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert [(on["version"], on["reproduced"]) for on in told["versions"]] == [
        ("18.16.1", 1),
        ("25.8.2.1", 1),
    ]
    for on in told["versions"]:
        info = RunDirectory(Path(on["runs"][0]["run"])).info()
        assert str(info.engines) == on["engine"]
        assert info.status == "INVALID"
        assert on["kinds"]["read-your-writes"] == 1
    assert left(tmp_path) == []
