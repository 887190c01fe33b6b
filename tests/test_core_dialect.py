"""Dialects: a server's version determines what it understands."""

import pytest

from harness.core.dialect import Dialect, Mechanism, Version, dialect_of, most_doubtful
from harness.core.engines import Engine, Engines
from harness.core.errors import UsageError
from harness.core.op import Kind
from harness.core.outcomes import Outcome, write_outcome
from harness.core.topology import Role


def dialect(text: str) -> Dialect:
    return dialect_of(Version.of(text))


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("18.16.1", Version(18, 16, 1)),
        ("ClickHouse client version 18.16.1.\n", Version(18, 16, 1)),
        ("ClickHouse client version 24.8.4.13 (official build).", Version(24, 8, 4)),
    ],
)
def test_version_is_read_out_of_what_a_server_says(said: str, version: Version) -> None:
    assert Version.of(said) == version


def test_a_text_without_a_version_is_refused() -> None:
    with pytest.raises(UsageError, match=r"version 'latest': expected three numbers"):
        Version.of("latest")


@pytest.mark.parametrize(
    ("version", "root"),
    [
        ("18.16.1", "yandex"),
        ("21.12.9", "yandex"),
        ("22.1.0", "clickhouse"),
        ("25.8.2", "clickhouse"),
    ],
)
def test_the_root_of_the_configuration(version: str, root: str) -> None:
    assert dialect(version).configuration_root == root


ALL = {Mechanism.TRANSACTION_LOG, Mechanism.COPIED_PARTITIONS, Mechanism.VIEWS}
"""What servers of every version have."""
OLD = {*ALL, Mechanism.TABLE_LEADER}
OLDEST = Engine(role=Role.CLICKHOUSE, version="18.16.1")
NEW = Engine(role=Role.CLICKHOUSE, version="25.8.2.1", build="as built in chdb 3.7.2")
KEEPER = Engine(role=Role.ZOOKEEPER, version="3.8.0", build="of Debian bookworm")


@pytest.mark.parametrize(
    ("version", "mechanisms"),
    [
        ("18.16.1", OLD),
        ("20.4.9", {*OLD, Mechanism.ALTER_IN_LOG}),
        ("20.5.0", {*ALL, Mechanism.ALTER_IN_LOG, Mechanism.DROP_REPLICA}),
        (
            "24.8.4",
            set(Mechanism)
            - {
                Mechanism.TABLE_LEADER,
                Mechanism.LIGHTWEIGHT_UPDATES,
                Mechanism.PROJECTIONS,
                Mechanism.REFRESHABLE_VIEWS,
                Mechanism.SERIAL_IDS,
            },
        ),
        ("25.8.2", set(Mechanism) - {Mechanism.TABLE_LEADER}),
    ],
)
def test_which_mechanisms_exist(version: str, mechanisms: set[Mechanism]) -> None:
    assert dialect(version).mechanisms == mechanisms


def test_settings_that_a_server_does_not_know_are_not_set() -> None:
    assert dict(dialect("18.16.1").profile) == {}
    assert dict(dialect("18.16.1").server) == {}
    assert dict(dialect("18.16.1").merge_tree) == {"zookeeper_session_expiration_check_period": 1}
    assert dict(dialect("25.8.2").profile) == {
        "insert_quorum_parallel": 0,
        "async_insert": 0,
        "insert_keeper_retry_max_backoff_ms": 500,
        "keeper_retry_max_backoff_ms": 500,
    }
    postponed = {name for name in dialect("25.8.2").merge_tree if "postpone" in name}
    assert postponed == {
        "max_postpone_time_for_failed_mutations_ms",
        "max_postpone_time_for_failed_replicated_fetches_ms",
        "max_postpone_time_for_failed_replicated_merges_ms",
        "max_postpone_time_for_failed_replicated_tasks_ms",
    }


def test_a_server_out_of_a_wheel_has_the_thread_pools_of_the_official_one() -> None:
    server = dialect("25.8.2").server
    assert server["background_schedule_pool_size"] == 512
    assert server["background_distributed_schedule_pool_size"] == 16
    merge_tree = dialect("25.8.2").merge_tree
    # More free threads than the pool has would keep every mutation waiting.
    free = merge_tree["number_of_free_entries_in_pool_to_execute_mutation"]
    assert free <= 2 * server["background_pool_size"]


def test_a_cleanup_period_is_kept_where_the_cleanup_would_back_off() -> None:
    short = {"cleanup_delay_period": 1, "min_replicated_logs_to_keep": 2}
    assert dialect("18.16.1").table_settings(short) == short
    assert dialect("25.8.2").table_settings(short) == {**short, "max_cleanup_delay_period": 1}
    assert dialect("25.8.2").table_settings({"old_parts_lifetime": 10}) == {
        "old_parts_lifetime": 10
    }


