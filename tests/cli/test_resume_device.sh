#!/bin/sh
# The device that a checkpoint was saved on: a GPU that is not here, and words that are no device.
# MPT_RENEW writes the sum of a checkpoint.json that was changed.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
sed -e 's/steps = 3,/steps = 4, checkpoint = { every = 2 },/' small.lua >saves.lua
try saves.lua --out whole --quiet --device cpu
want_status 0

# saved WORD: a run that ended behind step 2, whose checkpoint has this as its device.
saved() {
    rm -rf run
    cp -r whole run
    rm -r run/checkpoints/step-4
    sed -i -e '/^--   --device cpu$/d' run/recipe.lua # what auto has found then
    sed -i -e "s/^  \"device\": \"cpu\",$/$1/" run/checkpoints/step-2/checkpoint.json
    "$MPT_RENEW" run/checkpoints/step-2/checkpoint.json
    cp -r run before
}
unchanged() {
    diff -r run before >differs || wrong "the run was changed: $(head -n 3 differs)"
    rm -r before
}

saved '  "device": "cpu",'
try resume run --quiet
want_status 0
want_out 's of training on cpu$'
rm -r before

# ---- words that are no device ----

for word in '"tpu"' '"CPU"' '""' '"auto"' 7 null '["cpu"]'; do
    saved "  \"device\": $word,"
    for how in '' '--device auto' '--device cpu'; do
        # shellcheck disable=SC2086 # a list of words
        try resume run $how
        want_status 1
        want_err "^run/checkpoints/step-2/checkpoint.json: device: ('[A-Za-z]*' is no device that this mpt knows \(there are ref, cpu, cuda\)|is no text, expected ref, cpu or cuda); go on with the mpt that wrote it"
        [ "$(wc -l <err)" -eq 1 ] || wrong "more than one sentence"
    done
    unchanged
done
saved ''
try resume run
want_status 1
want_err '/checkpoint.json: device: is missing, expected ref, cpu or cuda; '
unchanged

saved '  "device": "cpu",'
sed -e 's/^--   --device cpu$/--   --device tpu/' whole/recipe.lua >run/recipe.lua
try resume run
want_status 1
want_err "^mptrun: run/recipe.lua: its options name the device 'tpu', which this mpt does not know \(there are ref, cpu, cuda\)$"
rm -r before

# ---- another device than before ----

saved '  "device": "cpu",'
rm -r before
try resume run --device ref --quiet
want_status 0
want_err '^warning: run/checkpoints/step-2: was saved on the device cpu, and ref, which goes on from it, rounds sums otherwise$'
want_out 's of training on ref$'

try --list-devices
if ! grep -q '^cuda *-' out; then exit 0; fi
why=$(sed -n 's/^cuda *- *none: //p' out)
saved '  "device": "cuda",'
for how in '' '--device auto' '--device cuda'; do
    # shellcheck disable=SC2086 # a list of words
    try resume run $how
    want_status 4
    want_no_out
    printf '%s\n' "no CUDA device: $why; run/checkpoints/step-2 was saved on cuda: go on where there is a GPU, or here with --device cpu, whose sums round otherwise" |
        cmp -s - err || wrong "the device of the checkpoint, and the way out"
done
unchanged
try resume run --device cpu --quiet
want_status 0
want_err '^warning: run/checkpoints/step-2: was saved on the device cuda, and cpu, which goes on from it, rounds sums otherwise$'
want_out 's of training on cpu$'

saved '  "device": "cpu",'
try resume run --device cuda
want_status 4
want_err '; run/checkpoints/step-2 was saved on cpu: go on with --device cpu$'
unchanged

# Ended before its first checkpoint: the recipe's file says what it was begun with.
saved '  "device": "cpu",'
rm -r run/checkpoints/step-2 before
sed -e 's/^--   --device cpu$/--   --device cuda/' whole/recipe.lua >run/recipe.lua
cp -r run before
try resume run
want_status 4
want_err '; run was begun with --device cuda: go on where there is a GPU, or here with --device cpu$'
unchanged
