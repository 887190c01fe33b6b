-- hidden-insert: an insert without a quorum is acknowledged, is on every replica, and is in no sequentially consistent read once its partition has seen a quorum insert.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_hidden_insert;
/* ch1 */
CREATE TABLE harness_hidden_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/hidden_insert/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_hidden_insert;
/* ch2 */
CREATE TABLE harness_hidden_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/hidden_insert/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_hidden_insert;
/* ch3 */
CREATE TABLE harness_hidden_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/hidden_insert/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_hidden_insert.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: insert
/* ch1 */
INSERT INTO harness_hidden_insert.t (key, value, pad) VALUES (0, 1, '');
-- call 3: read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_hidden_insert.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 4: final-read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_hidden_insert.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 5: final-read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_hidden_insert.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 6: final-read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_hidden_insert.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
