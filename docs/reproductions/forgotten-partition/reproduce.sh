#!/usr/bin/env bash
# forgotten-partition: a partition is dropped and forgotten while a replica has yet to execute the drop, whose range then spans the part of the next insert: the replica never gets its row.
#
# It starts 3 ClickHouse and 3 ZooKeeper servers in containers of their own, makes the
# statements and faults of play() below, and removes the servers. It needs Docker with compose, bash,
# curl and awk. Exit status: 1 reproduced, 0 not reproduced, 2 it could not say.
#
# The script was written for ClickHouse 25.8.2.1 as built in chdb 3.7.2 and ZooKeeper 3.8.0 of Debian bookworm.
# Other images, such as builds of your own:
#
#   CLICKHOUSE_IMAGE=clickhouse/clickhouse-server:25.8 ZOOKEEPER_IMAGE=zookeeper:3.8.0 ./reproduce.sh
#
# To try again on the same servers:
#
#   KEEP=1 PROJECT=mine ./reproduce.sh    leaves them running; PROJECT=mine ./reproduce.sh removes them
#
# As a control, the same statements without the faults, which must end with status 0:
#
#   CONTROL=1 ./reproduce.sh
set -u
cd "$(dirname "$0")" || exit 2
PROJECT=${PROJECT:-reproduce-forgotten-partition-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=forgotten-partition
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES=""
STORE_PROXIES=""
DDL=
# Seconds for which the replicas may take to have nothing left to do.
REST_S=30
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=1

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch3 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_u SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_u SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_u SYNC'
  must ch3 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_t SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_t SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_forgotten_partition_t SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_t'
  must ch1 '' "CREATE TABLE harness_forgotten_partition_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_t'
  must ch2 '' "CREATE TABLE harness_forgotten_partition_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_t'
  must ch3 '' "CREATE TABLE harness_forgotten_partition_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_u'
  must ch1 '' "CREATE TABLE harness_forgotten_partition_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_u'
  must ch2 '' "CREATE TABLE harness_forgotten_partition_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_forgotten_partition_u'
  must ch3 '' "CREATE TABLE harness_forgotten_partition_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/forgotten_partition_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, max_cleanup_delay_period = 1"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='' seconds=10 ends=ok call 1 insert-row \
    '' 'INSERT INTO harness_forgotten_partition_t.t (p, id, v) VALUES (0, 1, [])' || return
  client=0 node=ch2 key=0 values='' seconds=10 ends=ok call 2 sync-replica \
    '' 'SYSTEM SYNC REPLICA harness_forgotten_partition_t.t' || return
  client=0 node=ch3 key=0 values='' seconds=10 ends=ok call 3 sync-replica \
    '' 'SYSTEM SYNC REPLICA harness_forgotten_partition_t.t' || return
  client=0 node=ch2 key=0 values='' seconds=10 ends=ok call 4 stop-queues \
    '' 'SYSTEM STOP REPLICATION QUEUES harness_forgotten_partition_t.t' || return
  client=0 node=ch1 key=0 values='' seconds=10 ends=ok call 5 drop \
    'replication_alter_partitions_sync=1' 'ALTER TABLE harness_forgotten_partition_t.t DROP PARTITION 0' || return
  client=0 node=ch3 key=0 values='' seconds=10 ends=ok call 6 sync-replica \
    '' 'SYSTEM SYNC REPLICA harness_forgotten_partition_t.t' || return
  await_shown ch1 20 \
    "SELECT count() = 0 FROM system.parts WHERE database LIKE 'harness_%' AND partition = '0'" || return
  client=0 node=ch1 key=0 values='' seconds=10 ends=ok call 7 forget \
    '' 'ALTER TABLE harness_forgotten_partition_t.t FORGET PARTITION 0' || return
  client=0 node=ch3 key=0 values='' seconds=10 ends=ok call 8 insert-row \
    '' 'INSERT INTO harness_forgotten_partition_t.t (p, id, v) VALUES (0, 2, [])' || return
  client=0 node=ch2 key=0 values='' seconds=10 ends=ok call 9 start-queues \
    '' 'SYSTEM START REPLICATION QUEUES harness_forgotten_partition_t.t' || return
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  allowed 0 1 'nothing'
  allowed 0 2 't=1'
  final_rows ch1 0 \
    t 'SELECT id, v, count() FROM harness_forgotten_partition_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_forgotten_partition_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 0 \
    t 'SELECT id, v, count() FROM harness_forgotten_partition_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_forgotten_partition_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 0 \
    t 'SELECT id, v, count() FROM harness_forgotten_partition_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_forgotten_partition_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  :
}

PROMISE='By the manual the statements of the script do this, each kind in the order in which it comes first: inserts a row; waits until a replica has executed what is in its queue; stops the execution of a replica'"'"'s queue; removes a partition; removes what ZooKeeper has of an empty partition; starts the execution of a replica'"'"'s queue again. Each was acknowledged, so that the rows are where that leaves them. https://clickhouse.com/docs/sql-reference/statements/alter/partition#forget-partition'

# Reads the calls and prints a sentence for each violation. Fields: begin or end, number, client,
# node, name, key, values, ok or error, answer; of rows: row, node, partition, table, id, copies;
# of objects: object, key, bytes, or refers, node, part, file, key.
judge() {
  awk -F '\t' '
$1 == "allowed" { allowed[$2, $3] = allowed[$2, $3] " or " $4; may[$2, $3, $4] = 1 }
$1 == "looked" { looked[$2, $3] = 1 }
$1 == "row" { shown[$2, $3, $5] = shown[$2, $3, $5] " " $4 "=" $6 }
END {
  for (place in looked) {
    split(place, at, SUBSEP)
    for (row in allowed) {
      split(row, of, SUBSEP)
      if (of[1] != at[2]) continue
      now = substr(shown[at[1], of[1], of[2]], 2)
      if (now == "") now = "nothing"
      if (!((of[1], of[2], now) in may))
        print "row " of[2] " of partition " of[1] ": " at[1] " shows " now \
          "; the statements, each of which was acknowledged, leave" substr(allowed[row], 4)
    }
  }
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
