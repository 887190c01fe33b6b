"""Pauses of scripts, each with the query that shows what it waits for.

A run waits for the time; a reproduction, which may have slower servers, for the state. The
databases of a scenario have names that begin with `harness_`.
"""

from collections.abc import Sequence

from harness.generators.script import OWN_NAME, Do, Rest, ScriptStep, ShownState
from workloads.scenarios.steps import LOG_TRUNCATED_S, SESSION_GONE_S, insert


def sessions_gone(asked: str, count: int = 1) -> Rest:
    """Return the pause until the ZooKeeper sessions of so many replicas, which were killed or
    paused, have expired; `asked` is another one."""
    sql = f"SELECT min(active_replicas + {count} <= total_replicas) FROM system.replicas"
    return Rest(SESSION_GONE_S, ShownState(asked, sql))


def lost(asked: str, nodes: Sequence[str]) -> Sequence[Rest]:
    """Return the pause until replicas are marked as lost, because the log was cut behind them."""
    return _of_each(
        LOG_TRUNCATED_S,
        [
            ShownState(
                asked,
                "SELECT count() FROM system.zookeeper WHERE path = "
                f"'/harness/{OWN_NAME}/1/replicas/{node}' AND name = 'is_lost' AND value = '1'",
            )
            for node in nodes
        ],
    )


def cut_log(values: Sequence[int], away: Sequence[str], key: int = 0) -> tuple[ScriptStep, ...]:
    """Return steps in which ch1 inserts 25 values, so that the log is cut behind replicas that are
    away, and these are marked as lost."""
    return (
        sessions_gone("ch1", len(away)),
        *(Do(insert(value, "ch1", key)) for value in values[:20]),
        Rest(LOG_TRUNCATED_S),
        *(Do(insert(value, "ch1", key)) for value in values[20:]),
        *lost("ch1", away),
    )


def rows_on(seconds: float, count: int, *nodes: str) -> Sequence[Rest]:
    """Return the pause until each of these replicas has so many rows, in all tables together."""
    sql = f"SELECT sum(rows) = {count} FROM system.parts WHERE database LIKE 'harness_%' AND active"
    return _of_each(seconds, [ShownState(node, sql) for node in nodes])


def parts_gone(seconds: float, partition: int, *nodes: str) -> Sequence[Rest]:
    """Return the pause until these replicas know no part of a partition any more, not even an
    inactive one."""
    sql = (
        "SELECT count() = 0 FROM system.parts WHERE database LIKE 'harness_%' "
        f"AND partition = '{partition}'"
    )
    return _of_each(seconds, [ShownState(node, sql) for node in nodes])


def under_way(node: str, begins: str, seconds: float) -> Rest:
    """Return the pause until a server has executed for so long a statement that begins so."""
    sql = (
        f"SELECT count() > 0 FROM system.processes WHERE elapsed >= {seconds:g} "
        f"AND query LIKE '{begins}%'"
    )
    return Rest(seconds, ShownState(node, sql))


def log_read(seconds: float, *nodes: str) -> Sequence[Rest]:
    """Return the pause until these replicas have read the log to its end, whether or not they have
    executed it."""
    sql = "SELECT min(log_pointer > log_max_index) FROM system.replicas"
    return _of_each(seconds, [ShownState(node, sql) for node in nodes])


def at_rest(seconds: float, *nodes: str) -> Sequence[Rest]:
    """Return the pause until these replicas have executed all of the log."""
    sql = "SELECT max(queue_size) = 0 AND min(log_pointer > log_max_index) FROM system.replicas"
    return _of_each(seconds, [ShownState(node, sql) for node in nodes])


def fetches(node: str, seconds: float) -> Rest:
    """Return the pause until a replica has tried for so long to fetch a part."""
    sql = (
        "SELECT count() > 0 FROM system.replication_queue WHERE type = 'GET_PART' "
        f"AND is_currently_executing AND last_attempt_time + {seconds:g} <= now()"
    )
    return Rest(seconds, ShownState(node, sql))


def has_view(node: str, seconds: float) -> Rest:
    """Return the pause until a server has a materialized view."""
    sql = "SELECT count() > 0 FROM system.tables WHERE engine = 'MaterializedView'"
    return Rest(seconds, ShownState(node, sql))


def _of_each(seconds: float, shown: Sequence[ShownState]) -> Sequence[Rest]:
    """Return one pause for all of these states."""
    return [Rest(0.0 if number else seconds, one) for number, one in enumerate(shown)]
