"""Exported reproductions: which scenarios there are, what they send, and how they judge."""

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from checkers_cases import final as final_op
from checkers_cases import history as history_of
from checkers_cases import insert, rest
from checkers_cases import read as read_op
from export_cases import EXPORTED, REFUSED, export_by_command, exported
from report_cases import finished, stale

from compose.releases import ImageChoice
from harness.clients.sent_statement import SentStatement, literal
from harness.clusters.images import build_images
from harness.core.errors import UsageError
from harness.core.op import Kind
from harness.export.call_rules import AnsweredCall, rule_named
from harness.export.errors import NotExportableError
from harness.export.findings import rule_of
from harness.export.play import PlayedCall
from harness.export.reproduction import reproduction_of, write_files
from harness.export.script_lines import script_lines
from harness.export.stored_run import steps_of_history
from harness.generators.script import Do, Rest
from harness.store.store import RunDirectory
from workloads.scenarios.catalogue import SCENARIOS
from workloads.scenarios.scenario import Finding

STORED = Path(__file__).parent / "stored" / "schema-1" / "scenario"
"""A stored run of a scenario."""


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_exported_or_says_why_not(name: str, tmp_path: Path) -> None:
    if name in EXPORTED:
        write_files(tmp_path, exported(name).files())
        script = tmp_path / "reproduce.sh"
        subprocess.run(["bash", "-n", script], check=True)
        assert os.access(script, os.X_OK)
        assert "harness/core" not in "".join(
            file.read_text() for file in tmp_path.rglob("*") if file.is_file()
        )
        return
    with pytest.raises(UsageError, match=REFUSED[name]):
        exported(name)


def test_a_script_has_statements_with_their_settings_and_the_faults_in_order() -> None:
    lines = script_lines(exported("early-snapshot").play.steps)
    insert, read = (next(line for line in lines if f" {f} " in line) for f in ("insert", "read"))
    assert insert == (
        "client=0 node=ch1 key=0 values='0' seconds=15 ends=ok call 1 insert \\\n"
        "    'insert_quorum=2&insert_quorum_timeout=5000' "
        "\"INSERT INTO harness_early_snapshot.t (key, value, pad) VALUES (0, 0, '')\" || return"
    )
    assert "until_seen 400 0.05 'shows 0' call 2 read" in read
    faults = [line for line in lines if line.split()[0] in ("stop_fetches", "start_fetches")]
    assert faults == ["stop_fetches ch3", "start_fetches ch3"]
    at = lines.index("begun 0 $!")
    assert lines[at - 1].endswith("&")
    waited = "SELECT count() > 0 FROM system.processes WHERE elapsed >= 0.5 AND query LIKE "
    assert lines[at:] == [
        "begun 0 $!",
        f"await_shown ch3 0.5 \\\n    \"{waited}'SELECT value%'\" || return",
        "start_fetches ch3",
        "join 0 || return",
    ]


def test_a_script_waits_for_states_and_not_for_times() -> None:
    scripts = {name: exported(name).files()["reproduce.sh"] for name in EXPORTED}
    texts = {name: text[text.index("\nplay() {") :] for name, text in scripts.items()}
    texts = {name: text[: text.index("\nheal() {")] for name, text in texts.items()}
    expired = "SELECT min(active_replicas + 1 <= total_replicas) FROM system.replicas"
    assert (
        f"kill_server ch1\n  await_shown ch2 7 \\\n    '{expired}' || return"
        in (texts["dirty-read"])
    )
    # The rest waits for what no query shows.
    assert {name for name, text in texts.items() if "\n  sleep " in text} == {
        "lost-retry",
        "orphaned-commit",
        "orphaned-unlock",
        "returned-rows",
        "suspicious-clone",
        "uncounted-clone",
    }
    # The proxy has its rule when the command that gives it one has ended.
    assert "\n  sleep " not in texts["half-alter"]


