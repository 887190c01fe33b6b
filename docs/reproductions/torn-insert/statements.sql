-- torn-insert: a read returns a part of one insert, whose rows belong to several partitions.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_torn_insert;
/* ch1 */
CREATE TABLE harness_torn_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/torn_insert/1', 'ch1') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_torn_insert;
/* ch2 */
CREATE TABLE harness_torn_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/torn_insert/1', 'ch2') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_torn_insert;
/* ch3 */
CREATE TABLE harness_torn_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/torn_insert/1', 'ch3') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert-many
/* ch1 */
INSERT INTO harness_torn_insert.t (key, value, pad) VALUES (0, 0, ''), (0, 1, ''), (0, 2, ''), (0, 3, ''), (0, 4, ''), (0, 5, ''), (0, 6, ''), (0, 7, ''), (0, 8, ''), (0, 9, ''), (0, 10, ''), (0, 11, ''), (0, 12, ''), (0, 13, ''), (0, 14, ''), (0, 15, ''), (0, 16, ''), (0, 17, ''), (0, 18, ''), (0, 19, ''), (0, 20, ''), (0, 21, ''), (0, 22, ''), (0, 23, ''), (0, 24, ''), (0, 25, ''), (0, 26, ''), (0, 27, ''), (0, 28, ''), (0, 29, ''), (0, 30, ''), (0, 31, ''), (0, 32, ''), (0, 33, ''), (0, 34, ''), (0, 35, ''), (0, 36, ''), (0, 37, ''), (0, 38, ''), (0, 39, ''), (0, 40, ''), (0, 41, ''), (0, 42, ''), (0, 43, ''), (0, 44, ''), (0, 45, ''), (0, 46, ''), (0, 47, ''), (0, 48, ''), (0, 49, ''), (0, 50, ''), (0, 51, ''), (0, 52, ''), (0, 53, ''), (0, 54, ''), (0, 55, ''), (0, 56, ''), (0, 57, ''), (0, 58, ''), (0, 59, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_torn_insert.t WHERE key = 0;
-- call 3: final-read
/* ch1 */
SELECT value FROM harness_torn_insert.t WHERE key = 0;
-- call 4: final-read
/* ch2 */
SELECT value FROM harness_torn_insert.t WHERE key = 0;
-- call 5: final-read
/* ch3 */
SELECT value FROM harness_torn_insert.t WHERE key = 0;
