-- strayed-update: a partition is moved to another table, and an UPDATE of one of its rows also changes a row that was there before, because the two have the same block number and offset.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_t;
/* ch1 */
CREATE TABLE harness_strayed_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_t;
/* ch2 */
CREATE TABLE harness_strayed_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_t;
/* ch3 */
CREATE TABLE harness_strayed_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_u;
/* ch1 */
CREATE TABLE harness_strayed_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_u;
/* ch2 */
CREATE TABLE harness_strayed_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_strayed_update_u;
/* ch3 */
CREATE TABLE harness_strayed_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/strayed_update_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1, apply_patches_on_merge = 0;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_strayed_update_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: insert-row
/* ch1 */
INSERT INTO harness_strayed_update_t.t (p, id, v) VALUES (0, 2, []);
-- call 3: optimize
/* ch1 */
SET replication_alter_partitions_sync = 2;
OPTIMIZE TABLE harness_strayed_update_t.t PARTITION 0 FINAL;
SET replication_alter_partitions_sync = DEFAULT;
-- call 4: insert-row
/* ch1 */
INSERT INTO harness_strayed_update_u.t (p, id, v) VALUES (0, 3, []);
-- call 5: insert-row
/* ch1 */
INSERT INTO harness_strayed_update_u.t (p, id, v) VALUES (0, 4, []);
-- call 6: optimize
/* ch1 */
SET replication_alter_partitions_sync = 2;
OPTIMIZE TABLE harness_strayed_update_u.t PARTITION 0 FINAL;
SET replication_alter_partitions_sync = DEFAULT;
-- call 7: move
/* ch1 */
SET replication_alter_partitions_sync = 2;
ALTER TABLE harness_strayed_update_t.t MOVE PARTITION 0 TO TABLE harness_strayed_update_u.t;
SET replication_alter_partitions_sync = DEFAULT;
-- call 8: patch
/* ch1 */
SET enable_lightweight_update = 1;
SET update_parallel_mode = 'auto';
UPDATE harness_strayed_update_u.t SET v = arrayPushBack(v, 7) WHERE p = 0 AND id % 4 = 1;
SET enable_lightweight_update = DEFAULT;
SET update_parallel_mode = DEFAULT;
-- call 9: optimize
/* ch1 */
SET replication_alter_partitions_sync = 2;
OPTIMIZE TABLE harness_strayed_update_u.t PARTITION 0 FINAL;
SET replication_alter_partitions_sync = DEFAULT;
