"""What may be set of a table, with values that make the rare paths common."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """The names are the server's; the defaults are for runs of seconds, not of weeks."""

    max_replicated_logs_to_keep: int = 40
    """A replica that is farther behind may be left behind."""
    min_replicated_logs_to_keep: int = 10
    cleanup_delay_period: int = 1
    """Seconds between two looks at logs, blocks and old parts."""
    old_parts_lifetime: int = 10
    """Seconds that a part is kept after another has covered it."""
    replicated_deduplication_window: int = 100
    """Blocks of a partition that are remembered."""
    parts_to_merge: int = 6
    """As many neighbours are merged. (The server's own choice weighs sizes and ages.)"""
    max_bytes_to_merge_at_max_space_in_pool: int = 1 << 37
    """1: nothing is merged unless it is asked for. (Sizes are not simulated.)"""
    merge_selecting_sleep_ms: int = 1000
    """After a look that found nothing to merge."""
