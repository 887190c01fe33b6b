-- pending-merged: a replica merges two parts whose parallel quorums are pending, and dies; both quorums fail, and one block is inserted again, as its error asks; when the replica is back, the merged part brings the rows of the failed inserts, so that one is read twice.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_pending_merged;
/* ch1 */
CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_pending_merged;
/* ch2 */
CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_pending_merged;
/* ch3 */
CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_pending_merged.t WHERE key = 0;
-- call 3: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
SET insert_quorum_parallel = 1;
INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 4: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
SET insert_quorum_parallel = 1;
INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 2, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 5: optimize
/* ch1 */
OPTIMIZE TABLE harness_pending_merged.t PARTITION 0 FINAL;
-- call 6: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
SET insert_quorum_parallel = 1;
INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 7: read
/* ch1 */
SELECT value FROM harness_pending_merged.t WHERE key = 0;
-- call 8: final-read
/* ch1 */
SELECT value FROM harness_pending_merged.t WHERE key = 0;
-- call 9: final-read
/* ch2 */
SELECT value FROM harness_pending_merged.t WHERE key = 0;
-- call 10: final-read
/* ch3 */
SELECT value FROM harness_pending_merged.t WHERE key = 0;
