#!/bin/sh
# run.sh RESULTS [BUILD [PART]]: everything that only a GPU can show, under 8 minutes on one H200.
#
# Six parts, each with a file and a line of summary.txt in RESULTS: what cuBLASLt takes against
# the table; bytes of the quantizers and sums of products against the CPU; losses of 50 steps
# beside the CPU's; speeds; compute-sanitizer; 20 reruns. A part that cannot run says why.
# Exit status: 0 all parts hold, 1 one does not, 77 there is no device. BUILD is the folder
# with mptrun, libmpt_cuda.so and tests/mpt_device_test (build by itself); libraries that the
# machine lacks may lie in BUILD/lib. With PART (1 to 6) that alone runs, its output to stdout.
set -u

[ $# -ge 1 ] || {
    echo "usage: $0 RESULTS [BUILD [PART]]"
    exit 2
}
script=$(cd "$(dirname "$0")" && pwd)/run.sh
here=$(cd "$(dirname "$script")/../.." && pwd)
mkdir -p "$1" && out=$(cd "$1" && pwd) && build=$(cd "${2:-$here/build}" && pwd) || exit 2
# For the script's own test: another device, fewer steps and reruns, other recipes.
device=${MPT_DEVICE:-cuda} steps=${MPT_DEVICE_STEPS:-50} times=${MPT_DEVICE_RERUNS:-20}
compared=${MPT_DEVICE_COMPARED:-gpt2_bf16 gpt2_fp8_delayed gpt2_fp8_block gpt2_nvfp4}
timed=${MPT_DEVICE_TIMED-gpt2_124m gpt2_124m_fp8 block_12b block_12b_fp8}
mptrun=$build/mptrun
tests=$build/tests
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ ! -d "$build/lib" ] || export LD_LIBRARY_PATH="$build/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
cd "$here" || exit 2

# ---- the parts ----

support() { "$tests/mpt_lt_support_test"; }

conformance() { "$tests/mpt_device_test" --module "$build" quantizers products; }

# train RECIPE DEVICE STEPS FOLDER: its losses, one a line, in FOLDER/losses.
train() {
    "$mptrun" "$1" --device "$2" --set "train.steps=$3" --seed 7 --out "$4" >"$4.log" 2>&1 || {
        tail -n 5 "$4.log"
        return 1
    }
    sed -n 's/.*"event": *"step".*"loss": *\([-0-9.e+]*\).*/\1/p' "$4/metrics.jsonl" >"$4/losses"
    [ "$(wc -l <"$4/losses")" -eq "$3" ] || {
        echo "$1 on $2 gave $(wc -l <"$4/losses") losses, not $3"
        return 1
    }
}

# The same recipe, seed and data on both: sums have another order, so losses part slowly. After
# 50 steps the last ten may differ by 2 % in the mean, the first step by a few roundings.
compare_losses() {
    paste "$1/losses" "$2/losses" | awk -v name="$3" '
        { printf "%-20s step %2d  device %.6f  cpu %.6f  %+.2e\n", name, NR - 1, $1, $2, $1 - $2 }
        { d = $1 - $2; d = d < 0 ? -d : d; if (NR == 1) first = d / $2 }
        { a[NR] = $1; b[NR] = $2 }
        END {
            for (i = NR - 9; i <= NR; i++) { s += a[i]; t += b[i] }
            off = s / t - 1; off = off < 0 ? -off : off
            good = NR == '"$steps"' && first < 1e-3 && off < 0.02
            printf "%s: first loss off by %.1e, last ten by %.2e: %s\n", name, first, off, good ? "ok" : "DIFFERS"
            exit !good
        }'
}

training() {
    bad=0
    for recipe in $compared; do
        train "recipes/$recipe.lua" "$device" "$steps" "$work/$recipe.device" || bad=1
        train "recipes/$recipe.lua" cpu "$steps" "$work/$recipe.host" || bad=1
        compare_losses "$work/$recipe.device" "$work/$recipe.host" "$recipe" || bad=1
    done
    [ "$bad" -eq 0 ] && echo "losses over $steps steps are those of the CPU: $compared"
    return "$bad"
}

