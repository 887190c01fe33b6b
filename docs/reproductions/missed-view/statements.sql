-- missed-view: a materialized view is created in a Replicated database, and a row is inserted through a replica that has yet to execute the statement: the view's table never gets the row.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_t;
/* ch1 */
CREATE TABLE harness_missed_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_t;
/* ch2 */
CREATE TABLE harness_missed_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_t;
/* ch3 */
CREATE TABLE harness_missed_view_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_u;
/* ch1 */
CREATE TABLE harness_missed_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_u;
/* ch2 */
CREATE TABLE harness_missed_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_u;
/* ch3 */
CREATE TABLE harness_missed_view_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_v;
/* ch1 */
CREATE TABLE harness_missed_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_v/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch1 */
SET allow_experimental_database_replicated = 1;
CREATE DATABASE IF NOT EXISTS harness_missed_view_v_view ENGINE = Replicated('/harness/missed_view_v/1/view', '1', 'ch1');
SET allow_experimental_database_replicated = DEFAULT;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_v;
/* ch2 */
CREATE TABLE harness_missed_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_v/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch2 */
SET allow_experimental_database_replicated = 1;
CREATE DATABASE IF NOT EXISTS harness_missed_view_v_view ENGINE = Replicated('/harness/missed_view_v/1/view', '1', 'ch2');
SET allow_experimental_database_replicated = DEFAULT;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_missed_view_v;
/* ch3 */
CREATE TABLE harness_missed_view_v.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/missed_view_v/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10;
/* ch3 */
SET allow_experimental_database_replicated = 1;
CREATE DATABASE IF NOT EXISTS harness_missed_view_v_view ENGINE = Replicated('/harness/missed_view_v/1/view', '1', 'ch3');
SET allow_experimental_database_replicated = DEFAULT;
-- call 1: create-view
/* ch1 */
SET distributed_ddl_task_timeout = 0;
CREATE MATERIALIZED VIEW harness_missed_view_v_view.mv TO harness_missed_view_v.t AS SELECT p, id, v FROM harness_missed_view_t.t;
SET distributed_ddl_task_timeout = DEFAULT;
-- call 2: insert-row
/* ch2 */
INSERT INTO harness_missed_view_t.t (p, id, v) VALUES (0, 1, []);
-- call 3: insert-row
/* ch2 */
INSERT INTO harness_missed_view_t.t (p, id, v) VALUES (0, 2, []);
