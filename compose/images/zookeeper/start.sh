#!/bin/sh
# Start one ZooKeeper server as this process. ZOO_MY_ID is its number; JVMFLAGS are options of Java.
set -eu

[ -f /data/myid ] || echo "${ZOO_MY_ID:?the number of this server}" > /data/myid

# shellcheck disable=SC2086 # JVMFLAGS is a list of words
exec java ${JVMFLAGS:-} -Dlog4j2.configurationFile=/usr/share/zookeeper/log4j2.properties \
    -cp '/conf:/usr/share/zookeeper/*' \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
