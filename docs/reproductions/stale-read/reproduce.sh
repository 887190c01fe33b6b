#!/usr/bin/env bash
# stale-read: a sequentially consistent read misses an insert that a quorum acknowledged before, for the replica reads through a ZooKeeper follower that was cut from its leader.
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
PROJECT=${PROJECT:-reproduce-stale-read-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=stale-read
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS="zk1"
PROXIES=""
STORE_PROXIES=""
DDL=
# Seconds for which the replicas may take to have nothing left to do.
REST_S=30
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch3 '' 'DROP DATABASE IF EXISTS harness_stale_read SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_stale_read SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_stale_read SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_stale_read'
  must ch1 '' "CREATE TABLE harness_stale_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/stale_read/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_stale_read'
  must ch2 '' "CREATE TABLE harness_stale_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/stale_read/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_stale_read'
  must ch3 '' "CREATE TABLE harness_stale_read.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/stale_read/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0' seconds=15 ends=ok call 1 insert \
    'insert_quorum=2&insert_quorum_timeout=5000' "INSERT INTO harness_stale_read.t (key, value, pad) VALUES (0, 0, '')" || return
  client=0 node=ch1 key=0 values='' seconds=15 ends=any until_seen 400 0.05 'shows 0' call 2 read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0' || return
  client=0 node=ch2 key=0 values='' seconds=15 ends=any until_seen 400 0.05 'shows 0' call 3 read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0' || return
  client=0 node=ch3 key=0 values='' seconds=15 ends=any until_seen 400 0.05 'shows 0' call 4 read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0' || return
  await_shown ch1 0 \
    'SELECT max(queue_size) = 0 AND min(log_pointer > log_max_index) FROM system.replicas' || return
  await_shown ch2 0 \
    'SELECT max(queue_size) = 0 AND min(log_pointer > log_max_index) FROM system.replicas' || return
  await_shown ch3 0 \
    'SELECT max(queue_size) = 0 AND min(log_pointer > log_max_index) FROM system.replicas' || return
  cut_off zk1
  client=0 node=ch2 key=0 values='1' seconds=15 ends=ok call 5 insert \
    'insert_quorum=2&insert_quorum_timeout=5000' "INSERT INTO harness_stale_read.t (key, value, pad) VALUES (0, 1, '')" || return
  client=0 node=ch1 key=0 values='' seconds=15 ends=ok call 6 read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0' || return
}

heal() {
  reconnect zk1
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=15 ends=any final_call call 7 final-read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0'
  client=101 node=ch2 key=0 values='' seconds=15 ends=any final_call call 8 final-read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0'
  client=102 node=ch3 key=0 values='' seconds=15 ends=any final_call call 9 final-read \
    'select_sequential_consistency=1' 'SELECT value FROM harness_stale_read.t WHERE key = 0'
  :
}

PROMISE='With select_sequential_consistency a SELECT runs only on a replica that has the data of all earlier INSERTs with insert_quorum; otherwise it gets an exception. Without these settings replication is asynchronous. https://clickhouse.com/docs/operations/settings/settings#select_sequential_consistency'

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

is_read() {
  for (i = 1; i <= n; i++)
    if (key[i] == $6 && acked[i] < began[$2] && !has($9, value[i]))
      print "call " $2 " on " $4 " did not return " value[i] ", which " at[i] \
        " had acknowledged before (call " of[i] ")"
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
