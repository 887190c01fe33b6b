#!/usr/bin/env bash
# replaced-by-nothing: REPLACE PARTITION FROM a staging table ON CLUSTER: every host answers that it is done, and the target is empty, because a replica that has staged nothing replaced it.
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
PROJECT=${PROJECT:-reproduce-replaced-by-nothing-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=replaced-by-nothing
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES=""
STORE_PROXIES=""
DDL=1
# Seconds for which the replicas may take to have nothing left to do.
REST_S=30
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=1

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch3 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_s SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_s SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_s SYNC'
  must ch3 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_u SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_u SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_u SYNC'
  must ch3 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_t SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_t SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_replaced_by_nothing_t SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t'
  must ch1 '' "CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t'
  must ch2 '' "CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_t'
  must ch3 '' "CREATE TABLE harness_replaced_by_nothing_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u'
  must ch1 '' "CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u'
  must ch2 '' "CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_u'
  must ch3 '' "CREATE TABLE harness_replaced_by_nothing_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/replaced_by_nothing_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s'
  must ch1 '' 'CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10'
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s'
  must ch2 '' 'CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10'
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_replaced_by_nothing_s'
  must ch3 '' 'CREATE TABLE harness_replaced_by_nothing_s.t (p Int64, id Int64, v Array(UInt32)) ENGINE = MergeTree PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10'
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='' seconds=10 ends=ok call 1 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (0, 0, [])' || return
  client=0 node=ch1 key=0 values='' seconds=10 ends=ok call 2 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 0 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=1 values='' seconds=10 ends=ok call 3 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (1, 1, [])' || return
  client=0 node=ch1 key=1 values='' seconds=10 ends=ok call 4 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 1 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=2 values='' seconds=10 ends=ok call 5 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (2, 2, [])' || return
  client=0 node=ch1 key=2 values='' seconds=10 ends=ok call 6 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 2 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=3 values='' seconds=10 ends=ok call 7 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (3, 3, [])' || return
  client=0 node=ch1 key=3 values='' seconds=10 ends=ok call 8 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 3 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=4 values='' seconds=10 ends=ok call 9 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (4, 4, [])' || return
  client=0 node=ch1 key=4 values='' seconds=10 ends=ok call 10 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 4 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=5 values='' seconds=10 ends=ok call 11 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (5, 5, [])' || return
  client=0 node=ch1 key=5 values='' seconds=10 ends=ok call 12 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 5 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=6 values='' seconds=10 ends=ok call 13 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (6, 6, [])' || return
  client=0 node=ch1 key=6 values='' seconds=10 ends=ok call 14 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 6 FROM harness_replaced_by_nothing_s.t' || return
  client=0 node=ch1 key=7 values='' seconds=10 ends=ok call 15 insert-row \
    '' 'INSERT INTO harness_replaced_by_nothing_s.t (p, id, v) VALUES (7, 7, [])' || return
  client=0 node=ch1 key=7 values='' seconds=10 ends=ok call 16 replace-everywhere \
    '' 'ALTER TABLE harness_replaced_by_nothing_u.t ON CLUSTER harness REPLACE PARTITION 7 FROM harness_replaced_by_nothing_s.t' || return
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  allowed 0 0 'u=1'
  allowed 1 1 'u=1'
  allowed 2 2 'u=1'
  allowed 3 3 'u=1'
  allowed 4 4 'u=1'
  allowed 5 5 'u=1'
  allowed 6 6 'u=1'
  allowed 7 7 'u=1'
  final_rows ch1 0 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 1 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 2 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 3 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 4 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 4 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 4 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 5 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 5 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 5 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 6 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 6 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 6 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 7 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 7 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 7 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 0 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 1 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 2 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 3 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 4 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 4 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 4 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 5 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 5 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 5 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 6 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 6 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 6 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 7 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 7 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 7 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 0 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 1 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 2 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 3 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 4 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 4 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 4 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 5 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 5 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 5 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 6 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 6 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 6 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 7 \
    t 'SELECT id, v, count() FROM harness_replaced_by_nothing_t.t WHERE p = 7 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_replaced_by_nothing_u.t WHERE p = 7 GROUP BY id, v ORDER BY id, v'
  :
}

PROMISE='By the manual the statements of the script do this, each kind in the order in which it comes first: inserts a row; replaces a partition by that of another table, on all hosts. Each was acknowledged, so that the rows are where that leaves them. https://clickhouse.com/docs/sql-reference/distributed-ddl'

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
