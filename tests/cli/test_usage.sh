#!/bin/sh
# The command line: what is refused and how, help, version, lists, and the manual page.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

try
want_status 2
want_err 'which recipe\?'
want_no_out

try plna x.lua
want_status 2
want_err "no command 'plna'; did you mean 'plan'\?"
try help trian
want_status 2
want_err "no command 'trian'"

try --shcedule x.lua
want_status 2
want_err "no option '--shcedule'; did you mean '--schedule'\?"
try -z x.lua
want_status 2
want_err "no option '-z'"
try --json=3 plan x.lua
want_status 2
want_err '--json takes no value'
try plan x.lua --data
want_status 2
want_err '--data wants FILE'
try plan x.lua --data ''
want_status 2
want_err "--data: '' is not a name"

try x.lua --model ful
want_status 2
want_err "--model: no model 'ful' \(there are auto, full, proxy\); did you mean 'full'\?"
try x.lua --device gpu
want_status 2
want_err "no device 'gpu' \(there are auto, ref, cpu, cuda\); did you mean 'cuda'\?"
try plan x.lua --target sm91
want_status 2
want_err "no target 'sm91' \(there are host, sm80 \(A100, .*\), sm90 \(H100, .*\), sm100 \(B200, .*\)\); did you mean 'sm90'\?"

# meant OPTION RIGHT WORDS...: the words that people use lead to the right one, "-": to none.
meant() {
    option=$1 right=$2
    shift 2
    for word in "$@"; do
        try plan x.lua "--$option" "$word"
        want_status 2
        if [ "$right" = - ]; then
            want_err '\); see mptrun --help$'
        else
            want_err "; did you mean '$right'\?$"
        fi
    done
}
meant target sm80 a100 A100-SXM4-80GB 'NVIDIA A100' l40s 'RTX 4090' rtx3090 ampere ada 8.0 8.6 80 89 sm89 sm_86 compute_80 SM80
meant target sm90 h100 H100 H200 h100-80gb gh200 Hopper 9.0 90 sm_90 sm90a sm9 sm91
meant target sm100 b200 GB200 blackwell 10.0 10 100 sm_100 sm100a compute_100f
meant target host cpu local hosst
meant target - v100 t4 b300 rtx5090 mi300x 7.5 sm75 sm103 sm120 12.0 120 121a gpu cuda tpu x100 h1000 m4 '' 0 9999
meant device cuda gpu GPU gpus CUDA cuda:0 cuda1 gpu:0 nvidia cdua h100 'RTX 4090' sm90 9.0
meant device cpu CPU host cpuu
meant device ref reference reff
meant device auto any default auot
meant device - tpu npu xpu mps hip rocm amd metal v100 mi300x sm75 sm120 '' 0 90 xyz
for threads in 0 -1 two 1x 5000 ''; do
    try x.lua --threads "$threads"
    want_status 2
    want_err 'is not a whole number from 1 to 4096'
done
for seed in -1 x 1.5 '' 18446744073709551616; do
    try x.lua --seed "$seed"
    want_status 2
    want_err 'is not a whole number from 0 to 18446744073709551615'
done
for set in train.steps =3 ''; do
    try x.lua --set "$set"
    want_status 2
    want_err 'is not PATH=VALUE'
done
try x.lua --dump=presice
want_status 2
want_err "no stage 'presice' .*did you mean 'precise'\?"

try x.lua --dump=plan --until=grad
want_status 2
want_err 'until=grad ends before --dump=plan'

# An option that a command would ignore is refused.
try plan x.lua --out d
want_status 2
want_err "'plan' takes no --out; see mptrun help plan"
try x.lua --target sm90
want_status 2
want_err "'run' takes no --target"
try x.lua --schedule
want_status 2
try plan a.lua b.lua
want_status 2
want_err "takes one recipe, and 'b.lua' is a second one"

for words in --help help 'help plan' 'plan --help'; do
    # shellcheck disable=SC2086 # a list of words
    try $words
    want_status 0
    want_out '^usage:'
    want_out 'exit status:'
    want_no_err
done
try help plan
want_out '--schedule'
if grep -q -- '--quiet' out; then wrong "help plan speaks of run's options"; fi

try --version
want_status 0
want_out '^mptrun [0-9]+\.[0-9]+\.[0-9]+$'
try --list-ops
want_status 0
want_out '^linear_wgrad +.*ref\.'
try --list-formats
want_status 0
want_out '^nvfp4 +4 +e2m1 +1x16 +current +e4m3 +nearest +tensor'
want_out '^e4m3 +8 +4 +3 +448 +2\^-6 +2\^-9 +NaN +saturates'
try --list-types
want_status 0
"$MPTRUN" --list-types | diff - "$ROOT/lua/types/mpt.lua" || wrong 'lua/types/mpt.lua differs'
try --help-recipe
want_status 0
"$MPTRUN" --help-recipe | diff - "$ROOT/recipes/README.md" || wrong 'recipes/README.md differs'
try --help-recipe rounding
want_status 0
# shellcheck disable=SC2016 # the page quotes by backquotes
want_out '^\| `rounding` \|'
try --help-recipe roundng
want_status 2
want_err "no word 'roundng'; did you mean 'rounding'\?"
want_no_out
try --help-recipe rounding block
want_status 2
want_err "takes one word, and 'block' is a second one"
try --json --help-recipe
want_status 2
want_err "--help-recipe stands alone, and takes no --json"
for alone in version list-ops list-formats list-types; do
    try --$alone extra.lua
    want_status 2
    want_err "^mptrun: --$alone stands alone, and takes no 'extra.lua'; see mptrun --help$"
    want_no_out
    try --quiet --$alone
    want_status 2
    want_err "--$alone stands alone, and takes no --quiet"
done
if [ -e /dev/full ]; then
    tried='--list-ops >/dev/full'
    status=0
    "$MPTRUN" --list-ops >/dev/full 2>err || status=$?
    want_status 4
    want_err 'stdout could not be written'
fi

# Every option and stage of --help is in the manual page, and the other way round.
"$MPTRUN" --help >help
grep -oE -- '--[a-z-]+' help | sort -u >in_help
sed -n 's/^\.It .*Fl -\([a-z-]*\).*/--\1/p' "$ROOT/runtime/cli/mptrun.1" | sort -u >in_page
# The examples of --help add nothing of their own.
diff in_help in_page || wrong "--help (<) and mptrun.1 (>) differ in options"
stages=$(sed -n '/^stages/{n;p;}' help)
for stage in $stages; do
    grep -qw "$stage" "$ROOT/runtime/cli/mptrun.1" || wrong "mptrun.1 lacks the stage $stage"
done
