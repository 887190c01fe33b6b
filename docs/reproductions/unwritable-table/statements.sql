-- unwritable-table: after DROP PARTITION of a partition with a pending quorum insert, every quorum insert is refused for ever.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_unwritable_table;
/* ch1 */
CREATE TABLE harness_unwritable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unwritable_table/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_unwritable_table;
/* ch2 */
CREATE TABLE harness_unwritable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unwritable_table/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_unwritable_table;
/* ch3 */
CREATE TABLE harness_unwritable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unwritable_table/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_unwritable_table.t (key, value, pad) VALUES (1, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_unwritable_table.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 3: drop-partition
/* ch1 */
ALTER TABLE harness_unwritable_table.t DROP PARTITION 0;
-- call 4: final-read
/* ch1 */
SELECT value FROM harness_unwritable_table.t WHERE key = 1;
-- call 5: final-read
/* ch1 */
SELECT value FROM harness_unwritable_table.t WHERE key = 0;
-- call 6: final-read
/* ch2 */
SELECT value FROM harness_unwritable_table.t WHERE key = 1;
-- call 7: final-read
/* ch2 */
SELECT value FROM harness_unwritable_table.t WHERE key = 0;
-- call 8: final-read
/* ch3 */
SELECT value FROM harness_unwritable_table.t WHERE key = 1;
-- call 9: final-read
/* ch3 */
SELECT value FROM harness_unwritable_table.t WHERE key = 0;
-- call 10: final-insert
/* ch1 */
SET insert_keeper_max_retries = 0;
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_unwritable_table.t (key, value, pad) VALUES (1, 9, '');
SET insert_keeper_max_retries = DEFAULT;
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
