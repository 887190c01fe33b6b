"""More inserts than the log keeps: entries are cut, replicas that are away too long are lost and
clone another when they come back.

The table keeps some ten entries and looks every second, so that a replica is lost when it was
away for as long as its session lives (5 s) and a little more: try
`--nemesis kill-clickhouse --duration 9 --time-limit 45`. A clone comes under fire when its source
is killed in the middle (kill-clickhouse strikes any), or is cut off (partition).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from checkers.convergence import Convergence
from checkers.ladder import Level
from checkers.log_pointers import LogPointers
from checkers.parts import Parts
from checkers.set_full import SetFull
from checkers.stats import Stats
from checkers.truncation import CLEANED_S, FINAL, OBSERVE, Truncation
from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import COLUMNS, inserts, reads
from harness.clients.table_in_zookeeper import log_and_places
from harness.clients.table_session import TableSession
from harness.core.errors import UsageError
from harness.core.op import Call
from harness.core.protocols import Checker, Cluster, Generator, Session
from harness.core.ranges import settle_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.calls import numbered, repeat
from harness.generators.choose import mix
from harness.generators.finals import everywhere
from harness.generators.observed import observed
from harness.generators.order import cycle, phases, stop_when
from harness.generators.timing import rate, sleep, time_limit


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationOptions:
    """What may be chosen of it."""

    keep_max: int = 10
    """Entries of which a replica that is away may lack so many before it is lost."""
    keep_min: int = 5
    """Entries that are never cut."""
    ops_per_s: float = 40.0
    """Of all workers together."""
    timeout_s: float = 5.0
    """A call without an answer ends as info after this."""

    def settle(self, topology: Topology) -> None:  # noqa: ARG002
        """Raises UsageError for what cannot be asked."""
        settle_numbers(self)
        if not 1 <= self.keep_min <= self.keep_max:
            raise UsageError(
                f"keep-min {self.keep_min}, keep-max {self.keep_max}: expected 1 at least, and "
                "the maximum no less than the minimum"
            )


@dataclass(frozen=True, slots=True)
class LogTruncation:
    """The workload."""

    options: TruncationOptions
    seed: Seed
    promise: Level = Level.EVENTUAL
    faults_expected: bool = False
    name: str = field(default="truncation", init=False)
    live_anomalies: bool = field(default=False, init=False)

    def session(self, cluster: Cluster, token: str) -> Session:
        """Creates the table."""
        schema = TableSchema(
            columns=COLUMNS,
            partition_by="key",
            order_by="value",
            settings={
                "old_parts_lifetime": 10,
                "max_replicated_logs_to_keep": self.options.keep_max,
                "min_replicated_logs_to_keep": self.options.keep_min,
                "cleanup_delay_period": 1,
                "cleanup_delay_period_random_add": 1,
            },
        )
        table = TableSession.table(cluster, token, schema)
        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name)},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=self.options.timeout_s,
            looks={OBSERVE: log_and_places, FINAL: log_and_places},
        )

    def generator(self) -> Generator:
        """Inserts and a few reads; worker 0 looks at the log."""
        calls = mix(
            self.seed.child("calls"),
            [
                (4, numbered(lambda number: Call(f="insert", value=number, key=0))),
                (1, repeat(Call(f="read", key=0))),
            ],
        )
        limited = rate(calls, self.options.ops_per_s, self.seed.child("rate"))
        return observed(limited, OBSERVE, 10.0, self.seed)

    def final(self, keys: Sequence[int], nodes: Sequence[str]) -> Generator:
        """Looks at the log, a second apart, until it was cut or should have been; then each key on
        each replica."""
        sets = everywhere((Call(f="final-read", key=key) for key in keys), nodes)
        look = everywhere([Call(f=FINAL)], nodes[:1])
        again = time_limit(cycle(lambda _: phases(sleep(1), look)), CLEANED_S + 2)
        return phases(stop_when(self._truncation().answers, phases(look, again)), sets)

    def checkers(self) -> Sequence[Checker]:
        """The log, and the data of whoever cloned."""
        return (
            Stats(faults_expected=self.faults_expected),
            self._truncation(),
            LogPointers(),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
        )

    def _truncation(self) -> Truncation:
        return Truncation(entries_max=4 * self.options.keep_max + 40)
