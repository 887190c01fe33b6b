"""Concludes a verdict from what a checker found: anomalies, doubts, and how much it examined.

A history is INVALID if anything broke the promise, whatever else is in doubt: a witness stays a
witness, however little else was seen. Otherwise it is UNKNOWN if there is a doubt, or if nothing
was examined. Only what is left is VALID.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from checkers.phrasing import FEW
from harness.core.history import Pair
from harness.core.op import Json, Op
from harness.core.verdict import Anomaly, Status, Verdict


class Findings:
    """Collects what one checker finds in a history, up to its verdict.

    Every anomaly is counted, and of each kind the first `FEW` become part of the verdict.
    """

    def __init__(
        self,
        checker: str,
        *,
        kinds: Iterable[str] = (),
        counted: bool = True,
        smallest_first: bool = False,
    ) -> None:
        """Create findings without any. `kinds` are counted even if there are none of them;
        `counted` says whether the figures have the counts; `smallest_first` puts the anomalies with
        the fewest ops first, otherwise kinds come in the order in which they were found."""
        self.doubts: list[str] = []
        """Reasons against VALID, a phrase each."""
        self.counts: dict[str, int] = dict.fromkeys(kinds, 0)
        """Number of anomalies of each kind, in order of the first of each."""
        self._checker = checker
        self._counted = counted
        self._smallest_first = smallest_first
        self._few: list[Anomaly] = []
        """The first anomalies of each kind, in the order in which they were found."""

    @property
    def tally(self) -> str:
        """Return the number of anomalies of each kind: "2 lost, 1 torn"."""
        return ", ".join(f"{count} {kind}" for kind, count in self.counts.items() if count)

    def add_doubt(self, reason: str) -> None:
        """Add a reason against VALID."""
        self.doubts.append(reason)

    def add_anomaly(
        self,
        kind: str,
        text: str,
        *proof: Op | Pair | None,
        key: int | None = None,
        value: int | None = None,
        time_ns: int | None = None,
        steps: Iterable[str] = (),
    ) -> None:
        """Add the anomaly that `anomaly` makes of these arguments."""
        made = anomaly(kind, text, *proof, key=key, value=value, time_ns=time_ns, steps=steps)
        self.add_anomalies(kind, [made])

    def add_anomalies(self, kind: str, anomalies: Iterable[Anomaly], count: int = 1) -> None:
        """Add anomalies of one kind, `count` of them, of which no more are made than the verdict
        shows."""
        if not count:
            return
        self.counts[kind] = self.counts.get(kind, 0) + count
        shown = sum(one.kind == kind for one in self._few)
        if shown < FEW:
            self._few += islice(anomalies, FEW - shown)

    def extend(self, later: "Findings") -> None:
        """Add the anomalies that were found later."""
        for kind, count in later.counts.items():
            few = [one for one in later._few if one.kind == kind]
            self.add_anomalies(kind, few, count)

    def verdict(
        self,
        *,
        checked: int,
        held: str,
        broken: str = "",
        nothing: str = "nothing was checked",
        certain: bool = True,
        after: str = "",
        figures: Mapping[str, Json] | None = None,
        cut_short: bool = False,
    ) -> Verdict:
        """Return the verdict.

        Its summary is `broken`, or the text of the first anomaly, if there are any; else the
        doubts, or `nothing` if there are none and nothing was checked; else `held`. `after` ends
        each of these. Anomalies that are not `certain`, as before the cluster came to rest, are
        counted and break nothing, but they are a doubt.
        """
        shown = self._shown() if certain else ()
        unsure = [f"found and not certain: {self.tally}"] if self.tally and not certain else []
        doubts = self.doubts or unsure or ([] if checked else [nothing])
        if shown:
            status, summary = Status.INVALID, broken or shown[0].text
        elif doubts:
            status, summary = Status.UNKNOWN, "; ".join(doubts)
        else:
            status, summary = Status.VALID, held
        entries = {**(figures or {})}
        return Verdict(
            checker=self._checker,
            status=status,
            summary=summary + after,
            checked=checked,
            anomalies=shown,
            figures=entries | {"anomalies": {**self.counts}} if self._counted else entries,
            cut_short=cut_short,
        )

    def _shown(self) -> tuple[Anomaly, ...]:
        if self._smallest_first:
            return tuple(sorted(self._few, key=lambda one: len(one.ops)))
        kinds = [one.kind for one in self._few]
        return tuple(sorted(self._few, key=lambda one: kinds.index(one.kind)))


def anomaly(
    kind: str,
    text: str,
    *proof: Op | Pair | None,
    key: int | None = None,
    value: int | None = None,
    time_ns: int | None = None,
    steps: Iterable[str] = (),
) -> Anomaly:
    """Return an anomaly that these ops prove, in order of time; a pair stands for both of its ops.
    Its time is that of the last one unless `time_ns` is another."""
    by_index = {op.index: op for op in _ops(proof)}
    ops = tuple(sorted(by_index))
    assert ops, "an anomaly without ops proves nothing"
    return Anomaly(
        kind=kind,
        text=text,
        ops=ops,
        key=key,
        value=value,
        time_ns=by_index[ops[-1]].time_ns if time_ns is None else time_ns,
        steps=tuple(steps),
    )


def unjudged(checker: str, reason: str) -> Verdict:
    """Return the verdict of a checker that has nothing to judge."""
    return Verdict(checker=checker, status=Status.UNKNOWN, summary=reason, checked=0)


def _ops(proof: Iterable[Op | Pair | None]) -> Iterator[Op]:
    for one in proof:
        for op in (one.invoke, one.end) if isinstance(one, Pair) else (one,):
            if op is not None:
                yield op


def mapping_of(op: Op | None) -> Mapping[str, Any]:
    """Return the value of an op as a mapping; an empty one if it has none or is missing."""
    return op.value if op is not None and isinstance(op.value, Mapping) else {}
