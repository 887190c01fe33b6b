-- unseen-write: a client does not read at one replica what it has written at another.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_unseen_write;
/* ch1 */
CREATE TABLE harness_unseen_write.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unseen_write/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_unseen_write;
/* ch2 */
CREATE TABLE harness_unseen_write.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unseen_write/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_unseen_write;
/* ch3 */
CREATE TABLE harness_unseen_write.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/unseen_write/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
INSERT INTO harness_unseen_write.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch2 */
SELECT value FROM harness_unseen_write.t WHERE key = 0;
-- call 3: final-read
/* ch1 */
SELECT value FROM harness_unseen_write.t WHERE key = 0;
-- call 4: final-read
/* ch2 */
SELECT value FROM harness_unseen_write.t WHERE key = 0;
-- call 5: final-read
/* ch3 */
SELECT value FROM harness_unseen_write.t WHERE key = 0;
