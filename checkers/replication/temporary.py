"""Checks that a part that is fetched is no part before it is whole, and leaves nothing behind."""

from collections.abc import Sequence
from typing import Final

from checkers.conclusion import conclude, count_kinds, mapping_of
from checkers.phrasing import FEW, during, listed, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History
from harness.core.op import Op
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
        rest = quiescence_of(history)
        looks = 0
        final: set[str] = set()
        seen: set[tuple[str, str]] = set()
        broken: list[Anomaly] = []
        for invoke, end in history.answered(TEMPORARY, FINAL_TEMPORARY):
            if "directories" not in mapping_of(end):
                continue
            looks += 1
            final |= {str(end.node)} if end.f == FINAL_TEMPORARY else set()
            directories, odd = _found(end, "directories"), _found(end, "odd")
            seen |= {(str(end.node), one) for one in directories}
            if odd:
                text = f"shows {listed(odd)} as a part"
                broken.append(_anomaly(history, "visible", invoke, end, text))
            if directories and end.f == FINAL_TEMPORARY and rest.reached:
                text = f"still has {listed(directories)}"
                broken.append(_anomaly(history, "left", invoke, end, text))
        silent = [node for node in rest.nodes if node not in final]
        doubts = rest.doubts
        if silent or not final:
            doubts.append(f"no directories at rest of {listed(silent) if silent else 'anybody'}")
        said = (
            f"{number(looks, 'look')} at temporary directories, "
            f"{number(len(seen), 'fetch', 'fetches')} under way in them, none left"
        )
        return Verdict(
            checker=self.name,
            status=conclude(broken, doubts=doubts),
            summary=broken[0].text if broken else "; ".join(doubts) or said,
            checked=looks,
            anomalies=tuple(broken[:FEW]),
            figures={
                "looks": looks,
                "under_way": len(seen),
                "anomalies": {**count_kinds(broken)},
            },
        )


def _found(end: Op, name: str) -> Sequence[str]:
    return [str(one) for one in mapping_of(end).get(name) or ()]


def _anomaly(history: History, kind: str, invoke: Op, end: Op, what: str) -> Anomaly:
    return Anomaly(
        kind=kind,
        text=f"{end.node} {what} at {seconds(end.time_ns)}{during(history, end.time_ns)}",
        ops=(invoke.index, end.index),
        time_ns=end.time_ns,
    )
