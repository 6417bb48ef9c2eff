#!/bin/sh
# readme.sh ROOT: the README shows the example that is compiled, and the recipe that is shipped,
# word for word; every file and folder that the pages name is there (NAME stands for any).
set -eu
cd "$1"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# block LANGUAGE: the first fenced block of that language.
block() {
    awk -v fence="\`\`\`$1" '$0 == fence && !seen { inside = 1; seen = 1; next }
        /^```$/ { inside = 0 } inside' README.md
}

block c >"$work/embed.c"
diff tests/embed/embed.c "$work/embed.c" || {
    echo "README.md shows another example than tests/embed/embed.c"
    exit 1
}
block lua >"$work/recipe.lua"
diff recipes/nvfp4_12b.lua "$work/recipe.lua" || {
    echo "README.md shows another recipe than recipes/nvfp4_12b.lua"
    exit 1
}
# shellcheck disable=SC2016 # backquotes of Markdown
for page in README.md runtime/README.md kernels/README.md; do
    grep -oE '`(runtime|kernels|lua|recipes|models|tests|\.ci)/[A-Za-z0-9_./*-]*`' "$page" |
        tr -d '`' | grep -v NAME | sort -u | while read -r path; do
        # Patterns stand for what they match.
        # shellcheck disable=SC2086
        set -- $path
        [ -e "$1" ] || { echo "$page names $path, which is not there"; exit 1; }
    done
done
