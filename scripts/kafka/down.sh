#!/usr/bin/env bash
# Stops the broker of KAFKA_DIR, and no other: SIGTERM, then SIGKILL after 20 seconds. The data stays.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

pid=$(broker_pid)
if [[ -n $pid ]]; then
    kill -TERM "$pid" 2>/dev/null || true
    deadline=$((SECONDS + 20))
    while [[ -n $(broker_pid) ]]; do
        if ((SECONDS >= deadline)); then
            echo "down.sh: the broker did not stop in 20 seconds, killing it" >&2
            kill -KILL "$pid" 2>/dev/null || true
            sleep 1
            break
        fi
        sleep 0.1
    done
fi
rm -f "$kafka_pid_file"
