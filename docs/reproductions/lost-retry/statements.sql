-- lost-retry: an insert is committed, but its time runs out before the replica hears so, and the replica deletes its part, which no other has; the same block, inserted again as the error asks for, is acknowledged as a duplicate, and no replica has it.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_lost_retry;
/* ch1 */
CREATE TABLE harness_lost_retry.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/lost_retry/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_lost_retry;
/* ch2 */
CREATE TABLE harness_lost_retry.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/lost_retry/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_lost_retry;
/* ch3 */
CREATE TABLE harness_lost_retry.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/lost_retry/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
SET max_execution_time = 2;
INSERT INTO harness_lost_retry.t (key, value, pad) VALUES (0, 0, '');
SET max_execution_time = DEFAULT;
-- call 2: read
/* ch1 */
SELECT value FROM harness_lost_retry.t WHERE key = 0;
-- call 3: insert
/* ch1 */
SET max_execution_time = 2;
INSERT INTO harness_lost_retry.t (key, value, pad) VALUES (0, 1, '');
SET max_execution_time = DEFAULT;
-- call 4: insert
/* ch2 */
SET max_execution_time = 2;
INSERT INTO harness_lost_retry.t (key, value, pad) VALUES (0, 1, '');
SET max_execution_time = DEFAULT;
-- call 5: final-read
/* ch1 */
SELECT value FROM harness_lost_retry.t WHERE key = 0;
-- call 6: final-read
/* ch2 */
SELECT value FROM harness_lost_retry.t WHERE key = 0;
-- call 7: final-read
/* ch3 */
SELECT value FROM harness_lost_retry.t WHERE key = 0;
