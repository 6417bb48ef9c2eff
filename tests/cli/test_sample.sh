#!/bin/sh
# mptrun sample: text from a run folder or from weights, what is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

mkdir -p project/models project/gpt
cat >project/models/mine.lua <<'END'
return require "models.gpt2" { n_layer = 1, n_embd = 16, n_head = 2, n_positions = 16 }
END
cat >project/gpt/config.json <<'END'
{"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 16}
END
cat >project/text.lua <<'END'
return recipe {
  version = 1, name = "text",
  model = model.from_config "gpt", proxy = require "models.mine",
  data = text "corpus.txt",
  train = { steps = 500, batch = 4, sequence = 16, optimizer = adamw {},
    lr = constant { peak = 1e-2 } },
}
END
for _ in 1 2 3 4 5 6 7 8; do cat "$ROOT/README.md"; done >project/corpus.txt
try project/text.lua --out run --model proxy --set train.steps=20 --seed 3 --quiet
want_status 0
for file in models/gpt2.lua models/mine.lua gpt/config.json; do
    [ -s "run/$file" ] || wrong "the run folder lacks $file"
done
grep -qx -- '--   --model proxy' run/recipe.lua || wrong "recipe.lua does not tell the proxy"

# The prompt and as many bytes, the same each time, by any number of threads.
try sample run --prompt 'The ' --tokens 40
want_status 0
want_err '^mptrun: gpt2 custom, weights of run/checkpoints/step-20$'
grep -q '^The ' out || wrong "the prompt is not there"
[ "$(wc -c <out)" -eq 44 ] || wrong "wanted 44 bytes"
cp out first
for how in '--threads 1' '--seed 0' '--top-k 256 --quiet' '--device ref'; do
    # shellcheck disable=SC2086 # a list of words
    try sample run --prompt 'The ' --tokens 40 $how
    want_status 0
    cmp out first || wrong "another text with $how"
done
want_err 'weights of'
try sample run --prompt 'The ' --tokens 40 --seed 1
if cmp -s out first; then wrong "the seed changes nothing"; fi
try sample run --prompt 'The ' --tokens 40 --temperature 0 --quiet
want_no_err
cp out greedy
try sample run --prompt 'The ' --tokens 40 --top-k 1
cmp out greedy || wrong "one byte to choose from is not the most probable"
try sample run --prompt 'a prompt that is longer than the window of sixteen The ' --tokens 1
want_status 0
try sample run --tokens 5 --prompt ''
want_status 0
[ "$(wc -c <out)" -eq 5 ] || wrong "wanted 5 bytes"

# The folder stands by itself: recipe, models and data may go.
mkdir elsewhere
cp -R run elsewhere/moved
mv project gone
try sample elsewhere/moved --prompt 'The ' --tokens 40
want_status 0
want_err 'the data of the run is not there'
cmp out first || wrong "the moved folder draws another text"
try sample gone/text.lua --weights run/checkpoints/step-20 --model proxy --prompt 'The ' \
    --tokens 40
want_status 0
cmp out first || wrong "the recipe with weights draws another text"

# What is refused.
try sample gone/text.lua
want_status 2
want_err 'name its --weights, or a run folder'
try sample gone/nowhere
want_status 1
want_err '^mptrun: gone/nowhere: No such file or directory; name a run folder'
ln -s loop loop
try sample loop
want_status 1
want_err '^mptrun: loop: Too many levels'
try sample run/checkpoints/step-20/model.safetensors
want_status 1
want_err 'is no run folder and no recipe'
try sample gone/text.lua --weights run --model proxy
want_status 1
want_err 'it is a run folder: name its weights, run/checkpoints/step-N$'
try sample
want_status 2
want_err 'which run folder, or which recipe\?'
try sample run --tokens x
want_status 2
want_err '--tokens wants a number of bytes'
try sample run --temperature -1
want_status 2
want_err "--temperature: '-1' is not a number of 0 or more"
try sample run --top-k 0
want_status 2
try sample run --json
want_status 2
try sample elsewhere
want_status 1
want_err 'elsewhere/recipe.lua: no such file: a run folder has the recipe that was run'
rm -r elsewhere/moved/checkpoints
try sample elsewhere/moved
want_status 1
want_err 'has no checkpoints/step-N with weights'
mkdir -p elsewhere/moved/checkpoints/step-3
printf 'damaged' >elsewhere/moved/checkpoints/step-3/model.safetensors
try sample elsewhere/moved
want_status 1
want_no_out

# The examples as they stand in the help: a vocabulary that the data gives.
cp gone/corpus.txt corpus.txt
try "$RECIPES/gpt2_base.lua" --data corpus.txt --out bytes --quiet --set train.steps=1 \
    --set train.batch=1 --set train.micro_batch=1 --set train.sequence=16
want_status 0
for command in 'sample --tokens 3' 'export --out gpt2.bin' 'eval --set train.sequence=16'; do
    # shellcheck disable=SC2086 # a list of words
    try ${command%% *} "$RECIPES/gpt2_base.lua" --weights bytes/checkpoints/step-1 ${command#* } \
        --data corpus.txt
    want_status 0
    # shellcheck disable=SC2086 # a list of words
    try ${command%% *} "$RECIPES/gpt2_base.lua" --weights bytes/checkpoints/step-1 ${command#* }
    want_status 1
    want_err 'wte.weight \[256, 128\], expected \[128, 128\]; the vocabulary of 128 words comes from the data'
    want_err 'by --data or data = '
done

# A model of words is none of bytes.
recipe words.lua
try words.lua --out words --quiet
want_status 0
try sample words
want_status 1
want_err 'the vocabulary has 128 words, and is not the 256 bytes'
