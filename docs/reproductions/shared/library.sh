# Functions of each reproduce.sh, which sources them.

WORK=$(mktemp -d) || exit 2
HISTORY=$WORK/history
: > "$HISTORY"

# --- statements ------------------------------------------------------------------------------------

say() { printf '%s  %s\n' "$(date +%T)" "$*"; }
give_up() { say "UNKNOWN: $*"; exit 2; }

# ask NODE SECONDS SETTINGS SQL: print the answer or the error; 0 if the server has executed it.
ask() {
  local file code
  file=$(mktemp "$WORK/answer.XXXXXX")
  code=$(printf '%s' "$4" | curl -sS --max-time "$2" --output "$file" --write-out '%{http_code}' \
    --data-binary @- "http://127.0.0.1:$(cat "$WORK/port.$1")/?wait_end_of_query=1&$3" 2> "$file.error")
  cat "$file"
  if [ "$code" = 200 ]; then return 0; fi
  cat "$file.error"
  return 1
}

call() {
  local n=$1${try:+.$try} f=$2 answer='' end=ok sql='' at
  shift 2
  printf 'begin\t%s\t%s\t%s\t%s\t%s\t%s\n' "$n" "$client" "$node" "$f" "$key" "$values" >> "$HISTORY"
  while [ $# -gt 0 ]; do
    at=$node
    case $1 in @*) at=${1#@}; shift ;; esac
    sql="$2${1:+ [$1]}"
    answer=$(ask "$at" "$seconds" "$1" "$2") || { end=error; break; }
    shift 2
  done
  answer=$(printf '%s' "$answer" | tr '\n\t' '  ')
  printf 'end\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' \
    "$n" "$client" "$node" "$f" "$key" "$values" "$end" "$answer" >> "$HISTORY"
  printf '%s' "$answer" > "$WORK/last.$client"
  printf '%s' "$end" > "$WORK/end.$client"
  if [ "${try:-1}" = 1 ] || [ "$end" = ok ]; then
    say "$n  $node  $sql → $end ${answer:0:200}"
  fi
  case $ends:$end in any:*|ok:ok|error:error) return 0 ;; esac
  # What a fault makes fail may succeed without it.
  if [ -n "${CONTROL:-}" ] && [ "$ends" = error ]; then return 0; fi
  broken "call $n ended $end, expected $ends"
  return 1
}

broken() { say "not as planned: $*"; echo "$*" >> "$WORK/broken"; }

# seen CONDITION: whether the client's last call met it.
seen() {
  local answer end value
  answer=" $(cat "$WORK/last.$client") "; end=$(cat "$WORK/end.$client")
  [ "$end" = ok ] || return 1
  case $1 in
    ok) return 0 ;;
    some) [ -n "${answer// /}" ] ;;
    none) [ -z "${answer// /}" ] ;;
    shows\ *) for value in ${1#shows }; do
        case $answer in *" $value "*) ;; *) return 1 ;; esac
      done ;;
    lacks\ *) case $answer in *" ${1#lacks } "*) return 1 ;; esac ;;
    repeats\ *) case $answer in *" ${1#repeats } "*" ${1#repeats } "*) ;; *) return 1 ;; esac ;;
  esac
}

# until_seen TRIES PAUSE CONDITION COMMAND...: repeat the call until the condition is met.
until_seen() {
  local tries=$1 pause=$2 condition=$3 try
  shift 3
  for try in $(seq "$tries"); do
    "$@"
    if seen "$condition"; then return 0; fi
    sleep "$pause"
  done
  broken "call $2 did not show in $tries tries what was waited for ($condition)"
  return 1
}

# final_call COMMAND...: repeat the call until it is answered.
final_call() {
  local try
  for try in 1 2 3 4 5 6 7 8; do
    "$@"
    if seen ok; then return 0; fi
    sleep 0.5
  done
  broken "no answer at rest from $node"
}

