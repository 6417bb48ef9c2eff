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