def test_the_follower_that_is_cut_off_decides_who_reads_behind_it() -> None:
    reproduction = exported("stale-read")
    lines = script_lines(reproduction.play.steps)
    insert, read = lines[lines.index("cut_off zk1") + 1 :]
    assert "node=ch2" in insert
    assert "node=ch1" in read
    assert script_lines(reproduction.play.heal) == ["reconnect zk1"]
    assert '\nFOLLOWERS="zk1"\n' in reproduction.files()["reproduce.sh"]


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("moved-away", "allowed 0 1 'u=1'"),
        ("stale-replace", "allowed 0 1 't=1 u=1'"),
        ("copied-nothing", "allowed 0 2 't=1 u=1'"),
        ("attached-nowhere", "allowed 3 3 'u=1'"),
        ("forgotten-insert", "allowed 0 1 't=1'"),
        ("doubled-view", "allowed 0 1 't=1 v=1'"),
        ("forgotten-mutation", "allowed 0 1 't=[7]'"),
        ("strayed-update", "allowed 0 3 'u=[]'"),
        ("overwritten-update", "allowed 0 1 't=[7,8]'"),
        ("lost-update", "allowed 0 1 't=[7,8]' 't=[8,7]'"),
        ("half-moved", "allowed 0 1 't=1' 'u=1'"),
    ],
)
def test_what_the_tables_may_have_follows_from_the_model_of_statements(name: str, row: str) -> None:
    assert f"  {row}\n" in exported(name).files()["reproduce.sh"]


def test_every_call_at_rest_is_made_also_after_the_reads() -> None:
    *_, last = exported("unwritable-table").final.looks
    assert isinstance(last, PlayedCall)
    assert (last.number, last.call.f) == (10, "final-insert")
    assert last.sent[-1].settings["insert_keeper_max_retries"] == 0


def test_images_are_public_and_others_can_be_chosen() -> None:
    choice = ImageChoice(clickhouse="24.8", zookeeper="3.9")
    text = reproduction_of(SCENARIOS["stale-read"], choice).files()["compose.yml"]
    assert "image: ${CLICKHOUSE_IMAGE:-clickhouse/clickhouse-server:24.8}" in text
    assert "image: ${ZOOKEEPER_IMAGE:-zookeeper:3.9.5}" in text
    own = ImageChoice(clickhouse_image="mine:1")
    with pytest.raises(NotExportableError, match="image mine:1: its version is not known"):
        reproduction_of(SCENARIOS["stale-read"], own)


def test_statements_can_be_pasted_into_a_client() -> None:
    text = exported("stale-read").files()["statements.sql"]
    assert (
        "-- call 5: insert\n/* ch2 */\nSET insert_quorum = 2;\nSET insert_quorum_timeout = 5000;\n"
        "INSERT INTO harness_stale_read.t (key, value, pad) VALUES (0, 1, '');\n"
        "SET insert_quorum = DEFAULT;\nSET insert_quorum_timeout = DEFAULT;\n"
    ) in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(1, "1"), ("it's \\", r"'it\'s \\'"), ((0, 1, [2, 3]), "(0, 1, [2, 3])"), ([], "[]")],
)
def test_values_become_literals(value: object, text: str) -> None:
    assert literal(value) == text


def test_what_is_no_literal_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a number"):
        literal(None)


def history(*lines: str) -> str:
    """Return lines with | between the fields as a reproduction notes them."""
    return "".join(line.replace("|", "\t") + "\n" for line in lines)


ACKED = ("begin|1|0|ch1|insert|0|7", "end|1|0|ch1|insert|0|7|ok|")
LATER = ("begin|2|0|ch1|insert|0|8", "end|2|0|ch1|insert|0|8|ok|")
MANY = ("begin|1|0|ch1|insert-many|0|1 2 3", "end|1|0|ch1|insert-many|0|1 2 3|ok|")


def read(number: int, values: str, *, client: int = 0, node: str = "ch2") -> tuple[str, str]:
    return (
        f"begin|{number}|{client}|{node}|read|0|",
        f"end|{number}|{client}|{node}|read|0||ok|{values}",
    )


def final(number: int, values: str, node: str, end: str = "ok") -> tuple[str, str]:
    return (
        f"begin|{number}|9|{node}|final-read|0|",
        f"end|{number}|9|{node}|final-read|0||{end}|{values}",
    )


