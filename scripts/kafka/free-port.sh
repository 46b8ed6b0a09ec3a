#!/usr/bin/env bash
# Prints a port that is free now together with the one after it, below the range that the kernel hands out itself.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

for _ in {1..200}; do
    port=$((20000 + (RANDOM % 5000) * 2))
    if ! port_taken "$port" && ! port_taken $((port + 1)); then
        echo "$port"
        exit 0
    fi
done
fail "found no free port"
