#!/bin/sh
# Start one ZooKeeper server as this process. ZOO_MY_ID is its number; JVMFLAGS are options of Java.
set -eu

[ -f /data/myid ] || echo "${ZOO_MY_ID:?the number of this server}" > /data/myid

# The archive has the classes loaded and verified, if it was made with the same jars in the same
# order. /conf comes last because no archive can name it. Relocation would copy the whole archive.
jars=$(printf '%s:' /usr/share/zookeeper/*.jar)
archive=/usr/share/zookeeper/classes.jsa
[ ! -f $archive ] || set -- -XX:SharedArchiveFile=$archive \
    -XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0

# shellcheck disable=SC2086 # JVMFLAGS is a list of words
exec java "$@" ${JVMFLAGS:-} \
    -Dlog4j2.configurationFile=/usr/share/zookeeper/log4j2.properties -cp "$jars/conf" \
    org.apache.zookeeper.server.quorum.QuorumPeerMain /conf/zoo.cfg
