#!/bin/sh
# Weights from files and to them: what a run starts from and leaves, and export between formats.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
ORACLE=$ROOT/tests/oracle

# model FILE MODEL: a recipe of a model whose checkpoint is in tests/oracle.
model() {
    cat >"$1" <<END
return recipe {
  version = 1,
  name = "$1",
  model = $2,
  data = synthetic { vocab = 96 },
  train = { steps = 2, batch = 2, sequence = 16, lr = constant { peak = 1e-3 } },
}
END
}
model gpt2.lua 'require "models.gpt2" { n_layer = 2, n_embd = 32, n_head = 4, n_positions = 32,
    vocab_size = 96 }'

# From Python's bytes to llm.c's and back to Python's.
try export gpt2.lua --weights "$ORACLE/gpt2/model.safetensors" --out gpt2.bin
want_status 0
want_no_err
want_out '^gpt2.bin: gpt2 custom, 29568 parameters in fp32, .*/gpt2/model.safetensors$'
try export gpt2.lua --weights gpt2.bin --out gpt2.safetensors
want_status 0
cmp gpt2.safetensors "$ORACLE/gpt2/model.safetensors" || wrong "not the bytes of Python"
try export gpt2.lua --weights gpt2.bin --out narrow --dtype bf16
want_status 0
[ "$(wc -c <narrow/model.safetensors)" -lt 64000 ] || wrong "BF16 is not half as large"

# A run starts from a file or folder, and leaves its weights, which a run may start from again.
try gpt2.lua --weights narrow --quiet --out one
want_status 0
tail -n 1 out | grep -qx 'weights in one/checkpoints/step-2' || wrong "the last line is another"
[ -s one/checkpoints/step-2/model.safetensors ] || wrong "a run leaves no weights"
grep -qx -- '--   --weights narrow' one/recipe.lua || wrong "recipe.lua does not tell --weights"
try gpt2.lua --weights one/checkpoints/step-2 --quiet --out two
want_status 0
try gpt2.lua --weights narrow --quiet --out again
cmp one/checkpoints/step-2/model.safetensors again/checkpoints/step-2/model.safetensors ||
    wrong "two runs leave other weights"

# Initial weights are those of a run; the seed makes them.
try export gpt2.lua --seed 3 --out initial.safetensors
want_status 0
want_out ', initial values$'
try export gpt2.lua --seed 4 --out other.safetensors
cmp -s initial.safetensors other.safetensors && wrong "the seed changes nothing"

# Bad weights: exit 1, named, and no run folder.
try gpt2.lua --weights "$ORACLE/llama/model.safetensors" --quiet --out bad
want_status 1
want_err '/llama/model.safetensors: 27 tensors missing: .*wpe.weight.* and 19 more; 20 tensors that'
[ ! -e bad ] || wrong "bad weights left a run folder"
try gpt2.lua --weights nowhere --quiet --out bad
want_status 1
want_err '^nowhere: No such file or directory; '
try export gpt2.lua --weights "$ORACLE/llama/model.safetensors" --out bad.safetensors
want_status 1
[ ! -e bad.safetensors ] || wrong "a failed export left a file"

# The command line.
try export gpt2.lua
want_status 2
want_err 'mptrun: export where\? mptrun export gpt2.lua --out model.safetensors'
try export gpt2.lua --out x --dtype fp8
want_status 2
want_err "--dtype: no dtype 'fp8' \(there are fp32, bf16, fp16\)"
try plan gpt2.lua --weights narrow
want_status 2
try export gpt2.lua --out x.bin --dtype fp16
want_status 1
want_err '^x.bin: llm.c has no float16 checkpoints; write it as fp32 or bf16$'
try export gpt2.lua --out gpt2.lua/x.safetensors
want_status 1

# An output that is the input: refused, however it is named, and the input keeps its bytes.
mkdir folder
cp "$ORACLE/gpt2/model.safetensors" folder/model.safetensors
ln -s folder/model.safetensors link.safetensors
ln -s folder linked
cp gpt2.bin own.bin
for pair in 'folder folder' 'folder folder/model.safetensors' 'folder folder/new.safetensors' \
    'folder/model.safetensors folder' 'folder/model.safetensors link.safetensors' \
    'link.safetensors folder/model.safetensors' 'linked folder' 'link.safetensors folder' \
    'folder ./linked/model.safetensors' 'own.bin own.bin' 'own.bin ./own.bin'; do
    try export gpt2.lua --weights "${pair% *}" --out "${pair#* }"
    want_status 1
    want_no_out
    want_err 'is among the weights that are read from .*; name another output$'
    cmp folder/model.safetensors "$ORACLE/gpt2/model.safetensors" || wrong "the input was replaced"
    cmp own.bin gpt2.bin || wrong "the input was replaced"
    [ "$(ls folder)" = model.safetensors ] || wrong "a file lies among the weights"
done

# Weights of fewer layers: those of a proxy, it may be.
sed 's/n_layer = 2/n_layer = 1/' gpt2.lua >fewer.lua
try export fewer.lua --out fewer.safetensors
want_status 0
try export gpt2.lua --weights fewer.safetensors --out more.safetensors
want_status 1
want_err 'tensors missing: .*Those of its proxy are for --model proxy$'
