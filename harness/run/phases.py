"""One run on a cluster that is up: faults, heal, quiesce, final reads, judgement.

What is saved is saved before anything is checked: the history is on disk, op by op, when the
judging begins.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

from checkers.every_run import applicable, every_run
from checkers.judge import Judgement, fitting, judge
from harness.clients.statement import HasStatements
from harness.clients.table_client import Roaming
from harness.core.capabilities import HasFaultyDisks
from harness.core.clock import utc_now
from harness.core.dialect import FIRST
from harness.core.errors import PLUGIN_ERRORS, ClusterError, HarnessError
from harness.core.history import History
from harness.core.lines import encoded
from harness.core.op import EXTEND, Call, Done, Json, Kind, Op
from harness.core.protocols import (
    ANY_NODE,
    Checker,
    Client,
    Generator,
    NeedsCalls,
    Session,
    Worker,
)
from harness.generators.calls import sequence
from harness.generators.steps import NEMESIS_NUMBER
from harness.generators.timing import rate, time_limit, while_answered
from harness.generators.workers import on_clients, on_nemesis, reserve, together
from harness.run.at_rest import looks
from harness.run.call_ends import HarnessIssues, check_call, checked_state
from harness.run.conformance import Following, following, freeze
from harness.run.interpreter import Scheduler, run_threads, workers_on
from harness.run.monitor import Monitor, Phase
from harness.run.run_context import RunContext
from harness.run.simulated import run_tasks
from harness.run.stop import watched
from harness.sim.world import World
from harness.store.journal import Journal, MemoryJournal
from harness.store.statement_file import StatementFile

NOTE_LENGTH_MAX = 80


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run."""

    history: History
    judgement: Judgement
    troubles: tuple[str, ...]
    """Sentences about what went wrong around it, such as a heal that failed or a bug of a
    client."""


def execute(context: RunContext) -> RunResult:
    """Execute a run, from creating its tables to its judgement. Raise ClusterError if it cannot
    begin; whatever happens after that is in the history and in the troubles."""
    session, recorder, troubles = _recorded(context)
    try:
        context.monitor.enter(Phase.JUDGE)
        history = recorder.history()
        spec = context.spec
        # On virtual time judging takes none: the same run leaves the same results.
        clock = context.cluster.runtime.clock()
        checkers = applicable(checkers_of(context), history)
        with context.stop.interrupting():
            judgement = judge(
                history, checkers, spec.check_s, spec.promise, clock=clock, explain=True
            )
        troubles += _dropped(context, session)
    finally:
        session.close()
    return RunResult(history, judgement, tuple(troubles))


def _dropped(context: RunContext, session: Session) -> Sequence[str]:
    """Drop the run's tables if they are not kept. Return what is left."""
    if not context.drop:
        return ()
    context.monitor.enter(Phase.CLEAN_UP, "dropping tables")
    return session.drop() or ()


def record(context: RunContext) -> "Recording":
    """Execute a run without judging it: its history is on disk afterwards, if it has a directory.
    Raise as `execute` does."""
    session, recorder, troubles = _recorded(context)
    try:
        troubles += _dropped(context, session)
    finally:
        session.close()
    return Recording(tuple(troubles), recorder.history)


@dataclass(frozen=True, slots=True)
class Recording:
    """Run that was not judged."""

    troubles: tuple[str, ...]
    history: Callable[[], History]
    """Returns its history."""


def checkers_of(context: RunContext) -> tuple[Checker, ...]:
    """Return the checkers that may judge a run, those of its workload and those of every run."""
    own = fitting(context.workload.checkers(), context.cluster.engines.dialect)
    return (*own, *every_run(context.spec.fail_on))


def _recorded(context: RunContext) -> tuple[Session, "_Recorder", list[str]]:
    """Execute the phases up to the final reads. Return the session, which is still open, the
    recorder and the troubles."""
    looked = partial(_looked, context)
    with following(context.cluster, context.token, looked) as followed, ExitStack() as stack:
        if sent := _statement_file(context):
            stack.callback(sent.close)
        with nullcontext() if sent is None else sent.of_op(None):
            session = context.workload.session(context.cluster, context.token)
        try:
            if context.cluster.has(HasFaultyDisks):
                disks = context.cluster.part(HasFaultyDisks)
                disks.sync_disks()  # tables are older than their last hour, elsewhere
            recorder = _Recorder(context, session, followed, sent)
            return session, recorder, recorder.run()
        except BaseException:
            session.close()
            raise


