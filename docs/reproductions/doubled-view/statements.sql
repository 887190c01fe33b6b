-- doubled-view: an acknowledged insert is sent again, as after a lost answer: the table has its row once, and the table of its materialized view has it twice.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_t;
/* ch1 */
CREATE TABLE harness_doubled_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_t;
/* ch2 */
CREATE TABLE harness_doubled_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_t;
/* ch3 */
CREATE TABLE harness_doubled_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_u;
/* ch1 */
CREATE TABLE harness_doubled_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_u;
/* ch2 */
CREATE TABLE harness_doubled_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_u;
/* ch3 */
CREATE TABLE harness_doubled_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_v;
/* ch1 */
CREATE TABLE harness_doubled_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_v/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE MATERIALIZED VIEW harness_doubled_view_v.mv TO harness_doubled_view_v.t AS SELECT p, id, v FROM harness_doubled_view_t.t;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_v;
/* ch2 */
CREATE TABLE harness_doubled_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_v/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE MATERIALIZED VIEW harness_doubled_view_v.mv TO harness_doubled_view_v.t AS SELECT p, id, v FROM harness_doubled_view_t.t;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_doubled_view_v;
/* ch3 */
CREATE TABLE harness_doubled_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/doubled_view_v/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE MATERIALIZED VIEW harness_doubled_view_v.mv TO harness_doubled_view_v.t AS SELECT p, id, v FROM harness_doubled_view_t.t;
-- call 1: insert-row
/* ch1 */
INSERT INTO harness_doubled_view_t.t (p, id, v) VALUES (0, 1, []);
-- call 2: insert-again
/* ch1 */
INSERT INTO harness_doubled_view_t.t (p, id, v) VALUES (0, 1, []);
