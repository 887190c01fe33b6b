#!/usr/bin/env bash
# ignored-part: the same, and ATTACH PARTITION is made for each row that lacks, on the replica that was killed: each says that it is done, and the part that was being attached stays aside.
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
# Between each replica and ZooKeeper, and between replicas, is proxy.py, which can stop a single
# message. It runs in PROXY_IMAGE (python:3.13-slim), any image with Python 3.
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
PROJECT=${PROJECT:-reproduce-ignored-part-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=ignored-part
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES="ch1-proxy ch2-proxy ch3-proxy"
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
  must ch3 '' 'DROP DATABASE IF EXISTS harness_ignored_part_u SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_ignored_part_u SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_ignored_part_u SYNC'
  must ch3 '' 'DROP DATABASE IF EXISTS harness_ignored_part_t SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_ignored_part_t SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_ignored_part_t SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_t'
  must ch1 '' "CREATE TABLE harness_ignored_part_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_t/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_t'
  must ch2 '' "CREATE TABLE harness_ignored_part_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_t/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_t'
  must ch3 '' "CREATE TABLE harness_ignored_part_t.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_t/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_u'
  must ch1 '' "CREATE TABLE harness_ignored_part_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_u/1', 'ch1') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_u'
  must ch2 '' "CREATE TABLE harness_ignored_part_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_u/1', 'ch2') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_ignored_part_u'
  must ch3 '' "CREATE TABLE harness_ignored_part_u.t (p Int64, id Int64, v Array(UInt32)) ENGINE = ReplicatedMergeTree('/harness/ignored_part_u/1', 'ch3') PARTITION BY p ORDER BY id SETTINGS old_parts_lifetime = 10"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='' seconds=60 ends=ok call 1 insert-row \
    '' 'INSERT INTO harness_ignored_part_t.t (p, id, v) VALUES (0, 0, [])' || return
  client=0 node=ch1 key=1 values='' seconds=60 ends=ok call 2 insert-row \
    '' 'INSERT INTO harness_ignored_part_t.t (p, id, v) VALUES (1, 1, [])' || return
  client=0 node=ch1 key=2 values='' seconds=60 ends=ok call 3 insert-row \
    '' 'INSERT INTO harness_ignored_part_t.t (p, id, v) VALUES (2, 2, [])' || return
  client=0 node=ch1 key=3 values='' seconds=60 ends=ok call 4 insert-row \
    '' 'INSERT INTO harness_ignored_part_t.t (p, id, v) VALUES (3, 3, [])' || return
  await_shown ch2 2 \
    "SELECT sum(rows) = 4 FROM system.parts WHERE database LIKE 'harness_%' AND active" || return
  await_shown ch3 0 \
    "SELECT sum(rows) = 4 FROM system.parts WHERE database LIKE 'harness_%' AND active" || return
  client=0 node=ch1 key= values='' seconds=60 ends=ok call 5 detach-table \
    '' 'DETACH TABLE harness_ignored_part_t.t' || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 6 detach-table \
    '' 'DETACH TABLE harness_ignored_part_t.t' || return
  client=0 node=ch3 key= values='' seconds=60 ends=ok call 7 detach-table \
    '' 'DETACH TABLE harness_ignored_part_t.t' || return
  client=0 node=ch1 key= values='' seconds=60 ends=ok call 8 drop-replica \
    '' "SYSTEM DROP REPLICA 'ch1' FROM ZKPATH '/harness/ignored_part_t/1'" || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 9 drop-replica \
    '' "SYSTEM DROP REPLICA 'ch2' FROM ZKPATH '/harness/ignored_part_t/1'" || return
  client=0 node=ch3 key= values='' seconds=60 ends=ok call 10 drop-replica \
    '' "SYSTEM DROP REPLICA 'ch3' FROM ZKPATH '/harness/ignored_part_t/1'" || return
  client=0 node=ch1 key= values='' seconds=60 ends=ok call 11 attach-table \
    '' 'ATTACH TABLE harness_ignored_part_t.t' || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 12 attach-table \
    '' 'ATTACH TABLE harness_ignored_part_t.t' || return
  client=0 node=ch3 key= values='' seconds=60 ends=ok call 13 attach-table \
    '' 'ATTACH TABLE harness_ignored_part_t.t' || return
  arm ch1 '{"channel":"zookeeper","edge":"request","op":"multi","words":["_t/1/log/log-"],"alone":true,"skip":2,"name":"held","do":"hold"}'
  client=0 node=ch1 key= values='' seconds=60 ends=error call 14 restore-replica \
    '' 'SYSTEM RESTORE REPLICA harness_ignored_part_t.t' &
  begun 0 $!
  await_held ch1 'held' '1' || return
  kill_server ch1
  join 0 || return
  cut_held ch1 'held'
  start_server ch1
  client=0 node=ch1 key= values='' seconds=60 ends=error call 15 restore-replica \
    '' 'SYSTEM RESTORE REPLICA harness_ignored_part_t.t' || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 16 restore-replica \
    '' 'SYSTEM RESTORE REPLICA harness_ignored_part_t.t' || return
  client=0 node=ch3 key= values='' seconds=60 ends=ok call 17 restore-replica \
    '' 'SYSTEM RESTORE REPLICA harness_ignored_part_t.t' || return
  client=0 node=ch1 key=2 values='' seconds=60 ends=ok call 18 attach \
    '' 'ALTER TABLE harness_ignored_part_t.t ATTACH PARTITION 2' || return
  client=0 node=ch1 key=3 values='' seconds=60 ends=ok call 19 attach \
    '' 'ALTER TABLE harness_ignored_part_t.t ATTACH PARTITION 3' || return
}

heal() {
  clear ch1
  :
}

# The calls at rest, each until it is answered.
final() {
  allowed 0 0 't=1'
  allowed 1 1 't=1'
  allowed 2 2 't=1'
  allowed 3 3 't=1'
  final_rows ch1 0 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 1 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 2 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch1 3 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 0 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 1 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 2 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch2 3 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 0 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 0 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 0 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 1 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 1 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 1 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 2 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 2 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 2 GROUP BY id, v ORDER BY id, v'
  final_rows ch3 3 \
    t 'SELECT id, v, count() FROM harness_ignored_part_t.t WHERE p = 3 GROUP BY id, v ORDER BY id, v' \
    u 'SELECT id, v, count() FROM harness_ignored_part_u.t WHERE p = 3 GROUP BY id, v ORDER BY id, v'
  :
}

PROMISE='By the manual the statements of the script do this, each kind in the order in which it comes first: inserts a row; puts a table out of use on a replica; removes what ZooKeeper has of a replica that is out of use; puts a table into use again; restores what ZooKeeper has lost of a replica from its parts; adds what the replica that is asked has put aside. Each was acknowledged, so that the rows are where that leaves them. https://clickhouse.com/docs/sql-reference/statements/alter/partition#attach-partitionpart'

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