def _statement_file(context: RunContext) -> StatementFile | None:
    """Return the file of what clients send; None for simulated servers, whose runs leave the same
    bytes whatever is added here."""
    if context.directory is None or context.cluster.runtime.reproducible:
        return None
    return StatementFile(context.directory.path, context.token)


def _looked(context: RunContext, followed: Following) -> None:
    """Note what the protocol's model took and what it did not; stop at a departure on request."""
    context.monitor.live.followed(followed.departures, followed.covered)
    if followed.departures and context.freeze and not context.stop:
        freeze(context.cluster, context.stop)


class Unanswered:
    """Final calls that have failed and have not succeeded since, as a text for the display."""

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self.calls: dict[tuple[str | None, str, int | None], str | None] = {}
        """Last error by node, name and key."""

    def saw(self, op: Op) -> None:
        """Note every op of the phase, in order."""
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
        """Return a text such as "final-read of key 0 on ch2 (-3 CLIENT_TIMEOUT: timed out) and 3
        other calls"."""
        (node, f, key), error = next(iter(self.calls.items()))
        of = "" if key is None else f" of key {key}"
        more = len(self.calls) - 1
        others = f" and {more} other call{'s' if more > 1 else ''}" if more else ""
        return f"{f}{of} on {node} ({error}){others}"


class _HistoryWriter:
    """Writes every op of the history, in order. Holds no reference to the driver of the phases: a
    cycle would keep the cluster alive until the collector runs."""

    def __init__(self, context: RunContext) -> None:
        self._reproducible = context.cluster.runtime.reproducible
        self._monitor = context.monitor
        directory = context.directory
        self.journal: Journal | MemoryJournal = (
            MemoryJournal()
            if directory is None
            else Journal(directory.journal, durable=directory.durable)
        )
        self.keys: set[int] = set()
        """Keys that ops have."""
        self.unanswered: Unanswered | None = None
        """Final calls without an answer; None before the final reads."""

    def op(self, op: Op) -> None:
        if op.kind is Kind.INVOKE:
            check_call(op)
        if self._reproducible:  # writing takes none of the servers' time
            self.journal.extend(encoded(op))
        else:
            self.journal.append(op)
        if op.key is not None:
            self.keys.add(op.key)
        self._monitor.saw(op)
        if self.unanswered is not None:
            self.unanswered.saw(op)

    def lines(self, lines: bytes, keys: Sequence[int]) -> None:
        """Write ops that are lines already, and note every key that clients have named."""
        self.journal.extend(lines)
        self.keys.update(keys)
        self._monitor.saw_lines(lines)

    def close(self) -> None:
        """Close the journal. Raises HarnessError."""
        self.journal.close()


