#!/usr/bin/env bash
# Starts a Kafka broker on a free port, runs `keyfold demo --kafka` on it, and stops and removes it again, also when
# the demonstration fails. Arguments go to the demonstration.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

mkdir -p .demo
KAFKA_DIR=$(mktemp -d "$root/.demo/kafka.XXXXXX")
KAFKA_PORT=$(scripts/kafka/free-port.sh)
export KAFKA_DIR KAFKA_PORT

cleanup() {
    trap '' INT TERM
    scripts/kafka/down.sh || true
    rm -rf "$KAFKA_DIR"
}
trap cleanup EXIT
# The program gets the signal as well; the broker is stopped once it has ended.
trap 'exit 130' INT
trap 'exit 143' TERM

scripts/kafka/up.sh
"${CARGO:-cargo}" run --quiet --release --locked -p keyfold-service -- demo --kafka "127.0.0.1:$KAFKA_PORT" "$@"
