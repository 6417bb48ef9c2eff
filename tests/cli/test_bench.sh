#!/bin/sh
# mptrun bench, on matrices and models so small that it measures nothing worth knowing.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

try bench --quantizers --rows 64 --cols 96 --threads 1
want_status 0
want_out '^64 x 96 float32, 1 thread'
want_out '^quantizer +Melem/s +GB/s +of copy$'
want_out '^copy +[0-9]+ +[0-9.]+ +1\.00$'
for name in bf16 e4m3 e5m2 e4m3_static nvfp4 nvfp4_sr nvfp4_2d nvfp4_rht_sr nvfp4_4over6 \
    nvfp4_both mxfp8 mxfp6 mxfp4 fp8_block e2m1; do
    want_out "^$name +[0-9]+ +[0-9.]+ +[0-9.]+$"
done
want_no_err
# A matrix of a few elements is repeated until the clock can tell: no fraction is out of reason.
try bench --quantizers --rows 3 --cols 5 --threads 1
want_status 0
awk '$4 ~ /^[0-9.]+$/ && $4 > 20 { exit 1 }' out || wrong "a quantizer is far above its copy"

try bench --quantizers --rows 64 --cols 96 --threads 1 --json
want_status 0
want_out '"name": "nvfp4_rht_sr"'
for member in melem_per_s gb_per_s fraction_of_copy; do
    want_out "\"$member\": [0-9.e+-]+"
done

recipe small.lua
try bench small.lua --threads 1 --steps 2 --set train.batch=1
want_status 0
want_out '^small: mlp tiny, [0-9,]+ parameters$'
want_out '^measured +2 steps of 1 x 16 tokens after 2 of warm-up, cpu, 1 thread$'
want_out '^step +fastest [0-9.]+ ms, median [0-9.]+ ms: [0-9]+ tokens/s$'
want_out '^gemm +[0-9.]+ GFLOP/s in the GEMMs of linear layers'
for class in gemm quantize optimizer data; do
    want_out "^  $class +[0-9.]+ +[0-9.]+ %"
done
want_no_err
[ ! -e runs ] || wrong "bench wrote a run folder"
try bench small.lua --threads 1 --steps 1 --json --device ref
want_status 0
for member in min median tokens_per_s gemm_gflops step_gflops peak_gflops share; do
    want_out "\"$member\": [0-9.e+-]+"
done
want_out '"class": "gemm"'

try bench
want_status 2
want_err 'bench of what\? mptrun bench RECIPE\.lua .* mptrun bench --quantizers'
try bench small.lua --quantizers
want_status 2
want_err "bench --quantizers measures no recipe, and takes no 'small\.lua'"
try bench small.lua other.lua
want_status 2
for given in --set=train.steps=3 --model=full --steps=2 --device=ref --device=auto --data=x; do
    try bench --quantizers "$given"
    want_status 2
    want_err "bench --quantizers takes no ${given%%=*}; see mptrun help bench"
done
try bench small.lua --rows 3
want_status 2
want_err 'bench RECIPE\.lua takes no --rows; see mptrun help bench'
for steps in 0 -1 x 4097; do
    try bench small.lua --steps "$steps"
    want_status 2
    want_err 'is not a whole number from 1 to 4096|--steps'
done
try bench nowhere.lua
want_status 1
want_err 'nowhere\.lua'
try bench small.lua --set train.steps=0
want_status 1
try bench small.lua --device cuda
want_status 4
want_err 'no CUDA device: '
for rows in 0 -1 x 1048577; do
    try bench --quantizers --rows "$rows"
    want_status 2
    want_err 'is not a whole number from 1 to 1048576'
done
# 16 TiB are refused before any of them is touched, and the way out is one of this command.
try bench --quantizers --rows 1048576 --cols 1048576
want_status 4
want_err 'a matrix of 1048576 x 1048576 takes 17592\.2 GB of memory, and [0-9.]+ GB are free; '
want_err 'take a matrix of fewer rows or columns$'
try plan x.lua --quantizers
want_status 2
want_err "'plan' takes no --quantizers"
try bench --help
want_status 0
want_out '^  mptrun bench --quantizers$'
