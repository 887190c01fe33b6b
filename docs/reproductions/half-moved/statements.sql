-- half-moved: a replica is killed after MOVE PARTITION has added the partition to one table and before it has removed it from the other: its rows are in both for good.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_t;
/* ch1 */
CREATE TABLE harness_half_moved_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_t;
/* ch2 */
CREATE TABLE harness_half_moved_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_t;
/* ch3 */
CREATE TABLE harness_half_moved_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_u;
/* ch1 */
CREATE TABLE harness_half_moved_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_u;
/* ch2 */
CREATE TABLE harness_half_moved_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_half_moved_u;
/* ch3 */
CREATE TABLE harness_half_moved_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_moved_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_half_moved_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: move
/* ch1 */
ALTER TABLE harness_half_moved_t.t MOVE PARTITION 0 TO TABLE harness_half_moved_u.t;
