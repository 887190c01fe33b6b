-- half-alter: a replica that is killed after it has written an ALTER's columns to ZooKeeper and before it has written them to its disk is read-only from then on; no restart mends it.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_half_alter;
/* ch1 */
CREATE TABLE harness_half_alter.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_alter/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_half_alter;
/* ch2 */
CREATE TABLE harness_half_alter.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_alter/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_half_alter;
/* ch3 */
CREATE TABLE harness_half_alter.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_alter/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
INSERT INTO harness_half_alter.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 4: read
/* ch3 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 5: add-column
/* ch2 */
ALTER TABLE harness_half_alter.t ADD COLUMN c1 Int64;
-- call 6: final-read
/* ch1 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 7: final-read
/* ch2 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 8: final-read
/* ch3 */
SELECT value FROM harness_half_alter.t WHERE key = 0;
-- call 9: final-insert
/* ch1 */
SET insert_keeper_max_retries = 0;
INSERT INTO harness_half_alter.t (key, value, pad) VALUES (0, 9, '');
SET insert_keeper_max_retries = DEFAULT;