# final_rows NODE PARTITION {TABLE SQL}...: note the rows of a partition in each table.
final_rows() {
  local node=$1 partition=$2 answer
  shift 2
  while [ $# -gt 0 ]; do
    answer=$(ask "$node" 15 '' "$2") || {
      say "$node  $2 → error ${answer:0:200}"
      broken "$node did not say what rows it has"
      return
    }
    say "$node  $2 → $(printf '%s' "$answer" | tr '\t\n' ' ;')"
    printf '%s\n' "$answer" | awk -v head="row\t$node\t$partition\t$1" -v content="$CONTENT" '
      NF && !content { has[$1] += $NF }
      NF && content { one = $2 ($3 > 1 ? "*" $3 : ""); has[$1] = ($1 in has ? has[$1] "+" : "") one }
      END { for (row in has) print head "\t" row "\t" has[row] }' >> "$HISTORY"
    shift 2
  done
  printf 'looked\t%s\t%s\n' "$node" "$partition" >> "$HISTORY"
}

# allowed PARTITION ID STATE...: what the tables may have of a row in the end.
allowed() {
  local partition=$1 id=$2 state
  shift 2
  for state in "$@"; do printf 'allowed\t%s\t%s\t%s\n' "$partition" "$id" "$state"; done >> "$HISTORY"
}

# note_objects WORD SQL: note the objects of the store that a query lists, each behind a word.
note_objects() {
  ask "${REPLICAS%% *}" 30 '' "$2" > "$WORK/listed" || {
    broken "the store was not listed: $(head -c 300 "$WORK/listed")"
    return
  }
  sed "s/^/$1\t/" "$WORK/listed" >> "$HISTORY"
}

# final_objects LISTED REFERRED: note the objects before and after those that the replicas refer to.
final_objects() {
  local node answer
  note_objects object "$1"
  sleep 3
  for node in $REPLICAS; do
    answer=$(ask "$node" 30 '' "$2") || {
      say "$node  $2 → error ${answer:0:200}"
      broken "$node did not say which objects it refers to"
      return
    }
    printf '%s\n' "$answer" | sed -n "s/..*/refers\t$node\t&/p" >> "$HISTORY"
    printf 'looked\t%s\n' "$node" >> "$HISTORY"
    say "$node  refers to $(grep -c "^refers	$node	" "$HISTORY") objects"
  done
  note_objects object "$1"
  say "the store has $(awk '$1 == "object"' "$HISTORY" | sort | uniq -d | wc -l) objects that stay"
}

begun() { echo "$2" > "$WORK/pid.$1"; }
join() { wait "$(cat "$WORK/pid.$1")"; }
must() { ask "$1" 120 "$2" "$3" > "$WORK/must" || give_up "$1: $3: $(cat "$WORK/must")"; }

# --- servers and faults ----------------------------------------------------------------------------

compose() {
  if docker compose version > /dev/null 2>&1; then
    docker compose -p "$PROJECT" "$@"
  else
    PYTHONPATH="" docker-compose -p "$PROJECT" "$@"
  fi
}

# within SECONDS COMMAND...: wait until the command succeeds; 1 if it does not.
within() {
  local until=$((SECONDS + $1))
  shift
  until "$@" > /dev/null 2>&1; do
    if [ "$SECONDS" -ge "$until" ]; then return 1; fi
    sleep 0.1
  done
}

# await_shown NODE SECONDS SQL: wait until the query returns 1; a control, in which it may never do
# so, waits for so many seconds.
await_shown() {
  local seconds=120
  if [ -n "${CONTROL:-}" ]; then seconds=${2%.*}; fi
  say "$1  wait until $3 → 1"
  if within "$seconds" shows_one "$1" "$3" || [ -n "${CONTROL:-}" ]; then return; fi
  broken "$1 did not return 1 within $seconds s for $3"
  return 1
}
shows_one() { [ "$(ask "$1" 5 '' "$2")" = 1 ]; }

# await SECONDS TEXT COMMAND...: wait until the command succeeds; UNKNOWN if it does not.
await() { within "$1" "${@:3}" || give_up "waited in vain until $2"; }

id() { cat "$WORK/id.$1"; }
# find_port NODE [PORT]: note where its port is published.
find_port() { docker port "$(id "$1")" "${2:-8123}" | head -n 1 | sed 's/.*://' > "$WORK/port.$1"; }
answers() { ask "$1" 5 '' 'SELECT 1'; }
has_keeper() { ask "$1" 5 '' "SELECT count() FROM system.zookeeper WHERE path = '/'"; }
executes_ddl() {
  ask "$1" 5 'distributed_ddl_task_timeout=3' 'CREATE DATABASE IF NOT EXISTS probe ON CLUSTER harness'
}
mode() {
  docker exec "$(id "$1")" bash -c 'exec 3<>/dev/tcp/127.0.0.1/2181; printf srvr >&3; cat <&3' \
    2> /dev/null | awk '$1 == "Mode:" { print $2 }'
}
has_mode() { [ -n "$(mode "$1")" ]; }
runs() { [ "$(docker inspect -f '{{.State.Running}}' "$(id "$1")")" = true ]; }
is_dead() { ! runs "$1"; }
is_at_rest() {
  [ "$(ask "$1" 5 '' 'SELECT count() FROM system.replicas WHERE is_readonly OR is_session_expired
    OR queue_size > 0 OR (log_max_index > 0 AND log_pointer <= log_max_index)
    OR active_replicas < total_replicas')" = 0 ] || return 1
  # The objects of old parts are about to go.
  [ -z "$STORES" ] || [ "$(ask "$1" 5 '' 'SELECT count() FROM system.parts WHERE NOT active')" = 0 ]
}
make_bucket() {
  find_port "$1" 5000
  curl -sS --fail --max-time 5 -X PUT "http://127.0.0.1:$(cat "$WORK/port.$1")/harness"
}

# rest SECONDS: wait until the replicas have nothing left to do; say which of them have after so long.
rest() {
  local until=$((SECONDS + $1)) node
  for node in $REPLICAS; do
    until is_at_rest "$node"; do
      if [ "$SECONDS" -ge "$until" ]; then broken "$node is not at rest after $1 s"; break; fi
      sleep 0.2
    done
  done
}

stop_fetches() { say "$1  SYSTEM STOP FETCHES"; must "$1" '' 'SYSTEM STOP FETCHES'; }
start_fetches() { say "$1  SYSTEM START FETCHES"; ask "$1" 10 '' 'SYSTEM START FETCHES' > /dev/null; }
kill_server() {
  say "$1  docker kill"
  docker kill "$(id "$1")" > /dev/null || give_up "$1 cannot be killed"
  await 20 "$1 is dead" is_dead "$1"
}
start_server() {
  say "$1  docker start"
  docker start "$(id "$1")" > /dev/null || give_up "$1 cannot be started"
  await_server "$1"
}
restart_server() {
  say "$1  docker restart"
  docker restart "$(id "$1")" > /dev/null || give_up "$1 cannot be restarted"
  await_server "$1"
}
# await_server NODE: wait until a server answers. A replica whose start hangs is started again.
await_server() {
  local seconds
  case $1 in zk*) await 300 "$1 has a quorum" has_mode "$1"; return ;; esac
  for seconds in 20 40 80; do
    find_port "$1"
    if within "$seconds" answers "$1"; then return; fi
    say "$1 does not answer within $seconds s: docker restart"
    docker restart -t 2 "$(id "$1")" > /dev/null
  done
  find_port "$1"
  await 160 "$1 answers" answers "$1"
}
pause_server() { say "$1  docker pause"; docker pause "$(id "$1")" > /dev/null || give_up "$1 cannot be paused"; }
resume_server() { say "$1  docker unpause"; docker unpause "$(id "$1")" > /dev/null; }

cut_off() {
  say "$1  docker network disconnect, from the other ZooKeeper servers; its clients stay"
  docker network disconnect "${PROJECT}_peers" "$(id "$1")" || give_up "$1 cannot be cut off"
}
reconnect() {
  say "$1  docker network connect"
  docker network connect --alias "$1-peer" "${PROJECT}_peers" "$(id "$1")"
}

# proxy REPLICA COMMAND...: ask the proxy before ZooKeeper; see proxy.py.
proxy() {
  local node=$1
  shift
  docker exec "$(id "$node-proxy")" python3 /proxy.py "$@"
}
arm() { say "$1  proxy: $2"; proxy "$1" arm "$2" || give_up "the proxy of $1 takes no rule"; }
await_proxy() {
  local node=$1
  say "$node  proxy: ${*:2}"
  shift
  proxy "$node" "$@" || { broken "the proxy of $node: $1 $2 was in vain"; return 1; }
}
await_stopped() { await_proxy "$1" stopped "$2"; }
await_held() { await_proxy "$1" await "$2" "$3"; }
release() { await_proxy "$1" release "$2"; }
cut_held() { await_proxy "$1" cut "$2"; }
clear() { say "$1  proxy: clear"; proxy "$1" clear; }

# break_store STORE RULE: have the proxy before the store apply a rule to requests; see store_proxy.py.
store_proxy() { docker exec "$(id "$1-proxy")" python3 /store_proxy.py "$2"; }
break_store() { say "$1  proxy: $2"; store_proxy "$1" "$2" || give_up "the proxy of $1 takes no rule"; }
mend_store() { say "$1  the proxy before the store forwards everything again"; store_proxy "$1" '{}'; }

# mend: end whatever faults a script that broke off has left.
mend() {
  local node
  for node in $KEEPERS $REPLICAS; do
    docker unpause "$(id "$node")"
    docker start "$(id "$node")"
  done > /dev/null 2>&1
  for node in $KEEPERS; do reconnect "$node"; done > /dev/null 2>&1
  for node in $PROXIES; do clear "${node%-proxy}"; done > /dev/null 2>&1
  for node in $STORE_PROXIES; do mend_store "${node%-proxy}"; done > /dev/null 2>&1
  for node in $REPLICAS; do await_server "$node"; start_fetches "$node"; done > /dev/null
}

# follows ZOOKEEPER: make sure that a server does not lead.
follows() {
  local tries=0
  while [ "$(mode "$1")" = leader ]; do
    tries=$((tries + 1))
    if [ "$tries" -gt 10 ]; then give_up "$1 leads again after each of 10 restarts"; fi
    say "$1 leads: restart it, so that another one does"
    docker restart "$(id "$1")" > /dev/null
    await 300 "$1 has a quorum" has_mode "$1"
  done
}

remove() {
  kill $(jobs -p) 2> /dev/null
  if [ -z "${KEEP:-}" ]; then compose down --volumes --remove-orphans --timeout 1 > "$WORK/down" 2>&1; fi
  rm -rf "$WORK"
}
trap remove EXIT
trap 'exit 2' INT TERM HUP

up() {
  local node dead
  dead=$(docker ps -aq --filter "label=com.docker.compose.project=$PROJECT" --filter status=exited)
  if [ -n "$dead" ]; then
    say "an earlier try has left dead servers: new ones take their place"
    compose down --volumes --timeout 1 > "$WORK/down" 2>&1
  fi
  compose up -d > "$WORK/up" 2>&1 || { cat "$WORK/up"; give_up "the servers were not started"; }
  for node in $KEEPERS $REPLICAS $PROXIES $STORES $STORE_PROXIES; do
    docker ps -aq --filter "label=com.docker.compose.project=$PROJECT" \
      --filter "label=com.docker.compose.service=$node" > "$WORK/id.$node"
    [ -s "$WORK/id.$node" ] || give_up "$node has no container"
  done
  for node in $KEEPERS; do await 300 "$node has a quorum" has_mode "$node"; done
  for node in $FOLLOWERS; do follows "$node"; done
  for node in $STORES; do await 60 "$node has a bucket" make_bucket "$node"; done
  for node in $REPLICAS; do
    await_server "$node"
    await 300 "$node has ZooKeeper" has_keeper "$node"
    if [ -n "$DDL" ]; then await 300 "$node executes statements ON CLUSTER" executes_ddl "$node"; fi
  done
  say "$(ask "${REPLICAS%% *}" 5 '' "SELECT 'ClickHouse', version()" | tr '\t' ' ')"
}

# --- a control -------------------------------------------------------------------------------------

# CONTROL=1: the same statements without the faults, which must not reproduce.
leave_out() {
  say "${2:-}  control: without $1"
  echo "$1" >> "$WORK/left_out"
}
if [ -n "${CONTROL:-}" ]; then
  for fault in stop_fetches start_fetches kill_server start_server pause_server resume_server restart_server cut_off reconnect mend_store arm await_stopped await_held release cut_held clear break_store; do
    eval "$fault() { leave_out $fault \"\$1\"; }"
  done
fi

# --- all of it -------------------------------------------------------------------------------------

up
setup
play
wait
heal
if [ -n "${CONTROL:-}" ] && [ ! -s "$WORK/left_out" ]; then
  give_up "CONTROL is set, and this script makes no fault that it could leave out"
fi
if [ -s "$WORK/broken" ]; then mend; fi
for node in $REPLICAS; do await_server "$node"; done
rest "$REST_S"
final
judge > "$WORK/violations"
echo
if [ -n "$JUDGED_AT_REST" ] && [ -s "$WORK/broken" ]; then give_up "$(head -n 1 "$WORK/broken")"; fi
if [ -s "$WORK/violations" ]; then
  echo "REPRODUCED: $NAME"
  head -n 5 "$WORK/violations" | sed 's/^/  /'
  printf 'Promised:\n  %s\n' "$PROMISE"
  exit 1
fi
if [ -s "$WORK/broken" ]; then give_up "$(head -n 1 "$WORK/broken")"; fi
grep -q -e '^looked' -e 'final-.*	ok	' "$HISTORY" || give_up "no call at rest was answered"
echo "NOT REPRODUCED: $NAME${CONTROL:+, without its faults}"
exit 0