class _Recorder:
    """Driver that executes the phases of a run and records them."""

    def __init__(
        self,
        context: RunContext,
        session: Session,
        followed: Following | None,
        sent: StatementFile | None,
    ) -> None:
        self._context = context
        self._sent = sent
        self._spec = context.spec
        self._session = session
        self._followed = followed
        self._runtime = context.cluster.runtime
        self._statements = session.statements() if isinstance(session, HasStatements) else {}
        self._clock = context.cluster.runtime.clock()
        self._healed_ns = 0
        if not self._runtime.reproducible:
            assert context.directory is not None, "real servers leave files"
            context.directory.began(utc_now())
        self._writer = _HistoryWriter(context)
        self._troubles: list[str] = []
        self._issues = HarnessIssues()
        replicas = context.cluster.topology.replicas
        self._nodes = self._spec.nodes or replicas
        workers = workers_of(self._nodes, self._spec.concurrency, replicas)
        self._scheduler = Scheduler(workers, self._writer.op)
        context.monitor.clock = self._clock

    def run(self) -> list[str]:
        """Execute all phases. Return the troubles."""
        context, stop = self._context, self._context.stop
        try:
            try:
                context.monitor.enter(Phase.FAULTS)
                in_process = self._runtime.reproducible  # and cannot be lost
                with nullcontext() if in_process else watched(context.cluster, stop):
                    self._calls(self._main())
                    self._extend()
            finally:
                # Also after an exception: no fault outlives its run.
                context.monitor.enter(Phase.HEAL)
                healed = not stop.frozen
                healed = healed and self._by_nemesis("heal", {"edge": "heal"}, self._heal)
            if healed and not stop:
                context.monitor.enter(Phase.QUIESCE)
            self._by_nemesis("quiesce", None, self._quiesce if healed else self._unhealed)
            self._conform()
            if healed and not stop:
                context.monitor.enter(Phase.FINAL_READS)
                self._final_reads()
                self._look_at_rest()
        finally:
            self._writer.close()
            if self._sent is not None:
                self._sent.close()
                self._troubles += filter(None, [self._sent.trouble])
        stopped = [f"the run was stopped: {stop.reason}"] if stop else []
        return [*stopped, *self._troubles, *self._issues.described()]

    def history(self) -> History:
        """Return what was recorded. Raises HistoryError."""
        return self._writer.journal.history()

    def _main(self) -> Generator:
        """Return the clients' calls and the faults, until the time limit."""
        spec, context = self._spec, self._context
        if context.script is not None:
            return time_limit(context.script, spec.time_limit_s)
        calls = context.workload.generator()
        if len(self._scheduler.workers) > spec.concurrency + 1:
            calls = reserve([(spec.concurrency, calls)], sequence(()))
        calls = on_clients(calls)
        if spec.rate is not None:
            calls = rate(calls, spec.rate, spec.seed.child("rate"))
        faults = context.timed_faults or context.nemesis.generator()
        both = together(calls, on_nemesis(faults))
        return time_limit(both, spec.time_limit_s)

    def _final_reads(self) -> None:
        context = self._context
        final = context.workload.final(sorted(self._writer.keys), context.cluster.topology.replicas)
        if self._runtime.reproducible:  # tries bound virtual time, whatever the machine does
            self._calls(final)
            return
        self._writer.unanswered = unanswered = Unanswered(context.monitor)
        began_ns = self._clock.now_ns()
        self._calls(while_answered(final, context.final_patience_s))
        if unanswered.calls and not context.stop:
            length_s = (self._clock.now_ns() - began_ns) / 1e9
            text = f"final reads ended after {length_s:.0f} s without {unanswered}"
            self._troubles.append("; ".join((text, *self._pending()[:1])))

    def _extend(self) -> None:
        """Let clients and nemesis go on, a time limit at a time, until as many calls were
        acknowledged as the checkers need: on a slow machine a short run says too little. Virtual
        time is the same on every machine, and a script has its own end."""
        spec, context = self._spec, self._context
        if self._runtime.reproducible or context.script is not None:
            return
        for number in range(2, spec.extend + 1):
            lacking = self._lacking()
            if not lacking or context.stop:
                return
            left = self._scheduler.generator
            context.monitor.enter(Phase.FAULTS, f"going on: {lacking[0][:NOTE_LENGTH_MAX]}")
            said: dict[str, Json] = {
                "lacking": list(lacking),
                "time_limits": number,
                "time_limits_max": spec.extend,
            }
            self._by_nemesis(EXTEND, None, partial(Done, Kind.OK, said))
            self._calls(time_limit(left.unlimited(), spec.time_limit_s))
        lacking = self._lacking() if spec.extend > 1 else ()
        if lacking and not context.stop:
            self._troubles.append(
                f"operations went on for {spec.extend} times the time limit of "
                f"{spec.time_limit_s:g} s, and still: {'; '.join(lacking)}; see --extend"
            )

    def _lacking(self) -> Sequence[str]:
        """Return what the checkers lack, by the calls that were acknowledged up to now."""
        ended = self._context.monitor.live.read().ended
        ok = {f: count for (f, kind), count in ended.items() if kind is Kind.OK}
        checkers = self._context.workload.checkers()
        return [text for one in checkers if isinstance(one, NeedsCalls) for text in one.lacking(ok)]

    def _calls(self, generator: Generator) -> None:
        """Make the calls and faults of a generator with the cluster's runtime."""
        self._runtime.execute(generator, self)

    def _around(self, op: Op) -> AbstractContextManager[None]:
        """Return the block in which a client makes a call."""
        return nullcontext() if self._sent is None else self._sent.of_op(op.index)

    def on_threads(self, generator: Generator) -> None:
        """Make the calls on a thread for each worker."""
        run_threads(
            self._scheduler,
            generator,
            client=self._client,
            nemesis=self._fault,
            clock=self._clock,
            stop=self._context.stop.event,
            issues=self._issues,
            around=self._around,
        )

    def in_world(self, generator: Generator, world: World) -> None:
        """Make the calls in tasks of a simulated world."""
        run_tasks(
            self._scheduler,
            generator,
            world=world,
            client=self._client,
            statements=self._statements,
            nemesis=self._fault,
            clock=self._clock,
            stop=self._context.stop.event,
            issues=self._issues,
            live=self._context.monitor.live,
            write=self._writer.lines,
            outcomes=self._context.cluster.engines.dialect.write_outcomes,
        )

    def _fault(self, op: Op) -> Done:
        return self._context.nemesis.invoke(self._context.cluster, op)

    def _client(self, node: str) -> Client:
        opened = self._session.client
        return Roaming(opened) if node == ANY_NODE else opened(node)

    def _by_nemesis(
        self, f: str, value: Mapping[str, Json] | None, act: Callable[[], Done]
    ) -> bool:
        """Record what the run itself does as an op of the nemesis. Return whether it ended ok."""
        now = self._clock.now_ns
        try:
            self._scheduler.begin(NEMESIS_NUMBER, Call(f=f, value=value, nemesis=True), now())
        except HarnessError:  # the journal cannot be written: the run ends, but heals first
            if f == "heal":
                act()
            raise
        done = checked_state(act(), f, self._issues)
        self._scheduler.complete(NEMESIS_NUMBER, done, now())
        return done.kind is Kind.OK

    def _heal(self) -> Done:
        try:
            self._context.cluster.ping()
            self._context.nemesis.heal(self._context.cluster)
        except PLUGIN_ERRORS as error:  # whatever it is, the history must still be saved and judged
            self._troubles.append(f"the cluster was not healed: {error}")
            return Done(Kind.INFO, error=str(error))
        self._healed_ns = self._clock.now_ns()
        return Done(Kind.OK)

    def _unhealed(self) -> Done:
        return Done(Kind.OK, {"pending": ["the cluster was not healed"]})

    def _quiesce(self) -> Done:
        """Wait until nothing is pending. The value says what still is, what was waited for and
        until when, and the replicas' state."""
        waited: dict[str, float] = {}
        deadline_ns = self._clock.now_ns() + int(self._spec.quiesce_s * 1e9)
        poll_ns = int(self._runtime.poll_s * 1e9)
        pending, state = self._look()
        while pending and not self._context.stop and self._clock.now_ns() < deadline_ns:
            self._context.monitor.enter(Phase.QUIESCE, f"pending: {pending[0][:NOTE_LENGTH_MAX]}")
            self._clock.sleep_until(self._clock.now_ns() + poll_ns)
            pending, state = self._look()
            waited |= dict.fromkeys(pending, round(self._clock.now_ns() / 1e9, 3))
        if self._context.stop:
            pending = [f"the run was stopped: {self._context.stop.reason}"]
        elif pending:
            self._troubles.append(
                f"not at rest after {self._spec.quiesce_s:g} s: {'; '.join(pending[:3])}"
            )
        found: dict[str, Json] = {
            "pending": list(pending),
            "waited_until_s": dict(waited),
            "replicas": state or dict(self._session.observe()),
        }
        trace = self._context.cluster.protocol_trace(self._clock.now_ns())
        if trace is not None:
            found["protocol"] = trace
            versions = [str(one) for one in self._context.cluster.engines.dialect.versions]
            # Records that do not name a version are of 18.16.1.
            if versions != [str(FIRST)]:
                found["versions"] = versions
        return Done(Kind.OK, found)

    def _conform(self) -> None:
        """Record whether ZooKeeper's transactions up to now are steps of the model."""
        if self._followed is not None:
            self._followed.look(last=True)
            for f, value in self._followed.found(self._clock.now_ns()):
                self._by_nemesis(f, None, partial(Done, Kind.OK, value))

    def _look_at_rest(self) -> None:
        """Record what the servers say of themselves, and their trees."""
        rested_s = (self._clock.now_ns() - self._healed_ns) / 1e9
        for f, value in looks(self._context.cluster, rested_s):
            self._by_nemesis(f, None, partial(Done, Kind.OK, value))

    def _look(self) -> tuple[Sequence[str], dict[str, Json]]:
        """Return what is pending; if nothing is, also the replicas' state, by which queue entries
        may still be pending."""
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
            return [*self._context.cluster.unready(), *self._session.pending()]
        except ClusterError as error:
            return [str(error)]


def workers_of(
    nodes: Sequence[str], concurrency: int, replicas: Sequence[str]
) -> tuple[Worker, ...]:
    """Return the workers of the run, then one for each replica that has none, for its final
    reads."""
    own = workers_on(nodes, concurrency)
    served = {worker.node for worker in own}
    rest = [node for node in replicas if node not in served]
    return own + tuple(Worker(concurrency + i, concurrency + i, n) for i, n in enumerate(rest))
