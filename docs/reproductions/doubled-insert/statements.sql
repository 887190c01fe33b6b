-- doubled-insert: a block whose first insert ended as unknown is inserted again, as the error asks for, on another replica; the first replica then returns its rows twice.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_doubled_insert;
/* ch1 */
CREATE TABLE harness_doubled_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/doubled_insert/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_doubled_insert;
/* ch2 */
CREATE TABLE harness_doubled_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/doubled_insert/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_doubled_insert;
/* ch3 */
CREATE TABLE harness_doubled_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/doubled_insert/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch2 */
INSERT INTO harness_doubled_insert.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_doubled_insert.t WHERE key = 0;
-- call 3: insert
/* ch1 */
INSERT INTO harness_doubled_insert.t (key, value, pad) VALUES (0, 1, '');
-- call 4: insert
/* ch2 */
INSERT INTO harness_doubled_insert.t (key, value, pad) VALUES (0, 1, '');
-- call 5: read
/* ch1 */
SELECT value FROM harness_doubled_insert.t WHERE key = 0;
-- call 6: final-read
/* ch1 */
SELECT value FROM harness_doubled_insert.t WHERE key = 0;
-- call 7: final-read
/* ch2 */
SELECT value FROM harness_doubled_insert.t WHERE key = 0;
-- call 8: final-read
/* ch3 */
SELECT value FROM harness_doubled_insert.t WHERE key = 0;
