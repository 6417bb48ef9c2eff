#!/bin/sh
# plan and check for a GPU that is not there, check as JSON, and what planning 12B costs.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# Where lines break depends on how long a recipe's path is: so it is the same in every checkout.
ln -s "$RECIPES" recipes
RECIPES=recipes
PLAN=$RECIPES/nvfp4_12b.lua

# ---- --target ----

try plan "$PLAN"
want_out '^memory on cpu in GB, each number in 4 bytes'
want_out '^hardware +native GEMMs out of 375: sm80 63, sm90 63, sm100 375; '
want_out '^warnings +none$'
try plan "$PLAN" --target sm90
want_status 0
want_no_err
want_out '^memory on sm90 in GB, operands packed'
want_out '^ +104 +104 +104 +bf16 +sm90 multiplies no fp4$'
want_out '^warning .*nvfp4_12b\.lua:[0-9]+: not-native: sm90 emulates 312 GEMMs, first$'
try plan "$PLAN" --target sm100
want_status 0
want_no_err
want_out '^warnings +none$'
if grep -q '^emulated' out; then wrong "sm100 emulates nothing of NVFP4"; fi

try plan "$PLAN" --device cuda
want_status 0
want_out '^memory on sm100 '
want_err '^mptrun: --device cuda stands for --target sm100 here'
try plan "$PLAN" --device cuda --target sm80
want_out '^memory on sm80 '
want_no_err
try check "$PLAN" --target sm80
want_status 0
want_out 'not-native: sm80 emulates 312 GEMMs'

# Kernels are here of this machine only: the plan of another GPU names it as what computes, and
# a dump that listed this machine's would say otherwise.
for stage in select run train; do
    try plan "$PLAN" --target sm90 --dump=$stage
    want_status 2
    want_err "^stage '$stage' is of kernels, and those of sm90 are not here; leave --target out"
    want_no_out
done
for stage in precise order plan; do
    try plan "$PLAN" --target sm90 --dump=$stage
    want_status 0
    if grep -qE '\b(cpu|ref)\.[a-z]' out; then wrong "a kernel of the CPU"; fi
done
try plan "$PLAN" --device cpu --dump=select
want_status 0
want_out '\bcpu\.'

# No line is wider than 100 columns, on any device.
for recipe in "$RECIPES"/*.lua; do
    for target in host sm80 sm90 sm100; do
        try plan "$recipe" --target $target
        want_status 0
        awk 'length > 100 { exit 1 }' out || wrong "a line is wider than 100 columns"
        if grep -q ' $' out; then wrong "a line ends in a space"; fi
        if grep -q "$(printf '\033')" out; then wrong "colours in a pipe"; fi
    done
done

# ---- JSON ----

if command -v jq >jq.txt; then
    try plan "$PLAN" --json --target sm100
    want_status 0
    jq -e '.target == "sm100" and .backend == "cuda" and .coverage.nvfp4 == 104 and
        (.bytes | [.master, .gradient, .optimizer, .working_weights, .activations, .workspace]
            | add) == .bytes.total and
        ([.layers[] | .fprop, .dgrad, .wgrad | .native] | all) and
        (.defaults | map(.path) | index("train.seed")) and .fallbacks == [] and
        .speedup_bound > 2.2 and .speedup_bound < 2.5' out >verdict.txt || wrong "the plan of sm100"
    jq -r .recipe_hash out >hash.txt
    try plan "$PLAN" --json --device ref
    jq -e --arg hash "$(cat hash.txt)" '.recipe_hash == $hash and .target == "host" and
        .backend == "ref" and ([.layers[].fprop.native] | any | not)' out >verdict.txt ||
        wrong "the plan of the host"
    recipe good.lua
    sed 's/nearest/naerest/' good.lua >typo.lua
    try check --json good.lua typo.lua --target sm80
    want_status 1
    want_no_err
    jq -e 'length == 2 and .[0].errors == [] and .[0].warnings[-1].name == "not-native" and
        (.[1].errors[0].where | endswith("typo.lua:7")) and .[1].warnings == []' out >verdict.txt ||
        wrong "check as JSON"
fi

# ---- time and memory ----

# The JSON is longer than a pipe holds, and made before its first byte is written: so the process
# waits at its peak while the other end reads no further. 0.5 s and 100 MB are the aim; a busy
# machine and one with more cores, whose runtime has more stacks, get some room.
mkfifo pipe
began=$(date +%s%N)
"$MPTRUN" plan "$PLAN" --json >pipe &
exec 3<pipe
head -c 1 <&3 >first.txt
took=$((($(date +%s%N) - began) / 1000000))
peak=$(sed -n 's/^VmHWM:[[:space:]]*\([0-9]*\) kB/\1/p' /proc/$!/status)
cat <&3 >rest.txt
exec 3<&-
tried="plan $PLAN --json: $took ms, $peak kB"
[ "$(wc -c <rest.txt)" -gt 100000 ] || wrong "the JSON is too short to wait for"
[ "$took" -lt 2000 ] || wrong "planning took too long"
[ "$peak" -lt 131072 ] || wrong "planning took too much memory"
