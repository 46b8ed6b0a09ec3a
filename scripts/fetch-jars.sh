#!/usr/bin/env bash
# Copies the jars that a pom.xml names from Maven's repository into a directory. Does nothing when they are there.
#
#   scripts/fetch-jars.sh POM DIRECTORY
set -euo pipefail
pom=$1
lib=$2

fail() {
    echo "fetch-jars.sh: $*" >&2
    exit 1
}

wanted=$(cksum <"$pom")
complete() {
    [[ $(cat "$lib/.complete" 2>/dev/null) == "$wanted" ]]
}

complete && exit 0
command -v java >/dev/null || fail "java is missing; run scripts/install-packages.sh"
command -v mvn >/dev/null || fail "mvn is missing; run scripts/install-packages.sh"

mkdir -p "$(dirname "$lib")"
exec 9>"$lib.lock"
flock 9
complete && exit 0

for attempt in 1 2 3; do
    echo "fetching the jars of $pom into $lib (attempt $attempt of 3)" >&2
    rm -rf "$lib.new"
    if mvn -B -q -f "$pom" dependency:copy-dependencies \
        -DincludeScope=runtime -DoutputDirectory="$lib.new" </dev/null 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >&2; then
        # The marker moves with the jars: a directory that has it holds all of them.
        echo "$wanted" >"$lib.new/.complete"
        rm -rf "$lib"
        mv "$lib.new" "$lib"
        exit 0
    fi
    sleep $((attempt * 3))
done
fail "Maven could not fetch the jars in 3 attempts"
