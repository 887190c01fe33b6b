-- missing-table: a server that was away for three ALTERs ADD COLUMN comes back without the table.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_missing_table;
/* ch1 */
CREATE TABLE harness_missing_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missing_table/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_missing_table;
/* ch2 */
CREATE TABLE harness_missing_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missing_table/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_missing_table;
/* ch3 */
CREATE TABLE harness_missing_table.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/missing_table/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
INSERT INTO harness_missing_table.t (key, value, pad) VALUES (0, 0, '');
-- call 2: read
/* ch1 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
-- call 3: read
/* ch2 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
-- call 4: read
/* ch3 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
-- call 5: add-column
/* ch1 */
ALTER TABLE harness_missing_table.t ADD COLUMN c0 Int64;
-- call 6: add-column
/* ch1 */
ALTER TABLE harness_missing_table.t ADD COLUMN c1 Int64;
-- call 7: add-column
/* ch1 */
ALTER TABLE harness_missing_table.t ADD COLUMN c2 Int64;
-- call 8: final-read
/* ch1 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
-- call 9: final-read
/* ch2 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
-- call 10: final-read
/* ch3 */
SELECT value FROM harness_missing_table.t WHERE key = 0;
