-- crashing-mutation: an ALTER UPDATE while an insert that came before it is about to be committed: every server of the table dies of a segmentation fault.

/* ch1 */
CREATE DATABASE IF NOT EXISTS harness_crashing_mutation;
/* ch1 */
CREATE TABLE harness_crashing_mutation.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/crashing_mutation/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch2 */
CREATE DATABASE IF NOT EXISTS harness_crashing_mutation;
/* ch2 */
CREATE TABLE harness_crashing_mutation.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/crashing_mutation/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
/* ch3 */
CREATE DATABASE IF NOT EXISTS harness_crashing_mutation;
/* ch3 */
CREATE TABLE harness_crashing_mutation.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/crashing_mutation/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10;
-- call 1: insert
/* ch1 */
INSERT INTO harness_crashing_mutation.t (key, value, pad) VALUES (0, 0, '');
-- call 2: update
/* ch2 */
ALTER TABLE harness_crashing_mutation.t UPDATE pad = pad WHERE value = 0;
-- call 3: final-read
/* ch1 */
SELECT value FROM harness_crashing_mutation.t WHERE key = 0;
-- call 4: final-read
/* ch2 */
SELECT value FROM harness_crashing_mutation.t WHERE key = 0;
-- call 5: final-read
/* ch3 */
SELECT value FROM harness_crashing_mutation.t WHERE key = 0;
