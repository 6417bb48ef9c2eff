#!/bin/sh
# mptrun eval: tokens from a file against PyTorch's numbers, figures of data, what is refused;
# and --inject, the drill of a run.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
ORACLE=$ROOT/tests/oracle

for model in gpt2 llama nemotron_h; do
    cat >$model.lua <<END
return recipe { version = 1, name = "$model", precision = presets.fp32,
  model = model.from_config "$ORACLE/$model/config.json",
  train = { steps = 2, batch = 4, sequence = 21, lr = constant { peak = 1e-3 } } }
END
    try eval $model.lua --weights "$ORACLE/$model/model.safetensors" \
        --tokens "$ORACLE/$model/forward.safetensors" --out $model.safetensors --grads
    want_status 0
    want_no_err
    want_out '2 rows of 29 tokens, 58 targets$'
    want_out '^loss 4\.[0-9]+ nats a token, [0-9.]+ bits; perplexity [0-9.]+; accuracy [0-9.]+ %$'
    grep -q '"logits":{"dtype":"F32","shape":\[2,29,96\]' $model.safetensors ||
        wrong "no logits in the file"
    grep -q '"loss":{"dtype":"F32","shape":\[1\]' $model.safetensors || wrong "no loss in the file"
done
grep -q '"transformer\.h\.1\.mlp\.c_fc\.weight":{"dtype":"F32","shape":\[32,128\]' gpt2.safetensors ||
    wrong "GPT-2's gradients have another name or shape"
grep -q '"model\.layers\.3\.mixer\.k_proj\.weight":{"dtype":"F32","shape":\[16,32\]' \
    nemotron_h.safetensors || wrong "the parts of a fused layer are not apart"

W=$ORACLE/gpt2/model.safetensors
T=$ORACLE/gpt2/forward.safetensors
try eval gpt2.lua --weights "$W" --tokens "$T" --out o.safetensors --json --device ref
want_status 0
want_out '"windows": 2, "tokens": 58, "loss": 4\.66[0-9]+, "bits_per_token": 6\.[0-9]+,'
if grep -q c_fc o.safetensors; then wrong "gradients that nobody asked for"; fi

# ---- a run's last weights give the loss that it ended with ----

recipe small.lua
try run small.lua --out run --set train.sequence=32
want_status 0
ended=$(sed -n 's/.*validation loss \([0-9.]*\) nats.*/\1/p' out)
try eval small.lua --weights run/checkpoints/step-3 --set train.sequence=32
want_status 0
want_out "^loss $ended nats a token"
want_out '^validation part of synthetic'
printf 'too short' >short.txt
try eval small.lua --weights run/checkpoints/step-3 --data short.txt
want_status 1

# ---- the command line ----

try eval small.lua
want_status 2
want_err 'eval of which weights'
try eval small.lua --weights "$W" --tokens "$T"
want_status 2
want_err 'eval --tokens where to'
for lone in '--out o.safetensors' --grads; do
    # shellcheck disable=SC2086 # a list of words
    try eval small.lua --weights "$W" $lone
    want_status 2
    want_err 'takes --tokens FILE beside it'
done
try eval small.lua --weights "$W" --tokens "$T" --out o.safetensors --data short.txt
want_status 2
try eval small.lua --weights "$W" --device cuda
want_status 4

# ---- token files ----

