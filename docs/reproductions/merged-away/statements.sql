-- merged-away: every row of a partition vanishes from sequentially consistent reads, for an insert has overtaken another and a merge has made one part of all, which lies above the last quorum part.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_merged_away;
/* ch1 */
CREATE TABLE harness_merged_away.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/merged_away/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_merged_away;
/* ch2 */
CREATE TABLE harness_merged_away.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/merged_away/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_merged_away;
/* ch3 */
CREATE TABLE harness_merged_away.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/merged_away/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_merged_away.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 3: read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 4: read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 5: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_merged_away.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 6: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_merged_away.t (key, value, pad) VALUES (0, 2, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 7: read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 8: optimize
/* ch2 */
OPTIMIZE TABLE harness_merged_away.t PARTITION 0 FINAL;
-- call 9: read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 10: final-read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 11: final-read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 12: final-read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_merged_away.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
