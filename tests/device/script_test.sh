#!/bin/sh
# script_test.sh MPTRUN DEVICE_TEST_SIM ROOT: run.sh itself, where there is no GPU: the simulator
# stands for the kernels and the CPU for the device that trains. What needs the library or the
# hardware must be told as not run, the rest must hold, and a device that gives other losses,
# other bits or nothing at all must not be green.
set -eu
mptrun=$1 sim=$2 root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/build/tests"

# program FILE: made of standard input.
program() {
    cat >"$work/build/$1"
    chmod +x "$work/build/$1"
}

must() {
    grep -q "$1" "$2" || {
        echo "no line like '$1' in $2:"
        cat "$2"
        exit 1
    }
}

# device STATUS PARTS...: the script with these parts, one after the other.
device() {
    expected=$1
    shift
    for part in "$@"; do
        status=0
        MPT_DEVICE=cpu MPT_DEVICE_STEPS=10 MPT_DEVICE_RERUNS=2 MPT_DEVICE_COMPARED=gpt2_bf16 \
            MPT_DEVICE_TIMED='' sh "$root/tests/device/run.sh" "$work/results" "$work/build" "$part" \
            >"$work/said" 2>&1 || status=$?
        [ $status -eq "$expected" ] || {
            echo "part $part: status $status, not $expected"
            cat "$work/said"
            exit 1
        }
    done
}

program tests/mpt_lt_support_test <<'END'
#!/bin/sh
echo 'skipped: no driver'
exit 77
END
program tests/mpt_device_test <<END
#!/bin/sh
shift 2
[ "\$1" != there ] || exit \$(cat "$work/there")
exec "$sim" products
END
program mptrun <<END
#!/bin/sh
exec "$mptrun" "\$@"
END

# No device: one sentence, status 77, no other file.
echo 77 >"$work/there"
status=0
sh "$root/tests/device/run.sh" "$work/none" "$work/build" >"$work/said" || status=$?
left=$(ls "$work/none")
if [ $status -ne 77 ] || [ "$left" != summary.txt ]; then
    echo "without a device: status $status, left $left"
    exit 1
fi

device 77 1
device 0 2 3 6
must 'training 2 times gave the same bits' "$work/said"

# Other losses on the device: a seed of its own there.
program mptrun <<END
#!/bin/sh
case "\$*" in
*.device*) exec "$mptrun" "\$@" --set train.lr.peak=0.03 ;;
esac
exec "$mptrun" "\$@"
END
device 1 3
must 'DIFFERS' "$work/said"

# Other bits each time.
program mptrun <<END
#!/bin/sh
exec "$mptrun" "\$@" --seed \$\$
END
device 1 6
must 'gave other bits' "$work/said"

# A program that fails.
program mptrun <<'END'
#!/bin/sh
echo 'mptrun: the device has failed'
exit 5
END
device 1 3
must 'the device has failed' "$work/said"
echo "run.sh: what holds is told from what does not"
