#!/bin/sh
# plan: the 12B model in figures, the schedule, the dumps.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

try plan "$RECIPES/nvfp4_12b.lua"
want_status 0
want_no_err
want_out '12,310,001,152 parameters, 62 blocks, 124 linear layers'
want_out '^ +nvfp4 +104 +83\.9 %'
want_out '^ +bf16 +20 +16\.1 %'
want_out 'four_bit'
want_out 'settle'
awk 'length > 100 { exit 1 }' out || wrong "a line is wider than 100 columns"
[ "$(wc -l <out)" -le 60 ] || wrong "the plan is longer than 60 lines"

try plan "$RECIPES/nvfp4_12b.lua" --json
want_status 0
want_no_err
want_out '"parameters": 12310001152'

# One step a line: number, pass, layer, op, formats, shapes, recipe line.
try plan "$RECIPES/gpt2_nvfp4.lua" --schedule
want_status 0
want_out '^ *step +pass +layer +op +formats +shapes +recipe'
want_out '^ *[0-9]+ +forward +h\.0\.[a-z_.]+ +linear +.* -> .* +gpt2_[a-z0-9_]+\.lua:[0-9]+$|^ *[0-9]+ +forward +h\.0\.[a-z_.]+ +linear +.* -> .*\.lua:[0-9]+$'
want_out '^ *[0-9]+ +backward +.* linear_wgrad '
want_out 'quantize .*nvfp4 1x16'
try plan "$RECIPES/gpt2_nvfp4.lua" --schedule --json
want_status 0
want_out '"op": "quantize"'

for stage in load freeze check grad precise select order plan; do
    try plan "$RECIPES/gpt2_fp8.lua" "--dump=$stage"
    want_status 0
    [ -s out ] || wrong "the dump of $stage is empty"
done

# The same plan each time, whatever the machine.
try plan "$RECIPES/gpt2_fp8.lua" --json --threads 1
cp out first
try plan "$RECIPES/gpt2_fp8.lua" --json --threads 1
cmp -s out first || wrong "two plans of one recipe differ"

# A phase that begins after the run's end has no step, and what is said of formats is said of
# the first phase that has one. Counts of one are singular.
phases() { # FILE FROM: phases a, in e4m3, and b, in nvfp4 as the head is, of 1000 steps
    cat >"$1" <<END
local mlp = require "models.mlp"
return recipe {
  version = 1,
  name = "phases",
  model = mlp { layers = 1, width = 32, hidden = 64 },
  precision = {
    rules = { rule { "linear", use = e4m3 }, rule { "head", use = nvfp4 } },
  },
  phases = {
    phase { "a" },
    phase { "b", from = $2, rules = { rule { "linear", use = nvfp4 } } },
  },
  train = { steps = 1000, batch = 2, sequence = 16, lr = constant { peak = 1e-3 } },
}
END
}
phases late.lua 5000
try plan late.lua
want_status 0
want_out '^ +a +0 +1,000 '
want_out '^ +b +1,000 +0 '
want_out ' 1 block, 2 linear layers'
want_out '^elsewhere .*head nvfp4$'
try plan late.lua --set train.steps=1
want_out '^training +1 step of 2 x 16 '
try plan late.lua --json
tr -d ' \n' <out >flat
grep -q '"name":"a","from":0,.*"steps":1000,.*"name":"b","from":1000,.*"steps":0,' flat ||
    wrong "the lengths of the phases"
grep -q '"linear_layers":2,"coverage":{"e4m3":2},' flat || wrong "coverage is not that of phase a"
phases early.lua 0.0001
try plan early.lua
want_status 0
want_out '^ +a +0 +0 '
want_out '^ +b +0 +1,000 '
want_out '^linear layers by format, in the first phase that runs$'
want_out '^ +nvfp4 +2 '
try plan early.lua --json
tr -d ' \n' <out >flat
grep -q '"linear_layers":2,"coverage":{"nvfp4":2},' flat || wrong "coverage is not that of phase b"

# A preset from the command line takes the place of the recipe's precision; it has no line.
recipe preset.lua
try check preset.lua --set precision=nvfp4
want_status 0
want_out '^preset.lua: presets.nvfp4: warning: all-fp4: '
try plan preset.lua --set precision=tf32
want_status 0
want_out '^  tf32 +4 +100.0 %'
try plan preset.lua --set precision=nvpf4
want_status 1
want_err "precision: no preset 'nvpf4'; did you mean 'nvfp4'\\?"

