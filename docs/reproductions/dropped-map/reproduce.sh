#!/usr/bin/env bash
# dropped-map: the comment of a KeeperMap table is changed in a Replicated database with one replica, whose server is killed and started: the acknowledged rows, which are in ZooKeeper, are removed.
#
# It starts 1 ClickHouse and 3 ZooKeeper servers in containers of their own, makes the
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
PROJECT=${PROJECT:-reproduce-dropped-map-$$}
REPLICAS="ch1"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=dropped-map
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
  must ch1 '' 'DROP DATABASE IF EXISTS harness_dropped_map SYNC'
  must ch1 'allow_experimental_database_replicated=1' "CREATE DATABASE IF NOT EXISTS harness_dropped_map ENGINE = Replicated('/harness/dropped_map/database', '1', 'ch1')"
  must ch1 '' "CREATE TABLE harness_dropped_map.t (value Int64, more UInt8 DEFAULT 0) ENGINE = KeeperMap('/harness_dropped_map') PRIMARY KEY value"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0' seconds=15 ends=ok call 1 insert \
    '' 'INSERT INTO harness_dropped_map.t (value) VALUES (0)' || return
  client=0 node=ch1 key=0 values='1' seconds=15 ends=ok call 2 insert \
    '' 'INSERT INTO harness_dropped_map.t (value) VALUES (1)' || return
  client=0 node=ch1 key=0 values='2' seconds=15 ends=ok call 3 insert \
    '' 'INSERT INTO harness_dropped_map.t (value) VALUES (2)' || return
  client=0 node=ch1 key= values='' seconds=15 ends=ok call 4 miss \
    'distributed_ddl_output_mode=none&distributed_ddl_task_timeout=0' "ALTER TABLE harness_dropped_map.t MODIFY COMMENT 'changed'" || return
  kill_server ch1
  start_server ch1
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=15 ends=any final_call call 5 final-read \
    '' 'SELECT value FROM harness_dropped_map.t'
  :
}

PROMISE='An INSERT that was acknowledged is stored, and a SELECT returns its rows in the end. https://clickhouse.com/docs/engines/table-engines/mergetree-family/replication'

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

is_read() && is_final() { looks[$6]++; last[$6] = last[$6] " " $9 }
END {
  for (i = 1; i <= n; i++)
    if (looks[key[i]] && !has(last[key[i]], value[i]))
      print at[i] " acknowledged " value[i] " (call " of[i] "), and no replica returns it"
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
