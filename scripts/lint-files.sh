#!/usr/bin/env bash
# Checks that rustc does not make: Rust sources are ASCII, shell scripts parse. Looks at tracked and new files.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

list() {
    local file
    git ls-files -z --cached --others --exclude-standard -- "$@" |
        while IFS= read -r -d '' file; do [[ ! -f $file ]] || printf '%s\0' "$file"; done
}

failed=0
if list '*.rs' | LC_ALL=C xargs -0 -r grep -nP '[^\x00-\x7F]' /dev/null; then
    echo "lint-files.sh: Rust sources are ASCII only, see the lines above" >&2
    failed=1
fi
while IFS= read -r -d '' script; do
    bash -n "$script" || failed=1
done < <(list '*.sh' '.ci/run')
exit "$failed"