def test_a_read_only_table_refuses_for_certain_only_where_inserts_do_not_retry() -> None:
    meanings = {
        version: write_outcome(242, "Table is in readonly mode", dialect(version).write_outcomes)
        for version in ("18.16.1", "25.8.2")
    }
    assert meanings["18.16.1"].kind is Kind.FAIL
    assert meanings["25.8.2"].kind is Kind.INFO


def test_the_data_of_an_atomic_database_is_dropped_at_once_and_found_by_uuid() -> None:
    old, new = dialect("18.16.1"), dialect("25.8.2")
    assert old.drop_database("d") == "DROP DATABASE IF EXISTS d"
    assert new.drop_database("d") == "DROP DATABASE IF EXISTS d SYNC"
    uuid = "0a1b2c3d-0000-4000-8000-000000000000"
    assert old.data_directory("d", "t", uuid="") == "data/d/t"
    assert new.data_directory("d", "t", uuid=uuid) == f"store/0a1/{uuid}"


def test_what_a_server_lacks_is_refused_by_name() -> None:
    dialect("18.16.1").require("workload merges", [Mechanism.TABLE_LEADER])
    with pytest.raises(
        UsageError,
        match=r"^nemesis x: needs a single leading replica per table, which ClickHouse 25\.8\.2 "
        r"with ZooKeeper does not have; choose another --clickhouse$",
    ):
        dialect("25.8.2").require("nemesis x", [Mechanism.TABLE_LEADER, Mechanism.FAILPOINTS])


def test_engines_are_named_with_how_they_were_built() -> None:
    engines = Engines(nodes={"ch1": NEW, "ch2": NEW, "zk1": KEEPER})
    assert str(engines) == (
        "ClickHouse 25.8.2.1 as built in chdb 3.7.2, ZooKeeper 3.8.0 of Debian bookworm"
    )
    assert engines.dialect == dialect("25.8.2.1")
    mixed = Engines(nodes={"ch1": OLDEST, "ch2": NEW, "ch3": OLDEST, "zk1": KEEPER})
    assert str(mixed) == (
        "ClickHouse 18.16.1 (ch1 ch3), ClickHouse 25.8.2.1 as built in chdb 3.7.2 (ch2), "
        "ZooKeeper 3.8.0 of Debian bookworm"
    )


def test_a_cluster_of_several_versions_claims_no_more_than_each_of_its_servers() -> None:
    mixed = Engines(nodes={"ch1": OLDEST, "ch2": NEW, "zk1": KEEPER}).dialect
    assert mixed.mechanisms == ALL
    assert write_outcome(242, "", mixed.write_outcomes).kind is Kind.INFO
    assert write_outcome(285, "", mixed.write_outcomes).kind is Kind.FAIL
    rejected = "Unexpected logical error while adding block"
    assert write_outcome(244, rejected, mixed.write_outcomes).kind is Kind.FAIL
    assert write_outcome(244, "anything else", mixed.write_outcomes).kind is Kind.INFO
    assert mixed.deduplication_blocks == 100
    with pytest.raises(
        UsageError,
        match=r"^nemesis x: needs a single leading replica per table, which not all of ClickHouse "
        r"18\.16\.1, 25\.8\.2 with ZooKeeper have; choose another --clickhouse$",
    ):
        mixed.require("nemesis x", [Mechanism.TABLE_LEADER])


def test_what_servers_are_upgraded_to_counts_from_the_start() -> None:
    before = Engines(nodes={"ch1": OLDEST, "zk1": KEEPER}, others=(NEW,))
    after = Engines(nodes={"ch1": NEW, "zk1": KEEPER}, others=(OLDEST,))
    assert before.dialect is after.dialect
    assert before.dialect.versions == (Version(18, 16, 1), Version(25, 8, 2))
    assert before.on("ch1") is dialect("18.16.1")
    assert after.on("ch1") is dialect("25.8.2")


def test_what_only_some_servers_take_for_a_failure_is_doubtful_on_a_cluster_of_both() -> None:
    def row(code: int, kind: Kind) -> Outcome:
        return Outcome(code, "X", kind, "because")

    tables = [
        (row(1, Kind.FAIL), row(2, Kind.FAIL), row(3, Kind.FAIL)),
        (row(1, Kind.FAIL), row(2, Kind.INFO)),
    ]
    merged = most_doubtful(tables)
    assert merged == (row(1, Kind.FAIL), row(2, Kind.INFO))
    assert write_outcome(3, "", merged).kind is Kind.INFO
