"""When which fault begins and ends: a pure generator, all of it from one seed.

Each family waits, begins a fault, lets it bite, ends it, and so on for ever. The timetable is
laid out in a time of its own, which stands still while the nemesis is busy: a begin that takes
2 s to be seen still bites for its full duration, and however slow the servers are, the same
seed gives the same sequence of calls.

With one exception, for the servers decide it: an end that did not succeed is called again,
between the other calls, until it does. A replica of 18.16.1, for one, that is started while its
ZooKeeper server is cut off exits at once; it can be started when the partition has ended.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from harness.core.op import NEMESIS, Call, Json, Kind, Op
from harness.core.protocols import Context, Exhausted, Generator, Pending, Ready, Step
from harness.core.seed import Seed
from nemesis.options import FaultOptions

Plan: TypeAlias = Callable[[Seed, int], Mapping[str, Json]]

NEMESIS_WORKER = -1

RETRY_NS = 1_000_000_000
"""From an end that did not succeed to the next try, in the timetable's time."""


class Track(msgspec.Struct, frozen=True):
    """One family's place in the timetable."""

    f: str
    once: bool
    plan: Plan
    turns: int | None = None
    """How many faults it has; None: it goes on for ever."""
    faults: Seed = Seed(0)
    """What its plans are drawn from; it gets it from `schedule`, as it does the next."""
    waits: Seed = Seed(0)
    """What its waits are drawn from."""
    due_ns: int = 0
    """When its next call is due, in the timetable's own time."""
    calls: int = 0
    """How many calls it has made."""
    open: Mapping[str, Json] | None = None
    """The value of the begin that has not been ended."""
    owed: Mapping[str, Json] | None = None
    """The value of the end that must be called again, before anything else of this family."""
    retry_ns: int = 0
    """When it is due."""

    @property
    def next_ns(self) -> int:
        """When the next call is due, whichever it is."""
        return self.due_ns if self.owed is None else self.retry_ns

    @property
    def turn(self) -> int:
        """The number of its next fault, from 0."""
        return self.calls if self.once else self.calls // 2

    @property
    def over(self) -> bool:
        """Whether it has no call left."""
        return self.turn == self.turns and self.open is None and self.owed is None


class InFlight(msgspec.Struct, frozen=True):
    """The call that the nemesis is busy with."""

    at: int
    """Which track's."""
    value: Mapping[str, Json]
    since_ns: int
    """In the run's time."""


class Schedule(msgspec.Struct, frozen=True):
    """The generator. Made by `schedule`."""

    tracks: tuple[Track, ...]
    options: FaultOptions
    faults: int = 0
    """How many faults have begun."""
    offset_ns: int | None = None
    """The run's time less the timetable's; None before the first question."""
    in_flight: InFlight | None = None

    def op(self, context: Context) -> tuple[Step, Generator]:
        """The call that is due, if the nemesis is free."""
        if not self.tracks:
            return Exhausted(), self
        left = [(at, track) for at, track in enumerate(self.tracks) if not track.over]
        if not left and self.in_flight is None:
            return Exhausted(), self
        offset_ns = context.time_ns if self.offset_ns is None else self.offset_ns
        started = replace(self, offset_ns=offset_ns) if self.offset_ns is None else self
        worker = next((w for w in context.free if w.number == NEMESIS_WORKER), None)
        if worker is None or not left:
            return Pending(), started
        at, track = min(left, key=lambda one: one[1].next_ns)
        due_ns = track.next_ns
        if context.time_ns < due_ns + offset_ns:
            return Pending(due_ns + offset_ns), started
        value, track = self._next(track)
        after = replace(
            self,
            tracks=(*self.tracks[:at], track, *self.tracks[at + 1 :]),
            faults=self.faults + (value["edge"] != "end"),
            offset_ns=context.time_ns - due_ns,
            in_flight=InFlight(at, value, context.time_ns),
        )
        return Ready(Call(f=track.f, value=value, nemesis=True), worker), after

    def update(self, context: Context, event: Op) -> Generator:  # noqa: ARG002
        """The timetable's time goes on when the nemesis has done its call."""
        call = self.in_flight
        if event.process != NEMESIS or call is None:
            return self
        assert self.offset_ns is not None, "a call was made, so the timetable has begun"
        track = _told(self.tracks[call.at], call.value, event.kind, call.since_ns - self.offset_ns)
        return replace(
            self,
            tracks=(*self.tracks[: call.at], track, *self.tracks[call.at + 1 :]),
            offset_ns=self.offset_ns + event.time_ns - call.since_ns,
            in_flight=None,
        )

    def _next(self, track: Track) -> tuple[dict[str, Json], Track]:
        """The value of the track's next call, and the track after it."""
        value: dict[str, Json]
        if track.owed is not None:
            return dict(track.owed), track
        if track.open is not None:
            value = {**track.open, "edge": "end"}
        else:
            number = self.faults + 1
            edge = "once" if track.once else "begin"
            value = {"fault": number, "edge": edge, **track.plan(track.faults, track.turn)}
        calls, wait_s = track.calls + 1, self._wait_s(str(value["edge"]))
        wait_ns = _jittered_ns(wait_s, track.waits, calls, self.options.jitter)
        after = replace(
            track,
            due_ns=track.due_ns + wait_ns,
            calls=calls,
            open=value if value["edge"] == "begin" else None,
        )
        return value, after

    def _wait_s(self, edge: str) -> float:
        """After a call of this edge, before jitter. A fault without an end gets the time that
        others bite, for the servers to come back in."""
        pause_s = self.options.interval_s * len(self.tracks)
        bite_s = self.options.duration_s
        return {"begin": bite_s, "end": pause_s, "once": pause_s + bite_s}[edge]


def schedule(tracks: Sequence[Track], seed: Seed, options: FaultOptions) -> Schedule:
    """The families in an order drawn from the seed, the first fault after one interval, and each
    family's first one interval after its predecessor's. Without families it is exhausted."""
    placed = []
    for at, track in enumerate(seed.child("order").shuffled(0, tracks)):
        waits = seed.child("wait", track.f)
        first_ns = _jittered_ns(options.interval_s, waits, 0, options.jitter)
        placed.append(
            replace(
                track,
                faults=seed.child("faults", track.f),
                waits=waits,
                due_ns=int(options.interval_s * 1e9 * at) + first_ns,
            )
        )
    return Schedule(tuple(placed), options)


def _told(track: Track, value: Mapping[str, Json], kind: Kind, now_ns: int) -> Track:
    """The track after its call ended, at `now_ns` of the timetable.

    Owed is the end of what did not end, and of what should have been over at once but nobody
    saw it. A begin that failed is undone by the nemesis; its end comes as planned.
    """
    edge, ok = value["edge"], kind is Kind.OK
    if edge == "end" and ok and track.owed is not None:
        return replace(track, owed=None, due_ns=max(track.due_ns, now_ns))
    if (edge == "end" and not ok) or (edge == "once" and kind is Kind.INFO):
        return replace(track, owed={**value, "edge": "end"}, retry_ns=now_ns + RETRY_NS)
    return track


def _jittered_ns(wait_s: float, seed: Seed, counter: int, jitter: float) -> int:
    stretch = 1 + jitter * (2 * seed.unit(counter) - 1)
    return int(wait_s * stretch * 1e9)
