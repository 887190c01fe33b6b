-- forgotten-insert: a row is inserted, deleted by ALTER DELETE, and inserted again: the insert is acknowledged, and the row is not there, because its block is remembered.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_t;
/* ch1 */
CREATE TABLE harness_forgotten_insert_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_t;
/* ch2 */
CREATE TABLE harness_forgotten_insert_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_t;
/* ch3 */
CREATE TABLE harness_forgotten_insert_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_u;
/* ch1 */
CREATE TABLE harness_forgotten_insert_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_u;
/* ch2 */
CREATE TABLE harness_forgotten_insert_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_forgotten_insert_u;
/* ch3 */
CREATE TABLE harness_forgotten_insert_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_insert_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_forgotten_insert_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: delete
/* ch1 */
SET mutations_sync = 2;
ALTER TABLE harness_forgotten_insert_t.t DELETE WHERE p = 0 AND id % 1 = 0;
SET mutations_sync = DEFAULT;
-- call 3: insert-again
/* ch1 */
INSERT INTO harness_forgotten_insert_t.t (p, id, v) VALUES (0, 1, []);