# The README shows this plan, whole.
try plan "$RECIPES/nvfp4_12b.lua"
want_status 0
sed -n '/^nvfp4_12b: nemotron_h 12b$/,/^recipe hash/p' "$ROOT/README.md" >shown
cmp -s shown out || wrong "the README shows another plan"

# What is saved, watched and counted is shown with the values that hold, set or not: a field that
# is set hides none beside it.
recipe small.lua
try plan small.lua --set train.steps=60 --set train.checkpoint.every=7 --set train.telemetry.every=3 \
    --set train.watch.nonfinite=stop
want_status 0
want_out '^checkpoint  every=7 \(set\), keep=2 \(default\): 9 checkpoints, the last at the end$'
want_out '^watch       nonfinite=stop \(set\), max_skips=20 spike.action=warn spike.window=128 spike.z=24$'
want_out '^telemetry   every=3 \(set\): operands are counted every 3 steps, 20 times$'
try plan small.lua
want_out '^checkpoint  every=0 keep=2 \(default\): 1 checkpoint, at the end$'
want_out '^watch       nonfinite=skip max_skips=20 spike.action=warn spike.window=128 spike.z=24 \(default\)$'
want_out '^telemetry   every=0 \(default\): operands are counted every 10 steps, 1 time$'

# ---- the manual page and the plan as JSON ----

# What the page tells of the JSON is what the JSON has, over recipes that show all of it: each name
# in italics there is a key, and each key is told. Formats, and fields of recipes, are names of
# their own.
cat >keys.lua <<'END'
return derive(require "gpt2_base", { name = "keys",
  precision = { rules = { rule { "linear", use = gemm { activation = mxfp8 { pad = "bf16" },
    weight = e4m3 { scale = delayed { history = 4 } }, gradient = e4m3 } } } },
  train = { batch = 3, micro_batch = 3, sequence = 9, eval = { use = bf16 } } })
END
cp "$RECIPES"/gpt2_*.lua .
: >json
for how in 'keys.lua --target sm100' "$RECIPES/gpt2_nvfp4_te.lua" "$RECIPES/gpt2_fp8_warmup.lua"; do
    # shellcheck disable=SC2086
    try plan $how --json
    want_status 0
    cat out >>json
done
{ "$MPTRUN" --list-formats | awk '{ print $1 }'; echo i32; } | sort -u >formats
grep -oE '^ *"[a-z][A-Za-z0-9_]*":|[{,] *"[a-z][A-Za-z0-9_]*":' json | tr -cd 'A-Za-z0-9_\n' | sort -u |
    grep -vxF -f formats >keys
awk '/^\.Sh / { inside = /THE PLAN AS JSON/; next }
    inside && /^\./ {
        name = 0
        for (i = 1; i <= NF; i++) {
            word = $i
            sub(/^\./, "", word)
            if (word == "Va") name = 1
            else if (word ~ /^[A-Z][a-z]$/) name = 0
            else if (name && word ~ /^[a-z][A-Za-z0-9_]*$/ && $i !~ /^\./) print word
        }
    }' "$ROOT/runtime/cli/mptrun.1" | sort -u >told
[ "$(wc -l <keys)" -ge 80 ] || wrong "few keys: the test sees too little"
diff keys told >differ || { cat differ; wrong "the manual page (>) and the JSON (<) have other keys"; }

# In the page, quotes hold one word each: mdoc makes one quotation of a list behind .Ql.
if grep -nE '(^\.|[ ])Ql [^ ]+ , [a-z]' "$ROOT/runtime/cli/mptrun.1"; then wrong "a quotation of a list"; fi
if grep -nE 'Ql .* No ' "$ROOT/runtime/cli/mptrun.1"; then wrong "a quotation that never ends"; fi
# Each command of the synopsis begins its own line.
awk '/^\.Sh / { inside = /SYNOPSIS/ } inside && /^\.Cm / && before !~ /^\.Nm/ { print; bad = 1 } { before = $0 }
    END { exit bad }' "$ROOT/runtime/cli/mptrun.1" || wrong "a command of the synopsis follows another"
