#!/usr/bin/env bash
# Runs make targets one after the other, with a heading and the seconds that each took. Stops at the first failure.
#
#   scripts/ci-steps.sh TARGET ["TARGET VARIABLE=VALUE" ...]
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

summary=()
for step in "$@"; do
    printf '\n=== %s ===\n' "$step"
    begin=$SECONDS
    # Word splitting is meant: a step is a target and its variables.
    ${MAKE:-make} --no-print-directory $step </dev/null
    status=$?
    elapsed=$((SECONDS - begin))
    if ((status != 0)); then
        printf '\n=== %s: FAILED after %d s ===\n' "$step" "$elapsed"
        exit "$status"
    fi
    printf '=== %s: ok, %d s ===\n' "$step" "$elapsed"
    summary+=("$(printf '%6d s  %s' "$elapsed" "$step")")
done
printf '\n=== all steps passed in %d s ===\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
