#!/usr/bin/env bash
# The README's quickstart in one go: a broker of its own, orders from Kafka's console producer, the pipeline
# config/pipelines/customer-totals.yaml, its totals read by Kafka's console consumer, its metrics; then everything is
# stopped and removed, also when a step fails.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

mkdir -p .demo
work=$(mktemp -d "$root/.demo/quickstart.XXXXXX")
KAFKA_DIR=$work/kafka
KAFKA_PORT=$(scripts/kafka/free-port.sh)
export KAFKA_DIR KAFKA_PORT
http=127.0.0.1:$(scripts/kafka/free-port.sh)
keyfold=${CARGO_TARGET_DIR:-target}/release/keyfold
job=

cleanup() {
    trap '' INT TERM
    if [[ -n $job ]]; then
        kill "$job" 2>/dev/null || true
        wait "$job" || true
    fi
    scripts/kafka/down.sh || true
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() { printf '\n== %s\n' "$*"; }

# Waits until a command succeeds.
until_true() {
    local patience=$((SECONDS + 60))
    until "$@"; do
        if [[ -n $job ]] && ! kill -0 "$job" 2>/dev/null; then
            echo "quickstart: keyfold has ended" >&2
            exit 1
        fi
        ((SECONDS < patience)) || { echo "quickstart: waited 60 s for: $*" >&2; exit 1; }
        sleep 0.2
    done
}

say "a broker on 127.0.0.1:$KAFKA_PORT, and two topics"
scripts/kafka/up.sh
scripts/kafka/topics.sh --create --topic orders --partitions 4
scripts/kafka/topics.sh --create --topic customer-totals --partitions 4

say "five orders"
orders='{"customer": "ada", "amount": 19.90, "at": "2026-11-30T09:00:00Z"}
{"customer": "bob", "amount": 5.00, "at": "2026-11-30T09:00:01Z"}
{"customer": "ada", "amount": 0.10, "at": "2026-11-30T09:00:02Z"}
{"customer": "bob", "amount": -5.00, "at": "2026-11-30T09:00:03Z"}
{"customer": "ada", "amount": 100.00, "at": "2026-11-30T09:00:04Z"}'
printf '%s\n' "$orders"
printf '%s\n' "$orders" | scripts/kafka/console-producer.sh --topic orders

say "the pipeline"
cat config/pipelines/customer-totals.yaml
"$keyfold" validate config/pipelines/customer-totals.yaml
"$keyfold" run config/pipelines/customer-totals.yaml --kafka-brokers "127.0.0.1:$KAFKA_PORT" --http-listen "$http" \
    --state-dir "$work/state" --checkpoint-dir "$work/checkpoints" 2>"$work/keyfold.log" &
job=$!
until_true curl --silent --fail --output "$work/ready" "http://$http/health/ready"

say "what it wrote, read by Kafka's console consumer (read_committed)"
scripts/kafka/console-consumer.sh --topic customer-totals --from-beginning --isolation-level read_committed \
    --max-messages 4 --timeout-ms 30000 --formatter-property print.key=true | tee "$work/totals"
[[ $(wc -l <"$work/totals") -eq 4 ]] || { echo "quickstart: four totals were expected" >&2; exit 1; }
grep -q '"total":120.00' "$work/totals" || { echo "quickstart: ada's total of 120.00 is missing" >&2; exit 1; }

say "some of its metrics, from http://$http/metrics"
curl --silent --fail "http://$http/metrics" >"$work/metrics"
grep -E "^keyfold_(source_records|sink_records|records_committed|epochs_committed|lag_stable|shards_owned|phase)" "$work/metrics"

say "SIGTERM: a last epoch, and exit 0"
kill "$job"
wait "$job" && code=0 || code=$?
job=
[[ $code -eq 0 ]] || { cat "$work/keyfold.log" >&2; echo "quickstart: keyfold ended with $code" >&2; exit 1; }
say "done"
