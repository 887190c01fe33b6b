#!/usr/bin/env bash
# pending-merged: a replica merges two parts whose parallel quorums are pending, and dies; both quorums fail, and one block is inserted again, as its error asks; when the replica is back, the merged part brings the rows of the failed inserts, so that one is read twice.
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
PROJECT=${PROJECT:-reproduce-pending-merged-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=pending-merged
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES=""
STORE_PROXIES=""
DDL=
# Seconds for which the replicas may take to have nothing left to do.
REST_S=60
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch3 '' 'DROP DATABASE IF EXISTS harness_pending_merged SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_pending_merged SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_pending_merged SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_pending_merged'
  must ch1 '' "CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_pending_merged'
  must ch2 '' "CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_pending_merged'
  must ch3 '' "CREATE TABLE harness_pending_merged.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/pending_merged/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch2 key=0 values='0' seconds=15 ends=ok call 1 insert \
    '' "INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 0, '')" || return
  client=0 node=ch1 key=0 values='' seconds=15 ends=any until_seen 400 0.05 'shows 0' call 2 read \
    '' 'SELECT value FROM harness_pending_merged.t WHERE key = 0' || return
  stop_fetches ch2
  stop_fetches ch3
  client=0 node=ch1 key=0 values='1' seconds=15 ends=error call 3 insert \
    'insert_quorum=2&insert_quorum_timeout=1000&insert_quorum_parallel=1' "INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 1, '')" || return
  client=0 node=ch1 key=0 values='2' seconds=15 ends=error call 4 insert \
    'insert_quorum=2&insert_quorum_timeout=1000&insert_quorum_parallel=1' "INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 2, '')" || return
  client=0 node=ch1 key=0 values='' seconds=15 ends=ok call 5 optimize \
    '' 'OPTIMIZE TABLE harness_pending_merged.t PARTITION 0 FINAL' || return
  kill_server ch1
  await_shown ch2 7 \
    'SELECT min(active_replicas + 1 <= total_replicas) FROM system.replicas' || return
  start_fetches ch2
  start_fetches ch3
  client=0 node=ch2 key=0 values='1' seconds=15 ends=any until_seen 30 0.5 'ok' call 6 insert \
    'insert_quorum=2&insert_quorum_timeout=1000&insert_quorum_parallel=1' "INSERT INTO harness_pending_merged.t (key, value, pad) VALUES (0, 1, '')" || return
  start_server ch1
  client=0 node=ch1 key=0 values='' seconds=15 ends=any until_seen 200 0.1 'shows 0 1' call 7 read \
    '' 'SELECT value FROM harness_pending_merged.t WHERE key = 0' || return
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=15 ends=any final_call call 8 final-read \
    '' 'SELECT value FROM harness_pending_merged.t WHERE key = 0'
  client=101 node=ch2 key=0 values='' seconds=15 ends=any final_call call 9 final-read \
    '' 'SELECT value FROM harness_pending_merged.t WHERE key = 0'
  client=102 node=ch3 key=0 values='' seconds=15 ends=any final_call call 10 final-read \
    '' 'SELECT value FROM harness_pending_merged.t WHERE key = 0'
  :
}

PROMISE='A block that is inserted again, because the outcome was unknown, is stored once. https://clickhouse.com/docs/engines/table-engines/mergetree-family/replication'

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
  count = split($9, values, " ")
  for (i = 1; i <= count; i++)
    if (twice[$2, values[i]]++ == 1)
      print "call " $2 " on " $4 " returned " values[i] " more than once"
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