speed() {
    bad=0
    "$tests/mpt_device_test" --module "$build" speeds || bad=1
    grep -E '^(copy|gemm)' "$out/1_support.txt"
    for recipe in $timed; do
        "$mptrun" bench "tests/device/recipes/$recipe.lua" --device "$device" || bad=1
    done
    [ "$bad" -eq 0 ] && echo "quantizers and steps were timed"
    return "$bad"
}

sanitizer() {
    tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
    [ -x "$tool" ] || {
        echo "there is no compute-sanitizer here"
        return 77
    }
    train recipes/gpt2_nvfp4.lua "$device" 1 "$work/plain" || return 1
    for check in memcheck racecheck; do
        "$tool" --tool "$check" --error-exitcode 9 --kernel-name regex:"quantize|norm_kernel" \
            "$mptrun" recipes/gpt2_nvfp4.lua --device "$device" --set train.steps=1 \
            --out "$work/$check" >"$work/$check.log" 2>&1
        status=$?
        grep -E '^=========' "$work/$check.log" | tail -n 20
        if grep -qi 'not supported' "$work/$check.log"; then
            echo "compute-sanitizer does not work on this machine"
            return 77
        fi
        [ "$status" -eq 0 ] || {
            echo "$check found something"
            return 1
        }
    done
    echo "memcheck and racecheck find nothing in the quantizers and the norm"
}

# Losses, norms and the whole state after 3 steps: every bit.
reruns() {
    "$tests/mpt_device_test" --module "$build" reruns || return 1
    run=0
    while [ $run -lt "$times" ]; do
        train recipes/gpt2_nvfp4.lua "$device" 3 "$work/rerun" || return 1
        cat "$work/rerun/losses" "$work"/rerun/checkpoints/*/*.safetensors >"$work/state" ||
            return 1
        sha256sum <"$work/state" >>"$work/sums"
        rm -rf "$work/rerun" "$work/state"
        run=$((run + 1))
    done
    sort "$work/sums" | uniq -c
    [ "$(sort -u "$work/sums" | wc -l)" -eq 1 ] || {
        echo "training again gave other bits"
        return 1
    }
    echo "training $times times gave the same bits"
}

# ---- all of them ----

# part NUMBER NAME SECONDS: runs it within its time. The last line of what it says is its
# result. Status 77 is a part that cannot run, which is not green either.
part() {
    began=$(date +%s) file=$out/$1_$2.txt
    timeout -k 5 "$3" sh "$script" "$out" "$build" "$1" >"$file" 2>&1
    status=$?
    case $status in
    0) verdict=ok ;;
    77) verdict='not run' ;;
    124 | 137)
        verdict=FAILED
        echo "stopped after $3 s" >>"$file"
        ;;
    *) verdict=FAILED ;;
    esac
    [ "$status" -eq 0 ] || failed=1
    printf '%-14s %-8s %3d s  %s\n' "$2" "$verdict" $(($(date +%s) - began)) \
        "$(tail -n 1 "$file")" | tee -a "$out/summary.txt"
}

case ${3:-all} in
1) support ;;
2) conformance ;;
3) training ;;
4) speed ;;
5) sanitizer ;;
6) reruns ;;
all)
    "$tests/mpt_device_test" --module "$build" there >"$out/summary.txt" 2>&1
    [ $? -ne 77 ] || {
        cat "$out/summary.txt"
        exit 77
    }
    failed=0 whole=$(date +%s)
    part 1 support 60
    part 2 conformance 150
    part 3 training 120
    part 4 speed 90
    part 5 sanitizer 60
    part 6 reruns 100
    verdict='all green'
    [ $failed -eq 0 ] || verdict='NOT all green'
    echo "$verdict, after $(($(date +%s) - whole)) s" | tee -a "$out/summary.txt"
    exit $failed
    ;;
*)
    echo "$0: there are the parts 1 to 6, not $3"
    exit 2
    ;;
esac
