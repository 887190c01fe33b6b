-- phantom-part: an insert whose commit never reached ZooKeeper ends as unknown; its replica returns the rows, in sequentially consistent reads too, and no other replica will ever have them.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_phantom_part;
/* ch1 */
CREATE TABLE harness_phantom_part.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/phantom_part/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_phantom_part;
/* ch2 */
CREATE TABLE harness_phantom_part.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/phantom_part/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_phantom_part;
/* ch3 */
CREATE TABLE harness_phantom_part.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/phantom_part/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_phantom_part.t (key, value, pad) VALUES (0, 0, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 2: read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 3: insert
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_phantom_part.t (key, value, pad) VALUES (0, 1, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 4: insert
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_timeout = 5000;
INSERT INTO harness_phantom_part.t (key, value, pad) VALUES (0, 2, '');
SET insert_quorum = DEFAULT;
SET insert_quorum_timeout = DEFAULT;
-- call 5: read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 6: read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 7: final-read
/* ch1 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 8: final-read
/* ch2 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
-- call 9: final-read
/* ch3 */
SET select_sequential_consistency = 1;
SELECT value FROM harness_phantom_part.t WHERE key = 0;
SET select_sequential_consistency = DEFAULT;
