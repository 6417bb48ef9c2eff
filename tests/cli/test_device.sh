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
        "sample weights" "resume past"; do
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
    try plan small.lua --device cuda
    want_status 0
    want_out '^memory on sm100 '
    want_err '^mptrun: --device cuda stands for --target sm100 here'
    try check small.lua --device cuda --target sm90
    want_status 0
    want_no_err
fi
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
beside small.lua --out auto
want_status 0
[ "$(grep -cE '^mptrun: computes on the CPU: (the NVIDIA driver is not installed|.*libmpt_cuda.so: )' err)" \
    -eq 1 ] || wrong "one line says that it is the CPU, and why"
grep -q '"backend": *"cpu"' auto/plan.json || wrong "the plan names the backend"
beside small.lua --quiet --out auto_quiet
want_status 0
if grep -q 'computes on the CPU' err; then wrong "--quiet"; fi
beside small.lua --device cpu --out cpu
want_status 0
if grep -q 'computes on the CPU' err; then wrong "the CPU was asked for"; fi
cmp -s auto/metrics.jsonl cpu/metrics.jsonl || wrong "auto computed otherwise than the CPU"
beside small.lua --device cuda
want_status 4

# ---- nobody opens a module that nobody asked for ----

for words in --version --help --list-ops "plan small.lua --device cpu" "small.lua --device ref"; do
    # shellcheck disable=SC2086 # a list of words
    LD_DEBUG=files bin/mptrun $words >out 2>err || :
    tried=$words
    grep -q 'libc\.so' err || exit 77 # another loader, which does not say what it opens
    if grep -qE 'libmpt_cuda|libcuda|libcublas' err; then wrong "a module was looked for"; fi
done
