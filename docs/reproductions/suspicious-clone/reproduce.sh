#!/usr/bin/env bash
# suspicious-clone: a lost replica is killed when it has fetched a part with most of the rows, and not yet registered it: after the start its table is read-only for good.
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
PROJECT=${PROJECT:-reproduce-suspicious-clone-$$}
REPLICAS="ch1 ch2 ch3"
KEEPERS="zk1 zk2 zk3"
STORES=""
NAME=suspicious-clone
# ZooKeeper servers that must not lead, and what must be ready before the first statement.
FOLLOWERS=""
PROXIES="ch1-proxy ch2-proxy ch3-proxy"
STORE_PROXIES=""
DDL=
# Seconds for which the replicas may take to have nothing left to do.
REST_S=10
# Not empty: what rows contain is compared, not their number; a violation counts only if all calls
# were made as planned and every replica has come to rest and answered.
CONTENT=
JUDGED_AT_REST=

# --- the script ------------------------------------------------------------------------------------

setup() {
  must ch3 '' 'DROP DATABASE IF EXISTS harness_suspicious_clone SYNC'
  must ch2 '' 'DROP DATABASE IF EXISTS harness_suspicious_clone SYNC'
  must ch1 '' 'DROP DATABASE IF EXISTS harness_suspicious_clone SYNC'
  must ch1 '' 'CREATE DATABASE IF NOT EXISTS harness_suspicious_clone'
  must ch1 '' "CREATE TABLE harness_suspicious_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/suspicious_clone/1', 'ch1') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1"
  must ch2 '' 'CREATE DATABASE IF NOT EXISTS harness_suspicious_clone'
  must ch2 '' "CREATE TABLE harness_suspicious_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/suspicious_clone/1', 'ch2') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1"
  must ch3 '' 'CREATE DATABASE IF NOT EXISTS harness_suspicious_clone'
  must ch3 '' "CREATE TABLE harness_suspicious_clone.t (key Int64, value Int64, pad String) ENGINE = ReplicatedMergeTree('/harness/suspicious_clone/1', 'ch3') PARTITION BY key ORDER BY value SETTINGS old_parts_lifetime = 10, max_replicated_logs_to_keep = 10, min_replicated_logs_to_keep = 2, cleanup_delay_period = 1, cleanup_delay_period_random_add = 0, max_cleanup_delay_period = 1"
}

