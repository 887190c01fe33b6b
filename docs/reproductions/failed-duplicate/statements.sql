-- failed-duplicate: a block is inserted again on another replica while the quorum of the first insert is pending; that quorum fails, the second insert is acknowledged, and no replica has the rows.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_failed_duplicate;
/* ch1 */
CREATE TABLE harness_failed_duplicate.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/failed_duplicate/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_failed_duplicate;
/* ch2 */
CREATE TABLE harness_failed_duplicate.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/failed_duplicate/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_failed_duplicate;
/* ch3 */
CREATE TABLE harness_failed_duplicate.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/failed_duplicate/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
INSERT INTO harness_failed_duplicate.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
-- call 3: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 60000;
SET insert_quorum_parallel = 1;
INSERT INTO harness_failed_duplicate.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 4: read
/* ch1 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
-- call 5: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 60000;
SET insert_quorum_parallel = 1;
INSERT INTO harness_failed_duplicate.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 6: read
/* ch1 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
-- call 7: final-read
/* ch1 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
-- call 8: final-read
/* ch2 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
-- call 9: final-read
/* ch3 */
SELECT value FROM harness_failed_duplicate.t WHERE key = 0;
