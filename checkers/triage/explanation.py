"""The explanation of an INVALID run."""

from collections.abc import Iterable, Sequence

import msgspec

from checkers.triage.defects import DEFECTS, OF_ZOOKEEPER, title_of
from harness.core.op import Json
from harness.core.verdict import Verdict

KNOWN, PARTLY, NEW = "known", "partly", "new"
NOT_EXPLAINED = "not explained"


class Explained(msgspec.Struct, frozen=True):
    """A known defect in one run."""

    name: str
    since: str
    """The first version on which it was seen."""
    count: int
    """Number of values, in reads, for which the record proves it."""
    evidence: str
    """The first of these, in one sentence."""
    status: str = ""
    """What else it is than the break of a promise: "documented", or what nobody promises."""


def explained_by(found: Iterable[tuple[str, str]]) -> dict[str, Explained]:
    """Return each defect of these pairs of a defect and its evidence."""
    whys: dict[str, list[str]] = {}
    for name, why in found:
        whys.setdefault(name, []).append(why)
    return {
        name: Explained(name, str(DEFECTS[name].since), len(of), of[0], DEFECTS[name].status)
        for name, of in whys.items()
    }


class Cause(msgspec.Struct, frozen=True):
    """The smallest set of known defects that explains a run, and what they leave unexplained."""

    status: str
    """"known": they explain everything; "partly": not everything; "new": nothing."""
    defects: tuple[Explained, ...]
    unexplained: tuple[str, ...]
    """What is not explained, a sentence each; () if everything is."""
    why: str = ""
    """Why not everything could be explained, if the run recorded too little."""

    @staticmethod
    def new(invalid: Sequence[Verdict], why: str) -> "Cause":
        """Return the explanation that explains nothing, and why."""
        return Cause(NEW, (), described(invalid), why)

    @property
    def text(self) -> str:
        """Return one line: "explained by stale-read (known since 18.16.1), skipped-part" or "not
        explained: set-full stale: …"."""
        names = ", ".join(
            _title(one, known=not at or one.since != self.defects[at - 1].since)
            for at, one in enumerate(self.defects)
        )
        if self.status == KNOWN:
            return f"explained by {names}"
        why = f" ({self.why})" if self.why else ""
        beside = f"; beside it {names}" if names else ""
        first = self.unexplained[0] if self.unexplained else "nothing is named"
        return f"{NOT_EXPLAINED}: {first}{why}{beside}"

    def results(self) -> dict[str, Json]:
        """Return the explanation as results.json has it."""
        return {"status": self.status, "text": self.text, **msgspec.to_builtins(self)}


def described(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    """Return a sentence for each anomaly that the verdicts list, and for each one without."""
    return tuple(
        f"{verdict.checker} {said}"
        for verdict in verdicts
        for said in [f"{one.kind}: {one.text}" for one in verdict.anomalies]
        or [f"{verdict.status.value}: {verdict.summary}"]
    )


def _title(one: Explained, *, known: bool) -> str:
    """Return a defect in prose; `known` says whether its version is told."""
    title = title_of(one.name)
    own = title == one.name and one.status != OF_ZOOKEEPER
    since = f"known since {one.since}" if known and own else ""
    told = ", ".join(filter(None, [since, one.status]))
    return f"{title} ({told})" if told else title
