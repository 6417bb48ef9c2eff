# shellcheck shell=sh
# resume and kill -9: a run that is killed at a random moment, and killed again while it goes on, ends
# with the bytes of one that was left alone. Sourced behind lib.sh with KILLS, the number of
# moments for each of the recipes.

# NVFP4 with stochastic rounding and random signs, in the second of three phases. Saves are rare.
cat >four_bit.lua <<'END_OF_RECIPE'
local mlp = require "models.mlp"
local sr = nvfp4 { rounding = "stochastic" }
local four_bit = gemm { weight = nvfp4 { block = {16, 16} }, activation = nvfp4, gradient = sr,
  wgrad = { hadamard = hadamard { size = 16, signs = "random" } } }
return recipe {
  version = 1, name = "four_bit", model = mlp "tiny",
  precision = { rules = { rule { "linear", use = bf16 } } },
  phases = {
    phase { "start" },
    phase { "four", from = 0.2, rules = { rule { "linear", use = four_bit } } },
    phase { "forward", from = 0.8, rules = { rule { "linear", gemms = {"fprop"}, use = bf16 } } },
  },
  train = { steps = 60, batch = 2, sequence = 16, lr = cosine { peak = 1e-2, warmup = 5 },
    checkpoint = { every = 9 }, eval = { every = 7, batches = 2 } },
}
END_OF_RECIPE

# FP8 with amax histories under a dynamic loss scale that overflows now and then. Each step is
# saved, so that most kills come while a checkpoint is written, and the one before is removed.
cat >eight_bit.lua <<'END_OF_RECIPE'
local mlp = require "models.mlp"
local later = delayed { history = 16 }
return recipe {
  version = 1, name = "eight_bit", model = mlp "tiny",
  precision = {
    base = fp16,
    rules = { rule { "linear", use = gemm { weight = e4m3 { scale = later },
      activation = e4m3 { scale = later }, gradient = e5m2 { scale = later } } } },
    loss_scale = dynamic { init = 2^20, interval = 5 },
  },
  train = { steps = 40, batch = 2, sequence = 16, lr = constant { peak = 1e-2 },
    checkpoint = { every = 1, keep = 1 } },
}
END_OF_RECIPE

# A share of a second, from the stream of the test's seed.
SEED=${SEED:-$(date +%s)}
moment() {
    SEED=$(((SEED * 1103515245 + 12345) % 2147483648))
    awk -v n="$SEED" -v all="$1" 'BEGIN { printf "%.4f", all * n / 2147483648 }'
}

# killed SECONDS ARGUMENTS: 137 where the kill came in time, 0 where the run was faster, 124 where it
# ended by itself as the kill was on its way.
killed() {
    seconds=$1
    shift
    # shellcheck disable=SC2034 # the messages of lib.sh name it
    tried="$* (seed $first_seed, killed after $seconds s)"
    status=0
    timeout --foreground -s KILL "$seconds" "$MPTRUN" "$@" >out 2>err || status=$?
    case $status in 0 | 124 | 137) ;; *) wrong "neither killed nor done" ;; esac
}

now() { date +%s.%N; }

same() {
    cmp "whole-$1/metrics.jsonl" "$2/metrics.jsonl" || wrong "other metrics"
    last=$(cd "whole-$1/checkpoints" && printf '%s\n' step-* | sort -t- -k2n | tail -n 1)
    for file in model.safetensors state.safetensors checkpoint.json; do
        cmp "whole-$1/checkpoints/$last/$file" "$2/checkpoints/$last/$file" || wrong "other $file"
    done
    [ "$(ls "whole-$1/checkpoints")" = "$(ls "$2/checkpoints")" ] || wrong "other checkpoints"
}

kills() {
    began=$(now)
    try "$1.lua" --out "whole-$1" --quiet --threads 1
    want_status 0
    all=$(awk -v a="$began" -v b="$(now)" 'BEGIN { print b - a }')
    n=0
    in_time=0
    while [ $n -lt "$KILLS" ]; do
        n=$((n + 1))
        first_seed=$SEED
        killed "$(moment "$all")" "$1.lua" --out run --quiet --threads 1
        [ "$status" -eq 0 ] || in_time=$((in_time + 1))
        if [ -e run/recipe.lua ]; then
            moment "$all" >seconds # of a second kill, while the run goes on
            killed "$(cat seconds)" resume run --quiet --threads 2
            try resume run --quiet --threads 1
            want_status 0
        elif [ -e run ]; then # ended before it began: that is said, and nothing is lost
            try resume run --quiet
            want_status 1
            want_err 'recipe.lua: no such file'
            rm -r run
        fi
        [ -e run ] || try "$1.lua" --out run --quiet --threads 1
        want_status 0
        same "$1" run
        rm -r run
    done
    [ "$in_time" -gt 0 ] || wrong "no kill of $KILLS came in time"
}

kills four_bit
kills eight_bit
# The second recipe does what it is for.
grep -q '"event":"skip"' whole-eight_bit/metrics.jsonl || wrong "no step was skipped"
