#!/bin/sh
# What `cmake --install` leaves works by itself: mptrun finds the models installed beside it,
# after a move too, and a host builds by the pkg-config file alone.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

BUILD=$(dirname "$MPTRUN")
recipe small.lua
tried='(cmake --install)'
status=0
cmake --install "$BUILD" --prefix "$WORK/first" >out 2>err || status=$?
want_status 0
mv first moved

# A model that differs from the one in the source tree tells which of the two was read.
sed -i 's/tiny = { layers = 2,/tiny = { layers = 5,/' moved/share/mpt/models/mlp.lua
try plan small.lua
want_out ' 2 blocks,'
MPTRUN=$WORK/moved/bin/mptrun
try plan small.lua
want_status 0
want_out ' 5 blocks,'

# Through a link, as from a folder of links in PATH, and with an empty environment.
ln -s moved/bin/mptrun linked
status=0
tried='(by a link, without environment)'
env -i ./linked plan small.lua >out 2>err || status=$?
want_status 0
want_out ' 5 blocks,'
try check moved/share/mpt/recipes/gpt2_nvfp4.lua
want_status 0

# Presets are read from the file installed beside the models, and editors find the words there.
[ -f moved/share/mpt/lua/types/mpt.lua ] || wrong 'no words for editors'
sed '/precision = {/,/^  },/c\  precision = presets.nvfp4,' small.lua >preset.lua
sed -i 's/use = mxfp8 }/use = int8 }/' moved/share/mpt/lua/presets.lua
try plan preset.lua
want_status 0
want_out 'nvfp4'
sed -i 's/presets.nvfp4/presets.mxfp8/' preset.lua
try plan preset.lua
want_status 0
want_out 'int8'

# A host: first with the shared library, then with the archives.
PKG_CONFIG_PATH=$(dirname "$(find moved -name mpt.pc)")
export PKG_CONFIG_PATH
LIBS=$PWD/$(dirname "$PKG_CONFIG_PATH")
if grep -q __asan_init "$LIBS/libmpt.a"; then exit 0; fi # a host would need the sanitizers too
for how in '' --static; do
    tried="(a host by pkg-config $how)"
    status=0
    [ -z "$how" ] || rm "$LIBS"/libmpt.so*
    # shellcheck disable=SC2046,SC2086 # lists of words
    "${CC:-cc}" "$ROOT/tests/embed/embed.c" -o host \
        $(pkg-config --cflags $how --libs mpt) >out 2>err || status=$?
    want_status 0
    LD_LIBRARY_PATH=$LIBS ./host small.lua >out 2>err || status=$?
    want_status 0
    want_out 'loss [0-9.]+'
done
