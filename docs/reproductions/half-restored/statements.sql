-- half-restored: a replica is killed while SYSTEM RESTORE REPLICA attaches its parts: the statement cannot be repeated, and when the others are restored, acknowledged rows are on no replica.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_t;
/* ch1 */
CREATE TABLE harness_half_restored_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_t;
/* ch2 */
CREATE TABLE harness_half_restored_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_t;
/* ch3 */
CREATE TABLE harness_half_restored_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_u;
/* ch1 */
CREATE TABLE harness_half_restored_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_u;
/* ch2 */
CREATE TABLE harness_half_restored_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_half_restored_u;
/* ch3 */
CREATE TABLE harness_half_restored_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/half_restored_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_half_restored_t.t (p, id, v) VALUES (0, 0, []);
-- call 2: insert-row
/* ch1 */
INSERT INTO harness_half_restored_t.t (p, id, v) VALUES (1, 1, []);
-- call 3: insert-row
/* ch1 */
INSERT INTO harness_half_restored_t.t (p, id, v) VALUES (2, 2, []);
-- call 4: insert-row
/* ch1 */
INSERT INTO harness_half_restored_t.t (p, id, v) VALUES (3, 3, []);
-- call 5: detach-table
/* ch1 */
DETACH TABLE harness_half_restored_t.t;
-- call 6: detach-table
/* ch2 */
DETACH TABLE harness_half_restored_t.t;
-- call 7: detach-table
/* ch3 */
DETACH TABLE harness_half_restored_t.t;
-- call 8: drop-replica
/* ch1 */
SYSTEM DROP REPLICA 'ch1' FROM ZKPATH '/harness/half_restored_t/1';
-- call 9: drop-replica
/* ch2 */
SYSTEM DROP REPLICA 'ch2' FROM ZKPATH '/harness/half_restored_t/1';
-- call 10: drop-replica
/* ch3 */
SYSTEM DROP REPLICA 'ch3' FROM ZKPATH '/harness/half_restored_t/1';
-- call 11: attach-table
/* ch1 */
ATTACH TABLE harness_half_restored_t.t;
-- call 12: attach-table
/* ch2 */
ATTACH TABLE harness_half_restored_t.t;
-- call 13: attach-table
/* ch3 */
ATTACH TABLE harness_half_restored_t.t;
-- call 14: restore-replica
/* ch1 */
SYSTEM RESTORE REPLICA harness_half_restored_t.t;
-- call 15: restore-replica
/* ch1 */
SYSTEM RESTORE REPLICA harness_half_restored_t.t;
-- call 16: restore-replica
/* ch2 */
SYSTEM RESTORE REPLICA harness_half_restored_t.t;
-- call 17: restore-replica
/* ch3 */
SYSTEM RESTORE REPLICA harness_half_restored_t.t;
