"""Every scenario by name."""

from collections.abc import Mapping

from workloads.scenarios.alters import (
    CRASHING_MUTATION,
    DDL_TWICE,
    DEAF_REPLICA,
    HALF_ALTER,
    MISSING_TABLE,
    UNDONE_ALTER,
)
from workloads.scenarios.clones import UNCOUNTED_CLONE, UNWAITED_CLONE
from workloads.scenarios.detached import FETCHED_OVER, STRANDED_PART
from workloads.scenarios.disks import ACKNOWLEDGED_FAILURE, DISCARDED_COPY
from workloads.scenarios.distributed import LOST_DISTRIBUTED_INSERT
from workloads.scenarios.inserts import (
    DIRTY_READ,
    DOUBLED_INSERT,
    HALF_INSERT,
    LOST_RETRY,
    PHANTOM_PART,
    TORN_INSERT,
)
from workloads.scenarios.leaders import TWO_LEADERS
from workloads.scenarios.object_store import (
    ATTACH_OWN_COPY,
    COPIED_PART,
    DROPPED_REPLICA,
    MOVED_TWICE,
    ORPHANED_COMMIT,
    ORPHANED_DROP,
    ORPHANED_FETCH,
    ORPHANED_INSERT,
    ORPHANED_MOVE,
    ORPHANED_UNLOCK,
    RESTORED_REPLICA,
    SOLE_MOVER,
)
from workloads.scenarios.parallel import FAILED_DUPLICATE, PENDING_MERGED
from workloads.scenarios.partitions import (
    EMPTIED_PARTITION,
    MISSED_DROP,
    RETURNED_ROWS,
    UNREADABLE_TABLE,
    UNWRITABLE_TABLE,
)
from workloads.scenarios.quorums import FAILED_PART, FAILED_PART_MISSED, UNCOUNTED_QUORUM
from workloads.scenarios.reads import (
    BACKWARDS_READ,
    EARLY_SNAPSHOT,
    HIDDEN_INSERT,
    INCOMPARABLE_READS,
    LAGGING_WRITER,
    MERGED_AWAY,
    OVERTAKEN_INSERT,
    SKIPPED_PART,
    STALE_READ,
    UNSEEN_WRITE,
    UNSYNCED_READ,
)
from workloads.scenarios.renames import RENAMED_AWAY, STUCK_RENAME
from workloads.scenarios.scenario import Scenario
from workloads.scenarios.statements import (
    ATTACHED_NOWHERE,
    COPIED_NOTHING,
    FORGOTTEN_INSERT,
    HALF_MOVED,
    HALF_RESTORED,
    MOVED_AWAY,
    REPLACED_BY_NOTHING,
    STALE_REPLACE,
)
from workloads.scenarios.updates import (
    FORGOTTEN_MUTATION,
    LOST_UPDATE,
    MUTATED_TWICE,
    OVERWRITTEN_UPDATE,
    STRAYED_UPDATE,
)
from workloads.scenarios.views import DOUBLED_VIEW, MISSED_VIEW

_EVERY = (
    STALE_READ,
    UNSYNCED_READ,
    SKIPPED_PART,
    INCOMPARABLE_READS,
    LAGGING_WRITER,
    EARLY_SNAPSHOT,
    BACKWARDS_READ,
    UNSEEN_WRITE,
    HIDDEN_INSERT,
    OVERTAKEN_INSERT,
    MERGED_AWAY,
    TORN_INSERT,
    HALF_INSERT,
    DIRTY_READ,
    PHANTOM_PART,
    DOUBLED_INSERT,
    LOST_RETRY,
    UNREADABLE_TABLE,
    EMPTIED_PARTITION,
    UNWRITABLE_TABLE,
    RETURNED_ROWS,
    MISSED_DROP,
    DDL_TWICE,
    LOST_DISTRIBUTED_INSERT,
    MISSING_TABLE,
    DEAF_REPLICA,
    HALF_ALTER,
    UNDONE_ALTER,
    CRASHING_MUTATION,
    FAILED_PART,
    FAILED_PART_MISSED,
    UNCOUNTED_QUORUM,
    ACKNOWLEDGED_FAILURE,
    DISCARDED_COPY,
    PENDING_MERGED,
    FAILED_DUPLICATE,
    UNWAITED_CLONE,
    UNCOUNTED_CLONE,
    TWO_LEADERS,
    ORPHANED_INSERT,
    ORPHANED_DROP,
    ORPHANED_FETCH,
    ORPHANED_COMMIT,
    ORPHANED_UNLOCK,
    DROPPED_REPLICA,
    RESTORED_REPLICA,
    COPIED_PART,
    ATTACH_OWN_COPY,
    ORPHANED_MOVE,
    SOLE_MOVER,
    MOVED_TWICE,
    STALE_REPLACE,
    MOVED_AWAY,
    HALF_MOVED,
    ATTACHED_NOWHERE,
    REPLACED_BY_NOTHING,
    COPIED_NOTHING,
    FORGOTTEN_INSERT,
    DOUBLED_VIEW,
    MISSED_VIEW,
    HALF_RESTORED,
    STRAYED_UPDATE,
    LOST_UPDATE,
    OVERWRITTEN_UPDATE,
    FORGOTTEN_MUTATION,
    STRANDED_PART,
    FETCHED_OVER,
    MUTATED_TWICE,
    RENAMED_AWAY,
    STUCK_RENAME,
)

SCENARIOS: Mapping[str, Scenario] = {scenario.name: scenario for scenario in _EVERY}
