#!/bin/sh
# Starts one ZooKeeper server as this process. ZOO_MY_ID is its number; JVMFLAGS go to Java.
set -eu

[ -f /data/myid ] || echo "${ZOO_MY_ID:?the number of this server}" > /data/myid

# By name: several slf4j bindings live in /usr/share/java, and the wrong one logs to nowhere.
java=/usr/share/java
class_path=/conf
for jar in zookeeper zookeeper-jute slf4j-api slf4j-log4j12 log4j-1.2 netty-all metrics-core \
    snappy-java commons-cli; do
    [ -f "$java/$jar.jar" ] || { echo "start.sh: no $java/$jar.jar" >&2; exit 1; }
    class_path="$class_path:$java/$jar.jar"
done

# shellcheck disable=SC2086 # JVMFLAGS is a list of words
exec java ${JVMFLAGS:-} -cp "$class_path" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
