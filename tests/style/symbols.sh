#!/bin/sh
# symbols.sh CHECK ARGUMENT...: reads what the compiler made, with binutils.
#
#   state ARCHIVE...          no mutable variable at file level (.data, .bss, common, thread)
#   calls ARCHIVE...          no call that prints, exits, aborts or reads the environment
#                             and none of dlopen outside io/shared.c
#   lua ARCHIVE               no Lua symbol, defined or needed
#   module LIBRARY SYMBOL     exports that one symbol
#   needs WORD FILE...        no library that the files need has a name with that word
#   exports LIBRARY HEADER... exported functions = those marked MPT_API in the headers
set -eu
check=$1
shift

fail_with() {
    printf '%s\n' "$1"
    exit 1
}

case $check in
state)
    # Tables of constants that hold pointers lie in .data.rel.ro: read-only once loaded.
    found=$(objdump -t "$@" | awk -F '\t' '
        /file format/ { object = $1; sub(/:.*/, "", object) }
        NF == 2 {
            n = split($1, left, " ")
            split($2, right, " ")
            section = left[n]
            if (section ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ &&
                section !~ /^\.data\.rel\.ro/ && right[2] != section)
                print object ": " right[2] " in " section
        }')
    [ -z "$found" ] || fail_with "mutable variables at file level: keep state in mpt_ctx
$found"
    ;;
calls)
    found=$(nm -A -u "$@" 2>/dev/null | awk '
        $NF ~ /^(printf|vprintf|puts|putchar|perror|stdout|stderr|exit|_exit|_Exit|quick_exit|abort|getenv|secure_getenv|setenv|system)$/ ||
        $NF ~ /^__(printf|vprintf|fprintf)_chk$/ { print $1 " " $NF }')
    [ -z "$found" ] || fail_with "the library never prints, exits, aborts or reads the environment
$found"
    found=$(nm -A -u "$@" 2>/dev/null | awk '
        $NF ~ /^(dlopen|dlmopen|dlsym|dlvsym|dlclose)(@|$)/ && $1 !~ /:shared(_locate)?\.c\.o:$/ { print $1 " " $NF }')
    [ -z "$found" ] || fail_with "shared libraries are opened in io/shared*.c only
$found"
    ;;
lua)
    found=$(nm -A "$1" 2>/dev/null | awk '$NF ~ /^lua[L]?_/ { print $1 " " $NF }')
    [ -z "$found" ] || fail_with "mpt_core has Lua symbols
$found"
    ;;
exports)
    library=$1
    shift
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    nm -D --defined-only "$library" | awk '{ print $NF }' | sort >"$work/has"
    sed 's/^#.*//' "$@" | tr '\n' ' ' | grep -o 'MPT_API [^;(]*(' |
        sed 's/ *($//; s/.*[ *]//' | sort >"$work/says"
    [ -s "$work/says" ] || fail_with "no MPT_API declaration was found in: $*"
    diff "$work/says" "$work/has" >"$work/diff" || fail_with \
        "the headers (<) and the library's exported symbols (>) differ
$(cat "$work/diff")"
    ;;
module)
    found=$(nm -D --defined-only "$1" | awk '{ print $NF }' | sort | tr '\n' ' ')
    [ "$found" = "$2 " ] || fail_with "$1 exports '$found' instead of '$2 ' alone"
    ;;
needs)
    word=$1
    shift
    for file in "$@"; do
        found=$(objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -iE "$word" || true)
        [ -z "$found" ] || fail_with "$file needs $found"
    done
    ;;
*) fail_with "no check '$check'" ;;
esac
