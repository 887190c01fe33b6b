"""The journal: what is flushed survives the harness; what is read is what was written."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from report_cases import sound, stale
from store_cases import JSON, NUMBERS, OPS, shape

from checkers.every_run import applicable, every_run
from checkers.judge import judge
from checkers.ladder import Level
from checkers.suite import set_checkers
from harness.core.errors import HarnessError, HistoryError
from harness.core.history import History
from harness.core.lines import decoded, encoded
from harness.core.op import NEMESIS, Kind, Op
from harness.core.verdict import Status
from harness.store.journal import Journal, history_of_lines, read_history, read_journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.jsonl"


def write(path: Path, ops: Sequence[Op] = OPS) -> None:
    journal = Journal(path)
    for op in ops:
        journal.append(op)
    journal.close()


def test_what_is_read_is_what_was_written(path: Path) -> None:
    write(path)
    assert tuple(read_history(path)) == OPS
    assert read_journal(path).damage is None


def test_a_line_is_one_json_object_with_the_fields_of_an_op(path: Path) -> None:
    write(path)
    lines = path.read_text().splitlines()
    assert len(lines) == len(OPS)
    assert json.loads(lines[5]) == {
        "index": 5,
        "process": 1,
        "kind": "ok",
        "f": "read",
        "time_ns": 12,
        "value": [7, 3, 7],
        "key": 1,
        "node": "ch2",
        "error": None,
    }
    assert all(json.loads(line).keys() == json.loads(lines[5]).keys() for line in lines)


VALUES = st.one_of(
    st.none(), NUMBERS, st.lists(NUMBERS).map(tuple), st.dictionaries(st.text(), JSON)
)
OP = st.builds(
    Op,
    index=NUMBERS,
    process=st.integers(0, 2**31) | st.just(NEMESIS),
    kind=st.sampled_from(Kind),
    f=st.text(),
    time_ns=NUMBERS,
    value=VALUES,
    key=st.none() | NUMBERS,
    node=st.none() | st.text(),
    error=st.none() | st.text(),
)


@given(OP)
def test_any_op_comes_back_exactly(op: Op) -> None:
    line = encoded(op)
    assert line.count(b"\n") == 1, "one op, one line"
    back = decoded(line)
    assert back == op
    assert shape(back.value) == shape(op.value)


def test_numbers_that_are_not_finite_come_back() -> None:
    value = {"max": math.inf, "min": -math.inf, "mean": math.nan}
    op = Op(index=0, process=NEMESIS, kind=Kind.OK, f="observe", time_ns=0, value=value)
    back = decoded(encoded(op)).value
    assert isinstance(back, dict)
    assert (back["max"], back["min"]) == (math.inf, -math.inf)
    assert math.isnan(back["mean"])


def test_any_mapping_is_an_object() -> None:
    value = MappingProxyType({"edge": "begin"})
    op = Op(index=0, process=NEMESIS, kind=Kind.OK, f="cut", time_ns=0, value=value)
    assert decoded(encoded(op)).value == {"edge": "begin"}


def test_an_op_is_the_operating_systems_within_a_tenth_of_a_second(path: Path) -> None:
    journal = Journal(path)
    journal.append(OPS[0])
    until = time.monotonic() + 0.1
    while path.stat().st_size == 0 and time.monotonic() < until:
        time.sleep(0.005)
    assert tuple(read_history(path)) == OPS[:1]
    journal.close()


def test_flush_returns_when_every_op_is_the_operating_systems(path: Path) -> None:
    journal = Journal(path)
    for op in OPS[:4]:
        journal.append(op)
    journal.flush()
    assert tuple(read_history(path)) == OPS[:4]
    journal.close()
    journal.close()


WRITER = """
import sys, itertools
from pathlib import Path
from harness.core.op import Kind, Op
from harness.store.journal import Journal

