"""Names the final reads of a history, which other rules judge than the reads before them."""

from dataclasses import replace
from typing import Final

from pyporcupine._pyporcupine import Operation
from pyporcupine.importers.record import Reading

FINAL_READ: Final = "final-read"


def name_finals(reading: Reading) -> Reading:
    """Return the reading in which each read that is marked as final is a `final-read`."""
    made = [
        _final(one) if at in reading.final and one.f == "read" else one
        for at, one in enumerate(reading.operations)
    ]
    return replace(reading, operations=made)


def _final(one: Operation) -> Operation:
    return Operation(
        one.process, FINAL_READ, one.key, one.value, call=one.call, ret=one.ret, output=one.output
    )