# bad FILE JSON TEXT: a file with this header and 48 zero bytes is refused in these words.
bad() {
    printf '%048d' 0 | tr 0 '\000' | head -c "$4" | stored "$1" "$2"
    try eval gpt2.lua --weights "$W" --tokens "$1" --out bad.out
    want_status 1
    want_no_out
    want_err "^$1: $3"
    [ ! -e bad.out ] || wrong "an output is left"
}
bad t.st '{"x":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}}' 'has no tensor tokens; a file' 24
bad t.st '{"tokens":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}' 'tokens are F32, not I32 or I64' 24
bad t.st '{"tokens":{"dtype":"I64","shape":[3],"data_offsets":[0,24]}}' 'tokens are \[3\]' 24
bad t.st '{"tokens":{"dtype":"I32","shape":[6],"data_offsets":[0,24]}}' 'tokens are \[6\]' 24
bad t.st '{"tokens":{"dtype":"I32","shape":[0,3],"data_offsets":[0,0]}}' 'tokens are \[0, 3\]: there is no token' 0
bad t.st '{"tokens":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}}' 'tokens are \[2, 3\], and there are no targets' 24
bad t.st '{"tokens":{"dtype":"I32","shape":[2,1,3],"data_offsets":[0,24]}}' 'tokens are \[2, 1, 3\], more than one micro-batch' 24
bad t.st '{"tokens":{"dtype":"I32","shape":[1,6,1],"data_offsets":[0,24]}}' 'tokens are \[1, 6, 1\], and a row of one' 24
bad t.st '{"targets":{"dtype":"F32","shape":[2,3],"data_offsets":[24,48]},"tokens":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}}' 'targets are F32' 48
bad t.st '{"targets":{"dtype":"I32","shape":[3,2],"data_offsets":[24,48]},"tokens":{"dtype":"I32","shape":[2,3],"data_offsets":[0,24]}}' 'targets are \[3, 2\], not of the shape of tokens' 48
printf 'no tensors' >t.st
try eval gpt2.lua --weights "$W" --tokens t.st --out bad.out
want_status 1

# An id outside the model's table, and the form whose rows end in their target.
{ printf '\001\0\0\0\140\0\0\0\002\0\0\0'; } | stored t.st '{"tokens":{"dtype":"I32","shape":[1,1,3],"data_offsets":[0,12]}}'
try eval gpt2.lua --weights "$W" --tokens t.st --out bad.out
want_status 1
want_err '^t\.st: tokens\[0\]\[1\]: 96 is no token of this model; ids run from 0 to 95$'
[ ! -e bad.out ] || wrong "an output is left"
{ printf '\001\0\0\0\137\0\0\0\002\0\0\0'; } | stored t.st '{"tokens":{"dtype":"I32","shape":[1,1,3],"data_offsets":[0,12]}}'
try eval gpt2.lua --weights "$W" --tokens t.st --out row.st --grads
want_status 0
want_out '1 rows of 2 tokens, 2 targets'

# PyTorch's integers and its mask; all masked; an id past 32 bits.
{ printf '\001\0\0\0\0\0\0\0\002\0\0\0\0\0\0\0'; printf '\234\377\377\377\377\377\377\377\002\0\0\0\0\0\0\0'; } | stored t.st '{"targets":{"dtype":"I64","shape":[1,2],"data_offsets":[16,32]},"tokens":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]}}'
try eval gpt2.lua --weights "$W" --tokens t.st --out row.st --grads
want_status 0
want_out '1 rows of 2 tokens, 1 targets'
{ printf '\001\0\0\0\002\0\0\0'; printf '\234\377\377\377\377\377\377\377'; } | stored t.st '{"targets":{"dtype":"I32","shape":[1,2],"data_offsets":[8,16]},"tokens":{"dtype":"I32","shape":[1,2],"data_offsets":[0,8]}}'
try eval gpt2.lua --weights "$W" --tokens t.st --out bad.out --grads
want_status 1
want_err '^t\.st: all targets are masked'
[ ! -e bad.out ] || wrong "an output is left"
{ printf '\001\0\0\0\001\0\0\0'; printf '\002\0\0\0\0\0\0\0'; } | stored t.st '{"tokens":{"dtype":"I64","shape":[1,1,2],"data_offsets":[0,16]}}'
try eval gpt2.lua --weights "$W" --tokens t.st --out bad.out
want_status 1
want_err '^t\.st: tokens\[0\]\[0\]: '

# ---- a loss that is not finite ----

