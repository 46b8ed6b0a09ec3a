#!/usr/bin/env bash
# Fetches the jars of Kafka Streams and Flink into .peers of this repository, and compiles the programs beside this script against them.
# Does nothing when all of it is there.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
peers=$(cd "$here/../.." && pwd)/.peers
fetch_jars=$here/../../scripts/fetch-jars.sh

"$fetch_jars" "$here/compiler.xml" "$peers/compiler/lib"

# NAME CLASS: a program whose jars NAME.xml names.
build() {
    local name=$1 source=$here/$2.java classes=$peers/$1/classes wanted
    "$fetch_jars" "$here/$name.xml" "$peers/$name/lib"
    wanted=$(cat "$here/compiler.xml" "$here/$name.xml" "$source" | cksum)
    [[ $(cat "$classes/.complete" 2>/dev/null) == "$wanted" ]] && return
    rm -rf "$classes"
    java -cp "$peers/compiler/lib/*" org.eclipse.jdt.internal.compiler.batch.Main \
        -source 17 -target 17 -proc:none -nowarn -cp "$(printf '%s:' "$peers/$name"/lib/*.jar)" -d "$classes" "$source"
    echo "$wanted" >"$classes/.complete"
}

build kafka-streams KafkaStreamsCounts
build flink FlinkCounts
