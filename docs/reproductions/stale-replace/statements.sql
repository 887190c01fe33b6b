-- stale-replace: REPLACE PARTITION on a replica that has not fetched an acknowledged row yet: the row is not in the target, which is emptied.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_t;
/* ch1 */
CREATE TABLE harness_stale_replace_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_t;
/* ch2 */
CREATE TABLE harness_stale_replace_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_t;
/* ch3 */
CREATE TABLE harness_stale_replace_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_u;
/* ch1 */
CREATE TABLE harness_stale_replace_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_u;
/* ch2 */
CREATE TABLE harness_stale_replace_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_stale_replace_u;
/* ch3 */
CREATE TABLE harness_stale_replace_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/stale_replace_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_stale_replace_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: replace
/* ch2 */
SET replication_alter_partitions_sync = 0;
ALTER TABLE harness_stale_replace_u.t REPLACE PARTITION 0 FROM harness_stale_replace_t.t;
SET replication_alter_partitions_sync = DEFAULT;
