#!/usr/bin/env bash
# restored-replica: a replica that is restored deletes an object of each part that it shares: the other replica reads on until it restarts, then it has lost the rows.
#
# It starts 2 ClickHouse and 3 ZooKeeper servers and an object store in containers of their own, makes the
# statements and faults of play() below, and removes the servers. It needs Docker with compose, bash,
# curl and awk. Exit status: 1 reproduced, 0 not reproduced, 2 it could not say.
#
# The script was written for ClickHouse 25.8.2.1 as built in chdb 3.7.2, ZooKeeper 3.8.0 of Debian bookworm and moto 5.2.5 from PyPI.
# Other images, such as builds of your own:
#
#   CLICKHOUSE_IMAGE=clickhouse/clickhouse-server:25.8 ZOOKEEPER_IMAGE=zookeeper:3.8.0 ./reproduce.sh
#
# STORE_IMAGE (motoserver/moto:5.2.5) may be any image that serves S3 on port 5000 and takes any keys.
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
PROJECT=${PROJECT:-reproduce-restored-replica-$$}
REPLICAS="ch1 ch2"
KEEPERS="zk1 zk2 zk3"
STORES="store"
NAME=restored-replica
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
  must ch2 '' 'DROP DATABASE IF EXISTS harness_restored_replica SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_restored_replica SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_restored_replica'
  must ch1 '' "CREATE TABLE harness_restored_replica.t (key Int64, value Int64, payload String) ENGINE = ReplicatedMergeTree('/harness/restored_replica/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_bytes_to_merge_at_max_space_in_pool = 1, storage_policy = 's3', allow_remote_fs_zero_copy_replication = 1, disable_detach_partition_for_zero_copy_replication = 1, max_cleanup_delay_period = 1"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_restored_replica'
  must ch2 '' "CREATE TABLE harness_restored_replica.t (key Int64, value Int64, payload String) ENGINE = ReplicatedMergeTree('/harness/restored_replica/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_bytes_to_merge_at_max_space_in_pool = 1, storage_policy = 's3', allow_remote_fs_zero_copy_replication = 1, disable_detach_partition_for_zero_copy_replication = 1, max_cleanup_delay_period = 1"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL, after @ and a node for another server. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0' seconds=40 ends=ok call 1 insert \
    '' "INSERT INTO harness_restored_replica.t VALUES (0, 0, 'payload 0')" || return
  client=0 node=ch2 key=0 values='' seconds=40 ends=any until_seen 400 0.05 'shows 0' call 2 read \
    '' 'SELECT value, cityHash64(*) FROM harness_restored_replica.t WHERE key = 0' || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 3 restore \
    '' 'DETACH TABLE harness_restored_replica.t SYNC' \
    @ch1 '' "SYSTEM DROP REPLICA 'ch2' FROM TABLE harness_restored_replica.t" \
    '' 'ATTACH TABLE harness_restored_replica.t' \
    '' 'SYSTEM RESTORE REPLICA harness_restored_replica.t' || return
  client=0 node=ch2 key=0 values='' seconds=40 ends=any until_seen 400 0.05 'shows 0' call 4 read \
    '' 'SELECT value, cityHash64(*) FROM harness_restored_replica.t WHERE key = 0' || return
  client=0 node=ch2 key= values='' seconds=60 ends=ok call 5 rebuild \
    @ch1 '' 'SYSTEM SYNC REPLICA harness_restored_replica.t LIGHTWEIGHT' \
    '' 'DROP TABLE IF EXISTS harness_restored_replica.t SYNC' \
    '' "CREATE TABLE harness_restored_replica.t (key Int64, value Int64, payload String) ENGINE = ReplicatedMergeTree('/harness/restored_replica/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_bytes_to_merge_at_max_space_in_pool = 1, storage_policy = 's3', allow_remote_fs_zero_copy_replication = 1, disable_detach_partition_for_zero_copy_replication = 1, max_cleanup_delay_period = 1" || return
  kill_server ch1
  start_server ch1
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=40 ends=any final_call call 6 final-read \
    '' 'SELECT value, cityHash64(*) FROM harness_restored_replica.t WHERE key = 0'
  client=101 node=ch2 key=0 values='' seconds=40 ends=any final_call call 7 final-read \
    '' 'SELECT value, cityHash64(*) FROM harness_restored_replica.t WHERE key = 0'
  :
}

PROMISE='An INSERT that was acknowledged is stored, and a SELECT returns its rows in the end. The manual calls zero-copy replication not ready for production. https://clickhouse.com/docs/operations/storing-data#zero-copy'

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
