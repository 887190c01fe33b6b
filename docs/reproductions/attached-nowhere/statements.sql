-- attached-nowhere: ATTACH PARTITION FROM a staging table ON CLUSTER: every host answers that it is done, and what one replica has staged is not attached, because another one attached nothing.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_t;
/* ch1 */
CREATE TABLE harness_attached_nowhere_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_t;
/* ch2 */
CREATE TABLE harness_attached_nowhere_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_t;
/* ch3 */
CREATE TABLE harness_attached_nowhere_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_u;
/* ch1 */
CREATE TABLE harness_attached_nowhere_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_u;
/* ch2 */
CREATE TABLE harness_attached_nowhere_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_u;
/* ch3 */
CREATE TABLE harness_attached_nowhere_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/attached_nowhere_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_s;
/* ch1 */
CREATE TABLE harness_attached_nowhere_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_s;
/* ch2 */
CREATE TABLE harness_attached_nowhere_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_attached_nowhere_s;
/* ch3 */
CREATE TABLE harness_attached_nowhere_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (0, 0, []);
-- call 2: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 0 FROM harness_attached_nowhere_s.t;
-- call 3: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (1, 1, []);
-- call 4: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 1 FROM harness_attached_nowhere_s.t;
-- call 5: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (2, 2, []);
-- call 6: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 2 FROM harness_attached_nowhere_s.t;
-- call 7: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (3, 3, []);
-- call 8: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 3 FROM harness_attached_nowhere_s.t;
-- call 9: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (4, 4, []);
-- call 10: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 4 FROM harness_attached_nowhere_s.t;
-- call 11: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (5, 5, []);
-- call 12: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 5 FROM harness_attached_nowhere_s.t;
-- call 13: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (6, 6, []);
-- call 14: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 6 FROM harness_attached_nowhere_s.t;
-- call 15: insert-row
/* ch1 */
INSERT INTO harness_attached_nowhere_s.t (p, id, v) VALUES (7, 7, []);
-- call 16: attach-everywhere
/* ch1 */
ALTER TABLE harness_attached_nowhere_u.t ON CLUSTER harness ATTACH PARTITION 7 FROM harness_attached_nowhere_s.t;
