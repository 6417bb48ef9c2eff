#!/bin/sh
# A module or a driver that is cut off, empty, a pipe, a folder, a link to nowhere: no command
# dies or waits, --device cuda says in one sentence what it is, and auto takes the CPU and says so.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
mkdir bin driver whole
cp "$MPTRUN" bin/mptrun
library=$(ldd "$MPTRUN" | sed -n 's/.*=> \([^ ]*libm\.so[^ ]*\) .*/\1/p')
[ -n "$library" ] || exit 77 # linked in another way
cp "$library" whole/library.so
cut_off() { head -c 4000 whole/library.so >"$1"; }
empty() { : >"$1"; }
garbage() { echo 'no library' >"$1"; }
pipe() { mkfifo "$1"; }
folder() { mkdir "$1"; }
dangling() { ln -s nowhere "$1"; }
stranger() { cp whole/library.so "$1"; }
said_of() {
    case $1 in
    cut_off) echo 'is cut off: it has 4000 bytes, and its header speaks of more' ;;
    empty) echo 'is empty' ;;
    garbage) echo 'is no shared library' ;;
    pipe | folder) echo 'is no regular file' ;;
    dangling) echo 'is a link that leads nowhere' ;;
    stranger) echo 'is no module of mpt: it has no mpt_cuda_module' ;;
    esac
}

# beside WORDS: with the driver folder among those that the loader searches.
beside() {
    tried="$* (module $module, driver $driver)"
    status=0
    LD_LIBRARY_PATH=$WORK/driver timeout 60 bin/mptrun "$@" >out 2>err || status=$?
}
# The device is the CPU, or none, for this reason.
is_told() {
    beside --list-devices
    want_status 0
    grep -qF "none: $why" out || wrong "wanted in the list: $why"
    beside small.lua --device cuda --out cuda
    want_status 4
    [ "$(wc -l <err)" -eq 1 ] || wrong "more than one sentence"
    grep -qF "no CUDA device: $why; compute on the CPU with --device cpu" err || wrong "wanted: $why"
    [ ! -e cuda ] || wrong "something was written"
    beside plan small.lua
    want_status 0
    grep -qF "mptrun: warning: the device is the CPU: $why" err || wrong "wanted: $why"
}
no_command_dies() {
    beside small.lua --quiet --out auto
    want_status 0
    grep -qF "mptrun: warning: the device is the CPU: $why" err || wrong "wanted: $why"
    rm -r auto
    beside plan small.lua --device cuda
    want_status 0
    grep -qF "as there is no CUDA device: $why; others are" err || wrong "wanted: $why"
    for words in --version "check small.lua" "explain small.lua norm" "diff small.lua small.lua" \
        "export small.lua --out w.safetensors"; do
        # shellcheck disable=SC2086 # a list of words
        beside $words
        want_status 0
    done
}

driver=whole
cp whole/library.so driver/libcuda.so.1
for module in cut_off empty garbage pipe folder dangling stranger; do
    rm -rf bin/libmpt_cuda.so
    $module bin/libmpt_cuda.so
    why="$(cd bin && pwd -P)/libmpt_cuda.so $(said_of $module) (build it again with this mpt, or remove it)"
    is_told
    if [ $module = cut_off ]; then no_command_dies; fi
done

# The driver is asked for first. What is no driver at all is passed over by the loader, too.
module=stranger
for driver in cut_off empty garbage pipe folder; do
    rm -rf driver/libcuda.so.1
    $driver driver/libcuda.so.1
    why="the NVIDIA driver is broken: $WORK/driver/libcuda.so.1 $(said_of $driver)"
    is_told
    if [ $driver = cut_off ]; then no_command_dies; fi
done
driver=dangling
rm -rf driver/libcuda.so.1
dangling driver/libcuda.so.1
beside --list-devices
want_status 0
if grep -q 'driver is broken' out; then wrong "a link to nowhere is no driver"; fi
