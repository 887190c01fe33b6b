-- uncounted-clone: two lost replicas fetch the part of a pending quorum insert from the third, so that all have it; none counts, and every quorum insert is refused.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_uncounted_clone;
/* ch1 */
CREATE TABLE harness_uncounted_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/uncounted_clone/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_uncounted_clone;
/* ch2 */
CREATE TABLE harness_uncounted_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/uncounted_clone/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_uncounted_clone;
/* ch3 */
CREATE TABLE harness_uncounted_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/uncounted_clone/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1;
-- call 1: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: read
/* ch1 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 4: read
/* ch3 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 5: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 6: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 100, '');
-- call 7: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 101, '');
-- call 8: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 102, '');
-- call 9: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 103, '');
-- call 10: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 104, '');
-- call 11: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 105, '');
-- call 12: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 106, '');
-- call 13: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 107, '');
-- call 14: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 108, '');
-- call 15: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 109, '');
-- call 16: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 110, '');
-- call 17: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 111, '');
-- call 18: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 112, '');
-- call 19: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 113, '');
-- call 20: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 114, '');
-- call 21: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 115, '');
-- call 22: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 116, '');
-- call 23: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 117, '');
-- call 24: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 118, '');
-- call 25: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 119, '');
-- call 26: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 120, '');
-- call 27: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 121, '');
-- call 28: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 122, '');
-- call 29: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 123, '');
-- call 30: insert
/* ch1 */
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 124, '');
-- call 31: read
/* ch2 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 32: read
/* ch3 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 33: final-read
/* ch1 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 34: final-read
/* ch2 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 35: final-read
/* ch3 */
SELECT value FROM harness_uncounted_clone.t WHERE key = 0;
-- call 36: final-insert
/* ch1 */
SET insert_keeper_max_retries = 0;
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_uncounted_clone.t (key, value, pad) VALUES (0, 9, '');
SET insert_keeper_max_retries = DEFAULT;
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
