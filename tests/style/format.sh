#!/bin/sh
# format.sh ROOT CLANG_FORMAT [OPTION...]: runs clang-format over every C source of the tree.
# Without options it checks (--dry-run --Werror); with -i it formats in place.
set -eu
cd "$1"
tool=$2
shift 2
[ $# -gt 0 ] || set -- --dry-run --Werror
find . -path './build*' -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cpp' \) -type f -print |
    sort | xargs "$tool" "$@"
