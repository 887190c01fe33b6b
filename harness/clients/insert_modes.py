"""Modes of inserts: the settings of each, and the mechanisms that it needs."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from harness.clients.clickhouse import QuerySettings
from harness.clients.set_calls import quorum
from harness.core.dialect import Mechanism
from harness.core.errors import UsageError
from harness.core.ranges import AUTO, Quorum
from harness.core.seed import Seed

MIXED: Final = "mixed"
"""Name of all modes together."""
DRAWN: Final = 997
"""Number of inserts after which the draws of modes repeat. It is prime, so that other cycles of the
inserts do not coincide with it."""


class InsertMode(StrEnum):
    """Mode of an insert: when it is acknowledged."""

    QUORUM = "quorum"
    """Acknowledged when a quorum of replicas has it; one may be in flight per table."""
    PLAIN = "plain"
    """Acknowledged when one replica has it."""
    PARALLEL = "parallel"
    """Acknowledged when a quorum of replicas has it; several may be in flight."""
    ASYNC = "async"
    """Acknowledged when the server has written the block that it gathered it into."""
    UNWAITED = "async-no-wait"
    """Acknowledged when the server has it in memory, which promises nothing."""

    @property
    def is_quorum(self) -> bool:
        """Return whether a quorum acknowledges it."""
        return self in (InsertMode.QUORUM, InsertMode.PARALLEL)


def modes_of(text: str) -> tuple[InsertMode, ...]:
    """Return the modes that an option names: one, several with commas between them, or "mixed",
    which is all of them. Raises UsageError for a name that is none."""
    if text == MIXED:
        return tuple(InsertMode)
    try:
        return tuple(dict.fromkeys(InsertMode(word.strip()) for word in text.split(",")))
    except ValueError:
        names = " ".join((*InsertMode, MIXED))
        raise UsageError(
            f"--insert {text!r}: expected one of {names}, or several with commas between them, "
            "such as quorum,plain"
        ) from None


def mechanisms_of(modes: Sequence[InsertMode], quorum_size: Quorum) -> tuple[Mechanism, ...]:
    """Return what servers must have for inserts of these modes."""
    needs: list[Mechanism] = []
    if any(mode.is_quorum for mode in modes) and quorum_size == AUTO:
        needs.append(Mechanism.QUORUM_AUTO)
    if InsertMode.PARALLEL in modes:
        needs.append(Mechanism.PARALLEL_QUORUM)
    if InsertMode.ASYNC in modes or InsertMode.UNWAITED in modes:
        needs.append(Mechanism.ASYNC_INSERT)
    return tuple(needs)


def settings_of(
    modes: Sequence[InsertMode], quorum_size: Quorum, quorum_timeout_ms: int, seed: Seed
) -> tuple[QuerySettings, ...]:
    """Return the settings of inserts, for as many values as it takes to repeat them; with several
    modes each value draws its own."""
    of_mode: dict[InsertMode, QuerySettings] = {
        InsertMode.QUORUM: quorum(quorum_size, quorum_timeout_ms),
        InsertMode.PLAIN: {},
        InsertMode.PARALLEL: quorum(quorum_size, quorum_timeout_ms, parallel=True),
        InsertMode.ASYNC: {"async_insert": 1, "wait_for_async_insert": 1},
        InsertMode.UNWAITED: {"async_insert": 1, "wait_for_async_insert": 0},
    }
    if len(modes) == 1:
        return (of_mode[modes[0]],)
    return tuple(of_mode[seed.choice(value, tuple(modes))] for value in range(DRAWN))
