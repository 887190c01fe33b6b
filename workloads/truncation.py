"""More inserts than the log keeps: entries are removed, and replicas that are away too long are
lost and clone another when they come back.

The table keeps some ten entries and cleans up every second, so that a replica is lost if it is away
a little longer than its session lives (5 s): try `--nemesis kill-clickhouse --duration 9
--time-limit 45`. A clone is under stress when its source is killed during the copy (kill-clickhouse
may hit any replica) or cut off (partition).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from checkers.ladder import Level
from checkers.replication.log_pointers import LogPointers
from checkers.replication.parts import Parts
from checkers.replication.truncation import CLEANED_S, FINAL, OBSERVE, Truncation
from checkers.sets.convergence import Convergence
from checkers.sets.set_full import SetFull
from checkers.stats import Stats
from harness.clients.replicated_table import TableSchema
from harness.clients.set_calls import SET_SCHEMA, inserts, reads
from harness.clients.table_session import TableSession
from harness.core.errors import UsageError
from harness.core.protocols import Cluster, Generator, Session, Workload
from harness.core.ranges import validate_numbers
from harness.core.seed import Seed
from harness.core.topology import Topology
from harness.generators.order import cycle, phases, stop_when
from harness.generators.timing import sleep, time_limit
from workloads.options import PacedOptions
from workloads.table import TableWorkload, inserts_and_reads, look_once
from workloads.zookeeper_looks import log_and_places


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncationOptions(PacedOptions):
    """Options of `truncation`: how many entries of the replication log the table keeps."""

    keep_max: int = 10
    """Number of entries that a replica may lack while it is away; with more it is lost."""
    keep_min: int = 5
    """Number of the newest entries that are never removed."""
    timeout_s: float = 5.0

    def validate(self, topology: Topology) -> None:  # noqa: ARG002
        """Raise UsageError for options that are out of range."""
        validate_numbers(self)
        if not 1 <= self.keep_min <= self.keep_max:
            raise UsageError(
                f"keep-min {self.keep_min}, keep-max {self.keep_max}: expected 1 at least, and "
                "the maximum no less than the minimum"
            )


def truncation(
    options: TruncationOptions, seed: Seed, promise: Level, faults_expected: bool
) -> Workload:
    """Return the workload `truncation`."""
    log = Truncation(entries_max=4 * options.keep_max + 40)
    schema = TableSchema(
        SET_SCHEMA.columns,
        settings={
            **SET_SCHEMA.settings,
            "max_replicated_logs_to_keep": options.keep_max,
            "min_replicated_logs_to_keep": options.keep_min,
            "cleanup_delay_period": 1,
            "cleanup_delay_period_random_add": 1,
        },
    )

    def create(cluster: Cluster, token: str) -> Session:
        table = TableSession.table(cluster, token, schema)
        return TableSession(
            cluster,
            table,
            writes={"insert": inserts(table.name)},
            reads={"read": reads(table.name), "final-read": reads(table.name)},
            timeout_s=options.timeout_s,
            looks={OBSERVE: log_and_places, FINAL: log_and_places},
        )

    def look(nodes: Sequence[str]) -> Generator:
        """Look at the log, once a second, until it was truncated or should have been."""
        once = look_once(FINAL)(nodes)
        more = time_limit(cycle(lambda _: phases(sleep(1), once)), CLEANED_S + 2)
        return stop_when(log.answers, phases(once, more))

    return TableWorkload(
        name="truncation",
        seed=seed,
        promise=promise,
        create=create,
        calls=inserts_and_reads(seed, 4, 1),
        per_s=options.ops_per_s,
        observer=(OBSERVE, 10.0),
        look=look,
        judges=(
            Stats(faults_expected=faults_expected),
            log,
            LogPointers(),
            SetFull(linearizable=False),
            Convergence(),
            Parts(),
        ),
    )
