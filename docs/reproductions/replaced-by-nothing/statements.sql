-- replaced-by-nothing: REPLACE PARTITION FROM a staging table ON CLUSTER: every host answers that it is done, and the target is empty, because a replica that has staged nothing replaced it.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t;
/* ch1 */
CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t;
/* ch2 */
CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t;
/* ch3 */
CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u;
/* ch1 */
CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u;
/* ch2 */
CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u;
/* ch3 */
CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s;
/* ch1 */
CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s;
/* ch2 */
CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s;
/* ch3 */
CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (0, 0, []);
-- call 2: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 0 FROM harness_replaced_by_nothing_s.t;
-- call 3: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (1, 1, []);
-- call 4: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 1 FROM harness_replaced_by_nothing_s.t;
-- call 5: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (2, 2, []);
-- call 6: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 2 FROM harness_replaced_by_nothing_s.t;
-- call 7: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (3, 3, []);
-- call 8: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 3 FROM harness_replaced_by_nothing_s.t;
-- call 9: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (4, 4, []);
-- call 10: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 4 FROM harness_replaced_by_nothing_s.t;
-- call 11: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (5, 5, []);
-- call 12: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 5 FROM harness_replaced_by_nothing_s.t;
-- call 13: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (6, 6, []);
-- call 14: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 6 FROM harness_replaced_by_nothing_s.t;
-- call 15: insert-row
/* ch1 */
INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (7, 7, []);
-- call 16: replace-everywhere
/* ch1 */
ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 7 FROM harness_replaced_by_nothing_s.t;
