#!/bin/sh
# words.sh ROOT: nothing in the tree is marked as left for later.
set -eu
cd "$1"
marks='TO''DO|FIX''ME|XX''X|HA''CK'
if find . -path './build*' -prune -o -path ./.git -prune -o -path ./runs -prune -o -path ./shared -prune -o -type f -print |
    grep -vE '\.(safetensors|bin)$' | xargs grep -HnIwE "$marks"; then
    echo "finish these, or file them: the tree holds no marks"
    exit 1
fi
