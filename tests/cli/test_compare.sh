#!/bin/sh
# mptrun compare and sweep: what is trained, what is told, exit statuses, bad input.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

small() { # small NAME PRECISION
    cat >"$1.lua" <<END
return derive(require "base", { name = "$1", precision = { rules = { $2 } } })
END
}
cat >base.lua <<'END'
local gpt2 = require "models.gpt2"
return recipe {
  version = 1, name = "base", model = gpt2 "tiny",
  train = { steps = 3, batch = 2, micro_batch = 2, sequence = 16, seed = 5,
            lr = constant { peak = 1e-3 } },
  allow = { "no-warmup", "all-fp4" },
}
END
small plain 'rule { "linear", use = bf16 }'
small small_nvfp4 'rule { "linear", use = nvfp4 }'
small fake_fp8 'rule { "linear", use = e4m3 }, rule { "linear", use = bf16 }'

# ---- compare ----

try compare plain.lua small_nvfp4.lua --seeds 2 --within 50% --out c --quiet
want_status 0
want_no_err
[ "$(head -n 1 out)" = "$(grep -o 'small_nvfp4 is within 50 % of plain ([-+0-9.]* % +- [0-9.]* %)' out)" ] ||
    wrong "the first line is no verdict"
want_out '^  plain +[0-9.]+ +base +- +0, 0\.0 %'
want_out '^note: noise is one standard deviation .* its own loss varies by [0-9.]+ %'
want_out '^  small_nvfp4 +[0-9a-f]{16}  [0-9a-f]{16}  nvfp4 [0-9.]+ %, bf16 [0-9.]+ %'
want_out '^report in c/compare.html$'
for folder in plain small_nvfp4; do
    for seed in 5 6; do
        for file in metrics.jsonl plan.json recipe.lua; do
            [ -s "c/$folder/seed-$seed/$file" ] || wrong "no c/$folder/seed-$seed/$file"
        done
    done
done
grep -q 'train.seed=6' c/plain/seed-6/recipe.lua || wrong "the folder does not say its seed"
grep -q '>small_nvfp4 is within 50 % of plain' c/compare.html || wrong "no verdict on the page"

# The same data in the same order from the same weights: an unchanged recipe differs by nothing.
cp plain.lua twin.lua
try compare plain.lua twin.lua --device cpu --out twin --quiet --json
want_status 0
want_out '"recipe": "plain-2"'
want_out '"relative_difference": 0\.0'
want_out '"quantized_gemms": 0'
want_out 'plain-2: has recipe hash, schedule and every loss of plain'
want_out '"device": "cpu"'

# Another learning rate has the same schedule, and computes something else.
sed 's/name = "plain"/name = "faster", train = { lr = constant { peak = 2e-3 } }/' plain.lua >faster.lua
try compare plain.lua faster.lua --out faster --quiet
want_status 0
want_out '^faster ends .* from plain, not of precision: train.lr.peak differs$'
want_out '^note: faster: compiles to the same schedule as plain; what differs is train.lr.peak \(0.001 in plain, 0.002 here\)$'
! grep -q 'every loss' out || wrong "another computation is told to be the same"

# The seed is that of the first recipe, which is said.
sed 's/name = "plain"/name = "seeded", train = { seed = 99 }/' plain.lua >seeded.lua
try compare plain.lua seeded.lua --out seeded --quiet
want_status 0
want_err 'note: seeded says train.seed = 99; it is trained with that of the first recipe, 5,'

# P45: counted, not read off the label.
try compare plain.lua fake_fp8.lua --out p45 --quiet
want_status 0
want_out '^note: fake_fp8: its name says fp8, but 0 quantized GEMMs ran: bf16 100\.0 %'
try compare plain.lua fake_fp8.lua --out p45b --quiet --within 50%
want_status 3
want_out '^fake_fp8 is within 50 % of plain .*, but 0 quantized GEMMs ran$'

# Beyond the bound, and a recipe that diverges.
cat >wild.lua <<'END'
return derive(require "base", { name = "wild", train = { lr = constant { peak = 1000 }, clip = 0 } })
END
try compare plain.lua wild.lua --within 1% --out wild --quiet
want_status 3
want_out '^wild (is not within 1 % of plain|broke off)'
want_err 'note: train.lr.peak differs, too: 0.001 in plain, 1,000 in wild'

# ---- run folders, which are read and not trained ----

try compare c/plain/seed-5 c/small_nvfp4/seed-6 c/small_nvfp4/seed-5 c/plain/seed-6 --within 50% --out f
want_status 0
want_no_err
[ "$(head -n 1 out)" = "$(grep -o 'small_nvfp4 is within 50 % of plain ([-+0-9.]* % +- [0-9.]* %)' out)" ] ||
    wrong "the first line is no verdict"
try report f
want_status 0
want_out '^report in f/compare.html$'
try compare c/plain/seed-5 small_nvfp4.lua
want_status 2
want_err 'not both'
want_err '^mptrun: small_nvfp4.lua is a file, so a recipe$'
try compare c/plain/seed-5 nope
want_status 2
want_err '^mptrun: c/plain/seed-5 is a folder$'
want_err '^mptrun: nope does not exist$'
try compare c/plain/seed-5 c/plain/seed-6 --seeds 2
want_status 2
want_err '--seeds changes nothing in run folders'
mkdir empty
try compare c/plain/seed-5 empty
want_status 1
want_err 'empty/plan.json'
try compare c/plain/seed-5 wild/wild/seed-5 --out f
want_status 2
want_err 'f is not empty'

