#!/bin/sh
# ptx.sh ROOT [--kept FOLDER | FILE...]: kernels that promise the bits of the CPU compute with
# single IEEE operations: what nvcc makes of them holds no contracted multiply-add, no approximate
# division, root or function, and no flush to zero. FOLDER has what a build has kept, of each kind
# of GPU; else they are compiled. FILEs are checked in place of those listed here.
# Exits 77 where there is no nvcc.
set -eu
cd "$1"
shift
kept=
[ "${1:-}" != --kept ] || { kept=$2 && shift 2; }
PATH=$PATH:/usr/local/cuda/bin
if [ -z "$kept" ] && ! command -v nvcc >/dev/null; then
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
# made FILE: the PTX of a kernel's file, of each kind of GPU.
made() {
    name=$(basename "$1" .cu)
    if [ -n "$kept" ]; then
        find "$kept" -name "$name.ptx" -o -name "$name.compute_*.ptx"
        return
    fi
    # shellcheck disable=SC2086 # flags are words
    nvcc -ptx -arch=compute_90a -lineinfo -std=c++17 -O3 $flags -DR123_USE_SSE=0 \
        -I. -Iruntime -Iruntime/include "$1" -o "$out/ptx" && echo "$out/ptx"
}

for file in "$@"; do
    made "$file" >"$out/list"
    [ -s "$out/list" ] || { echo "$file: there is no PTX of it"; bad=1; }
    # The nearest .loc above an instruction names the source line; names of files stand last.
    while read -r ptx; do
        awk -v file="$file" -v forbidden="$forbidden" '
            NR == FNR {
                if ($1 == ".file") { name[$2] = $3; gsub(/.*\/|"|,/, "", name[$2]) }
                next
            }
            $1 == ".loc" { at = name[$2] ":" $3 }
            $1 == ".loc" || $1 == ".file" || /^[ \t]*\/\// { next }
            $0 ~ forbidden && !seen[at $1]++ { print file ": " at ": " $1 " " $2 $3; found = 1 }
            END { exit found }' "$ptx" "$ptx" || bad=1
    done <"$out/list"
done
[ $bad -eq 0 ] || echo "these round otherwise than the CPU: compile without contraction, fast math and intrinsics"
exit $bad
