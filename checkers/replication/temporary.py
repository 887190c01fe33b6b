"""Checks that a part that is fetched is no part before it is whole, and leaves nothing behind."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from checkers.conclusion import conclude, count_kinds
from checkers.phrasing import FEW, during, listed, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History, Pair
from harness.core.op import Kind
from harness.core.verdict import Anomaly, Verdict

TEMPORARY: Final = "temporary"
FINAL_TEMPORARY: Final = "final-temporary"


class Temporary:
    """Judges the calls "temporary" and, at rest, "final-temporary": {"directories": those in which
    the replica puts the parts that it fetches (tmp_fetch_…, today tmp-fetch_…), "odd": active parts
    that have no part's name}.

    INVALID: an active part of such a name ("visible"), at rest a directory that the server has not
    removed, for which the look waits ("left").
    """

    name = "temporary"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and a look at the directories of every replica
        then."""
        looks = [pair for pair in history.pairs if _is_look(pair)]
        final = {str(pair.invoke.node) for pair in looks if pair.invoke.f == FINAL_TEMPORARY}
        rest = quiescence_of(history)
        seen: set[tuple[str, str]] = set()
        broken: list[Anomaly] = []
        for pair in looks:
            directories, odd = _found(pair, "directories"), _found(pair, "odd")
            seen |= {(str(pair.invoke.node), one) for one in directories}
            if odd:
                broken.append(_anomaly(history, "visible", pair, f"shows {listed(odd)} as a part"))
            if directories and pair.invoke.f == FINAL_TEMPORARY and rest.reached:
                broken.append(_anomaly(history, "left", pair, f"still has {listed(directories)}"))
        silent = [node for node in rest.nodes if node not in final]
        doubts = rest.doubts
        if silent or not final:
            doubts.append(f"no directories at rest of {listed(silent) if silent else 'anybody'}")
        said = (
            f"{number(len(looks), 'look')} at temporary directories, "
            f"{number(len(seen), 'fetch', 'fetches')} under way in them, none left"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=broken[0].text if broken else "; ".join(doubts) or said,
            checked=len(looks),
            anomalies=tuple(broken[:FEW]),
            figures={
                "looks": len(looks),
                "under_way": len(seen),
                "anomalies": {**count_kinds(broken)},
            },
        )


def _value(pair: Pair) -> Mapping[str, Any]:
    value = pair.end.value if pair.end is not None else None
    return value if isinstance(value, Mapping) else {}


def _is_look(pair: Pair) -> bool:
    asked = pair.invoke.f in (TEMPORARY, FINAL_TEMPORARY) and pair.kind is Kind.OK
    return asked and "directories" in _value(pair)


def _found(pair: Pair, name: str) -> Sequence[str]:
    return [str(one) for one in _value(pair).get(name) or ()]


def _anomaly(history: History, kind: str, pair: Pair, what: str) -> Anomaly:
    end = pair.end
    assert end is not None, "a look has an end"
    return Anomaly(
        kind=kind,
        text=(f"{pair.invoke.node} {what} at {seconds(end.time_ns)}{during(history, end.time_ns)}"),
        ops=(pair.invoke.index, end.index),
        time_ns=end.time_ns,
    )