# On two devices: each is told, and nothing is claimed to be the same.
for device in cpu ref; do
    try plain.lua --device $device --out on-$device --quiet
    want_status 0
done
try compare on-cpu on-ref --out devices
want_status 0
want_out "on-ref ends .* from .*on-cpu, not of precision: the device differs\$"
want_out 'MB  ref$'
want_out 'what differs is the device \(cpu in .*on-cpu, ref here\)$'
grep -q 'what differs is the device' devices/compare.html || wrong "the page does not tell it"

# ---- compare: bad input ----

try compare plain.lua
want_status 2
want_err 'which recipes'
try compare plain.lua nothing.lua
want_status 1
want_err 'nothing.lua: No such file'
try compare plain.lua small_nvfp4.lua --within much
want_status 2
want_err "'much' is not a share from 0 to 1, such as 1% or 0.01"
try compare plain.lua small_nvfp4.lua --within 101%
want_status 2
try compare plain.lua small_nvfp4.lua --seeds 0
want_status 2
try compare plain.lua "$RECIPES/gpt2_fp8.lua"
want_status 1
want_err 'cannot be compared with .*, or set it for both by --set train.batch='
echo 'return derive(require "base", { model = require "models.mlp" "tiny" })' >model.lua
try compare plain.lua model.lua
want_status 1
want_err 'model: .* cannot be compared with .* derive both from one recipe, which says the model'
! grep -q -- '--set' err || wrong "a model cannot be set"
try compare plain.lua small_nvfp4.lua --device cuda
want_status 4
try compare plain.lua small_nvfp4.lua --out c
want_status 2
want_err 'c is not empty'
for command in compare sweep; do
    try $command plain.lua small_nvfp4.lua --each-layer
    [ "$status" -eq 2 ] || wrong "wanted status 2"
done
[ ! -e runs ] || wrong "a refused comparison left a folder"

# ---- sweep ----

try sweep small_nvfp4.lua --each-gemm --out s
want_status 0
want_out '^  everything +[0-9.]+ '
want_out '^  (fprop|dgrad|wgrad) +[0-9.]+ '
want_err '5 runs; the first one tells how long they take'
want_err '4 more runs, about [0-9]+ s'
grep -q 'precision.lift=wgrad' s/wgrad/seed-5/recipe.lua || wrong "the folder does not say its lift"
grep -q '"a":"bf16","b":"bf16","quantized":false' s/everything/seed-5/metrics.jsonl ||
    wrong "everything is not in BF16"
! grep -q '"quantized":true' s/everything/seed-5/metrics.jsonl || wrong "everything is quantized"
want_out 'one seed cannot tell what of this is noise$'
try sweep small_nvfp4.lua --each-gemm --set train.lr.peak=1e6 --set train.clip=0 --set train.steps=60 \
    --out broken --quiet
want_status 3
want_out '^the sweep of small_nvfp4 ranks nothing: small_nvfp4 broke off after [0-9]+ of 60 steps, everything'

# A recipe of a run folder that was run with more than it says.
try s/wgrad/seed-5/recipe.lua --out again --quiet
want_status 0
want_err 'do nothing; the same again is .*recipe.lua --set precision.lift=wgrad --set train.seed=5$'
try s/wgrad/seed-5/recipe.lua --set precision.lift=wgrad --seed 5 --out again2 --quiet
want_status 0
want_no_err
try sweep fake_fp8.lua --each-layer
want_status 1
want_err 'nothing is quantized, so there is nothing to lift'
try sweep small_nvfp4.lua
want_status 2
want_err 'sweep over what'
try sweep small_nvfp4.lua --each-layer --within 1%
want_status 2
[ ! -e runs ] || wrong "a refused sweep left a folder"

# ---- interrupted: what is done stays, and is told ----

"$MPTRUN" compare plain.lua small_nvfp4.lua --set train.steps=100000 --out i >out 2>err &
pid=$!
tries=0
until [ -s i/plain/seed-5/timing.jsonl ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || wrong "no step within a minute"
    sleep 0.1
done
kill -TERM $pid
status=0
wait $pid || status=$?
want_status 0
want_out '^plain was ended after [0-9]+ of 100000 steps; small_nvfp4 was not begun$'
want_out '^no run ended after its 100000 steps with a loss'
want_err 'stopped early, in run 1 of 2'
want_err 'mptrun resume i/plain/seed-5 finishes that one, mptrun report i then'
[ -s i/compare.html ] || wrong "no report of what was done"

# ---- killed: the page can be made of what is there ----

"$MPTRUN" compare plain.lua small_nvfp4.lua --set train.steps=100000 --out k --quiet >out 2>err &
pid=$!
tries=0
until [ -s k/plain/seed-5/timing.jsonl ]; do
    tries=$((tries + 1))
    [ $tries -lt 600 ] || wrong "no step within a minute"
    sleep 0.1
done
kill -KILL $pid
wait $pid || true
[ ! -e k/compare.html ] || wrong "a page of a comparison that was killed"
try report k
want_status 0
want_out '^plain broke off after [0-9]+ steps; small_nvfp4 was not begun$'
want_out '^report in k/compare.html$'
[ -s k/compare.html ] || wrong "no page"
echo '{' >k/compare.json
try report k
want_status 1
want_err 'k/compare.json: not JSON'
