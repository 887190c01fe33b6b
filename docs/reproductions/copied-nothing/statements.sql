-- copied-nothing: a sequentially consistent INSERT SELECT copies nothing of the row that a quorum had acknowledged to its client, for good: it chose its parts before it looked for the last one.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_t;
/* ch1 */
CREATE TABLE harness_copied_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_t;
/* ch2 */
CREATE TABLE harness_copied_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_t;
/* ch3 */
CREATE TABLE harness_copied_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_u;
/* ch1 */
CREATE TABLE harness_copied_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_u;
/* ch2 */
CREATE TABLE harness_copied_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_copied_nothing_u;
/* ch3 */
CREATE TABLE harness_copied_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/copied_nothing_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
-- call 1: insert-row
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_parallel = 0;
INSERT INTO harness_copied_nothing_t.t (p, id, v) VALUES (0, 1, []);
SET insert_quorum = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 2: insert-row
/* ch1 */
SET insert_quorum = 2;
SET insert_quorum_parallel = 0;
INSERT INTO harness_copied_nothing_t.t (p, id, v) VALUES (0, 2, []);
SET insert_quorum = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
-- call 3: insert-select-slowly
/* ch2 */
SET insert_quorum = 2;
SET insert_quorum_parallel = 0;
SET select_sequential_consistency = 1;
INSERT INTO harness_copied_nothing_u.t SELECT p, id, v FROM harness_copied_nothing_t.t WHERE p = 0 AND (SELECT sleep(3)) = 0;
SET insert_quorum = DEFAULT;
SET insert_quorum_parallel = DEFAULT;
SET select_sequential_consistency = DEFAULT;
