-- moved-away: MOVE PARTITION on a replica that has not fetched an acknowledged row yet: the row is in neither table.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_t;
/* ch1 */
CREATE TABLE harness_moved_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_t;
/* ch2 */
CREATE TABLE harness_moved_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_t;
/* ch3 */
CREATE TABLE harness_moved_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_u;
/* ch1 */
CREATE TABLE harness_moved_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_u;
/* ch2 */
CREATE TABLE harness_moved_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_moved_away_u;
/* ch3 */
CREATE TABLE harness_moved_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/moved_away_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_moved_away_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: move
/* ch2 */
SET replication_alter_partitions_sync = 0;
ALTER TABLE harness_moved_away_t.t MOVE PARTITION 0 TO TABLE harness_moved_away_u.t;
SET replication_alter_partitions_sync = DEFAULT;
