"""Whether a retry of the identical block ever put its rows in twice."""

from collections import Counter
from dataclasses import dataclass

from checkers.key_sets import INSERT, KeySet, insert_value, key_sets
from checkers.words import FEW, during, number, on_key, read_answered, seconds, where
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Status, Verdict

MIN_RETRIED = 10
"""Fewer values that were tried again, though a try may have taken effect, say too little."""


@dataclass(frozen=True, slots=True)
class Retried:
    """A value and its tries, of which at least two may have taken effect."""

    key: int | None
    value: int
    tries: tuple[Pair, ...]

    @property
    def elsewhere(self) -> bool:
        """Tried on another replica."""
        return len({pair.invoke.node for pair in self.tries}) > 1


class Dedup:
    """An insert of a value that was tried before is the identical block: the server drops it by
    its hash in ZooKeeper's /blocks. No read may have the value twice. That an acknowledged one is
    there once is `set-full`'s to say."""

    name = "dedup"

    def check(self, history: History, *, deadline_s: float) -> Verdict:  # noqa: ARG002
        """VALID needs retries."""
        retried = _retried(history)
        known = {(one.key, one.value): one for one in retried}
        doubled = [
            _anomaly(history, key, known[key.key, value])
            for key in key_sets(history)
            for value in _doubled(key)
            if (key.key, value) in known
        ]
        doubled.sort(key=lambda anomaly: (len(anomaly.ops), anomaly.time_ns))
        after_ok = sum(any(p.kind is Kind.OK for p in one.tries[:-1]) for one in retried)
        after_info = sum(any(p.kind is Kind.INFO for p in one.tries[:-1]) for one in retried)
        elsewhere = sum(one.elsewhere for one in retried)
        enough = len(retried) >= MIN_RETRIED
        said = (
            f"{number(len(retried), 'value')} tried again, {elsewhere:,} of them on another "
            f"replica, {after_info:,} after an unknown outcome"
        )
        if doubled:
            said = f"{number(len(doubled), 'value')} twice in a read, of {said}"
        elif not enough:
            said += f"; at least {MIN_RETRIED} expected"
        return Verdict(
            checker=self.name,
            status=Status.INVALID if doubled else Status.VALID if enough else Status.UNKNOWN,
            summary=said,
            checked=len(retried),
            anomalies=tuple(doubled[:FEW]),
            figures={
                "retried": len(retried),
                "elsewhere": elsewhere,
                "after_ok": after_ok,
                "after_info": after_info,
                "anomalies": {"duplicate": len(doubled)},
            },
        )


def _retried(history: History) -> list[Retried]:
    tries: dict[tuple[int | None, int], list[Pair]] = {}
    for pair in history.pairs:
        if pair.invoke.f == INSERT and pair.kind is not Kind.FAIL:
            key = (pair.invoke.key, insert_value(pair.invoke))
            tries.setdefault(key, []).append(pair)
    return [Retried(*key, tuple(pairs)) for key, pairs in tries.items() if len(pairs) > 1]


def _doubled(key: KeySet) -> list[int]:
    found: dict[int, None] = {}
    for read in key.reads:
        if read.duplicated:
            found |= dict.fromkeys(v for v, times in Counter(read.values).items() if times > 1)
    return list(found)


def _anomaly(history: History, key: KeySet, one: Retried) -> Anomaly:
    read = next(r for r in key.reads if r.values.count(one.value) > 1)
    before = [pair for pair in one.tries if pair.invoke.index < read.end.index]
    ops = {op.index for pair in before for op in (pair.invoke, pair.end) if op is not None}
    times = read.values.count(one.value)
    found = f"with {one.value} {number(times, 'time')}"
    return Anomaly(
        kind="duplicate",
        text=(
            f"value {one.value}{on_key(read.invoke)} came {times} times in op #{read.end.index} "
            f"{read.end.f}{where(read.end)} at {seconds(read.end.time_ns)}, after "
            f"{len(before)} tries of the identical block{during(history, read.end.time_ns)}"
        ),
        ops=tuple(sorted(ops | {read.invoke.index, read.end.index})),
        key=key.key,
        value=one.value,
        time_ns=read.end.time_ns,
        steps=(
            *(_told(history, pair) for pair in before),
            read_answered(history, read.invoke, read.end, found),
        ),
    )


def _told(history: History, pair: Pair) -> str:
    invoke, end = pair.invoke, pair.end
    how = "never ended" if end is None else f"ended {end.kind.value} at {seconds(end.time_ns)}"
    began = f"op #{invoke.index} insert {invoke.value}{where(invoke)} at {seconds(invoke.time_ns)}"
    return f"{began} {how}{during(history, invoke.time_ns)}"