@pytest.mark.parametrize(
    ("checker", "kind", "good", "bad", "told"),
    [
        ("set-full", "stale", read(2, "7"), read(2, "17"), "call 2 on ch2 did not return 7"),
        ("set-full", "lost", final(2, "7", "ch1"), final(2, "", "ch1"), "no replica returns it"),
        ("set-full", "duplicate", read(2, "7 8"), read(2, "7 8 7"), "returned 7 more than once"),
        (
            "read-your-writes",
            "read-your-writes",
            read(2, "", client=1),
            read(2, ""),
            "client 0 did not read 7 on ch2",
        ),
        (
            "monotonic-writes",
            "monotonic-writes",
            (*LATER, *read(3, "7")),
            (*LATER, *read(3, "8")),
            "returned 8 without 7",
        ),
        (
            "monotonic-reads",
            "monotonic-reads",
            (*read(2, "7"), *read(3, "", client=1)),
            (*read(2, "7"), *read(3, "")),
            "client 0 had read 7 before",
        ),
        (
            "sequential",
            "cycle",
            (*LATER, *read(3, "7"), *read(4, "7 8", node="ch1")),
            (*LATER, *read(3, "7 9"), *read(4, "8 9", node="ch1")),
            "call 3 on ch2 returned 7 without 8, and call 4 on ch1 returned 8 without 7",
        ),
        (
            "convergence",
            "diverged",
            (*final(2, "7 8", "ch1"), *final(3, "8 7", "ch2")),
            (*final(2, "7", "ch1"), *final(3, "", "ch2")),
            "ch1 returns 7 of key 0 and ch2 does not",
        ),
        (
            "answers",
            "unanswered",
            (*final(2, "no", "ch1", "error"), *final(3, "7", "ch1")),
            final(2, "Code: 60", "ch1", "error"),
            "final-read of key 0 on ch1: Code: 60",
        ),
    ],
)
def test_a_rule_tells_a_bad_history_from_a_good_one(
    checker: str, kind: str, good: tuple[str, ...], bad: tuple[str, ...], told: str
) -> None:
    assert judged(checker, kind, *ACKED, *good) == ""
    assert told in judged(checker, kind, *ACKED, *bad)


@pytest.mark.parametrize(("kind", "look"), [("torn", read), ("half", final)])
def test_a_part_of_an_insert_is_told_from_all_of_it(kind: str, look: object) -> None:
    def shows(values: str) -> tuple[str, ...]:
        return read(2, values) if look is read else final(2, values, "ch2")

    assert judged("atomic", kind, *MANY, *shows("3 1 2")) == ""
    assert judged("atomic", kind, *MANY, *shows("")) == ""
    assert "2 of the 3 rows of one INSERT" in judged("atomic", kind, *MANY, *shows("1 3"))


def test_an_unknown_end_begins_another_session() -> None:
    unknown = ("begin|2|0|ch1|insert|0|8", "end|2|0|ch1|insert|0|8|error|timeout")
    assert judged("read-your-writes", "read-your-writes", *ACKED, *unknown, *read(3, "")) == ""


def test_rows_are_judged_replica_by_replica_where_all_tables_were_read() -> None:
    lines = (
        "allowed|0|1|t=1",
        "allowed|0|1|u=1",
        "row|ch1|0|u|1|1",
        "looked|ch1|0",
        "row|ch2|0|t|1|1",
        "row|ch2|0|u|1|1",
        "looked|ch2|0",
        "row|ch3|0|t|1|2",
    )
    assert judged("statement-rows", "lost", *lines) == (
        "row 1 of partition 0: ch2 shows t=1 u=1; the statements, each of which was acknowledged, "
        "leave t=1 or u=1\n"
    )


def judged(checker: str, kind: str, *lines: str) -> str:
    sent = [SentStatement("ch1", "SELECT 1", {})]
    rule = rule_of(Finding(checker, kind), [("page", "inserts a row")], sent)
    command = ["awk", "-F", "\t", rule.awk]
    told = subprocess.run(
        command, input=history(*lines), capture_output=True, text=True, check=True
    ).stdout
    assert sorted(told.splitlines()) == sorted(judged_in_python(rule.name, lines))
    return told


