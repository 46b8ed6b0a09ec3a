#!/usr/bin/env bash
# Installs what building and checking need: the Debian packages of packages.txt and the Rust toolchain.
# Does nothing when all of it is there. Without root it prints what to run, and fails.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

mapfile -t wanted < <(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' packages.txt)

if ! command -v dpkg-query >/dev/null; then
    echo "install-packages.sh: this is no Debian; please install the counterparts of: ${wanted[*]}" >&2
else
    present=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "${wanted[@]}" 2>/dev/null || true)
    missing=()
    for package in "${wanted[@]}"; do
        grep -qxF "$package installed" <<<"$present" || missing+=("$package")
    done
    # Any Java from 17 on will do.
    if command -v java >/dev/null; then
        mapfile -t missing < <(printf '%s\n' "${missing[@]}" | grep -v -e '^openjdk-' -e '^$' || true)
    fi
    if ((${#missing[@]} > 0)); then
        if ((EUID != 0)); then
            echo "install-packages.sh: packages are missing, please run:" >&2
            echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends ${missing[*]}" >&2
            if [[ " ${missing[*]} " == *" prometheus "* ]]; then
                echo "  sudo systemctl disable --now prometheus.service  # only the programs are needed" >&2
            fi
            exit 1
        fi
        echo "installing: ${missing[*]}" >&2
        export DEBIAN_FRONTEND=noninteractive
        # Programs are wanted, not services: Debian would start the one of prometheus, now and at every boot.
        policy=/usr/sbin/policy-rc.d
        if [[ ! -e $policy ]]; then
            trap 'rm -f "$policy"' EXIT
            printf '#!/bin/sh\nexit 101\n' >"$policy"
            chmod 755 "$policy"
        fi
        apt-get update -qq </dev/null >&2
        apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2
        if [[ " ${missing[*]} " == *" prometheus "* ]] && command -v systemctl >/dev/null; then
            systemctl disable --quiet prometheus.service >/dev/null 2>&1 || true
        fi
    fi
fi

if ! command -v cargo >/dev/null; then
    echo "install-packages.sh: cargo is missing, please install rustup and open a new shell:" >&2
    echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal" >&2
    exit 1
fi

# The toolchain of rust-toolchain.toml, with the components that `make lint` needs. A cargo that does not come from
# rustup is taken as it is.
if command -v rustup >/dev/null; then
    channel=$(sed -n 's/^channel *= *"\(.*\)"$/\1/p' ../rust-toolchain.toml)
    if ! components=$(rustup component list --installed --toolchain "$channel" 2>/dev/null) ||
        ! grep -q '^clippy' <<<"$components" || ! grep -q '^rustfmt' <<<"$components"; then
        rustup toolchain install "$channel" --profile minimal -c clippy -c rustfmt --no-self-update </dev/null >&2
    fi
fi
