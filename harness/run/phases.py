"""One run on a cluster that is up: faults, heal, quiesce, final reads, judgement.

What is saved is saved before anything is checked: the history is on disk, op by op, when the
judging begins.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from checkers.judge import Judgement, fitting, judge
from checkers.protocol import Protocol, applicable
from harness.clients.roaming import Roaming
from harness.clients.statement import HasStatements
from harness.clusters.sim_cluster import SimCluster
from harness.core.clock import utc_now
from harness.core.errors import ClusterError, HarnessError
from harness.core.history import History
from harness.core.lines import encoded
from harness.core.op import Call, Done, Json, Kind, Op
from harness.core.protocols import (
    ANY_NODE,
    Client,
    Cluster,
    Generator,
    KeepsRecord,
    NeedsCalls,
    Nemesis,
    Session,
    Worker,
    Workload,
    clock_of,
)
from harness.core.seed import Seed
from harness.generators.calls import sequence
from harness.generators.timing import TimeLimit, rate, time_limit, while_answered
from harness.generators.workers import on_clients, on_nemesis, reserve, together
from harness.run.interpreter import Limits, Trouble, run_threads
from harness.run.journal import Journal, read_history
from harness.run.monitor import Monitor, Phase
from harness.run.plan import Plan
from harness.run.scheduler import NEMESIS_NUMBER, Scheduler, workers_on
from harness.run.simulated import run_tasks
from harness.run.stop import Stop
from harness.run.store import RunDirectory
from harness.run.watch import watched

QUIESCE_POLL_S = 0.2
VIRTUAL_POLL_S = 1.0
"""On a time that costs nothing to wait for, a look is what costs."""
NOTE_LENGTH_MAX = 80


@dataclass(frozen=True, slots=True)
class Trial:
    """Everything that one run needs."""

    plan: Plan
    cluster: Cluster
    workload: Workload
    nemesis: Nemesis
    directory: RunDirectory
    monitor: Monitor
    stop: Stop
    token: str
    """Makes its tables' names and paths fresh."""
    drop: bool
    """Whether the cluster goes on afterwards, so that the tables must not."""
    script: Generator | None = None
    """Calls and faults in one sequence, in the place of the workload's and the nemesis' own."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run came to."""

    history: History
    judgement: Judgement
    troubles: tuple[str, ...]
    """What went wrong around it, for people: a heal that failed, a bug of a client."""


def conduct(trial: Trial) -> Outcome:
    """The run, from its tables to its judgement. Raises ClusterError when it cannot begin;
    whatever happens after that is in the history and in the troubles."""
    session = trial.workload.session(trial.cluster, trial.token)
    try:
        troubles = _Recorder(trial, session).run()
        trial.monitor.enter(Phase.JUDGE)
        history = read_history(trial.directory.journal)
        plan = trial.plan
        # On virtual time judging takes none: the same run leaves the same results.
        clock = clock_of(trial.cluster)
        own = fitting(trial.workload.checkers(), trial.cluster.engines.dialect)
        checkers = applicable((*own, Protocol()), history)
        with trial.stop.interrupting():
            judgement = judge(history, checkers, plan.check_s, plan.promise, clock=clock)
        if trial.drop:
            trial.monitor.enter(Phase.CLEAN_UP, "dropping tables")
            session.drop()
    finally:
        session.close()
    return Outcome(history, judgement, tuple(troubles))


def record(trial: Trial) -> tuple[str, ...]:
    """The run without its judgement: its history is on disk afterwards. Returns the troubles.
    Raises as `conduct` does."""
    session = trial.workload.session(trial.cluster, trial.token)
    try:
        troubles = _Recorder(trial, session).run()
        if trial.drop:
            trial.monitor.enter(Phase.CLEAN_UP, "dropping tables")
            session.drop()
    finally:
        session.close()
    return tuple(troubles)


