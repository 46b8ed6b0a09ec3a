#!/usr/bin/env bash
# Copies Kafka's jars, as pom.xml names them, from Maven's repository into .kafka/lib (KAFKA_LIB).
# Does nothing when they are there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

wanted=$(cksum <"$kafka_scripts/pom.xml")
complete() {
    [[ $(cat "$kafka_lib/.complete" 2>/dev/null) == "$wanted" ]]
}

complete && exit 0
command -v java >/dev/null || fail "java is missing; run scripts/install-packages.sh"
command -v mvn >/dev/null || fail "mvn is missing; run scripts/install-packages.sh"

mkdir -p "$(dirname "$kafka_lib")"
exec 9>"$kafka_lib.lock"
flock 9
complete && exit 0

for attempt in 1 2 3; do
    echo "fetching Kafka's jars into $kafka_lib (attempt $attempt of 3)" >&2
    rm -rf "$kafka_lib.new"
    if mvn -B -q -f "$kafka_scripts/pom.xml" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$kafka_lib.new" </dev/null 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >&2; then
        # The marker moves with the jars: a directory that has it holds all of them.
        echo "$wanted" >"$kafka_lib.new/.complete"
        rm -rf "$kafka_lib"
        mv "$kafka_lib.new" "$kafka_lib"
        exit 0
    fi
    sleep $((attempt * 3))
done
fail "Maven could not fetch the jars in 3 attempts"
