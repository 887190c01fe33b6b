"""Looks at the state of a replicated table in ZooKeeper, while clients and faults go on."""

from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from checkers.ddl.alters import LogTypes
from checkers.ddl.mutation_log import MutationsInLog
from checkers.look import encode
from checkers.quorum.quorum_parts import QuorumState
from checkers.replication.activity import ActiveReplicas
from checkers.replication.log_pointers import LogLook, LogPlace
from harness.clients.table_in_zookeeper import TableInZooKeeper
from harness.core.op import Json

Text = tuple[str, int] | None
"""Text and version of a node; None if it does not exist."""


def places(table: TableInZooKeeper) -> dict[str, Json]:
    """Return each replica's place in the log."""
    return encode(LogLook(replicas=_places(table)))


def log_and_places(table: TableInZooKeeper) -> dict[str, Json]:
    """Return the log's first entry, then the place of each replica, read twice: "steady" if both
    reads agree, so that the whole state existed at one moment after the first entry was read."""
    entries = table.children(["log"])["log"]
    names = ("log_pointer", "is_lost", "is_active")
    before, after = ([table.of_replicas(name) for name in names] for _ in range(2))
    now = _places(table)
    for replica, place in now.items():
        steady = all(a[replica] == b[replica] for a, b in zip(before, after, strict=True))
        was = _place(*(of_replicas[replica] for of_replicas in before))
        now[replica] = replace(was, lost_version=place.lost_version, steady=steady)
    first = int(entries[0].removeprefix("log-")) if entries else None
    return encode(LogLook(first, len(entries), now))


def _places(table: TableInZooKeeper) -> dict[str, LogPlace]:
    pointer, lost = table.of_replicas("log_pointer"), table.of_replicas("is_lost")
    active = table.of_replicas("is_active")
    return {
        replica: _place(pointer[replica], lost[replica], active[replica])
        for replica in table.replicas
    }


def _place(pointer: Text, lost: Text, active: Text) -> LogPlace:
    return LogPlace(
        int(pointer[0]) if pointer is not None and pointer[0] else None,
        lost is not None and lost[0] == "1",
        -1 if lost is None else lost[1],
        active is not None,
    )


def quorum_state(table: TableInZooKeeper) -> dict[str, Json]:
    """Return what is below /quorum."""
    return encode(_quorum_state(table))


def parts_of_replicas(table: TableInZooKeeper) -> dict[str, Json]:
    """Return the quorum state and every part in ZooKeeper, with the transaction that gave it to
    each replica."""
    folders = [f"replicas/{replica}/parts" for replica in table.replicas]
    names = [f"{folder}/{part}" for folder, own in table.children(folders).items() for part in own]
    paths = [f"{table.path}/{name}" for name in names]
    stats = table.zookeeper.each("exists", paths)
    parts: dict[str, dict[str, int]] = {}
    for name, path in zip(names, paths, strict=True):
        _, replica, _, part = name.split("/")
        if stats[path] is not None:
            parts.setdefault(part, {})[replica] = stats[path].czxid
    return encode(replace(_quorum_state(table), parts=parts))


def _quorum_state(table: TableInZooKeeper) -> QuorumState:
    values = table.values(["quorum/status", "quorum/last_part"])
    status, last = values["quorum/status"], values["quorum/last_part"]
    fields = dict(line.split(": ", 1) for line in _lines(status) if ": " in line)
    parts = dict(line.split("\t", 1) for line in _lines(last) if "\t" in line)
    failed = table.children(["quorum/failed_parts"])["quorum/failed_parts"]
    kept = _kept(table, frozenset(failed)) if failed else {}
    return QuorumState(table.zxid, fields.get("part_name"), parts, list(failed), kept)


def _kept(table: TableInZooKeeper, failed: frozenset[str]) -> dict[str, list[str]]:
    """Return the failed parts that each active replica has. A replica was active while its parts
    were listed if the same node made it active before and after; and a failed part stays failed."""
    before = table.activations()
    folders = [f"replicas/{replica}/parts" for replica in table.replicas]
    listed = zip(table.replicas, table.children(folders).values(), strict=True)
    after = table.activations()
    held = {replica: failed.intersection(own) for replica, own in listed}
    return {
        replica: sorted(own)
        for replica, own in held.items()
        if own and before[replica] is not None and before[replica] == after[replica]
    }


def log_types(table: TableInZooKeeper, expected: list[str]) -> dict[str, Json]:
    """Return the number of log entries of each type, which is the line after an entry's fields."""
    entries = table.children(["log"])["log"]
    types: dict[str, int] = {}
    for value in table.values([f"log/{entry}" for entry in entries]).values():
        lines = _lines(value)
        name = next((one for one in lines if one and ": " not in one), "unknown")
        types[name] = types.get(name, 0) + 1
    return encode(LogTypes(types, expected))


class MutationLook:
    """Look at mutations: their block numbers, each replica's pointer, and the entries that the log
    got since the look before."""

    def __init__(self) -> None:
        self._last = ""
        """Name of the last entry of the log that was read."""

    def __call__(self, table: TableInZooKeeper) -> dict[str, Json]:
        """Return the mutations."""
        log = [name for name in table.children(["log"])["log"] if name > self._last]
        entries = [
            entry
            for text in table.values([f"log/{name}" for name in log]).values()
            if (entry := mutate_entry(_lines(text))) is not None
        ]
        # Read after the log: the mutation of an entry was there before the entry.
        names = table.children(["mutations"])["mutations"]
        texts = table.values([f"mutations/{name}" for name in names])
        numbers = {name: block_numbers(_lines(texts[f"mutations/{name}"])) for name in names}
        lost = table.of_replicas("is_lost")
        pointers = table.of_replicas("mutation_pointer")
        self._last = max(log, default=self._last)
        return encode(
            MutationsInLog(
                {node: text[0] for node, text in pointers.items() if text is not None},
                {node: -1 if text is None else text[1] for node, text in lost.items()},
                numbers,
                entries,
            )
        )


def mutate_entry(lines: Sequence[str]) -> tuple[str, str, str] | None:
    """Return source, part and mutated part of an entry of a mutation; None for another entry."""
    if "mutate" not in lines:
        return None
    at = lines.index("mutate")
    source = next(line.partition(": ")[2] for line in lines if line.startswith("source replica: "))
    return source, lines[at + 1], lines[at + 3]


def block_numbers(lines: Sequence[str]) -> dict[str, int]:
    """Return the block number of a mutation in each partition."""
    pairs = (line.split("\t") for line in lines if line.count("\t") == 1)
    return {partition: int(block) for partition, block in pairs if block.isdigit()}


def active(keepers: Mapping[str, Sequence[str]]) -> Callable[[TableInZooKeeper], dict[str, Json]]:
    """Return a look at whether each replica is active; checkers need `keepers`, the servers that
    each may read through."""
    servers = {replica: list(own) for replica, own in keepers.items()}

    def look(table: TableInZooKeeper) -> dict[str, Json]:
        nodes = table.of_replicas("is_active")
        return encode(
            ActiveReplicas({replica: node is not None for replica, node in nodes.items()}, servers)
        )

    return look


def _lines(value: Text) -> list[str]:
    return value[0].splitlines() if value else []
