#!/bin/sh
# Makes a fresh Debian 12 ready for mpt: installs the packages that are missing, configures, and
# builds into build/. Safe to run again: apt is only touched when a package is missing, and the
# build only does what changed.
set -eu
cd "$(dirname "$0")"

PACKAGES="gcc g++ libc6-dev cmake ninja-build pkg-config liblua5.4-dev libdnnl-dev libjansson-dev
libxxhash-dev librandom123-dev libcmocka-dev"

usage() {
    cat <<'END'
usage: ./setup.sh [--packages-only | --no-cuda]
Installs what is missing with apt (as root or through sudo), then builds into build/.
  --packages-only   stop before the build
  --no-cuda         leave libmpt_cuda.so out, which takes nvcc minutes where there is one, and
                    the simulator of its kernels, which tests need
END
}

say() { printf 'setup: %s\n' "$*"; }

# Says what went wrong and how to go on by hand, then ends.
refuse() {
    {
        printf 'setup: %s\n' "$1"
        printf 'Install these by hand (Debian names), then run ./setup.sh again or build yourself:\n'
        printf '  %s\n' "$2"
        printf '  cmake -S . -B build -G Ninja && cmake --build build\n'
    } >&2
    exit 1
}

# Prints the packages that are not installed, on one line.
missing_packages() {
    for package in $PACKAGES; do
        state=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
        [ "$state" = installed ] || printf '%s ' "$package"
    done
}

# Runs a command with its output in a log, which is shown only where the command fails.
quietly() {
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        printf 'setup: this failed: %s\n' "$*" >&2
        exit 1
    fi
}

install_packages() {
    missing=$(missing_packages)
    missing=${missing% }
    if [ -z "$missing" ]; then
        say "all packages are installed"
        return
    fi
    if [ "$(id -u)" -eq 0 ]; then
        as_root=""
    elif command -v sudo >/dev/null 2>&1; then
        as_root="sudo"
    else
        refuse "packages are missing, and this is neither root nor is there sudo" "$missing"
    fi
    say "installing $missing"
    # $as_root and $missing are lists of words on purpose.
    # shellcheck disable=SC2086
    quietly $as_root apt-get update -qq
    # shellcheck disable=SC2086
    quietly $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends $missing
}

packages_only=no
cuda="-DMPT_CUDA=AUTO -DMPT_CUSIM=ON"
case "${1:-}" in
"") ;;
--packages-only) packages_only=yes ;;
--no-cuda) cuda="-DMPT_CUDA=OFF -DMPT_CUSIM=OFF" ;;
-h | --help) usage && exit 0 ;;
*) usage >&2 && exit 2 ;;
esac

# The list on one line, for messages.
all=$(printf '%s' "$PACKAGES" | tr '\n' ' ')
if ! command -v dpkg-query >/dev/null 2>&1 || ! command -v apt-get >/dev/null 2>&1; then
    refuse "this is not Debian: there is no apt here" "$all"
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
install_packages
[ "$packages_only" = yes ] && exit 0

say "configuring build/"
# shellcheck disable=SC2086 # two options
quietly cmake -S . -B build -G Ninja $cuda
# What became of the module for GPUs: built, or what it lacks.
sed -n 's/^-- \(libmpt_cuda.so is \)/\1/p' "$log" | while read -r line; do say "$line"; done
say "building (a minute or two the first time)"
quietly cmake --build build
say "done: build/mptrun is ready; try build/mptrun recipes/nvfp4_12b.lua"