journal = Journal(Path(sys.argv[1]))
for n in itertools.count():
    kind = Kind.OK if n % 2 else Kind.INVOKE
    journal.append(Op(index=n, process=0, kind=kind, f="insert", time_ns=n, value=n // 2, key=0))
    if n == 1000:
        journal.flush()
        print("flushed", flush=True)
"""


def test_a_harness_that_is_killed_leaves_what_it_had_flushed(path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"flushed\n"
    flushed, deadline = path.stat().st_size, time.monotonic() + 60
    while path.stat().st_size == flushed and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(writer.pid, signal.SIGKILL)
    assert writer.wait() == -signal.SIGKILL
    writer.stdout.close()
    history = read_history(path)
    assert len(history) >= 1001, "everything that was flushed"
    assert path.stat().st_size > flushed, "and what came after it until a moment ago"
    assert [op.index for op in history] == list(range(len(history)))
    assert [pair.invoke.value for pair in history.pairs] == list(range((len(history) + 1) // 2))


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_last_line_that_is_cut_off_is_reported_and_the_rest_is_read(path: Path, cut: int) -> None:
    write(path)
    raw = path.read_bytes()
    last = len(raw.splitlines(keepends=True)[-1])
    path.write_bytes(raw[: -last + cut])
    contents = read_journal(path)
    assert tuple(contents.history) == OPS[:-1]
    assert contents.damage == (
        f"{path}: line 8 is cut off after {cut} bytes, for the harness died while it wrote; the "
        "history is that of the lines before"
    )
    assert contents.history.pairs[-1].end is None, "an open call, as good as info"


def test_a_last_line_that_lacks_only_its_newline_counts(path: Path) -> None:
    write(path)
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert tuple(read_history(path)) == OPS
    assert read_journal(path).damage is None


@pytest.mark.parametrize(
    ("line", "bad", "why"),
    [
        (3, b"garbage", "'garbage' is not an op .Expecting value"),
        (4, b'{"index":3,"process":0,"kind":"perhaps","f":"x","time_ns":1}', "perhaps"),
        (4, b'{"index":"3","process":0,"kind":"ok","f":"x","time_ns":1}', "Expected `int`"),
        (2, b'{"index":1,"process":0,"kind":"ok"}', "missing required field"),
        (8, b"[7]", "Expected `object`"),
        (5, b"\xff\xfe", "is not an op"),
        (6, OPS[5].f.encode() * 100, "readreadread"),
        (2, encoded(OPS[1]).strip() + encoded(OPS[2]).strip(), "is not an op"),
        (2, encoded(OPS[1]).strip() + b"," + encoded(OPS[2]).strip(), "is not an op"),
        (2, encoded(OPS[1]).replace(b",", b"\n", 1).strip(), "is not an op"),
        (4, encoded(OPS[3]).replace(b"ch2", b"\n").strip(), "is not an op"),
    ],
)
def test_a_line_that_is_not_an_op_ends_the_history_and_keeps_it_from_being_valid(
    path: Path, line: int, bad: bytes, why: str
) -> None:
    write(path)
    lines = path.read_bytes().splitlines()
    lines[line - 1] = bad
    path.write_bytes(b"\n".join(lines) + b"\n")
    history = read_history(path)
    assert tuple(history[:-1]) == OPS[: line - 1]
    verdict = judge(history, [], 1, "eventual").verdicts[0]
    assert verdict.status is Status.UNKNOWN
    assert re.search(why, verdict.summary)
    assert verdict.summary.startswith(f"line {line} of history.jsonl: ")
    after = path.read_bytes().count(b"\n") - line
    assert after == 0 or verdict.summary.endswith(f"from the {after} lines after it")


def test_a_file_without_any_op_is_no_history(path: Path) -> None:
    path.write_bytes(b"hello\n" + encoded(OPS[0]))
    with pytest.raises(HistoryError) as caught:
        read_history(path)
    assert str(caught.value).startswith(f"{path}: line 1 of history.jsonl: 'hello' is not an op")
    assert "expected a JSON object with index, process, kind, f, time_ns" in str(caught.value)


def test_an_end_that_cannot_be_read_is_of_unknown_outcome_and_the_rest_is_kept(path: Path) -> None:
    """As of a read that returned a list of lists."""
    ops = [*OPS, *(replace(op, index=op.index + 4, time_ns=15) for op in OPS[4:6])]
    write(path, ops)
    lines = path.read_bytes().splitlines()
    lines[5] = lines[5].replace(b"[7,3,7]", b"[[7],[3]]")
    lines[7] = lines[7].replace(b'"value":8', b'"value":8x')
    path.write_bytes(b"\n".join(lines) + b"\n")
    history = read_history(path)
    unknown = replace(
        OPS[4], index=5, kind=Kind.INFO,
        error="UNREADABLE_LINE: line 6 of the journal is not an op",
    )  # fmt: skip
    assert tuple(history[:5]) == OPS[:5]
    assert history[5] == unknown
    assert [(op.process, op.kind) for op in history[6:]] == [
        (0, Kind.INVOKE),
        (0, Kind.INFO),
        (2, Kind.INVOKE),
        (2, Kind.OK),
        (4, Kind.INVOKE),
    ]
    summary = judge(history, [], 1, "eventual").verdicts[0].summary
    assert "line 6 of history.jsonl: " in summary
    assert "how the call read of op #4 ended is unknown; line 8 of history.jsonl: " in summary


@pytest.mark.parametrize(("ops", "status"), [(sound(), "VALID"), (stale(), "INVALID")])
def test_whichever_line_is_damaged_nothing_is_valid_and_nobody_is_accused_falsely(
    ops: History, status: str, path: Path
) -> None:
    checkers = set_checkers(
        Level.LINEARIZABLE, faults_expected=False, min_ok={"insert": 1, "read": 1}
    )
    whole = [encoded(op) for op in ops]
    seen: Counter[str] = Counter()
    assert judge(ops, checkers, 60, "linearizable").status.value == status
    for at in range(1, len(whole)):
        for bad in (
            b"garbage\n",
            re.sub(rb'"value":(\[[^]]*]|[^,]*)', b'"value":"odd"', whole[at]),
        ):
            history = history_of_lines(b"".join([*whole[:at], bad, *whole[at + 1 :]]))
            own = applicable([*checkers, *every_run()], history)
            seen[judge(history, own, 60, "linearizable").status.value] += 1
    assert seen["VALID"] == 0
    assert seen["INVALID"] == 0 or status == "INVALID"
    assert seen["INVALID"] > 0 or status == "VALID", "a witness counts without that line"


def test_a_history_that_breaks_the_rules_is_named_with_its_file(path: Path) -> None:
    write(path, (OPS[0], OPS[0]))
    with pytest.raises(HistoryError, match=r"history.jsonl: op at row 1: index is 0, expected 1"):
        read_history(path)


def test_a_journal_that_is_not_there_is_named(path: Path) -> None:
    with pytest.raises(HistoryError, match=r"history.jsonl: cannot be read: No such file"):
        read_history(path)


def test_an_empty_journal_is_an_empty_history(path: Path) -> None:
    write(path, ())
    assert len(read_history(path)) == 0


def test_a_journal_is_never_overwritten(path: Path) -> None:
    write(path)
    with pytest.raises(HarnessError, match="cannot be made: File exists"):
        Journal(path)
    assert tuple(read_history(path)) == OPS


CRAMPED_WRITER = """
import resource, sys
from pathlib import Path
from harness.core.errors import HarnessError
from harness.core.op import Kind, Op
from harness.store.journal import Journal

resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
journal = Journal(Path(sys.argv[1]))
try:
    for n in range(1000):
        kind = Kind.OK if n % 2 else Kind.INVOKE
        journal.append(Op(index=n, process=0, kind=kind, f="insert", time_ns=n))
    journal.flush()
except HarnessError as error:
    print(error)
"""


def test_a_journal_that_cannot_grow_ends_the_run_with_the_reason(path: Path) -> None:
    output = subprocess.run(
        [sys.executable, "-c", CRAMPED_WRITER, str(path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent,
    )
    assert output.stdout == (
        f"journal {path}: cannot be written: File too large; a run cannot go on without its "
        "history\n"
    )
    contents = read_journal(path)
    assert contents.damage is None, "a line that was cut off is not kept"
    assert len(contents.history) > 50, "what was written until then is kept"


def test_a_value_that_is_no_json_is_named_and_what_came_before_is_kept(path: Path) -> None:
    journal = Journal(path)
    journal.append(OPS[0])
    bad = Op(index=1, process=0, kind=Kind.OK, f="insert", time_ns=9, value={"at": {1, 2}})
    journal.append(bad)
    with pytest.raises(HarnessError, match=r"op #1 \(insert\) has a value that is not JSON"):
        journal.flush()
    with pytest.raises(HarnessError, match="a run cannot go on without its history"):
        journal.append(OPS[2])
    with pytest.raises(HarnessError, match="cannot be written"):
        journal.close()
    assert tuple(read_history(path)) == OPS[:1]
