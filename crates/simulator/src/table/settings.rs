//! Defines the settings of tables.

/// Settings by the server's names. The defaults make rare paths common in runs of seconds, not
/// weeks.
#[derive(Debug, Clone)]
pub struct TableSettings {
    /// A replica that is farther behind may be declared lost.
    pub max_replicated_logs_to_keep: i64,
    pub min_replicated_logs_to_keep: i64,
    /// Seconds between two cleanups of logs, blocks and old parts.
    pub cleanup_delay_period: i64,
    /// Seconds for which a part is kept after another has covered it.
    pub old_parts_lifetime: i64,
    /// Number of blocks that are remembered for deduplication; 0: none is.
    pub replicated_deduplication_window: i64,
    /// Age up to which they are remembered, in seconds before the latest.
    pub replicated_deduplication_window_seconds: i64,
    /// Number of neighbours that are merged. (The server's own choice weighs sizes and ages.)
    pub parts_to_merge: i64,
    /// 1 disables merges except by OPTIMIZE. (Sizes are not simulated.)
    pub max_bytes_to_merge_at_max_space_in_pool: i64,
    /// 0 allows DETACH PARTITION with zero-copy replication.
    pub disable_detach_partition_for_zero_copy_replication: i64,
    /// Time between two attempts if there is nothing to merge.
    pub merge_selecting_sleep_ms: i64,
    /// Seconds between two merges of a partition because of its TTL.
    pub merge_with_ttl_timeout: i64,
}

impl TableSettings {
    /// Returns the setting of this name; `None` if it has no effect here.
    pub fn at(&mut self, name: &str) -> Option<&mut i64> {
        Some(match name {
            "max_replicated_logs_to_keep" => &mut self.max_replicated_logs_to_keep,
            "min_replicated_logs_to_keep" => &mut self.min_replicated_logs_to_keep,
            "cleanup_delay_period" => &mut self.cleanup_delay_period,
            "old_parts_lifetime" => &mut self.old_parts_lifetime,
            "replicated_deduplication_window" => &mut self.replicated_deduplication_window,
            "replicated_deduplication_window_seconds" => {
                &mut self.replicated_deduplication_window_seconds
            }
            "parts_to_merge" => &mut self.parts_to_merge,
            "max_bytes_to_merge_at_max_space_in_pool" => {
                &mut self.max_bytes_to_merge_at_max_space_in_pool
            }
            "disable_detach_partition_for_zero_copy_replication" => {
                &mut self.disable_detach_partition_for_zero_copy_replication
            }
            "merge_selecting_sleep_ms" => &mut self.merge_selecting_sleep_ms,
            "merge_with_ttl_timeout" => &mut self.merge_with_ttl_timeout,
            _ => return None,
        })
    }
}

impl Default for TableSettings {
    fn default() -> TableSettings {
        TableSettings {
            max_replicated_logs_to_keep: 40,
            min_replicated_logs_to_keep: 10,
            cleanup_delay_period: 1,
            old_parts_lifetime: 10,
            replicated_deduplication_window: 100,
            replicated_deduplication_window_seconds: 604_800,
            parts_to_merge: 6,
            max_bytes_to_merge_at_max_space_in_pool: 1 << 37,
            disable_detach_partition_for_zero_copy_replication: 1,
            merge_selecting_sleep_ms: 1000,
            merge_with_ttl_timeout: 14_400,
        }
    }
}
