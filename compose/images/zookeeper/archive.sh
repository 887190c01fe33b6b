#!/bin/sh
# Write the archive of the classes that a server loads, which start.sh hands to Java: run one as the
# only member of an ensemble, let a client create a node, and stop it.
set -eu

cat > /conf/zoo.cfg <<END
tickTime=500
initLimit=10
syncLimit=5
dataDir=/data
dataLogDir=/datalog
admin.enableServer=false
standaloneEnabled=false
reconfigEnabled=true
dynamicConfigFile=/conf/zoo.cfg.dynamic
END
echo "server.1=127.0.0.1:2888:3888:participant;2181" > /conf/zoo.cfg.dynamic
cat > /conf/log4j.properties <<END
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
END
flags="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
ZOO_MY_ID=1 JVMFLAGS="$flags -XX:ArchiveClassesAtExit=/tmp/classes.jsa" \
    sh /usr/share/zookeeper/start.sh & server=$!
# shellcheck disable=SC2086 # flags is a list of words
timeout 120 java $flags -cp "/usr/share/zookeeper/*" org.apache.zookeeper.ZooKeeperMain \
    -waitforconnection -timeout 100000 -server 127.0.0.1:2181 create /archived
kill $server
wait $server || true # Java's status after SIGTERM is 143
mv /tmp/classes.jsa /usr/share/zookeeper/classes.jsa
rm -rf /conf/* /data/* /datalog/*
