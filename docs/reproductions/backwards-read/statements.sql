-- backwards-read: a client that goes from one replica to another reads a value and then does not.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_backwards_read;
/* ch1 */
CREATE TABLE harness_backwards_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/backwards_read/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_backwards_read;
/* ch2 */
CREATE TABLE harness_backwards_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/backwards_read/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_backwards_read;
/* ch3 */
CREATE TABLE harness_backwards_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/backwards_read/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
INSERT INTO harness_backwards_read.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_backwards_read.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_backwards_read.t WHERE key = 0;
-- call 4: final-read
/* ch1 */
SELECT value FROM harness_backwards_read.t WHERE key = 0;
-- call 5: final-read
/* ch2 */
SELECT value FROM harness_backwards_read.t WHERE key = 0;
-- call 6: final-read
/* ch3 */
SELECT value FROM harness_backwards_read.t WHERE key = 0;
