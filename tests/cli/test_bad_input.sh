#!/bin/sh
# Bad input of every kind: each is refused with the exit status of its kind, a message that says
# where and what, and no run folder left behind.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# ---- the recipe file ----

for command in run plan check; do
    try $command missing.lua
    want_status 1
    want_err 'missing\.lua'
    want_no_out
    mkdir -p folder.lua
    try $command folder.lua
    want_status 1
    want_err 'folder\.lua'
    : >empty.lua
    try $command empty.lua
    want_status 1
    want_err 'empty\.lua'
    printf '\033Lua\124\000\001\002' >binary.lua
    try $command binary.lua
    want_status 1
    want_err 'binary\.lua'
    head -c 4096 /dev/urandom >noise.lua
    try $command noise.lua
    want_status 1
    want_err 'noise\.lua'
    echo 'return {' >syntax.lua
    try $command syntax.lua
    want_status 1
    want_err 'syntax\.lua:[0-9]+:'
    echo 'return 3' >three.lua
    try $command three.lua
    want_status 1
    want_err 'three\.lua'
    echo 'error("stop")' >raises.lua
    try $command raises.lua
    want_status 1
    want_err 'raises\.lua:1: .*stop'
done

# ---- a misspelt field: the place, the path and the way out ----

recipe typo.lua
sed -i '7s/rounding/roundng/' typo.lua
for command in run plan check; do
    try $command typo.lua
    want_status 1
    want_err "typo\.lua:7: .*roundng.*did you mean 'rounding'\?"
done

# ---- --set, --data, --out ----

recipe good.lua
try check good.lua
want_status 0
try plan good.lua --set train.stpes=3
want_status 1
want_err "stpes.*did you mean 'steps'\?"
try plan good.lua --set train.steps=many
want_status 1
want_err 'train\.steps'
try plan good.lua --set train.batch=0
want_status 1
want_err 'train\.batch'

try good.lua --data missing.txt
want_status 1
want_err 'missing\.txt'
: >empty.txt
try good.lua --data empty.txt
want_status 1
want_err 'empty\.txt'
echo short >short.txt
try good.lua --data short.txt
want_status 1
want_err 'short\.txt'
mkdir -p folder
try good.lua --data folder
want_status 1
want_err 'folder'

mkdir -p used && echo keep >used/file
try good.lua --out used
want_status 2
want_err 'used is not empty'
try good.lua --out used/file
want_status 2
want_err 'is a file; name a folder'
try good.lua --out used/file/run
want_status 4
want_err 'used/file/run: cannot make the run folder: Not a directory'
[ ! -e runs ] || wrong "a refused run left a folder behind"

# check looks at all, and the first fault decides the status.
try check good.lua typo.lua good.lua
want_status 1
want_out 'good\.lua'
[ "$(grep -c 'good\.lua' out)" -eq 2 ] || wrong "check stopped at the first fault"
