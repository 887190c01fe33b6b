"""Schedule of faults: a pure generator that decides from one seed when each begins and ends.

Each family repeats: wait, begin a fault, wait for its duration, end it. The timetable has a time of
its own, which stands still while the nemesis is busy. A fault whose effect takes 2 s to be seen
therefore still lasts for its full duration, and the same seed gives the same sequence of calls
however slow the servers are.

There is one exception, which the servers decide: an end that did not succeed is called again,
between the other calls, until it does. For example, a replica of 18.16.1 that is started while its
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

Planner: TypeAlias = Callable[[Seed, int], Mapping[str, Json]]

NEMESIS_WORKER = -1

RETRY_NS = 1_000_000_000
"""Time from an end that did not succeed to its repetition, in the timetable's time."""


class Track(msgspec.Struct, frozen=True):
    """State of one family in the timetable."""

    f: str
    once: bool
    plan: Planner
    turns: int | None = None
    """Number of faults; None: no limit."""
    faults: Seed = Seed(0)
    """Seed of the plans; `schedule` sets it and the next one."""
    waits: Seed = Seed(0)
    """Seed of the waits."""
    due_ns: int = 0
    """Time of the next call, in the timetable's time."""
    calls: int = 0
    """Number of calls made."""
    open: Mapping[str, Json] | None = None
    """Value of the begin that has not been ended."""
    owed: Mapping[str, Json] | None = None
    """Value of the end that must be called again before any other call of this family."""
    retry_ns: int = 0
    """Time at which the owed end is called again."""

    @property
    def next_ns(self) -> int:
        """Return the time of the next call, whichever it is."""
        return self.due_ns if self.owed is None else self.retry_ns

    @property
    def turn(self) -> int:
        """Return the number of the next fault, from 0."""
        return self.calls if self.once else self.calls // 2

    @property
    def exhausted(self) -> bool:
        """Return whether no call is left."""
        return self.turn == self.turns and self.open is None and self.owed is None


class InFlight(msgspec.Struct, frozen=True):
    """Call that the nemesis is executing."""

    at: int
    """Index of its track."""
    value: Mapping[str, Json]
    since_ns: int
    """Start of the call, in the run's time."""


class Schedule(msgspec.Struct, frozen=True):
    """Generator of the nemesis' calls. The function `schedule` makes it."""

    tracks: tuple[Track, ...]
    options: FaultOptions
    faults: int = 0
    """Number of faults begun."""
    offset_ns: int | None = None
    """The run's time minus the timetable's; None before the first `op`."""
    in_flight: InFlight | None = None

    def op(self, context: Context) -> tuple[Step, Generator]:
        """Return the call that is due if the nemesis is free."""
        if not self.tracks:
            return Exhausted(), self
        left = [(at, track) for at, track in enumerate(self.tracks) if not track.exhausted]
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
        """Let the timetable's time go on once the nemesis' call has ended."""
        call = self.in_flight
        if event.process != NEMESIS or call is None:
            return self
        assert self.offset_ns is not None, "a call was made, so the timetable has begun"
        now_ns = call.since_ns - self.offset_ns
        track = _after_end(self.tracks[call.at], call.value, event.kind, now_ns)
        return replace(
            self,
            tracks=(*self.tracks[: call.at], track, *self.tracks[call.at + 1 :]),
            offset_ns=self.offset_ns + event.time_ns - call.since_ns,
            in_flight=None,
        )

    def _next(self, track: Track) -> tuple[dict[str, Json], Track]:
        """Return the value of the track's next call, and the track after it."""
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
        """Return the wait after a call of this edge, before jitter.

        After a fault without an end the servers get the duration of a fault to come back.
        """
        pause_s = self.options.interval_s * len(self.tracks)
        duration_s = self.options.duration_s
        return {"begin": duration_s, "end": pause_s, "once": pause_s + duration_s}[edge]


def schedule(tracks: Sequence[Track], seed: Seed, options: FaultOptions) -> Schedule:
    """Return the schedule of families in an order drawn from the seed.

    The first fault comes after one interval, and each family's first fault one interval after its
    predecessor's. Without families the schedule is exhausted.
    """
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


def _after_end(track: Track, value: Mapping[str, Json], kind: Kind, now_ns: int) -> Track:
    """Return the track after its call ended, at `now_ns` of the timetable.

    An end is owed if it did not succeed, and if a fault without an end is info. A begin that
    failed is undone by the nemesis; its end comes as planned.
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
