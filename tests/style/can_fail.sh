#!/bin/sh
# can_fail.sh STYLE_DIR CC: gives each style check a tree with one fault and expects a refusal,
# so that a check that finds nothing means that there is nothing.
set -eu
style=$1
cc=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# refused TEXT COMMAND...: the command must fail and its output must hold TEXT.
refused() {
    text=$1
    shift
    if "$@" >"$work/out" 2>&1; then
        echo "accepted what it should refuse: $*"
        exit 1
    fi
    grep -q -- "$text" "$work/out" || {
        echo "refused without saying '$text': $*"
        cat "$work/out"
        exit 1
    }
}

# tree FILE: an empty tree with one source, read from standard input.
tree() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/$(dirname "$1")"
    cat >"$work/tree/$1"
}

tree runtime/base/a.c <<'END'
#include "graph/graph.h"
END
refused 'a.c:1: a lower layer includes a higher one' sh "$style/layers.sh" "$work/tree"
tree runtime/cli/a.c <<'END'
#include "recipe/recipe.h"
END
refused 'public headers only' sh "$style/layers.sh" "$work/tree"
tree runtime/train/a.c <<'END'
#include <lua.h>
END
refused 'lua/bind only' sh "$style/layers.sh" "$work/tree"

{ echo 'int f(int a,'; echo '      int b) {'; yes '    a++;' | head -n 60; echo '}'; } |
    tree runtime/base/a.c
refused 'a.c:1: the function has 63 lines' sh "$style/lengths.sh" "$work/tree"
yes '/* */' | head -n 701 | tree runtime/base/a.c
refused 'the file has 701 lines' sh "$style/lengths.sh" "$work/tree"

echo "/* TO""DO */" | tree runtime/base/a.c
refused 'a.c:1:' sh "$style/words.sh" "$work/tree"

tree kernels/cuda/a.cu <<'END'
__global__ void k(float *x, float a) { *x = *x / a; *x = __fdividef(*x, a); }
END
refused 'a.cu: there is no PTX' sh "$style/ptx.sh" "$work/tree" --kept "$work" kernels/cuda/a.cu
printf '.file 1 "b/a.cu"\n.loc 1 7 3\nfma.rn.f32 %%f1, %%f2;\n' >"$work/a.compute_80.ptx"
refused 'a.cu:7: fma.rn.f32' sh "$style/ptx.sh" "$work/tree" --kept "$work" kernels/cuda/a.cu
if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then
    refused 'a.cu:1: div.approx.f32' sh "$style/ptx.sh" "$work/tree" kernels/cuda/a.cu
    refused 'no kernel' sh "$style/ptx.sh" "$work/tree"
fi

# compiled: an archive of one source, read from standard input.
compiled() {
    cat >"$work/a.c"
    rm -f "$work/liba.a"
    "$cc" -fPIC -c -o "$work/a.o" "$work/a.c"
    ar rc "$work/liba.a" "$work/a.o"
}

for line in 'static int counter; int f(void) { return counter++; }' \
    'int counter = 3;' 'static _Thread_local int counter; int f(void) { return counter++; }'; do
    echo "$line" | compiled
    refused counter sh "$style/symbols.sh" state "$work/liba.a"
done
echo 'static const char *const names[] = {"a", "b"}; const char *f(int i) { return names[i]; }' |
    compiled
sh "$style/symbols.sh" state "$work/liba.a"
echo '#include <stdlib.h>
const char *f(void) { return getenv("HOME"); }' | compiled
refused getenv sh "$style/symbols.sh" calls "$work/liba.a"
echo 'void *dlopen(const char *, int);
void *f(void) { return dlopen("libm.so.6", 1); }' | compiled
refused 'a.o: dlopen' sh "$style/symbols.sh" calls "$work/liba.a"
echo 'int lua_gettop(void *); int f(void) { return lua_gettop(0); }' | compiled
refused lua_gettop sh "$style/symbols.sh" lua "$work/liba.a"

echo 'int declared(void) { return 0; } int stray(void) { return 0; }' | compiled
"$cc" -shared -o "$work/liba.so" "$work/a.o"
printf '#define MPT_API\nMPT_API int\n    declared(void);\n' >"$work/a.h"
refused stray sh "$style/symbols.sh" exports "$work/liba.so" "$work/a.h"
echo 'int declared(void) { return 0; }' | compiled
"$cc" -shared -o "$work/liba.so" "$work/a.o"
sh "$style/symbols.sh" exports "$work/liba.so" "$work/a.h"

refused "exports 'declared ' instead of 'other ' alone" sh "$style/symbols.sh" module "$work/liba.so" other
sh "$style/symbols.sh" module "$work/liba.so" declared
"$cc" -shared -o "$work/libb.so" "$work/a.o" -Wl,--no-as-needed -lm
refused 'needs libm' sh "$style/symbols.sh" needs 'libz|libm\.' "$work/liba.so" "$work/libb.so"