def judged_in_python(name: str, lines: Sequence[str]) -> list[str]:
    """Return what the rule of an integration test says of the same lines."""
    if name != "rows":
        return rule_named(name)(list(answered(lines)))
    words = [line.split("|") for line in lines]
    allowed: dict[tuple[int, int], list[str]] = {}
    shown: dict[tuple[str, int], dict[int, str]] = {
        (node, int(partition)): {} for word, node, partition, *_ in words if word == "looked"
    }
    for word, first, second, *more in words:
        if word == "allowed":
            allowed.setdefault((int(first), int(second)), []).append(more[0])
        elif word == "row" and (first, int(second)) in shown:
            table, row, copies = more
            rows = shown[first, int(second)]
            rows[int(row)] = " ".join(filter(None, [rows.get(int(row)), f"{table}={copies}"]))
    return rule_named(name)(allowed, shown)


def answered(lines: Sequence[str]) -> Iterator[AnsweredCall]:
    """Yield the calls of lines, whose times are the lines' numbers."""
    begun: dict[str, float] = {}
    errors: dict[str, int] = {}
    for at, line in enumerate(lines):
        word, number, client, node, f, key, values, *end = line.split("|")
        if word == "begin":
            begun[number] = at
            continue
        kind, answer = end
        session = errors.get(client, 0)
        errors[client] = session + (kind == "error")
        yield AnsweredCall(
            number=number,
            node=node,
            name=f,
            client=int(client),
            key=int(key),
            values=[int(value) for value in values.split()],
            session=session,
            begin=begun[number],
            end=at,
            error=answer if kind == "error" else "",
            answer=[int(value) for value in answer.split() if kind == "ok"],
        )


@pytest.mark.parametrize(
    ("settings", "sql", "page"),
    [
        ({"select_sequential_consistency": 1}, "SELECT 1", "select_sequential_consistency"),
        ({}, "SYSTEM SYNC REPLICA t", "system#sync-replica"),
        ({}, "SELECT 1", "mergetree-family/replication"),
    ],
)
def test_what_is_promised_of_reads_follows_from_the_statements(
    settings: dict[str, int | str], sql: str, page: str
) -> None:
    rule = rule_of(Finding("set-full", "stale"), [], [SentStatement("ch1", sql, settings)])
    assert rule.link.startswith("https://clickhouse.com/docs/")
    assert rule.link.endswith(page)


def test_an_issue_has_versions_steps_promise_and_script(tmp_path: Path) -> None:
    assert export_by_command("stale-read", "--to", str(tmp_path), "--as", "issue").exit_code == 0
    text = (tmp_path / "issue.md").read_text()
    assert text.startswith("# A sequentially consistent read misses an insert that a quorum ")
    assert "Seen on ClickHouse 25.8.2.1 as built in chdb 3.7.2 and ZooKeeper 3.8.0" in text
    assert "https://clickhouse.com/docs/operations/settings/settings#select_sequential" in text
    assert (
        "8. zk1: docker network disconnect, from the other ZooKeeper servers; its clients stay\n"
        "9. ch2: `INSERT INTO harness_stale_read.t (key, value, pad) VALUES (0, 1, '')` "
        "(insert_quorum = 2, insert_quorum_timeout = 5000)\n"
        "10. ch1: `SELECT value FROM harness_stale_read.t WHERE key = 0` "
        "(select_sequential_consistency = 1)\n"
        "11. zk1: docker network connect\n"
    ) in text
    assert (tmp_path / "reproduce.sh").read_text() in text
    assert "What was seen" not in text


def test_the_issue_of_a_run_has_its_servers_and_its_witness(tmp_path: Path) -> None:
    answer = export_by_command(str(STORED), "--to", str(tmp_path), "--as", "issue", "--json")
    assert answer.exit_code == 0, answer.output
    assert "issue.md" in json.loads(answer.output)["files"]
    text = (tmp_path / "issue.md").read_text()
    version = RunDirectory(STORED).info().versions["ch1"]
    assert f"Seen on ClickHouse {version}" in text
    assert "INVALID  schema-1/scenario" in text.split("## What was seen")[1]


