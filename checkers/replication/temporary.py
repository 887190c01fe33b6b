"""Checks that a part that is fetched is no part before it is whole, and leaves nothing behind.

A replica puts a part that it fetches in a temporary directory (tmp_fetch_…, today tmp-fetch_…), and
renames that once the part is whole. A look lists these directories, and the active parts that have
no part's name; a look at rest waits for the server to remove the directories.

Violated: an active part has no part's name ("visible"); a look at rest finds a directory that the
server has not removed ("left"). Doubtful: a cluster that was not at rest, and a replica whose
directories were not looked at then. A directory during the run is a fetch under way:
    temporary on ch2 → tmp_fetch_0_3_3_0     final-temporary on ch2 → nothing
"""

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from checkers.conclusion import Findings
from checkers.look import decode
from checkers.phrasing import during, listed, number, seconds
from checkers.quiescence import quiescence_of
from harness.core.history import History
from harness.core.verdict import Verdict

TEMPORARY: Final = "temporary"
FINAL_TEMPORARY: Final = "final-temporary"


class UnfinishedFetches(msgspec.Struct, frozen=True):
    """Look at the fetches under way on a replica."""

    directories: list[str] | UnsetType = UNSET
    """Those in which it puts the parts."""
    odd: list[str] | UnsetType = UNSET
    """Active parts that have no part's name."""
    unavailable: str | UnsetType = UNSET
    """Why there is nothing to look at, in place of the others."""


class Temporary:
    """Judges the calls "temporary" and, at rest, "final-temporary"."""

    name = "temporary"

    def check(self, history: History) -> Verdict:
        """Return the verdict. VALID needs rest, and a look at the directories of every replica
        then."""
        rest = quiescence_of(history)
        looks = 0
        final: set[str] = set()
        seen: set[tuple[str, str]] = set()
        found = Findings(self.name)
        for invoke, end in history.answered(TEMPORARY, FINAL_TEMPORARY):
            look = decode(end, UnfinishedFetches)
            if look.directories is UNSET:
                continue
            looks += 1
            final |= {str(end.node)} if end.f == FINAL_TEMPORARY else set()
            directories, odd = look.directories, look.odd or []
            seen |= {(str(end.node), one) for one in directories}
            at = f"at {seconds(end.time_ns)}{during(history, end.time_ns)}"
            if odd:
                text = f"{end.node} shows {listed(odd)} as a part {at}"
                found.add_anomaly("visible", text, invoke, end)
            if directories and end.f == FINAL_TEMPORARY and rest.reached:
                text = f"{end.node} still has {listed(directories)} {at}"
                found.add_anomaly("left", text, invoke, end)
        silent = [node for node in rest.nodes if node not in final]
        found.doubts += rest.doubts
        if silent or not final:
            found.add_doubt(f"no directories at rest of {listed(silent) if silent else 'anybody'}")
        return found.verdict(
            checked=looks,
            held=f"{number(looks, 'look')} at temporary directories, "
            f"{number(len(seen), 'fetch', 'fetches')} under way in them, none left",
            figures={"looks": looks, "under_way": len(seen)},
        )
