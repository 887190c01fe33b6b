-- missed-drop: the answer to the commit of an insert is lost, and its partition is dropped before the insert asks whether it was committed: its replica keeps the rows, and no other has them.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_missed_drop;
/* ch1 */
CREATE TABLE harness_missed_drop.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missed_drop/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_missed_drop;
/* ch2 */
CREATE TABLE harness_missed_drop.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missed_drop/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_missed_drop;
/* ch3 */
CREATE TABLE harness_missed_drop.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missed_drop/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
SET insert_keeper_retry_initial_backoff_ms = 5000;
INSERT INTO harness_missed_drop.t (key, value, pad) VALUES (0, 0, '');
SET insert_keeper_retry_initial_backoff_ms = DEFAULT;
-- call 2: read
/* ch1 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 4: read
/* ch3 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 5: insert
/* ch1 */
SET insert_keeper_retry_initial_backoff_ms = 5000;
INSERT INTO harness_missed_drop.t (key, value, pad) VALUES (0, 1, '');
SET insert_keeper_retry_initial_backoff_ms = DEFAULT;
-- call 6: read
/* ch2 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 7: drop-partition
/* ch2 */
ALTER TABLE harness_missed_drop.t DROP PARTITION 0;
-- call 8: read
/* ch1 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 9: final-read
/* ch1 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 10: final-read
/* ch2 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
-- call 11: final-read
/* ch3 */
SELECT value FROM harness_missed_drop.t WHERE key = 0;
