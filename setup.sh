#!/bin/sh
# Makes this machine able to run the harness: programs of the system, .venv, the Rust modules and the
# container images. Safe to call again: what is there stays. With the argument `test` it sees to the
# programs that only `make test` needs, and to nothing else.
set -eu
cd "$(dirname "$0")"

python_fits() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
cargo_fits() { cargo --version 2>/dev/null | awk '{split($2, v, "."); found = v[1] > 1 || (v[1] == 1 && v[2] >= 85)} END {exit !found}'; }
java_fits() { java -version 2>&1 | awk -F'"' '/version/ {split($2, v, "."); found = v[1] >= 17} END {exit !found}'; }
engine_there() { [ -S /var/run/docker.sock ] || [ -n "${DOCKER_HOST:-}" ]; } # which may not answer

# What is missing for runs, as "Debian package|what it is for".
missing_for_run() {
    python_fits || echo "python3-venv|Python 3.11 or newer with venv"
    cargo_fits || echo "cargo|Rust 1.85 or newer, which builds the checker"
    command -v cc >/dev/null || echo "gcc|a C compiler, which links the checker"
    [ -f /usr/include/stdlib.h ] || echo "libc6-dev|the C library to link with"
    java_fits || echo "default-jre-headless|Java 17 or newer, for checks of whole stores on Spark"
    engine_there || echo "docker.io|a Docker engine, for real clusters"
    command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 \
        || echo "docker-compose|docker compose, to bring a cluster up by hand"
    command -v mmdebstrap >/dev/null || command -v debootstrap >/dev/null \
        || echo "mmdebstrap|builds a base image where none can be pulled"
}

# What is missing for the tests as well.
missing_for_test() {
    cargo fmt --version >/dev/null 2>&1 || echo "rustfmt|cargo fmt, for make test"
    cargo clippy --version >/dev/null 2>&1 || echo "rust-clippy|cargo clippy, for make test"
    java_fits || echo "default-jre-headless|Java 17 or newer, for make test"
    command -v chromium >/dev/null || echo "chromium|a browser, for make test"
    command -v chromedriver >/dev/null || echo "chromium-driver|what drives it, for make test"
}

# Without the others runs are simulated, or judged without Spark; without these there are none.
needed_for_run() { grep -vE '^(docker|mmdebstrap|default-jre)' || true; }
needed_for_test() { cat; }

install_missing() { # run | test
    wanted=$("missing_for_$1")
    [ -n "$wanted" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: missing on this machine (installed by itself only as root on Debian or Ubuntu):" >&2
        echo "$wanted" | awk -F'|' '{printf "  %-22s %s\n", $1, $2}' >&2
        [ -n "$(echo "$wanted" | "needed_for_$1")" ] || return 0
        echo "setup: install them, then run this again" >&2
        exit 1
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    packages=$(echo "$wanted" | cut -d'|' -f1)
    if apt-cache show cargo-web >/dev/null 2>&1; then # Debian 12 has its current Rust under other names.
        packages=$(echo "$packages" | sed 's/^cargo$/cargo-web/; s/^rustfmt$/rustfmt-web/; s/^rust-clippy$/rust-web-clippy/')
    fi
    echo "setup: installing" $packages
    # shellcheck disable=SC2086 # a list of names
    apt-get install -qq -y --no-install-recommends $packages >/dev/null
    engine_there || service docker start >/dev/null 2>&1 || true
    still=$("missing_for_$1")
    if [ -n "$still" ]; then
        echo "setup: still missing after installation:" >&2
        echo "$still" | awk -F'|' '{printf "  %-22s %s\n", $1, $2}' >&2
        [ -z "$(echo "$still" | "needed_for_$1")" ] || exit 1
    fi
}

case "${1:-run}" in
    run) ;;
    test) install_missing test; exit 0 ;;
    *) echo "setup: $1: expected test, or nothing" >&2; exit 2 ;;
esac
install_missing run
[ -x .venv/bin/pip ] || python3 -m venv .venv
export PIP_DISABLE_PIP_VERSION_CHECK=1
PATH="$PWD/.venv/bin:$PATH" # maturin, which builds the Rust modules
.venv/bin/pip install -q --no-compile -r constraints.txt
.venv/bin/pip install -q --no-deps --no-build-isolation -e .
# The Rust modules and the images need nothing of each other, nor does `harness build` of the modules.
images=
if .venv/bin/python -c 'import sys; from harness.clusters.engine import silence; sys.exit(silence())'; then
    .venv/bin/harness build & images=$!
else
    echo "setup: servers will be simulated" >&2
fi
for crate in ./checkers/histories ./checkers/porcupine ./harness/sim/explorer ./harness/sim/simulator; do
    .venv/bin/pip install -q --no-deps --no-build-isolation "$crate" || { [ -z "$images" ] || kill $images; exit 1; }
done
[ -z "$images" ] || wait $images
touch .venv/.ready