class Unanswered:
    """The final calls that have failed and have not succeeded since, and what the display says of
    them."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.calls: dict[tuple[str | None, str, int | None], str | None] = {}
        """By node, name and key: the last error."""

    def saw(self, op: Op) -> None:
        """Takes every op of the phase, in order."""
        if op.kind is Kind.INVOKE:
            return
        call = (op.node, op.f, op.key)
        if op.kind is not Kind.OK:
            self.calls[call] = op.error
        elif self.calls.pop(call, "") == "":
            return  # as nearly all of them
        note = f"no answer yet to {self}" if self.calls else ""
        self._monitor.enter(Phase.FINAL_READS, note)

    def __str__(self) -> str:
        """ "final-read of key 0 on ch2 (-3 CLIENT_TIMEOUT: timed out) and 3 other calls"."""
        (node, f, key), error = next(iter(self.calls.items()))
        of = "" if key is None else f" of key {key}"
        more = len(self.calls) - 1
        others = f" and {more} other call{'s' if more > 1 else ''}" if more else ""
        return f"{f}{of} on {node} ({error}){others}"


class _Writer:
    """Takes every op of the history, in order. Knows nothing of who drives the phases, lest the
    two be a cycle, with the cluster in it, that only the garbage collector frees."""

    def __init__(self, trial: Trial, *, timed: bool) -> None:
        self._timed = timed
        self._monitor = trial.monitor
        self._journal = Journal(trial.directory.journal, durable=trial.directory.durable)
        self.keys: set[int] = set()
        """That ops have."""
        self.unanswered: Unanswered | None = None
        """Set for the final reads."""

    def op(self, op: Op) -> None:
        if not self._timed:
            self._journal.append(op)
        else:  # nobody's time is lost by writing
            self._journal.extend(encoded(op))
        if op.key is not None:
            self.keys.add(op.key)
        self._monitor.saw(op)
        if self.unanswered is not None:
            self.unanswered.saw(op)

    def lines(self, lines: bytes, keys: Sequence[int]) -> None:
        """Ops that are lines already, and every key that clients have named."""
        self._journal.extend(lines)
        self.keys.update(keys)
        self._monitor.saw_lines(lines)

    def close(self) -> None:
        """Raises HarnessError."""
        self._journal.close()


class _Recorder:
    """Drives the phases."""

    def __init__(self, trial: Trial, session: Session) -> None:
        self._trial = trial
        self._plan = trial.plan
        self._session = session
        self._timed = trial.cluster if isinstance(trial.cluster, SimCluster) else None
        """The cluster, if it has a time of its own."""
        self._statements = session.statements() if isinstance(session, HasStatements) else {}
        self._clock = clock_of(trial.cluster)
        if self._timed is None:
            trial.directory.began(utc_now())
        self._writer = _Writer(trial, timed=self._timed is not None)
        self._troubles: list[str] = []
        self._trouble = Trouble()
        replicas = trial.cluster.topology.replicas
        self._nodes = self._plan.nodes or replicas
        workers = _workers(self._nodes, self._plan.concurrency, replicas)
        self._scheduler = Scheduler(workers, self._writer.op, trial.monitor.live)
        trial.monitor.clock = self._clock

    def run(self) -> list[str]:
        """All phases; returns the troubles."""
        trial, stop = self._trial, self._trial.stop
        try:
            try:
                trial.monitor.enter(Phase.FAULTS)
                # A cluster in this process cannot be lost.
                with nullcontext() if self._timed else watched(trial.cluster, stop):
                    self._calls(self._main())
                    self._extend()
            finally:
                # Also after an exception: no fault outlives its run.
                trial.monitor.enter(Phase.HEAL)
                healed = self._by_nemesis("heal", {"edge": "heal"}, self._heal)
            if healed and not stop:
                trial.monitor.enter(Phase.QUIESCE)
            self._by_nemesis("quiesce", None, self._quiesce if healed else self._unhealed)
            if healed and not stop:
                trial.monitor.enter(Phase.FINAL_READS)
                self._final_reads()
        finally:
            self._writer.close()
        return [*self._troubles, *self._told_of_bugs()]

    def _main(self) -> Generator:
        """Clients' calls and faults, until the time limit."""
        plan, trial = self._plan, self._trial
        if trial.script is not None:
            return time_limit(trial.script, plan.time_limit_s)
        calls = trial.workload.generator()
        if len(self._scheduler.workers) > plan.concurrency + 1:
            calls = reserve([(plan.concurrency, calls)], sequence(()))
        calls = on_clients(calls)
        if plan.rate is not None:
            calls = rate(calls, plan.rate, plan.seed.child("rate"))
        both = together(calls, on_nemesis(trial.nemesis.generator()))
        return time_limit(both, plan.time_limit_s)

    def _final_reads(self) -> None:
        trial = self._trial
        final = trial.workload.final(sorted(self._writer.keys), trial.cluster.topology.replicas)
        if self._timed is not None:  # waiting costs nothing, and the tries are counted
            self._calls(final)
            return
        self._writer.unanswered = unanswered = Unanswered(trial.monitor)
        began_ns = self._clock.now_ns()
        self._calls(while_answered(final, self._plan.final_patience_s))
        if unanswered.calls and not trial.stop:
            length_s = (self._clock.now_ns() - began_ns) / 1e9
            self._troubles.append(f"final reads ended after {length_s:.0f} s without {unanswered}")

    def _extend(self) -> None:
        """Let clients and nemesis go on, a time limit at a time, until as many calls were
        acknowledged as the checkers need: on a slow machine a short run says too little. Virtual
        time is the same on every machine, and a script has its own end."""
        plan, trial = self._plan, self._trial
        if self._timed is not None or trial.script is not None:
            return
        for number in range(2, plan.extend + 1):
            lacking = self._lacking()
            if not lacking or trial.stop:
                return
            left = self._scheduler.generator
            assert isinstance(left, TimeLimit), "the main generator is limited by time"
            trial.monitor.enter(Phase.FAULTS, f"going on: {lacking[0][:NOTE_LENGTH_MAX]}")
            said: dict[str, Json] = {
                "lacking": list(lacking),
                "time_limits": number,
                "time_limits_max": plan.extend,
            }
            self._by_nemesis("extend", None, partial(Done, Kind.OK, said))
            self._calls(time_limit(left.generator, plan.time_limit_s))
        lacking = self._lacking() if plan.extend > 1 else ()
        if lacking and not trial.stop:
            self._troubles.append(
                f"operations went on for {plan.extend} times the time limit of "
                f"{plan.time_limit_s:g} s, and still: {'; '.join(lacking)}; see --extend"
            )

    def _lacking(self) -> Sequence[str]:
        """Return what the checkers lack, by the calls that were acknowledged up to now."""
        ended = self._trial.monitor.live.read().ended
        ok = {f: count for (f, kind), count in ended.items() if kind is Kind.OK}
        checkers = self._trial.workload.checkers()
        return [text for one in checkers if isinstance(one, NeedsCalls) for text in one.lacking(ok)]

    def _calls(self, generator: Generator) -> None:
        """On the wall clock a thread for each worker; on a time of the cluster's own, tasks."""
        if self._timed is not None:
            run_tasks(
                self._scheduler,
                generator,
                cluster=self._timed,
                client=self._client,
                statements=self._statements,
                nemesis=lambda op: self._trial.nemesis.invoke(self._trial.cluster, op),
                clock=self._clock,
                stop=self._trial.stop.event,
                trouble=self._trouble,
                write=self._writer.lines,
            )
            return
        run_threads(
            self._scheduler,
            generator,
            client=self._client,
            nemesis=lambda op: self._trial.nemesis.invoke(self._trial.cluster, op),
            clock=self._clock,
            stop=self._trial.stop.event,
            limits=Limits(grace_s=self._plan.grace_s),
            trouble=self._trouble,
        )

    def _client(self, node: str) -> Client:
        opened = self._session.client
        return Roaming(opened) if node == ANY_NODE else opened(node)

    def _by_nemesis(
        self, f: str, value: Mapping[str, Json] | None, act: Callable[[], Done]
    ) -> bool:
        """Something that the run itself does, recorded as an op of the nemesis."""
        now = self._clock.now_ns
        try:
            self._scheduler.begin(NEMESIS_NUMBER, Call(f=f, value=value, nemesis=True), now())
        except HarnessError:  # the journal cannot be written: the run ends, but heals first
            if f == "heal":
                act()
            raise
        done = act()
        self._scheduler.complete(NEMESIS_NUMBER, done, now())
        return done.kind is Kind.OK

    def _heal(self) -> Done:
        try:
            self._trial.cluster.ping()
            self._trial.nemesis.heal(self._trial.cluster)
        except Exception as error:  # whatever it is, the history must still be saved and judged
            self._troubles.append(f"the cluster was not healed: {error}")
            return Done(Kind.INFO, error=str(error))
        return Done(Kind.OK)

    def _unhealed(self) -> Done:
        return Done(Kind.OK, {"pending": ["the cluster was not healed"]})

    def _quiesce(self) -> Done:
        """Waits until nothing is pending. The value says what still is, what was waited for and
        until when, and the replicas' state."""
        waited: dict[str, float] = {}
        deadline_ns = self._clock.now_ns() + int(self._plan.quiesce_s * 1e9)
        poll_ns = int((VIRTUAL_POLL_S if self._timed else QUIESCE_POLL_S) * 1e9)
        pending, state = self._looked()
        while pending and not self._trial.stop and self._clock.now_ns() < deadline_ns:
            self._trial.monitor.enter(Phase.QUIESCE, f"pending: {pending[0][:NOTE_LENGTH_MAX]}")
            self._clock.sleep_until(self._clock.now_ns() + poll_ns)
            pending, state = self._looked()
            waited |= dict.fromkeys(pending, round(self._clock.now_ns() / 1e9, 3))
        if self._trial.stop:
            pending = [f"the run was stopped: {self._trial.stop.reason}"]
        elif pending:
            self._troubles.append(
                f"not at rest after {self._plan.quiesce_s:g} s: {'; '.join(pending[:3])}"
            )
        found: dict[str, Json] = {
            "pending": list(pending),
            "waited_until_s": dict(waited),
            "replicas": state or dict(self._session.observe()),
        }
        if isinstance(self._trial.cluster, KeepsRecord):
            found["protocol"] = self._trial.cluster.record(self._clock.now_ns())
        return Done(Kind.OK, found)

    def _looked(self) -> tuple[Sequence[str], dict[str, Json]]:
        """What is pending, and if nothing is the replicas' state, by which something may be."""
        pending = self._pending()
        state = {} if pending else dict(self._session.observe())
        queued = [
            f"{node} has {of_node['queue']} queue entries"
            for node, of_node in state.items()
            if isinstance(of_node, dict) and of_node.get("queue")
        ]
        return (pending or queued), state

    def _pending(self) -> Sequence[str]:
        try:
            return [*self._trial.cluster.unready(), *self._session.pending()]
        except ClusterError as error:
            return [str(error)]

    def _told_of_bugs(self) -> list[str]:
        trouble = self._trouble
        told = [
            f"op #{op.index} {op.f} on {op.node} hung past every limit" for op in trouble.abandoned
        ]
        if trouble.bugs:
            told.append(
                f"{trouble.bugs} exceptions inside the harness, the first:\n{trouble.first}"
            )
        return told


def _workers(nodes: Sequence[str], concurrency: int, replicas: Sequence[str]) -> tuple[Worker, ...]:
    """The workers of the run, then one for each replica that has none, for its final reads."""
    own = workers_on(nodes, concurrency)
    served = {worker.node for worker in own}
    rest = [node for node in replicas if node not in served]
    return own + tuple(Worker(concurrency + i, concurrency + i, n) for i, n in enumerate(rest))


def fresh_token(name: str, seed: Seed) -> str:
    """Of a run's directory name and seed: letters, digits and underscores."""
    kept = "".join(c if c.isascii() and c.isalnum() else "_" for c in name)
    return f"{kept}_{seed.child(name).value:x}"
