-- renamed-away: RENAME COLUMN is acknowledged, and a replica that has yet to execute it inserts the first row of a partition: its value reads as the default, for good and on every replica.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_t;
/* ch1 */
CREATE TABLE harness_renamed_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_t;
/* ch2 */
CREATE TABLE harness_renamed_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_t;
/* ch3 */
CREATE TABLE harness_renamed_away_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_u;
/* ch1 */
CREATE TABLE harness_renamed_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_u;
/* ch2 */
CREATE TABLE harness_renamed_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_renamed_away_u;
/* ch3 */
CREATE TABLE harness_renamed_away_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/renamed_away_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: stop-queues
/* ch2 */
SYSTEM STOP REPLICATION QUEUES harness_renamed_away_t.t;
-- call 2: rename-column
/* ch1 */
ALTER TABLE harness_renamed_away_t.t RENAME COLUMN v TO w;
-- call 3: insert-row
/* ch2 */
INSERT INTO harness_renamed_away_t.t (p, id, v) VALUES (0, 1, [1]);
-- call 4: start-queues
/* ch2 */
SYSTEM START REPLICATION QUEUES harness_renamed_away_t.t;
-- call 5: rename-back
/* ch1 */
SET replication_alter_partitions_sync = 2;
ALTER TABLE harness_renamed_away_t.t RENAME COLUMN w TO v;
SET replication_alter_partitions_sync = DEFAULT;
