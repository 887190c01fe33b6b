"""Splits the keys off histories of many objects in which each value carries its key: [key, value],
as `jepsen.independent` writes them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyporcupine.importers.calls import CAS, READ_LIKE
from pyporcupine.importers.record import Event, EventKind


def split_keys(events: Sequence[Event], keyed: bool | None = None) -> list[Event]:
    """Return the events with each key moved out of the value into `key`.

    `keyed` None: the values carry keys if the value of each call is a pair, with nothing in its
    second place for a read and with a pair there for a cas. A written pair would look the same, but
    no model writes pairs.
    """
    calls = [event for event in events if event.kind is EventKind.INVOKE]
    if keyed is None:
        keyed = bool(calls) and all(_carries_key(event) for event in calls)
    return [_split(event) for event in events] if keyed else list(events)


def _carries_key(event: Event) -> bool:
    if event.key is not None or not _pair(event.value) or not isinstance(event.value[0], int | str):
        return False
    if event.f in READ_LIKE:
        return event.value[1] is None
    return event.f != CAS or _pair(event.value[1])


def _split(event: Event) -> Event:
    # Ends may carry something else, such as an error.
    if event.key is None and _pair(event.value) and isinstance(event.value[0], int | str):
        return replace(event, key=event.value[0], value=event.value[1])
    return event


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2
