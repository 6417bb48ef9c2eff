#!/bin/sh
# mptrun probe: the table, JSON, and what is refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"
checkpoint model.safetensors

try probe model.safetensors --formats 'nvfp4, nvfp4 { block = {16, 16} },e4m3'
want_status 0
want_out '^tensor +shape +amax +dB +lost +dB +lost +dB +lost$'
want_out '^a\.weight +4x32 +0\.[0-9]+ +[0-9]+\.[0-9] '
want_out '^b\.weight +2x2x16 '
want_out '^\(2\)  nvfp4 \{ block = \{16, 16\} \} '
want_out '^\(3\)  e4m3 '
want_out '^nvfp4: none needs a rule \(median [0-9.]+ dB, [0-9.]+%? lost\)\.$'
want_out '^Skipped: 1 vector and 1 tensor not of a floating type, or empty\.$'
want_no_err
[ "$(grep -c '^c\.bias' out)" -eq 0 ] || wrong "a vector was probed"
if grep -qE '.{101,}' out; then wrong "a line has more than 100 columns"; fi

# Without --formats, those a person asks for first.
try probe model.safetensors
want_status 0
for format in nvfp4 mxfp4 mxfp6 mxfp8 e4m3; do
    want_out "^\([1-5]\)  $format +"
done

mkdir folder
cp model.safetensors folder
try probe folder --json --formats e4m3
want_status 0
want_out '"tensor": "a\.weight"'
for member in shape amax format state damage sqnr_db zeros underflow saturated nonfinite destroyed bits_per_weight; do
    want_out "\"$member\": "
done
cp out first
try probe folder --json --formats e4m3 --threads 3 --seed 9
cmp out first || wrong "threads or an unused seed change the result"

# Names of strangers do not steer the terminal.
escape=$(printf '\033')
yes '0?1>2=3?4>5=6>a' | head -c 128 | stored steer.safetensors \
    '{"a\u001b[31mb":{"dtype":"BF16","shape":[8,8],"data_offsets":[0,128]}}'
try probe steer.safetensors --formats e4m3
want_status 0
want_out '^a\\x1b\[31mb '
try probe steer.safetensors --formats 'e4m3 { pad = "error", block = {1, 16} }'
want_status 1
want_err 'a\\x1b\[31mb'
if grep -q "$escape" out err; then wrong "an escape sequence got through"; fi

# ---- what is refused ----

try probe
want_status 2
want_err 'which weights\? mptrun probe WEIGHTS'
try probe model.safetensors folder
want_status 2
want_err "'probe' takes WEIGHTS, and no 'folder'"
try probe model.safetensors --formats ''
want_status 2
try probe model.safetensors --formats e4m3,
want_status 1
want_err 'there is no quantizer beside one of the commas'
try probe model.safetensors --formats e4m3,nvfp5
want_status 1
want_err "did you mean 'nvfp4'"
try probe missing
want_status 1
want_err 'missing'
printf 12345678 | stored ids.safetensors '{"d":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}'
try probe ids.safetensors
want_status 1
want_err 'none of the 1 tensors is a matrix of a floating type'
want_no_out
if [ -e /dev/full ]; then
    tried='probe >/dev/full'
    status=0
    "$MPTRUN" probe model.safetensors --formats e4m3 >/dev/full 2>err || status=$?
    want_status 4
    want_err 'stdout could not be written'
fi
