#!/usr/bin/env bash
# orphaned-fetch: the objects of a part stay for good if its last replica drops it while another, which was fetching it, is dead: the lock of the dead one is still there, and it never had the part.
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
# Between the replicas and the store is store_proxy.py, which fails or delays requests. It runs in
# PROXY_IMAGE (python:3.13-slim), any image with Python 3.
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
PROJECT=${PROJECT:-reproduce-orphaned-fetch-$$}
REPLICAS="ch1 ch2"
KEEPERS="zk1 zk2 zk3"
STORES="store"
NAME=orphaned-fetch
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES=""
STORE_PROXIES="store-proxy"
DDL=
# Seconds for which the replicas may take to have nothing left to do.
REST_S=30
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=1

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch2 '' 'DROP DATABASE IF EXISTS harness_orphaned_fetch SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_orphaned_fetch SYNC'
  note_objects old "SELECT substring(_path, 9), _size FROM s3('http://store:5000/harness/**', 'harness', 'harness', 'One') ORDER BY 1"
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_orphaned_fetch'
  must ch1 '' "CREATE TABLE harness_orphaned_fetch.t (key Int64, value Int64, payload String) ENGINE = ReplicatedMergeTree('/harness/orphaned_fetch/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_bytes_to_merge_at_max_space_in_pool = 1, storage_policy = 's3', allow_remote_fs_zero_copy_replication = 1, disable_detach_partition_for_zero_copy_replication = 1, max_cleanup_delay_period = 1"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_orphaned_fetch'
  must ch2 '' "CREATE TABLE harness_orphaned_fetch.t (key Int64, value Int64, payload String) ENGINE = ReplicatedMergeTree('/harness/orphaned_fetch/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 1, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_bytes_to_merge_at_max_space_in_pool = 1, storage_policy = 's3', allow_remote_fs_zero_copy_replication = 1, disable_detach_partition_for_zero_copy_replication = 1, max_cleanup_delay_period = 1"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL, after @ and a node for another server. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0' seconds=40 ends=ok call 1 insert \
    '' "INSERT INTO harness_orphaned_fetch.t VALUES (0, 0, 'payload 0')" || return
  client=0 node=ch2 key=0 values='' seconds=40 ends=any until_seen 400 0.05 'shows 0' call 2 read \
    '' 'SELECT value, cityHash64(*) FROM harness_orphaned_fetch.t WHERE key = 0' || return
  break_store store '{"name":"store-timeouts","do":"hang","share":1,"methods":["GET"]}'
  client=0 node=ch1 key=1 values='1' seconds=40 ends=ok call 3 insert \
    '' "INSERT INTO harness_orphaned_fetch.t VALUES (1, 1, 'payload 1')" || return
  await_shown ch2 3 \
    "SELECT count() > 0 FROM system.replication_queue WHERE type = 'GET_PART' AND is_currently_executing AND last_attempt_time + 3 <= now()" || return
  kill_server ch2
  mend_store store
  client=0 node=ch1 key=1 values='' seconds=40 ends=ok call 4 drop \
    'replication_alter_partitions_sync=0' 'ALTER TABLE harness_orphaned_fetch.t DROP PARTITION 1' || return
  await_shown ch1 6 \
    "SELECT count() = 0 FROM system.parts WHERE database LIKE 'harness_%' AND partition = '1'" || return
  start_server ch2
}

heal() {
  :
}

# The calls at rest, each until it is answered.
final() {
  final_objects "SELECT substring(_path, 9), _size FROM s3('http://store:5000/harness/**', 'harness', 'harness', 'One') ORDER BY 1" \
    "WITH ifNull((SELECT concat('/', toString(any(uuid)), '/') FROM system.tables WHERE database = 'harness_orphaned_fetch' AND name = 't'), '') AS directory, splitByChar('/', splitByString(directory, local_path)[2]) AS below SELECT if(length(below) = 2, below[1], '-'), below[-1], remote_path FROM system.remote_data_paths WHERE position(local_path, directory) > 0 ORDER BY 1, 2, 3"
  :
}

PROMISE='With zero-copy replication a replica gets the metadata of a part, and its files refer to the same objects. The manual calls this not ready for production, and says nothing of what faults leave behind; an object to which no file refers is of no use, and nothing removes it. https://clickhouse.com/docs/operations/storing-data#zero-copy'

# Reads the calls and prints a sentence for each violation. Fields: begin or end, number, client,
# node, name, key, values, ok or error, answer; of rows: row, node, partition, table, id, copies;
# of objects: object, key, bytes, or refers, node, part, file, key.
judge() {
  awk -F '\t' '
$1 == "old" { old[$2] = 1 }
$1 == "object" { listed[$2]++; bytes[$2] = $3 }
$1 == "refers" { used[$5] = 1 }
END {
  for (key in listed)
    if (listed[key] == 2 && !(key in old) && !(key in used))
      print "no file of any replica refers to " key ", an object of " bytes[key] " bytes"
}' "$HISTORY" | sort -u
}

. ../shared/library.sh
