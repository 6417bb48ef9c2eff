#!/bin/sh
# mptrun quantize: what it prints, what it writes, what it refuses.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
checkpoint in.safetensors

try quantize nvfp4 in.safetensors out.safetensors
want_status 0
want_out '^out\.safetensors: 3 tensors, 200 elements; 1 skipped'
want_out '^size   400 bytes -> [0-9]+ of codes and scales, 16\.00 -> [45]\.[0-9]+ bits a weight$'
want_out '^error  SQNR [0-9]+\.[0-9]+ dB; 0 saturated, [0-9]+ became zero, 0 not finite$'
want_no_err
for name in codes scales amax dequantized; do
    grep -q "\"a\.weight\.$name\"" out.safetensors || wrong "the file lacks a.weight.$name"
done
if grep -q 'd\.ids' out.safetensors; then wrong "integers were quantized"; fi

# The same bytes for each device and any number of threads, over an output that is there.
for how in '--device ref' '--device cpu --threads 3' '--quiet'; do
    # shellcheck disable=SC2086 # a list of words
    try quantize nvfp4 in.safetensors again.safetensors $how
    want_status 0
    cmp out.safetensors again.safetensors || wrong "another file with $how"
done

# Random bits are keyed by seed and step.
sr='nvfp4 { rounding = "stochastic" }'
try quantize "$sr" in.safetensors zero.safetensors
try quantize "$sr" in.safetensors same.safetensors --seed 0 --step 0
cmp zero.safetensors same.safetensors || wrong "the defaults are not seed 0 and step 0"
for key in '--seed 1' '--step 1'; do
    # shellcheck disable=SC2086 # a list of words
    try quantize "$sr" in.safetensors other.safetensors $key
    want_status 0
    if cmp -s zero.safetensors other.safetensors; then wrong "$key changes nothing"; fi
done

try quantize 'nvfp4 { block = {16, 16} }' in.safetensors out.safetensors --columnwise
want_status 0
grep -q '"a\.weight\.codes":{"dtype":"U8","shape":\[32,2\]' out.safetensors ||
    wrong "the codes are not those of the transpose"
grep -q '"a\.weight\.dequantized":{"dtype":"F32","shape":\[4,32\]' out.safetensors ||
    wrong "the values are not laid out as the tensor"
try quantize bf16 in.safetensors out.safetensors --json
want_status 0
want_out '^\{"tensors": 3, "skipped": 1, "elements": 200, .*"sqnr_db": null, .*\}$'
if grep -q 'a\.weight\.codes' out.safetensors; then wrong "bf16 wrote codes"; fi

# A NaN is named.
printf '\300\177%s' '0?1>2=3?4>5=6>' | stored nan.safetensors \
    '{"w":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}}'
try quantize e4m3 nan.safetensors out.safetensors
want_status 0
want_err "^warning: tensor 'w': 1 of its values is NaN or Inf$"
want_out ', 1 not finite$'

# A folder, as checkpoints come.
mkdir model
cp in.safetensors model/model.safetensors
try quantize e4m3 model out.safetensors
want_status 0

# Values near the end of FP32 decode to Inf or NaN, by the very formula of NVFP4.
printf '\177\177%s' '0?1>2=3?4>5=6>' | stored huge.safetensors \
    '{"w":{"dtype":"BF16","shape":[8],"data_offsets":[0,16]}}'
try quantize nvfp4 huge.safetensors out.safetensors
want_status 0
want_err "^warning: tensor 'w': 8 of its values are finite, but NaN or Inf as decoded"
want_out ', 0 not finite, 8 more not finite as decoded$'
try quantize nvfp4 huge.safetensors out.safetensors --json
want_out '"sqnr_db": null, .*"nonfinite": 0, "became_nonfinite": 8,'

# Codes of six bits take a byte each: both figures are there, and one thing is one thing.
printf '0?' | stored one.safetensors '{"w":{"dtype":"BF16","shape":[1],"data_offsets":[0,2]}}'
try quantize mxfp6 in.safetensors out.safetensors
want_out ' bits a weight \(6\.[0-9]+ without gaps: codes are stored in whole bytes\)$'
try quantize e4m3 one.safetensors out.safetensors
want_out '^out\.safetensors: 1 tensor, 1 element$'

# ---- what is refused ----

