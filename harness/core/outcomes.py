"""Meaning of errors for a history: one table for the client, the documentation and the tests.

One code means different things on different servers: its rows are named here, and the dialect has
the one that fits.

An error that is not listed is info on a write. On a read every error means no answer, hence no
constraint, hence fail.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.core.op import Kind


@dataclass(frozen=True, slots=True)
class Outcome:
    """The meaning of an error of a write."""

    code: int
    """ClickHouse's error code; negative: the client's own trouble."""
    name: str
    kind: Kind
    why: str
    """And where that is known from."""
    text: str = ""
    """Text that the message must contain; "" fits any message. The first row that fits decides."""


NETWORK = -1
"""The connection broke or was refused after the request may have been sent."""
UNSENT = -2
"""The connection could not be made, so nothing was sent."""
CLIENT_TIMEOUT = -3
"""The client gave up waiting."""
UNFLUSHED = -4
"""The server acknowledged an asynchronous insert before it wrote it."""
UNREADABLE = -5
"""The answer cannot be decoded, is too large, or has other columns than the query asked for."""

_PRECHECK = "source: checked before the part is written (ReplicatedMergeTreeBlockOutputStream)"

CERTAINLY_READ_ONLY = Outcome(242, "TABLE_IS_READ_ONLY", Kind.FAIL, _PRECHECK)
"""The meaning on servers whose inserts ask ZooKeeper once."""
PERHAPS_READ_ONLY = Outcome(
    242, "TABLE_IS_READ_ONLY", Kind.INFO, "a retry may say so after a multi that was committed"
)
"""The meaning on servers whose inserts retry."""

WRITE_OUTCOMES: tuple[Outcome, ...] = (
    Outcome(285, "TOO_LESS_LIVE_REPLICAS", Kind.FAIL, _PRECHECK),
    Outcome(286, "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE", Kind.FAIL, _PRECHECK),
    Outcome(164, "READONLY", Kind.FAIL, "source: refused by the settings check"),
    Outcome(225, "NO_ZOOKEEPER", Kind.FAIL, _PRECHECK),
    Outcome(252, "TOO_MANY_PARTS", Kind.FAIL, "source: refused before the first block"),
    Outcome(202, "TOO_MANY_SIMULTANEOUS_QUERIES", Kind.FAIL, "source: refused by ProcessList"),
    Outcome(
        517,
        "CANNOT_ASSIGN_ALTER",
        Kind.FAIL,
        "source: the multi was rejected, for the replica is behind (StorageReplicatedMergeTree)",
    ),
    Outcome(
        244,
        "UNEXPECTED_ZOOKEEPER_ERROR",
        Kind.FAIL,
        "source: the multi was rejected as a whole",
        text="Unexpected logical error",
    ),
    Outcome(244, "UNEXPECTED_ZOOKEEPER_ERROR", Kind.INFO, "the multi may have been committed"),
    Outcome(
        999, "KEEPER_EXCEPTION", Kind.INFO, "session trouble, perhaps after the multi was sent"
    ),
    Outcome(319, "UNKNOWN_STATUS_OF_INSERT", Kind.INFO, "by name: it may be committed later"),
    Outcome(
        159,
        "TIMEOUT_EXCEEDED",
        Kind.INFO,
        "a Distributed insert or DDL that goes on, or max_execution_time, perhaps after the commit",
    ),
    Outcome(
        394,
        "QUERY_WAS_CANCELLED",
        Kind.INFO,
        "source: looked for between retries and blocks (ReplicatedMergeTreeSink), so that the "
        "commit may have been tried before",
    ),
    Outcome(341, "UNFINISHED", Kind.INFO, "goes on in the background"),
    Outcome(209, "SOCKET_TIMEOUT", Kind.INFO, "the server went on without its peer"),
    Outcome(210, "NETWORK_ERROR", Kind.INFO, "the server went on without its peer"),
    Outcome(241, "MEMORY_LIMIT_EXCEEDED", Kind.INFO, "may strike after the commit"),
    Outcome(UNSENT, "CONNECTION_REFUSED", Kind.FAIL, "no connection, so nothing was sent"),
    Outcome(NETWORK, "CONNECTION_LOST", Kind.INFO, "the request may have arrived"),
    Outcome(CLIENT_TIMEOUT, "CLIENT_TIMEOUT", Kind.INFO, "the request may have arrived"),
    Outcome(UNREADABLE, "UNREADABLE", Kind.INFO, "the request has arrived, and nobody knows more"),
    Outcome(
        UNFLUSHED, "UNFLUSHED", Kind.INFO, "wait_for_async_insert=0: no word of what came of it"
    ),
)
"""The same on every server."""

NO_ANSWER = "a read that gave no answer constrains nothing"
READ_OUTCOMES: tuple[Outcome, ...] = (
    Outcome(289, "REPLICA_IS_NOT_IN_QUORUM", Kind.FAIL, NO_ANSWER),
    *(
        Outcome(row.code, row.name, Kind.FAIL, NO_ANSWER)
        for row in (CERTAINLY_READ_ONLY, *WRITE_OUTCOMES)
    ),
)


def write_outcome(code: int, text: str, outcomes: Sequence[Outcome]) -> Outcome:
    """Return the row of `outcomes` for an error of a write; an unlisted code is info."""
    unlisted = Outcome(code, "UNLISTED", Kind.INFO, "not in the table")
    return next((r for r in outcomes if r.code == code and r.text in text), unlisted)


def read_outcome(code: int) -> Outcome:
    """Return the row for an error of a read, which is always fail: a read without an answer has no
    effect."""
    unlisted = Outcome(code, "UNLISTED", Kind.FAIL, NO_ANSWER)
    return next((row for row in READ_OUTCOMES if row.code == code), unlisted)
