-- overwritten-update: an ALTER UPDATE is acknowledged with mutations_sync = 0, and an UPDATE before it is executed computes the new value without it: what the first has changed is lost.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_t;
/* ch1 */
CREATE TABLE harness_overwritten_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_t;
/* ch2 */
CREATE TABLE harness_overwritten_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_t;
/* ch3 */
CREATE TABLE harness_overwritten_update_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_u;
/* ch1 */
CREATE TABLE harness_overwritten_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_u;
/* ch2 */
CREATE TABLE harness_overwritten_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_overwritten_update_u;
/* ch3 */
CREATE TABLE harness_overwritten_update_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/overwritten_update_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10, enable_block_number_column = 1, enable_block_offset_column = 1;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_overwritten_update_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: stop-merges
/* ch1 */
SYSTEM STOP MERGES harness_overwritten_update_t.t;
-- call 3: stop-merges
/* ch2 */
SYSTEM STOP MERGES harness_overwritten_update_t.t;
-- call 4: stop-merges
/* ch3 */
SYSTEM STOP MERGES harness_overwritten_update_t.t;
-- call 5: update
/* ch1 */
SET mutations_sync = 0;
ALTER TABLE harness_overwritten_update_t.t UPDATE v = arrayPushBack(v, 7) WHERE p = 0 AND id % 4 = 1;
SET mutations_sync = DEFAULT;
-- call 6: patch
/* ch1 */
SET enable_lightweight_update = 1;
SET update_parallel_mode = 'auto';
UPDATE harness_overwritten_update_t.t SET v = arrayPushBack(v, 8) WHERE p = 0 AND id % 4 = 1;
SET enable_lightweight_update = DEFAULT;
SET update_parallel_mode = DEFAULT;
-- call 7: start-merges
/* ch1 */
SYSTEM START MERGES harness_overwritten_update_t.t;
-- call 8: start-merges
/* ch2 */
SYSTEM START MERGES harness_overwritten_update_t.t;
-- call 9: start-merges
/* ch3 */
SYSTEM START MERGES harness_overwritten_update_t.t;
