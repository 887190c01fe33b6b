-- dirty-read: a plain read returns rows of a quorum insert that has no quorum yet; the insert fails, and the same replica does not return them any more.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_dirty_read;
/* ch1 */
CREATE TABLE harness_dirty_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/dirty_read/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_dirty_read;
/* ch2 */
CREATE TABLE harness_dirty_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/dirty_read/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_dirty_read;
/* ch3 */
CREATE TABLE harness_dirty_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/dirty_read/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_dirty_read.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: read
/* ch1 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
-- call 3: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_dirty_read.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 4: read
/* ch1 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
-- call 5: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 1000;
INSERT INTO harness_dirty_read.t (key, value, pad) VALUES (0, 2, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 6: read
/* ch1 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
-- call 7: final-read
/* ch1 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
-- call 8: final-read
/* ch2 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
-- call 9: final-read
/* ch3 */
SELECT value FROM harness_dirty_read.t WHERE key = 0;
