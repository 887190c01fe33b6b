-- unreadable-table: after DROP PARTITION of a partition that saw a quorum insert, every sequentially consistent read of the table is refused, whatever it asks for.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_unreadable_table;
/* ch1 */
CREATE TABLE harness_unreadable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unreadable_table/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_unreadable_table;
/* ch2 */
CREATE TABLE harness_unreadable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unreadable_table/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_unreadable_table;
/* ch3 */
CREATE TABLE harness_unreadable_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unreadable_table/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_unreadable_table.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_unreadable_table.t (key, value, pad) VALUES (1, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 3: drop-partition
/* ch1 */
ALTER TABLE harness_unreadable_table.t DROP PARTITION 0;
-- call 4: final-read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 5: final-read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 1;
SET select_sequential_consistency = DEFAULT;
-- call 6: final-read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 7: final-read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 1;
SET select_sequential_consistency = DEFAULT;
-- call 8: final-read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 9: final-read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_unreadable_table.t WHERE key = 1;
SET select_sequential_consistency = DEFAULT;