# Every weight of the head is 8.5e37: finite, but logits of them are not.
huge=huge.safetensors
cp run/checkpoints/step-3/model.safetensors $huge
header=$(($(od -An -tu4 -N4 $huge) + 8))
head=$(head -c "$header" $huge | sed -n 's/.*"lm_head.weight":{[^}]*"data_offsets":\[\([0-9,]*\)\].*/\1/p')
head -c $((${head#*,} - ${head%,*})) /dev/zero | tr '\0' '\176' |
    dd of=$huge bs=1 seek=$((header + ${head%,*})) conv=notrunc 2>dd.err
try eval small.lua --weights "$huge" --set train.sequence=32 --json
want_status 3
want_out '"loss": null, "bits_per_token": null, "perplexity": null'
want_err '^mptrun: the loss is not finite, first in window [0-9]+ of [0-9]+: '
try eval small.lua --weights "$huge" --set train.sequence=32
want_status 3
want_out '^loss (NaN|Inf)$'

# ---- phases: the precision that the run ended in ----

cat >phased.lua <<'END'
return recipe { version = 1, name = "phased", model = require "models.mlp" "tiny",
  precision = { rules = { rule { "linear", use = e2m1 } } },
  phases = { phase { "first" }, phase { "late", from = 0.5, rules = { rule { "linear", use = bf16 } } } },
  train = { steps = 3, batch = 2, sequence = 32, lr = constant { peak = 1e-3 } } }
END
try run phased.lua --out phased
want_status 0
ended=$(sed -n 's/.*validation loss \([0-9.]*\) nats.*/\1/p' out)
try eval phased.lua --weights phased/checkpoints/step-3
want_status 0
want_out "^in the precision of phase 'late'$"
want_out "^loss $ended nats a token"

# ---- weights and outputs ----

try eval gpt2.lua --weights none.safetensors --tokens "$T" --out bad.out
want_status 1
want_err 'none\.safetensors'
try eval llama.lua --weights "$W" --tokens "$T" --out bad.out
want_status 1
want_err 'transformer\.|model\.'
[ ! -e bad.out ] || wrong "an output is left"
echo 'my notes' >notes.txt
try eval gpt2.lua --weights "$W" --tokens "$T" --out notes.txt
want_status 1
want_err 'notes\.txt'
grep -q 'my notes' notes.txt || wrong "a file that is no safetensors was replaced"
cp "$W" w.safetensors
try eval gpt2.lua --weights w.safetensors --tokens "$T" --out w.safetensors
want_status 1
want_err 'among the weights'
cmp "$W" w.safetensors || wrong "the weights were replaced"
cp "$T" t.safetensors
try eval gpt2.lua --weights "$W" --tokens t.safetensors --out t.safetensors
want_status 1
want_err 'the tokens are read from it'
try eval gpt2.lua --weights "$W" --tokens "$T" --out none/o.safetensors
want_status 1

# ---- the drill ----

try run small.lua --out drill --quiet --inject grad:lm_head.weight=inf@1 \
    --inject weight:layers.0.up_proj.weight=1@2
want_status 0
want_err '^warning: step 1: a fault is injected: grad:lm_head\.weight=inf$'
want_err '^warning: step 1 skipped: Inf in the gradient of lm_head\.weight$'
want_err '^warning: step 2: a fault is injected: weight:layers\.0\.up_proj\.weight=1$'
grep -q '^{"event":"inject","step":1,"fault":"grad:lm_head\.weight=inf"}$' drill/metrics.jsonl ||
    wrong "the metrics do not tell of the fault"
grep -q '^{"event":"step","step":1,.*"skipped":true' drill/metrics.jsonl || wrong "nothing was skipped"
grep -q -- '--inject grad:lm_head\.weight=inf@1$' drill/recipe.lua || wrong "the recipe hides it"
try run small.lua --out other --inject grad:lm_hed.weight=inf@1
want_status 1
want_err "no parameter 'lm_hed.weight'; did you mean 'lm_head.weight'"
try run small.lua --out other --inject grad:lm_head.weight=inf@9
want_status 1
want_err "no step 9 in a run of 3"
try run small.lua --out other --inject grad:lm_head.weight=inf
want_status 2
want_err "is not PLACE:NAME=VALUE@STEP"
[ ! -e other ] || wrong "a refused run left a folder"
