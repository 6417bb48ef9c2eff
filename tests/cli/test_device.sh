#!/bin/sh
# --device: what is said where there is no GPU, and that nothing is opened that nobody asked for.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
try --list-devices
want_status 0
want_no_err
want_out '^ref +- +the definition'
want_out '^cpu +(yes|-) +OpenMP and oneDNN'
want_out '^cuda +(yes|-) +'
gpu=no
if grep -q '^cuda *yes' out; then gpu=yes; fi

# ---- --device cuda without a GPU: one sentence, status 4, and nothing is there afterwards ----

if [ $gpu = no ]; then
    why=$(sed -n 's/^cuda *- *none: //p' out)
    [ -n "$why" ] || wrong 'the list does not say what is missing'
    "$MPTRUN" small.lua --quiet --device cpu --out past >out 2>err
    "$MPTRUN" small.lua --quiet --device cpu --out weights --set train.checkpoint.every=3 >out 2>err
    find . | sort | grep -vxF ./before.txt >before.txt
    for words in small.lua "bench small.lua" "compare small.lua small.lua" \
        "sweep small.lua --each-gemm" "eval small.lua --weights weights/checkpoints/step-3" \
        "sample weights" "plan small.lua --target host" "plan small.lua --dump=select"; do
        # shellcheck disable=SC2086 # a list of words
        try $words --device cuda
        want_status 4
        want_err "^no CUDA device: .*; compute on the CPU with --device cpu, or with --device auto"
        grep -qF -- "$why" err || wrong "another reason than that of --list-devices"
        [ "$(wc -l <err)" -eq 1 ] || wrong "more than one sentence"
        want_no_out
        find . | sort | grep -vxF -e ./before.txt -e ./after.txt >after.txt
        cmp -s after.txt before.txt || wrong "something was written"
    done

    # plan and check need no GPU.
    for command in plan check; do
        try $command small.lua --device cuda
        want_status 0
        want_err '^mptrun: --device cuda stands for --target sm100 here, as there is no CUDA device: '
        grep -qF -- "$why" err || wrong "another reason than that of --list-devices"
        try $command small.lua --device cuda --target sm90
        want_status 0
        want_no_err
    done
    try plan small.lua --device cuda
    want_out '^memory on sm100 '
fi
# What computes on no device takes none.
for words in "export small.lua --out w.safetensors" "explain small.lua norm" "diff small.lua small.lua"; do
    for device in auto cpu cuda; do
        # shellcheck disable=SC2086 # a list of words
        try $words --device $device
        want_status 2
        want_err "^mptrun: '${words%% *}' takes no --device; see mptrun help ${words%% *}$"
        try help "${words%% *}"
        if grep -q cuda out; then wrong "help speaks of cuda"; fi
    done
done
# The tools work on the CPU, whatever there is.
try quantize e4m3 in.safetensors out.safetensors --device cuda
want_status 2
want_err "^mptrun: 'quantize' computes on ref and cpu only; leave --device cuda out$"
try small.lua --device gpu
want_status 2
want_err "auto, ref, cpu"

# ---- auto, beside a module that cannot compute: one line, and the CPU ----

mkdir bin
cp "$MPTRUN" bin/mptrun
echo 'no library' >bin/libmpt_cuda.so
beside() {
    tried="$* (beside a module that is none)"
    status=0
    bin/mptrun "$@" >out 2>err || status=$?
}
# A fall back is a warning: --quiet does not hide it.
fell_back() {
    want_status 0
    [ "$(grep -cE '^mptrun: warning: the device is the CPU: (the NVIDIA driver is not installed|.*libmpt_cuda.so is no shared library )' err)" \
        -eq 1 ] || wrong "one line says that it is the CPU, and why"
}
beside small.lua --out auto
fell_back
want_out 's of training on cpu$'
grep -q '"backend": *"cpu"' auto/plan.json || wrong "the plan names the backend"
beside small.lua --quiet --out auto_quiet
fell_back
want_out 's of training on cpu$'
beside plan small.lua
fell_back
beside bench small.lua --steps 1
fell_back
beside compare small.lua small.lua --quiet --out both
fell_back
beside sweep small.lua --each-gemm --quiet --out sweep
fell_back
beside small.lua --quiet --device cpu --out weights --set train.checkpoint.every=3
beside eval small.lua --quiet --weights weights/checkpoints/step-3
fell_back
beside small.lua --quiet --device cpu --data "$ROOT/README.md" --out bytes --set train.checkpoint.every=3
beside sample bytes --quiet --tokens 3
fell_back
beside small.lua --device cpu --out cpu
want_status 0
if grep -q 'the device is the CPU' err; then wrong "the CPU was asked for"; fi
cmp -s auto/metrics.jsonl cpu/metrics.jsonl || wrong "auto computed otherwise than the CPU"
beside small.lua --device ref --quiet --out ref
want_out 's of training on ref$'
beside small.lua --device cuda
want_status 4

# ---- nobody opens a module that nobody asked for ----

opened() {
    # shellcheck disable=SC2086 # a list of words
    LD_DEBUG=files bin/mptrun $1 >out 2>err || :
    tried=$1
    grep -q 'libc\.so' err || exit 77 # another loader, which does not say what it opens
    grep -qE 'libmpt_cuda|libcuda|libcublas' err
}
printf 'some text, some text, some text' >text
stored in.safetensors '{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}}' <text
for words in "plan small.lua" "check small.lua --device cuda" "small.lua --out opens" --list-devices; do
    opened "$words" || wrong "the device was to be looked for"
done
for words in --version --help --list-ops --list-formats --list-types --help-recipe "help export" \
    "plan small.lua --device cpu" "plan small.lua --target sm90" \
    "plan small.lua --target sm80 --device cuda --json" "plan small.lua --target sm100 --schedule" \
    "check small.lua" "check small.lua --target sm80 --json" "check small.lua --device cuda --target sm90" \
    "explain small.lua norm" "diff small.lua small.lua" "small.lua --device ref --out opens_not" \
    "export small.lua --out w.safetensors" "quantize e4m3 in.safetensors out.safetensors" \
    "probe in.safetensors" "tokens text" "report auto" "bench --quantizers --rows 16 --cols 64" \
    "compare auto cpu --out runs_as_they_are" "resume auto"; do
    if opened "$words"; then wrong "a module was looked for"; fi
done
