#!/usr/bin/env bash
# Copies Kafka's jars, as pom.xml names them, from Maven's repository into .kafka/lib (KAFKA_LIB).
# Does nothing when they are there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

exec "$kafka_scripts/../fetch-jars.sh" "$kafka_scripts/pom.xml" "$kafka_lib"
