#!/bin/sh
# lengths.sh ROOT: no file over 700 lines, no function over 60. Past 400 and 40 it only says so.
# lua/types/mpt.lua is written by mptrun, a line a field, and as long as the language is.
set -eu
cd "$1"
# shellcheck disable=SC2016 # the program is awk's
find runtime kernels lua models recipes tests -type f \
    \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' -o -name '*.def' -o -name '*.lua' -o -name '*.sh' \) ! -path lua/types/mpt.lua 2>/dev/null | sort |
    xargs awk '
function report(name, line, n, most, wanted, what) {
    if (n > most) { printf "%s:%d: %s has %d lines, %d is the limit\n", name, line, what, n, most; bad = 1 }
    else if (n > wanted) printf "note: %s:%d: %s has %d lines, %d is the aim\n", name, line, what, n, wanted
}
function end_of_file() { if (name != "") report(name, 1, lines, 700, 400, "the file") }
FNR == 1 { end_of_file(); name = FILENAME; start = 0; head = 0; lua = name ~ /\.lua$/ }
{ lines = FNR }
# C: a function starts at a line in column 0 and its head ends with ") {"; it ends with "}" there.
!lua && !start && /^[A-Za-z_]/ { head = FNR }
!lua && !start && head && /\) \{$/ && $0 !~ /= \{$/ { start = head; head = 0 }
!lua && !start && head && /[;}]$/ { head = 0 }
!lua && start && /^}/ { report(name, start, FNR - start + 1, 60, 40, "the function"); start = 0 }
# Lua: the same for functions that start and end in column 0.
lua && !start && /^(local )?function |^[A-Za-z_.]+ = function/ && !/ end$/ { start = FNR }
lua && start && /^end/ { report(name, start, FNR - start + 1, 60, 40, "the function"); start = 0 }
END { end_of_file(); exit bad }'