MISSED = history_of(
    insert(0, 1, 1, 40),
    read_op(1, [], 20, 30, node="ch2"),
    read_op(1, [], 1030, 1034, node="ch2"),
    rest(1600),
    *(final_op(p, [1], 1700, 1702, node=f"ch{p + 1}") for p in (0, 1, 2)),
)
"""History of a run in which a read misses value 1, a second after its acknowledgement."""


def test_a_run_becomes_steps_that_begin_and_end_in_its_order() -> None:
    assert [type(step).__name__ for step in steps_of_history(MISSED)] == (
        ["Do", "Do", "Joined", "Joined", "Rest", "Do", "Joined"]
    )
    first, inner, *_, rested, last, _ = steps_of_history(MISSED)
    assert isinstance(first, Do)
    assert isinstance(inner, Do)
    assert isinstance(last, Do)
    assert (first.wait, inner.wait, last.wait) == (False, True, True)
    assert (first.call.node, first.call.value, inner.call.f, inner.by) == ("ch1", 1, "read", 1)
    assert rested == Rest(1.0)
    assert set(first.ends) == {Kind.OK, Kind.FAIL, Kind.INFO}


def test_a_run_is_exported_with_its_gravest_anomaly(tmp_path: Path) -> None:
    run = finished(tmp_path / "store", MISSED)
    to = tmp_path / "to"
    assert export_by_command(str(run.path), "--to", str(to)).exit_code == 0
    text = (to / "reproduce.sh").read_text()
    assert text.splitlines()[1].startswith("# quorum-set-0x5eed: stale in run 20261120T174509Z-")
    assert "INSERT INTO harness_quorum_set_0x5eed.t VALUES (0, 1)" in text
    assert "had acknowledged before" in text


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("stale-raed", "scenario 'stale-raed' is unknown; did you mean stale-read or"),
        (
            "uncounted-quorum",
            "it needs a client's look at ZooKeeper",
        ),
        ("RUN", "it cuts links between single servers"),
        ("stale-read", "is not empty; expected a new directory"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path: Path, what: str, why: str) -> None:
    run = finished(tmp_path, stale())
    to = tmp_path if what == "stale-read" else tmp_path / "to"
    answer = export_by_command(str(run.path) if what == "RUN" else what, "--to", str(to))
    assert isinstance(answer.exception, UsageError)
    assert why in str(answer.exception)


@pytest.mark.containers
@pytest.mark.parametrize(
    ("name", "told", "needs_faults"),
    [
        # A MOVE that comes before the fetch by itself does the same.
        ("moved-away", "row 1 of partition 0: ch1 shows nothing", False),
        ("orphaned-insert", "no file of any replica refers to data/", True),
    ],
)
def test_a_reproduction_and_its_control_run_without_the_harness_and_remove_their_servers(
    name: str, told: str, needs_faults: bool, tmp_path: Path
) -> None:
    write_files(tmp_path, exported(name).files())
    built = build_images(print, ImageChoice(store=SCENARIOS[name].store))
    tags = {role: next(iter(images.values())).tag for role, images in built.servers.items()}
    images = {f"{role.upper()}_IMAGE": tag for role, tag in tags.items()}
    images["PROXY_IMAGE"] = built.pod
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "PROJECT": f"exported-{name}"}
    ended = _run_script(tmp_path, {**environment, **images, "KEEP": "1"})
    control = _run_script(tmp_path, {**environment, **images, "CONTROL": "1"})
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert f"\nREPRODUCED: {name}\n  {told}" in ended.stdout
    without = f"\nNOT REPRODUCED: {name}, without its faults\n"
    if needs_faults or without in control.stdout:
        assert control.stdout.endswith(without), control.stdout + control.stderr
        assert control.returncode == 0
    else:
        assert f"\nREPRODUCED: {name}\n  {told}" in control.stdout, control.stdout
        assert control.returncode == 1
    left = subprocess.run(
        ["docker", "ps", "-aq", "--filter", f"label=com.docker.compose.project=exported-{name}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert left.stdout == ""


def _run_script(directory: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [directory / "reproduce.sh"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
