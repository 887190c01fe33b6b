#!/bin/sh
# Prepare this machine for the harness: install system packages, .venv, the Rust modules and the container
# images, those that the options in HARNESS_IMAGES name. It is safe to run again: what exists is left alone. The argument
# `modules` leaves the images out; with `tools`, `spark`, `check` or `test` it installs only what compiles the
# modules, or what Spark, `make check` or `make test` needs.
set -eu
cd "$(dirname "$0")"

python_fits() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
cargo_fits() { cargo --version 2>/dev/null | awk '{split($2, v, "."); found = v[1] > 1 || (v[1] == 1 && v[2] >= 85)} END {exit !found}'; }
java_fits() { java -version 2>&1 | awk -F'"' '/version/ {split($2, v, "."); found = v[1] >= 17} END {exit !found}'; }
engine_there() { [ -S /var/run/docker.sock ] || [ -n "${DOCKER_HOST:-}" ]; } # it need not answer

# Print what is missing for the modules, as "Debian package|its purpose".
missing_for_modules() {
    python_fits || echo "python3-venv|Python 3.11 or newer with venv"
    cargo_fits || echo "cargo|Rust 1.85 or newer, which builds the checker"
    command -v cc >/dev/null || echo "gcc|a C compiler, which links the checker"
    [ -f /usr/include/stdlib.h ] || echo "libc6-dev|the C library to link with"
}

missing_for_tools() { missing_for_modules; }

missing_for_run() {
    missing_for_modules
    engine_there || echo "docker.io|a Docker engine, for real clusters"
    command -v docker-compose >/dev/null || docker compose version >/dev/null 2>&1 \
        || echo "docker-compose|docker compose, to bring a cluster up by hand"
    command -v mmdebstrap >/dev/null || command -v debootstrap >/dev/null \
        || echo "mmdebstrap|builds a base image where none can be pulled"
}

missing_for_spark() {
    java_fits || echo "default-jre-headless|Java 17 or newer, on which Spark runs"
}

missing_for_check() {
    cargo fmt --version >/dev/null 2>&1 || echo "rustfmt|cargo fmt, for make check"
    cargo clippy --version >/dev/null 2>&1 || echo "rust-clippy|cargo clippy, for make check"
}

# Print what is missing for the tests, including those of checks and of Spark.
missing_for_test() {
    missing_for_check
    missing_for_spark
    command -v chromium >/dev/null || echo "chromium|a browser, for make test"
    command -v chromedriver >/dev/null || echo "chromium-driver|what drives it, for make test"
}

# Select what runs cannot do without; without the rest, servers are simulated.
needed_for_run() { grep -vE '^(docker|mmdebstrap)' || true; }
needed_for_modules() { cat; }
needed_for_tools() { cat; }
needed_for_spark() { cat; }
needed_for_check() { cat; }
needed_for_test() { cat; }

install_missing() { # tools | modules | run | spark | check | test
    wanted=$("missing_for_$1")
    [ -n "$wanted" ] || return 0
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "setup: missing on this machine (installed automatically only as root on Debian or Ubuntu):" >&2
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

export PIP_DISABLE_PIP_VERSION_CHECK=1
case "${1:-run}" in
    run | modules) ;;
    tools)
        install_missing tools
        exit 0 ;;
    spark)
        install_missing spark
        .venv/bin/pip install -q --no-compile -r constraints.txt -r constraints-spark.txt
        exit 0 ;;
    check | test)
        install_missing "$1"
        .venv/bin/pip install -q --no-compile -r constraints.txt -r constraints-spark.txt -r constraints-dev.txt
        exit 0 ;;
    *) echo "setup: $1: expected tools, modules, spark, check, test, or nothing" >&2; exit 2 ;;
esac
install_missing "${1:-run}"
[ -x .venv/bin/pip ] || python3 -m venv .venv
PATH="$PWD/.venv/bin:$PATH" # maturin, which builds the Rust modules
.venv/bin/pip install -q --no-compile -r constraints.txt
# The images are built in parallel with the Rust modules, which `harness build` does not need.
images=
if [ "${1:-run}" = modules ]; then
    :
elif .venv/bin/python -c 'import sys; from harness.clusters.engine import why_no_engine; sys.exit(why_no_engine())'; then
    # shellcheck disable=SC2086 # options
    .venv/bin/python -m harness.cli.main build ${HARNESS_IMAGES:-} & images=$!
else
    echo "setup: servers will be simulated" >&2
fi
# An older .venv has the checker as a distribution of its own; now it comes with the harness.
[ ! -d "$(echo .venv/lib/python3*/site-packages/pyporcupine-*.dist-info)" ] || .venv/bin/pip uninstall -q -y pyporcupine
.venv/bin/pip install -q --no-deps --no-build-isolation -e . || { [ -z "$images" ] || kill $images; exit 1; }
touch .venv/.modules
[ "${1:-run}" = run ] || exit 0
[ -z "$images" ] || wait $images
touch .venv/.ready
