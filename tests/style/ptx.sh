#!/bin/sh
# ptx.sh ROOT [FILE...]: kernels that promise the bits of the CPU compute with single IEEE
# operations: what nvcc makes of them holds no contracted multiply-add, no approximate division,
# root or function, and no flush to zero. FILEs are checked in place of those listed here.
# Exits 77 where there is no nvcc.
set -eu
cd "$1"
shift
PATH=$PATH:/usr/local/cuda/bin
if ! command -v nvcc >/dev/null; then
    echo "skipped: there is no nvcc, so nothing makes PTX of the kernels"
    exit 77
fi

# Codes, scales, states and choices are compared byte for byte with the CPU's. Files that call
# expf, tanhf or erff are not here: those are made of multiply-adds in CUDA's own library.
exact='quantize record scale cast decode dropout optim sums split'
if [ $# -eq 0 ]; then
    for name in $exact; do
        for file in kernels/cuda/"$name"*.cu; do
            [ ! -f "$file" ] || set -- "$@" "$file"
        done
    done
fi
[ $# -gt 0 ] || { echo "no kernel found that promises exact bits"; exit 1; }

forbidden='(fma|mad)\.r[nzmp](\.ftz)?(\.sat)?\.f(32|64)|\.approx|div\.full|\.ftz'
# The module's own flags for arithmetic: without -fmad=false there this finds it out.
build=kernels/cuda/CMakeLists.txt
flags=$(cat $build 2>/dev/null | grep -oE -e '-(fmad|ftz|prec-div|prec-sqrt)=[a-z]+|-use_fast_math' || true)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
bad=0
for file in "$@"; do
    # shellcheck disable=SC2086 # flags are words
    nvcc -ptx -arch=compute_90a -lineinfo -std=c++17 -O3 $flags \
        -I. -Iruntime -Iruntime/include "$file" -o "$out/ptx"
    # The nearest .loc above an instruction names the source line; names of files stand last.
    awk -v file="$file" -v forbidden="$forbidden" '
        NR == FNR { if ($1 == ".file") { name[$2] = $3; gsub(/.*\/|"|,/, "", name[$2]) } next }
        $1 == ".loc" { at = name[$2] ":" $3 }
        $1 == ".loc" || $1 == ".file" || /^[ \t]*\/\// { next }
        $0 ~ forbidden && !seen[at $1]++ { print file ": " at ": " $1 " " $2 $3; found = 1 }
        END { exit found }' "$out/ptx" "$out/ptx" || bad=1
done
[ $bad -eq 0 ] || echo "these round otherwise than the CPU: compile without contraction, fast math and intrinsics"
exit $bad
