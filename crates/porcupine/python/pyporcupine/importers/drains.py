"""Takes drains of a queue apart: a drain is a dequeue of each value that it returned."""

from dataclasses import replace
from typing import Final

from pyporcupine._pyporcupine import Operation
from pyporcupine.importers.record import Malformed, Reading, shown

DRAIN: Final = "drain"


def expand_drains(reading: Reading) -> Reading:
    """Return the reading with dequeues in place of drains, for models that know no drain.

    Each dequeue has the times of the drain and a process of its own: nobody knows when the drain
    took which value, and so their order is not judged. A drain that never returned cannot be taken
    apart, because it may have taken any number of values.
    """
    if all(one.f != DRAIN for one in reading.operations):
        return reading
    made = replace(reading, operations=[], lines=[], malformed=[*reading.malformed])
    for one, line in zip(reading.operations, reading.lines, strict=True):
        if one.f != DRAIN:
            dequeues = [one]
        elif isinstance(why := _values(one, line[0]), Malformed):
            made.malformed.append(why)
            continue
        else:
            dequeues = [_dequeue(one, at, value) for at, value in enumerate(why)]
        made.operations += dequeues
        made.lines += [line] * len(dequeues)
    return made


def _values(drain: Operation, line: int) -> list[object] | Malformed:
    if drain.ret is None:
        mend = "judge the file with --model total-queue, which counts what comes out"
        return Malformed(line, "f", '"drain", which never returned', "a drain that returned", mend)
    if not isinstance(found := drain.output or [], list):
        return Malformed(line, "value", shown(found), "a list of the values that the drain took")
    return found


def _dequeue(drain: Operation, at: int, value: object) -> Operation:
    process = f"{drain.process}, value {at + 1} of a drain"
    return Operation(process, "dequeue", drain.key, call=drain.call, ret=drain.ret, output=value)
