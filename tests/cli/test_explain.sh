#!/bin/sh
# explain and diff: what they print, how slips are met, exit statuses.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# All twelve fields of the six operands, each with its line.
try explain "$RECIPES/nvfp4_12b.lua" layers.54.mixer.in_proj
want_status 0
want_no_err
want_out '^layers\.54\.mixer\.in_proj: linear in block 54 of 0\.\.61'
for field in format block scale scale_format scale_rule outer headroom rounding hadamard \
    nonfinite source pad; do
    want_out "^    $field +[^ ].* .*/recipes/nvfp4_12b\.lua:[0-9]+ +.*precision\.rules\[3\]"
done
awk 'length > 160 { exit 1 }' out || wrong "a line is very wide"

try explain "$RECIPES/nvfp4_12b.lua" backbone.layers.54.mixer.in_proj.weight --json
want_status 0
want_out '"path": "layers\.54\.mixer\.in_proj"'
try explain "$RECIPES/nvfp4_12b.lua" layers.20.mixer.out_proj --phase settle
want_status 0
want_out '^phase settle, from step 1,360,023$'
try explain "$RECIPES/nvfp4_12b.lua" lm_head --model proxy --set precision.base=fp32
want_status 0
want_out 'format +fp32 +--set +precision\.base'

# A slip in the layer or the phase is one of the command line.
try explain "$RECIPES/nvfp4_12b.lua" layers.54.mixer.inproj
want_status 2
want_no_out
want_err "^the model has no layer 'layers.54.mixer.inproj'; did you mean 'layers.54.mixer.in_proj'\?$"
try explain "$RECIPES/nvfp4_12b.lua" lm_head --phase setle
want_status 2
want_err "no phase 'setle'; did you mean 'settle'\?"
try explain "$RECIPES/nvfp4_12b.lua"
want_status 2
want_err 'which recipe, which layer\? mptrun explain RECIPE.lua LAYER'
try explain "$RECIPES/nvfp4_12b.lua" ''
want_status 2
want_err 'LAYER is empty'
try explain missing.lua lm_head
want_status 1
want_err 'missing\.lua'
try explian "$RECIPES/nvfp4_12b.lua" lm_head
want_status 2
want_err "did you mean 'explain'\?"
try plan "$RECIPES/nvfp4_12b.lua" --phase settle
want_status 2
want_err "'plan' takes no --phase"

# diff: the same is 0, and so is a difference.
try diff "$RECIPES/nvfp4_12b.lua" "$RECIPES/nvfp4_12b.lua"
want_status 0
want_no_err
want_out '^identical$'
try diff "$RECIPES/gpt2_nvfp4.lua" "$RECIPES/gpt2_mxfp8.lua"
want_status 0
want_out 'mxfp8 1x32'
want_out '^recipe +gpt2_nvfp4 +gpt2_mxfp8$'
try diff "$RECIPES/nvfp4_12b.lua" "$RECIPES/nvfp4_8b.lua"
want_status 0
want_out '^  blocks +62 +52$'
want_out '^  train\.tokens +10,000,000,000,000 +1,000,000,000,000$'
[ "$(wc -l <out)" -lt 40 ] || wrong "the difference has 40 lines or more"
try diff "$RECIPES/nvfp4_12b.lua" "$RECIPES/nvfp4_8b.lua" --json
want_status 0
want_out '"identical": false'
try diff "$RECIPES/nvfp4_12b.lua" missing.lua
want_status 1
want_err 'missing\.lua'
want_no_out
try diff "$RECIPES/nvfp4_12b.lua"
want_status 2
want_err 'which two recipes\?'

try help explain
want_status 0
want_out 'mptrun explain RECIPE.lua LAYER'
want_out '--phase NAME'
try help diff
want_out 'mptrun diff A.lua B.lua'
