-- lost-update: two UPDATEs of a row overlap, one with update_parallel_mode = 'sync' and one with 'auto': both are acknowledged, and the row has one of them.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_t;
/* ch1 */
CREATE TABLE harness_lost_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_t;
/* ch2 */
CREATE TABLE harness_lost_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_t;
/* ch3 */
CREATE TABLE harness_lost_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_u;
/* ch1 */
CREATE TABLE harness_lost_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_u;
/* ch2 */
CREATE TABLE harness_lost_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_lost_update_u;
/* ch3 */
CREATE TABLE harness_lost_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/lost_update_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_lost_update_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: patch-sync
/* ch1 */
SET enable_lightweight_update = 1;
SET update_parallel_mode = 'sync';
UPDATE harness_lost_update_t.t SET v = arrayPushBack(v, 7) WHERE p = 0 AND id % 4 = 1;
SET enable_lightweight_update = DEFAULT;
SET update_parallel_mode = DEFAULT;
-- call 3: patch
/* ch2 */
SET enable_lightweight_update = 1;
SET update_parallel_mode = 'auto';
UPDATE harness_lost_update_t.t SET v = arrayPushBack(v, 8) WHERE p = 0 AND id % 4 = 1;
SET enable_lightweight_update = DEFAULT;
SET update_parallel_mode = DEFAULT;
