"""Reads a journal of which some lines are not ops: a bit flipped, or somebody edited the file.

Every other line is kept. What the line was decides what may be concluded.

- The end of a client's call, as what precedes its value says, becomes an info: how the call ended
  is unknown. As after every info, the process goes on under another number. Had the network lost
  that answer, the harness would have recorded this very history of the very same servers; so
  whoever accuses them here would accuse them in an ordinary run, and what is INVALID is INVALID
  whatever the line said. Only checkers of the answers themselves do not judge (`applicable`).
- Any other line ends the history: it is that of the lines before it, as if the harness had died
  there. The line may have been the invocation of insert 7, and without it a later read of 7 is a
  phantom; or the begin of a fault, and without it an outage has no excuse. A witness among the
  lines before it needs nothing of what follows.

In both cases a call without an end is added, by which `checkers.whole_record` keeps the run from
being VALID: what is missing could be the violation.
"""

import re
from collections.abc import Sequence
from itertools import count
from typing import Final

from msgspec.structs import replace

from harness.core.errors import HistoryError
from harness.core.lines import decoded
from harness.core.op import NEMESIS, UNREADABLE, Kind, Op
from harness.core.ranges import shortened

_END: Final = re.compile(
    rb'\{"index":\d+,"process":(\d+),"kind":"(?:ok|fail|info)","f":"([^"\\]*)","time_ns":\d+,"value":'
)
"""What precedes the value in the line of an end, as the journal writes it."""
NAMED_MAX: Final = 3
"""Number of unreadable lines that are described."""


def ops_of_lines(lines: Sequence[bytes]) -> list[Op]:
    """Return the ops of a journal's lines, one of which is not an op. Raises HistoryError if not
    even the first is one."""
    read = [_op_or_error(line) for line in lines]
    processes = [op.process for op in read if isinstance(op, Op) and op.process != NEMESIS]
    fresh = count(1 + max(map(int, processes), default=-1))
    ops: list[Op] = []
    texts: list[str] = []
    open_: dict[object, Op] = {}
    """Call in flight of each process, as the lines number them."""
    moved: dict[object, int] = {}
    """Number that stands for a process after its call of unknown outcome."""
    for number, (line, op) in enumerate(zip(lines, read, strict=True), 1):
        if isinstance(op, ValueError):
            end = _END.match(line)
            call = open_.pop(int(end[1]), None) if end else None
            texts.append(f"line {number} of history.jsonl: {_shown(line)} is not an op ({op})")
            if end is None or call is None or call.f.encode() != end[2]:
                break
            moved[int(end[1])] = next(fresh)
            texts[-1] += f": how the call {call.f} of op #{call.index} ended is unknown"
            ops.append(_unknown_end(call, ops[-1], number))
            continue
        if texts and op.index != len(ops):  # a line end is damaged too
            texts.append(f"line {number} of history.jsonl: its index is not {len(ops)}")
            break
        ops.append(replace(op, process=moved[op.process]) if op.process in moved else op)
        if op.kind is Kind.INVOKE:
            open_[op.process] = ops[-1]
        else:
            open_.pop(op.process, None)
    if not ops:
        raise HistoryError(
            f"{texts[0]}; expected a JSON object with index, process, kind, f, time_ns, value, "
            "key, node and error"
        )
    if len(ops) < len(lines):
        texts[-1] += f": nothing is concluded from the {len(lines) - len(ops) - 1} lines after it"
    return [*ops, _marker(texts, len(ops), next(fresh), ops[-1].time_ns)]


def _op_or_error(line: bytes) -> Op | ValueError:
    try:
        return decoded(line)
    except ValueError as error:
        return error


def _shown(line: bytes) -> str:
    return repr(shortened(line.decode(errors="replace")))


def _unknown_end(call: Op, last: Op, number: int) -> Op:
    return replace(
        call,
        index=last.index + 1,
        kind=Kind.INFO,
        time_ns=last.time_ns,
        value=None,
        error=f"UNREADABLE_LINE: line {number} of the journal is not an op",
    )


def _marker(texts: Sequence[str], index: int, process: int, time_ns: int) -> Op:
    more = len(texts) - NAMED_MAX
    text = "; ".join([*texts[:NAMED_MAX], *([f"and {more} more lines"] if more > 0 else [])])
    return Op(
        index=index, process=process, kind=Kind.INVOKE, f=UNREADABLE, time_ns=time_ns,
        value={"text": text},
    )  # fmt: skip
