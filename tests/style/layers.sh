#!/bin/sh
# layers.sh ROOT: every include of a project header points left in the list of layers.
#
#   base < recipe (io and comm beside it) < graph < kernels < sched < exec < train
#        (pipeline.h beside it) < plan < tools (pipeline.c beside it) < lua/bind < cli
#
# The public headers and kernels/formats.h stand under base; kernels/numerics* needs nothing but
# formats. cli may use the public headers only, as any other host.
set -eu
cd "$1"
# shellcheck disable=SC2016 # the program is awk's
find runtime kernels lua \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' \) -type f 2>/dev/null | sort | xargs awk '
function rank(path) {
    if (path ~ /^mpt\// || path ~ /^runtime\/include\// || path ~ /^kernels\/formats\.h$/) return 0
    if (path ~ /^kernels\/numerics/) return 1
    sub(/^runtime\//, "", path)
    if (path ~ /^base\//) return 2
    if (path ~ /^(recipe|io|comm)\//) return 3
    if (path ~ /^graph\//) return 4
    if (path ~ /^kernels\//) return 5
    if (path ~ /^sched\//) return 6
    if (path ~ /^exec\//) return 7
    if (path ~ /^train\//) return 8
    if (path ~ /^pipeline\.h$/) return 8 # beside train: it holds the data, the trainer runs it
    if (path ~ /^plan\//) return 10
    if (path ~ /^(tools|report)\//) return 11
    if (path ~ /^pipeline/) return 11
    if (path ~ /^lua\/bind\//) return 12
    if (path ~ /^cli\//) return 13
    return -1
}
function fault(text) { printf "%s:%d: %s\n", FILENAME, FNR, text; bad = 1 }
/^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, part, "\"")
    from = rank(FILENAME)
    to = rank(part[2])
    if (part[2] !~ /\// && part[2] !~ /^pipeline/) fault("write the folder too: \"" part[2] "\"")
    else if (from < 0) fault("this folder is in no layer: add it to layers.sh")
    else if (to < 0) fault("the folder of \"" part[2] "\" is in no layer: add it to layers.sh")
    else if (to > from) fault("a lower layer includes a higher one: \"" part[2] "\"")
    else if (from == 13 && to != 0 && to != 13) fault("cli uses the public headers only, not \"" part[2] "\"")
}
/^[ \t]*#[ \t]*include[ \t]*<lua/ || /^[ \t]*#[ \t]*include[ \t]*<l(auxlib|ualib)/ {
    if (FILENAME !~ /^lua\/bind\//) fault("lua.h belongs to lua/bind only")
}
END { exit bad }'