rm -f out.safetensors
for words in '' nvfp4 'nvfp4 in.safetensors'; do
    # shellcheck disable=SC2086 # a list of words
    try quantize $words
    want_status 2
    want_err 'which quantizer, which input, which output\? mptrun quantize EXPR IN OUT'
done
try quantize nvfp4 in.safetensors out.safetensors more
want_status 2
want_err "'quantize' takes EXPR IN OUT, and no 'more'; see mptrun help quantize"
try quantize nvfp4 in.safetensors out.safetensors --set a=b
want_status 2
want_err "'quantize' takes no --set"
for step in -1 x 4294967296 ''; do
    try quantize nvfp4 in.safetensors out.safetensors --step "$step"
    want_status 2
    want_err 'is not a whole number from 0 to 4294967295'
done
try quantize nvfp5 in.safetensors out.safetensors
want_status 1
want_err "did you mean 'nvfp4'"
try quantize 'nvfp4 { blok = 1 }' in.safetensors out.safetensors
want_status 1
want_err "no field 'blok'; did you mean 'block'"
try quantize 'os.execute("touch here")' in.safetensors out.safetensors
want_status 1
[ ! -e here ] || wrong "the expression ran a command"
try quantize nvfp4 missing.safetensors out.safetensors
want_status 1
want_err 'missing\.safetensors'
for length in 0 7 100 600; do
    head -c "$length" in.safetensors >torn.safetensors
    try quantize nvfp4 torn.safetensors out.safetensors
    want_status 1
    want_err 'torn\.safetensors'
done
cp in.safetensors before
try quantize nvfp4 in.safetensors in.safetensors
want_status 1
want_err 'the output is the input'
try quantize nvfp4 model ./model/../model/model.safetensors
want_status 1
want_err 'the output is the input, its index or a shard of it'
cmp in.safetensors before || wrong "the input was changed"
printf 12345678 | stored ids.safetensors '{"d":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'
try quantize nvfp4 ids.safetensors out.safetensors
want_status 1
want_err 'its one tensor has no elements of a floating type'
[ ! -e out.safetensors ] || wrong "a refused run left an output behind"

# What was read is not written over, nor is anything that is no safetensors file.
printf '{"weight_map":{"a.weight":"m","b.weight":"m","c.bias":"m","d.ids":"m"}}' >model/index.json
mv model/model.safetensors model/m
cp model/index.json model/model.safetensors.index.json
for name in model.safetensors.index.json m; do
    cp "model/$name" kept
    try quantize nvfp4 model "model/$name"
    want_status 1
    want_err 'the output is the input, its index or a shard of it'
    cmp "model/$name" kept || wrong "$name was changed"
done
echo '{"hidden_size": 64}' >config.json
try quantize nvfp4 in.safetensors config.json
want_status 1
want_err 'config\.json: is there and is no safetensors file, so it is not replaced'
grep -q hidden_size config.json || wrong "the config was changed"

# The user's slips are 1 and 2, what the machine refuses is 4.
mkdir folder
for out in none/out.safetensors folder /dev/null config.json/out.safetensors; do
    try quantize nvfp4 in.safetensors "$out"
    want_status 1
done
try quantize nvfp4 in.safetensors ''
want_status 2
want_err "'quantize' takes EXPR IN OUT, and OUT is empty"
try quantize '' in.safetensors out.safetensors
want_status 2
want_err "'quantize' takes EXPR IN OUT, and EXPR is empty"
chmod a-w folder
if [ ! -w folder ]; then
    try quantize nvfp4 in.safetensors folder/out.safetensors
    want_status 4
fi
tried='quantize into its own standard output'
status=0
"$MPTRUN" quantize nvfp4 in.safetensors /dev/stdout >out 2>err || status=$?
want_status 1
want_err '/dev/stdout: is where this command prints, and cannot be its output'

# A limit on file sizes is met as a full disk is: status 4, no output, the old one whole.
cp before out.safetensors
tried='quantize with a limit of 1 KiB'
status=0
(ulimit -f 1 && "$MPTRUN" quantize nvfp4 in.safetensors out.safetensors) >out 2>err || status=$?
want_status 4
want_err 'out\.safetensors'
cmp out.safetensors before || wrong "the old output was changed"
[ -z "$(find . -name '*.part')" ] || wrong "a part of a file was left behind"

try help quantize
want_status 0
want_out '--columnwise'
want_out '^  mptrun quantize nvfp4 model\.safetensors'
