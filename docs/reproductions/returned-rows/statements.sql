-- returned-rows: rows of a dropped partition come back on a replica that was lost when it was dropped.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_returned_rows;
/* ch1 */
CREATE TABLE harness_returned_rows.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/returned_rows/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_returned_rows;
/* ch2 */
CREATE TABLE harness_returned_rows.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/returned_rows/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_returned_rows;
/* ch3 */
CREATE TABLE harness_returned_rows.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/returned_rows/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
-- call 1: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 4: read
/* ch3 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 5: drop-partition
/* ch1 */
ALTER TABLE harness_returned_rows.t DROP PARTITION 0;
-- call 6: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 100, '');
-- call 7: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 101, '');
-- call 8: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 102, '');
-- call 9: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 103, '');
-- call 10: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 104, '');
-- call 11: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 105, '');
-- call 12: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 106, '');
-- call 13: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 107, '');
-- call 14: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 108, '');
-- call 15: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 109, '');
-- call 16: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 110, '');
-- call 17: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 111, '');
-- call 18: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 112, '');
-- call 19: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 113, '');
-- call 20: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 114, '');
-- call 21: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 115, '');
-- call 22: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 116, '');
-- call 23: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 117, '');
-- call 24: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 118, '');
-- call 25: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 119, '');
-- call 26: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 200, '');
-- call 27: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 201, '');
-- call 28: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 202, '');
-- call 29: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 203, '');
-- call 30: insert
/* ch1 */
INSERT INTO harness_returned_rows.t (key, value, pad) VALUES (1, 204, '');
-- call 31: read
/* ch3 */
SELECT value FROM harness_returned_rows.t WHERE key = 1;
-- call 32: read
/* ch3 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 33: read
/* ch1 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 34: final-read
/* ch1 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 35: final-read
/* ch1 */
SELECT value FROM harness_returned_rows.t WHERE key = 1;
-- call 36: final-read
/* ch2 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 37: final-read
/* ch2 */
SELECT value FROM harness_returned_rows.t WHERE key = 1;
-- call 38: final-read
/* ch3 */
SELECT value FROM harness_returned_rows.t WHERE key = 0;
-- call 39: final-read
/* ch3 */
SELECT value FROM harness_returned_rows.t WHERE key = 1;
