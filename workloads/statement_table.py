"""The table of statements.

A statement is a row of this table. Generator, client, history, judge and manual follow from it; a
user's own is a `StatementKind` in a module of theirs, named MODULE:NAME.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from checkers.statements.calls import Effect
from harness.core import plugins
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.ranges import unknown_name
from workloads.statement_kinds import ANY_MUTATION, ANY_WAIT, PATCHED, SEPARATOR, StatementKind
from workloads.view_statements import REFRESHES

_MANUAL: Final = "sql-reference/statements"
_PARTITION: Final = f"{_MANUAL}/alter/partition"
_COLUMN: Final = f"{_MANUAL}/alter/column"

_ONCE: Final[Mapping[str, StatementKind]] = {
    "insert-row": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.INSERT,
        text="inserts a row",
        promise=f"{_MANUAL}/insert-into",
        weight=12,
    ),
    "insert-quorum": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.INSERT,
        text="inserts a row that two replicas acknowledge",
        promise="operations/settings/settings#insert_quorum",
        settings=(
            ("insert_quorum", (2,)),
            ("insert_quorum_parallel", (0, 1)),
            ("insert_quorum_timeout", (5000,)),
        ),
        needs=(Mechanism.PARALLEL_QUORUM,),
        weight=2,
        by_name=True,
    ),
    "insert-async": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.INSERT,
        text="inserts a row into the block that the server gathers, and waits for that",
        promise="optimize/asynchronous-inserts",
        settings=(("async_insert", (1,)), ("wait_for_async_insert", (1,))),
        needs=(Mechanism.ASYNC_INSERT,),
        weight=2,
    ),
    "insert-spread": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.INSERT,
        text="inserts a row into each of two partitions, in one statement",
        promise=f"{_MANUAL}/insert-into",
        spread=True,
        weight=2,
    ),
    "insert-retried": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.AGAIN,
        text="inserts a row, and sends its block to another replica or the same one once more",
        promise="engines/table-engines/mergetree-family/replication",
        settings=(("deduplicate_blocks_in_dependent_materialized_views", (1,)),),
        weight=2,
    ),
    "insert-token": StatementKind(
        sql="INSERT INTO {table} (p, id, v) VALUES",
        effect=Effect.AGAIN,
        text="the same with a token",
        promise="operations/settings/settings#insert_deduplication_token",
        settings=(
            ("insert_deduplication_token", ("row {row}",)),
            ("deduplicate_blocks_in_dependent_materialized_views", (1,)),
        ),
        needs=(Mechanism.DEDUPLICATION_TOKEN,),
        weight=2,
    ),
    "insert-staged": StatementKind(
        sql="INSERT INTO {staging} (p, id, v) VALUES",
        effect=Effect.INSERT,
        text="inserts a row into a plain table of the replica that is asked",
        promise=f"{_MANUAL}/insert-into",
        weight=6,
        by_name=True,
    ),
    "insert-select": StatementKind(
        sql="INSERT INTO {to} ({columns}) SELECT {columns} FROM {table} WHERE p = {p:d}",
        effect=Effect.SELECT,
        text="inserts the rows of a partition of another table",
        promise=f"{_MANUAL}/insert-into#inserting-the-results-of-select",
        weight=0.5,
    ),
    "update": StatementKind(
        sql="ALTER TABLE {table} UPDATE v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="appends a number to the list of each row, as a mutation",
        promise=f"{_MANUAL}/alter/update",
        settings=ANY_MUTATION,
    ),
    "delete": StatementKind(
        sql="ALTER TABLE {table} DELETE WHERE {where}",
        effect=Effect.DELETE,
        text="removes rows, as a mutation",
        promise=f"{_MANUAL}/alter/delete",
        settings=ANY_MUTATION,
        weight=0.5,
    ),
    "delete-from": StatementKind(
        sql="DELETE FROM {table} WHERE {where}",
        effect=Effect.DELETE,
        text="marks rows as removed, as a mutation",
        promise=f"{_MANUAL}/delete",
        settings=(("lightweight_deletes_sync", (0, 1, 2)),),
        needs=(Mechanism.LIGHTWEIGHT_DELETES,),
        weight=0.5,
    ),
    "apply-deleted": StatementKind(
        sql="ALTER TABLE {table} APPLY DELETED MASK IN PARTITION {p:d}",
        effect=Effect.NONE,
        text="removes the rows that are marked as removed from the parts",
        promise=f"{_MANUAL}/alter/apply-deleted-mask",
        settings=ANY_MUTATION,
        needs=(Mechanism.LIGHTWEIGHT_DELETES,),
        weight=0.2,
    ),
    "kill-mutation": StatementKind(
        sql="KILL MUTATION WHERE concat(database, '.', table) = '{table}'",
        effect=Effect.KILL,
        text="stops the mutations of a table, which may have changed some of its parts",
        promise=f"{_MANUAL}/kill#kill-mutation",
        needs=(Mechanism.WAITED_MUTATIONS,),
        weight=0.5,
        by_name=True,
    ),
    "patch": StatementKind(
        sql="UPDATE {table} SET v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="appends a number to the list of each row, in a patch part",
        promise=f"{_MANUAL}/update",
        settings=(("enable_lightweight_update", (1,)), ("update_parallel_mode", ("auto",))),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        by_name=True,
    ),
    "patch-sync": StatementKind(
        sql="UPDATE {table} SET v = arrayPushBack(v, {update:d}) WHERE {where}",
        effect=Effect.APPEND,
        text="the same, one after the other",
        promise="operations/settings/settings#update_parallel_mode",
        settings=(("enable_lightweight_update", (1,)), ("update_parallel_mode", ("sync",))),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        by_name=True,
    ),
    "patch-delete": StatementKind(
        sql="DELETE FROM {table} WHERE {where}",
        effect=Effect.DELETE,
        text="marks rows as removed, in a patch part",
        promise=f"{_MANUAL}/delete",
        settings=(
            ("enable_lightweight_update", (1,)),
            ("lightweight_delete_mode", ("lightweight_update_force",)),
        ),
        table_settings=PATCHED,
        needs=(Mechanism.LIGHTWEIGHT_UPDATES,),
        weight=0.5,
        by_name=True,
    ),
    "move": StatementKind(
        sql="ALTER TABLE {table} MOVE PARTITION {p:d} TO TABLE {to}",
        effect=Effect.MOVE,
        text="moves a partition to another table",
        promise=f"{_PARTITION}#move-partition-to-table",
        settings=ANY_WAIT,
        needs=(Mechanism.MOVE_TO_TABLE,),
    ),
    "replace": StatementKind(
        sql="ALTER TABLE {to} REPLACE PARTITION {p:d} FROM {table}",
        effect=Effect.REPLACE,
        text="replaces a partition by that of another table",
        promise=f"{_PARTITION}#replace-partition",
        settings=ANY_WAIT,
        weight=0.5,
        needs=(Mechanism.COPIED_PARTITIONS,),
    ),
    "attach-from": StatementKind(
        sql="ALTER TABLE {to} ATTACH PARTITION {p:d} FROM {table}",
        effect=Effect.COPY,
        text="copies a partition from another table",
        promise=f"{_PARTITION}#attach-partition-from",
        settings=ANY_WAIT,
        weight=0.5,
        needs=(Mechanism.COPIED_PARTITIONS,),
    ),
    "attach-staged": StatementKind(
        sql="ALTER TABLE {to} ATTACH PARTITION {p:d} FROM {staging}",
        effect=Effect.COPY,
        text="copies a partition from the plain table of the replica that is asked",
        promise=f"{_PARTITION}#attach-partition-from",
        settings=ANY_WAIT,
        needs=(Mechanism.COPIED_PARTITIONS,),
        by_name=True,
    ),
    "replace-staged": StatementKind(
        sql="ALTER TABLE {to} REPLACE PARTITION {p:d} FROM {staging}",
        effect=Effect.REPLACE,
        text="replaces a partition by that of the plain table of the replica that is asked",
        promise=f"{_PARTITION}#replace-partition",
        settings=ANY_WAIT,
        needs=(Mechanism.COPIED_PARTITIONS,),
        by_name=True,
    ),
    "restore": StatementKind(
        sql="BACKUP TABLE {table} PARTITION {p:d} TO File('{table}-{index:d}'); "
        "RESTORE TABLE {table} AS {to} PARTITION {p:d} FROM File('{table}-{index:d}') "
        "SETTINGS allow_non_empty_tables = 1, allow_different_table_def = 1",
        effect=Effect.COPY,
        text="makes a backup of a partition, and restores it into another table",
        promise="operations/backup",
        needs=(Mechanism.BACKUPS,),
        weight=0.5,
        by_name=True,
    ),
    "drop": StatementKind(
        sql="ALTER TABLE {table} DROP PARTITION {p:d}",
        effect=Effect.DELETE,
        text="removes a partition",
        promise=f"{_PARTITION}#drop-partition",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "forget": StatementKind(
        sql="ALTER TABLE {table} FORGET PARTITION {p:d}",
        effect=Effect.FORGET,
        text="removes what ZooKeeper has of an empty partition",
        promise=f"{_PARTITION}#forget-partition",
        table_settings={"old_parts_lifetime": 1, "cleanup_delay_period": 1},
        needs=(Mechanism.FORGET_PARTITION,),
        by_name=True,
    ),
    "truncate": StatementKind(
        sql="TRUNCATE TABLE {table}",
        effect=Effect.DELETE,
        text="removes every partition",
        promise=f"{_MANUAL}/truncate",
        settings=ANY_WAIT,
        weight=0.05,
    ),
    "detach": StatementKind(
        sql="ALTER TABLE {table} DETACH PARTITION {p:d}",
        effect=Effect.DETACH,
        text="puts a partition aside, on each replica",
        promise=f"{_PARTITION}#detach-partitionpart",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "drop-part": StatementKind(
        sql="ALTER TABLE {table} DROP PART '{part}'",
        effect=Effect.DELETE,
        text="removes a part that the replica that is asked has",
        promise=f"{_PARTITION}#drop-partitionpart",
        settings=ANY_WAIT,
        needs=(Mechanism.NAMED_PARTS,),
        weight=0.5,
    ),
    "detach-part": StatementKind(
        sql="ALTER TABLE {table} DETACH PART '{part}'",
        effect=Effect.DETACH,
        text="puts a part aside, on each replica",
        promise=f"{_PARTITION}#detach-partitionpart",
        settings=ANY_WAIT,
        needs=(Mechanism.NAMED_PARTS,),
        weight=0.5,
    ),
    "attach": StatementKind(
        sql="ALTER TABLE {table} ATTACH PARTITION {p:d}",
        effect=Effect.ATTACH,
        text="adds what the replica that is asked has put aside",
        promise=f"{_PARTITION}#attach-partitionpart",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "attach-part": StatementKind(
        sql="ALTER TABLE {table} ATTACH PART '{aside}'",
        effect=Effect.ATTACH,
        text="adds one part that the replica that is asked has put aside",
        promise=f"{_PARTITION}#attach-partitionpart",
        settings=ANY_WAIT,
        needs=(Mechanism.NAMED_PARTS,),
        weight=0.5,
    ),
    "fetch": StatementKind(
        sql="ALTER TABLE {to} FETCH PARTITION {p:d} FROM '{path}'",
        effect=Effect.FETCH,
        text="puts a copy of a partition of another table aside, on the replica that is asked",
        promise=f"{_PARTITION}#fetch-partitionpart",
        weight=0.3,
    ),
    "optimize": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d} FINAL",
        effect=Effect.NONE,
        text="merges the parts of a partition",
        promise=f"{_MANUAL}/optimize",
        settings=ANY_WAIT,
        weight=0.5,
    ),
    "optimize-some": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d}",
        effect=Effect.NONE,
        text="merges some parts of a partition",
        promise=f"{_MANUAL}/optimize",
        settings=(*ANY_WAIT, ("optimize_throw_if_noop", (0, 1))),
        weight=0.2,
    ),
    "optimize-all": StatementKind(
        sql="OPTIMIZE TABLE {table} FINAL",
        effect=Effect.NONE,
        text="merges the parts of each partition",
        promise=f"{_MANUAL}/optimize",
        settings=(*ANY_WAIT, ("optimize_skip_merged_partitions", (0, 1))),
        weight=0.1,
    ),
    "deduplicate": StatementKind(
        sql="OPTIMIZE TABLE {table} PARTITION {p:d} FINAL DEDUPLICATE",
        effect=Effect.COLLAPSE,
        text="merges the parts of a partition, and leaves one of equal rows",
        promise=f"{_MANUAL}/optimize#by-expression",
        settings=ANY_WAIT,
        weight=0.2,
    ),
    "freeze": StatementKind(
        sql="ALTER TABLE {table} FREEZE PARTITION {p:d}",
        effect=Effect.NONE,
        text="makes hard links of the parts of a partition, as a backup",
        promise=f"{_PARTITION}#freeze-partition",
        weight=0.2,
    ),
    "column-default": StatementKind(
        sql="ALTER TABLE {table} MODIFY COLUMN v DEFAULT arraySlice([{p:d}], 2)",
        effect=Effect.NONE,
        text="changes the expression of a default, which is an empty list as before",
        promise=f"{_COLUMN}#modify-column",
        settings=ANY_WAIT,
        weight=0.2,
    ),
    "column-clear": StatementKind(
        sql="ALTER TABLE {table} CLEAR COLUMN v IN PARTITION {p:d}",
        effect=Effect.CLEAR,
        text="empties the list of each row of a partition",
        promise=f"{_COLUMN}#clear-column",
        settings=ANY_MUTATION,
        needs=(Mechanism.WAITED_MUTATIONS,),
        weight=0.5,
    ),
    "column-materialize": StatementKind(
        # A column without a default is refused; values that were inserted are kept since 24.2.
        sql=SEPARATOR.join(
            (
                "ALTER TABLE {table} MODIFY COLUMN v DEFAULT []",
                "ALTER TABLE {table} MATERIALIZE COLUMN v IN PARTITION {p:d}",
            )
        ),
        effect=Effect.NONE,
        text="gives the column of the lists a default, and writes it again",
        promise=f"{_COLUMN}#materialize-column",
        settings=ANY_MUTATION,
        needs=(Mechanism.WAITED_MUTATIONS,),
        weight=0.2,
    ),
    "column-rename": StatementKind(
        sql=SEPARATOR.join(
            (
                "ALTER TABLE {table} RENAME COLUMN v TO w",
                "ALTER TABLE {table} RENAME COLUMN w TO v",
            )
        ),
        effect=Effect.NONE,
        text="gives the column of the lists another name, and its own again",
        promise=f"{_COLUMN}#rename-column",
        settings=ANY_WAIT,
        needs=(Mechanism.ALTER_IN_LOG,),
        weight=0.2,
        by_name=True,
    ),
    "column-type": StatementKind(
        sql=SEPARATOR.join(
            (
                "ALTER TABLE {table} MODIFY COLUMN v Array(UInt64)",
                "ALTER TABLE {table} MODIFY COLUMN v Array(UInt32)",
            )
        ),
        effect=Effect.NONE,
        text="gives the column of the lists another type, and its own again",
        promise=f"{_COLUMN}#modify-column",
        settings=ANY_WAIT,
        needs=(Mechanism.ALTER_IN_LOG,),
        weight=0.2,
        by_name=True,
        reshapes=True,
    ),
    "column-add": StatementKind(
        sql="ALTER TABLE {table} ADD COLUMN IF NOT EXISTS w UInt8 DEFAULT 7 AFTER p",
        effect=Effect.NONE,
        text="adds a column that no insert names",
        promise=f"{_COLUMN}#add-column",
        settings=ANY_WAIT,
        weight=0.2,
        by_name=True,
        reshapes=True,
    ),
    "column-drop": StatementKind(
        sql="ALTER TABLE {table} DROP COLUMN IF EXISTS w",
        effect=Effect.NONE,
        text="removes that column",
        promise=f"{_COLUMN}#drop-column",
        settings=ANY_WAIT,
        weight=0.2,
        by_name=True,
        reshapes=True,
    ),
    "rename": StatementKind(
        sql="RENAME TABLE {table} TO {table}_away, {table}_away TO {table}",
        effect=Effect.NONE,
        text="gives the table of a replica another name, and its own again",
        promise=f"{_MANUAL}/rename",
        needs=(Mechanism.ATOMIC_DATABASES,),
        weight=0.2,
        by_name=True,
    ),
    "exchange": StatementKind(
        sql="EXCHANGE TABLES {table} AND {to}",
        effect=Effect.EXCHANGE,
        text="gives two tables each other's names, on the replica that is asked",
        promise=f"{_MANUAL}/exchange",
        needs=(Mechanism.ATOMIC_DATABASES,),
        by_name=True,
    ),
    **REFRESHES,
    "reattach": StatementKind(
        sql="DETACH TABLE {table} SYNC; ATTACH TABLE {table}",
        effect=Effect.NONE,
        text="puts the table of a replica out of use, and into use again",
        promise=f"{_MANUAL}/detach",
        needs=(Mechanism.ATOMIC_DATABASES,),
        weight=0.2,
        by_name=True,
    ),
    "restart-replica": StatementKind(
        sql="SYSTEM RESTART REPLICA {table}",
        effect=Effect.NONE,
        text="makes the replica begin anew, as after a restart of its server",
        promise=f"{_MANUAL}/system#restart-replica",
        weight=0.1,
    ),
}
ON_ALL_HOSTS: Final = ("update", "delete", "move", "replace", "attach-from", "drop")
"""Statements that are also made on all hosts."""


def _on_all_hosts(kind: StatementKind) -> StatementKind:
    """Return a statement that alters a table, made on all hosts."""
    words = kind.sql.split(" ", 3)
    return replace(
        kind,
        sql=" ".join([*words[:3], "ON CLUSTER harness", *words[3:]]),
        text=f"{kind.text}, on all hosts",
        promise="sql-reference/distributed-ddl",
        settings=(*kind.settings, ("distributed_ddl_task_timeout", (5,))),
        by_name=True,
    )


STATEMENTS: Final[Mapping[str, StatementKind]] = {
    **_ONCE,
    **{f"{name}-on-cluster": _on_all_hosts(_ONCE[name]) for name in ON_ALL_HOSTS},
}
"""Statements by their names, which are those of their calls."""


def statement_named(name: str) -> StatementKind:
    """Return the statement of the table, or the user's own, of this name. Raises UsageError."""
    if not plugins.is_reference(name):
        if name not in STATEMENTS:
            listed_by = "harness list statements"
            raise UsageError(f"statements {unknown_name(name, STATEMENTS, listed_by)}")
        return STATEMENTS[name]
    kind = plugins.load_value(name, StatementKind)
    kind.validate(name)
    return kind
