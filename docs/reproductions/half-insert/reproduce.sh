#!/usr/bin/env bash
# half-insert: a replica is killed in the middle of an insert into several partitions: a part of it stays, on every replica, and the rest never comes.
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
PROJECT=${PROJECT:-reproduce-half-insert-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=half-insert
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
  must ch3 '' 'DROP DATABASE IF EXISTS harness_half_insert SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_half_insert SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_half_insert SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_half_insert'
  must ch1 '' "CREATE TABLE harness_half_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_insert/1', 'ch1') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_half_insert'
  must ch2 '' "CREATE TABLE harness_half_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_insert/1', 'ch2') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_half_insert'
  must ch3 '' "CREATE TABLE harness_half_insert.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/half_insert/1', 'ch3') PARTITION BY value ORDER BY value SETTINGS old_parts_lifetime = 10"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95 96 97 98 99' seconds=15 ends=error call 1 insert-many \
    '' "INSERT INTO harness_half_insert.t (key, value, pad) VALUES (0, 0, ''), (0, 1, ''), (0, 2, ''), (0, 3, ''), (0, 4, ''), (0, 5, ''), (0, 6, ''), (0, 7, ''), (0, 8, ''), (0, 9, ''), (0, 10, ''), (0, 11, ''), (0, 12, ''), (0, 13, ''), (0, 14, ''), (0, 15, ''), (0, 16, ''), (0, 17, ''), (0, 18, ''), (0, 19, ''), (0, 20, ''), (0, 21, ''), (0, 22, ''), (0, 23, ''), (0, 24, ''), (0, 25, ''), (0, 26, ''), (0, 27, ''), (0, 28, ''), (0, 29, ''), (0, 30, ''), (0, 31, ''), (0, 32, ''), (0, 33, ''), (0, 34, ''), (0, 35, ''), (0, 36, ''), (0, 37, ''), (0, 38, ''), (0, 39, ''), (0, 40, ''), (0, 41, ''), (0, 42, ''), (0, 43, ''), (0, 44, ''), (0, 45, ''), (0, 46, ''), (0, 47, ''), (0, 48, ''), (0, 49, ''), (0, 50, ''), (0, 51, ''), (0, 52, ''), (0, 53, ''), (0, 54, ''), (0, 55, ''), (0, 56, ''), (0, 57, ''), (0, 58, ''), (0, 59, ''), (0, 60, ''), (0, 61, ''), (0, 62, ''), (0, 63, ''), (0, 64, ''), (0, 65, ''), (0, 66, ''), (0, 67, ''), (0, 68, ''), (0, 69, ''), (0, 70, ''), (0, 71, ''), (0, 72, ''), (0, 73, ''), (0, 74, ''), (0, 75, ''), (0, 76, ''), (0, 77, ''), (0, 78, ''), (0, 79, ''), (0, 80, ''), (0, 81, ''), (0, 82, ''), (0, 83, ''), (0, 84, ''), (0, 85, ''), (0, 86, ''), (0, 87, ''), (0, 88, ''), (0, 89, ''), (0, 90, ''), (0, 91, ''), (0, 92, ''), (0, 93, ''), (0, 94, ''), (0, 95, ''), (0, 96, ''), (0, 97, ''), (0, 98, ''), (0, 99, '')" &
  begun 0 $!
  client=1 node=ch1 key=0 values='' seconds=15 ends=any until_seen 4000 0 'some' call 2 read \
    '' 'SELECT value FROM harness_half_insert.t WHERE key = 0' || return
  kill_server ch1
  join 0 || return
  start_server ch1
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=15 ends=any final_call call 3 final-read \
    '' 'SELECT value FROM harness_half_insert.t WHERE key = 0'
  client=101 node=ch2 key=0 values='' seconds=15 ends=any final_call call 4 final-read \
    '' 'SELECT value FROM harness_half_insert.t WHERE key = 0'
  client=102 node=ch3 key=0 values='' seconds=15 ends=any final_call call 5 final-read \
    '' 'SELECT value FROM harness_half_insert.t WHERE key = 0'
  :
}

PROMISE='An INSERT is atomic within one block of one partition alone. Nobody promises more. https://clickhouse.com/docs/guides/developer/transactional'

# Reads the calls and prints a sentence for each violation. Fields: begin or end, number, client,
# node, name, key, values, ok or error, answer; of rows: row, node, partition, table, id, copies;
# of objects: object, key, bytes, or refers, node, part, file, key.
judge() {
  awk -F '\t' '
function has(list, value) { return index(" " list " ", " " value " ") > 0 }
$1 == "begin" { began[$2] = NR; if ($5 == "insert-many") many[$2] = $7; next }
$1 == "end" && $8 == "error" { session[$3]++ }
$1 == "end" && $8 == "ok" && $5 ~ /^(final-)?insert/ {
  count = split($7, values, " ")
  for (i = 1; i <= count; i++) {
    n++; value[n] = values[i]; key[n] = $6; acked[n] = NR; by[n] = $3 "." session[$3]
    at[n] = $4; from[n] = began[$2]; of[n] = $2
  }
}
function is_read() { return $1 == "end" && $8 == "ok" && $5 ~ /read$/ }
function is_final() { return $1 == "end" && $5 ~ /^final-/ }

is_read() && is_final() {
  for (m in many) {
    count = split(many[m], values, " ")
    got = 0
    for (i = 1; i <= count; i++) got += has($9, values[i])
    if (got && got < count) print $4 " has " got " of the " count " rows of one INSERT (call " m \
      ") for good"
  }
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