# Each call is one line of `client node key values seconds ends`, a number, a name, and pairs of
# settings and SQL. It must end as `ends` says: ok, error, or any.
play() {
  client=0 node=ch1 key=0 values='0' seconds=60 ends=ok call 1 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (0, 0, '')" || return
  client=0 node=ch1 key=0 values='' seconds=60 ends=any until_seen 400 0.05 'shows 0' call 2 read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0' || return
  client=0 node=ch2 key=0 values='' seconds=60 ends=any until_seen 400 0.05 'shows 0' call 3 read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0' || return
  client=0 node=ch3 key=0 values='' seconds=60 ends=any until_seen 400 0.05 'shows 0' call 4 read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0' || return
  pause_server ch1
  await_shown ch2 7 \
    'SELECT min(active_replicas + 1 <= total_replicas) FROM system.replicas' || return
  client=0 node=ch2 key=1 values='100' seconds=60 ends=ok call 5 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 100, '')" || return
  client=0 node=ch2 key=1 values='101' seconds=60 ends=ok call 6 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 101, '')" || return
  client=0 node=ch2 key=1 values='102' seconds=60 ends=ok call 7 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 102, '')" || return
  client=0 node=ch2 key=1 values='103' seconds=60 ends=ok call 8 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 103, '')" || return
  client=0 node=ch2 key=1 values='104' seconds=60 ends=ok call 9 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 104, '')" || return
  client=0 node=ch2 key=1 values='105' seconds=60 ends=ok call 10 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 105, '')" || return
  client=0 node=ch2 key=1 values='106' seconds=60 ends=ok call 11 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 106, '')" || return
  client=0 node=ch2 key=1 values='107' seconds=60 ends=ok call 12 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 107, '')" || return
  client=0 node=ch2 key=1 values='108' seconds=60 ends=ok call 13 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 108, '')" || return
  client=0 node=ch2 key=1 values='109' seconds=60 ends=ok call 14 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 109, '')" || return
  client=0 node=ch2 key=1 values='110' seconds=60 ends=ok call 15 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 110, '')" || return
  client=0 node=ch2 key=1 values='111' seconds=60 ends=ok call 16 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 111, '')" || return
  client=0 node=ch2 key=1 values='112' seconds=60 ends=ok call 17 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 112, '')" || return
  client=0 node=ch2 key=1 values='113' seconds=60 ends=ok call 18 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 113, '')" || return
  client=0 node=ch2 key=1 values='114' seconds=60 ends=ok call 19 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 114, '')" || return
  client=0 node=ch2 key=1 values='115' seconds=60 ends=ok call 20 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 115, '')" || return
  client=0 node=ch2 key=1 values='116' seconds=60 ends=ok call 21 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 116, '')" || return
  client=0 node=ch2 key=1 values='117' seconds=60 ends=ok call 22 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 117, '')" || return
  client=0 node=ch2 key=1 values='118' seconds=60 ends=ok call 23 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 118, '')" || return
  client=0 node=ch2 key=1 values='119' seconds=60 ends=ok call 24 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 119, '')" || return
  sleep 3
  client=0 node=ch2 key=1 values='120' seconds=60 ends=ok call 25 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 120, '')" || return
  client=0 node=ch2 key=1 values='121' seconds=60 ends=ok call 26 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 121, '')" || return
  client=0 node=ch2 key=1 values='122' seconds=60 ends=ok call 27 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 122, '')" || return
  client=0 node=ch2 key=1 values='123' seconds=60 ends=ok call 28 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 123, '')" || return
  client=0 node=ch2 key=1 values='124' seconds=60 ends=ok call 29 insert \
    '' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (1, 124, '')" || return
  await_shown ch2 3 \
    "SELECT count() FROM system.zookeeper WHERE path = '/harness/suspicious_clone/1/replicas/ch1' AND name = 'is_lost' AND value = '1'" || return
  client=0 node=ch2 key=1 values='' seconds=60 ends=ok call 30 optimize \
    '' 'OPTIMIZE TABLE harness_suspicious_clone.t PARTITION 1 FINAL' || return
  arm ch1 '{"channel":"zookeeper","edge":"request","op":"multi","words":["/replicas/ch1/parts/1_"],"alone":true,"skip":0,"name":"held","do":"hold"}'
  resume_server ch1
  await_held ch1 'held' '1' || return
  kill_server ch1
  cut_held ch1 'held'
  start_server ch1
}

heal() {
  clear ch1
  :
}

# The calls at rest, each until it is answered.
final() {
  client=100 node=ch1 key=0 values='' seconds=60 ends=any final_call call 31 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0'
  client=100 node=ch1 key=1 values='' seconds=60 ends=any final_call call 32 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 1'
  client=101 node=ch2 key=0 values='' seconds=60 ends=any final_call call 33 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0'
  client=101 node=ch2 key=1 values='' seconds=60 ends=any final_call call 34 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 1'
  client=102 node=ch3 key=0 values='' seconds=60 ends=any final_call call 35 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 0'
  client=102 node=ch3 key=1 values='' seconds=60 ends=any final_call call 36 final-read \
    '' 'SELECT value FROM harness_suspicious_clone.t WHERE key = 1'
  client=100 node=ch1 key=0 values='9' seconds=60 ends=any final_call call 37 final-insert \
    'insert_keeper_max_retries=0' "INSERT INTO harness_suspicious_clone.t (key, value, pad) VALUES (0, 9, '')"
  :
}

PROMISE='When every fault has ended, a SELECT on each replica is answered, and so is an INSERT. https://clickhouse.com/docs/engines/table-engines/mergetree-family/replication'

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

is_final() {
  call = $5 " of key " $6 " on " $4
  asked[call] = $9
  if ($8 == "ok") good[call] = 1
}
END { for (call in asked) if (!good[call]) print call ": " substr(asked[call], 1, 300) }' "$HISTORY" | sort -u
}

. ../shared/library.sh
