#!/bin/sh
# report.html in a headless browser: no error on its console, and every drawing is drawn. Left
# out, saying so, where there is no Chromium.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

browser=$(command -v chromium || command -v chromium-browser || true)
[ -n "$browser" ] || {
    echo "no chromium here: the page is not opened"
    exit 77
}

recipe small.lua
sed 's/  train =/  phases = { phase { "a" }, phase { "<b>", from = 4 } },\n  train =/' small.lua >two.lua
try two.lua --set train.steps=12 --set train.telemetry.every=1 --set train.eval.every=4 --quiet \
    --set precision.loss_scale=1024 --inject grad:lm_head.weight=nan@6 --out run
want_status 0

status=0
timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
    --user-data-dir="$WORK/profile" --enable-logging=stderr --v=0 --virtual-time-budget=5000 \
    --dump-dom "file://$WORK/run/report.html" >out 2>err || status=$?
tried="(the page in $browser)"
want_status 0
if grep -E 'CONSOLE|Uncaught' err; then wrong "the console has errors"; fi
# Six drawings: loss, rate, norm, speed, loss scale, map.
want_out '<html[^>]* data-drawn="6"'
[ "$(grep -o '<svg' out | wc -l)" -eq 5 ] || wrong "not every plot is drawn"
[ "$(grep -o '<path class="line[^>]* d="M[0-9]' out | wc -l)" -eq 6 ] || wrong "a curve is missing"
[ "$(grep -o '<canvas' out | wc -l)" -eq 1 ] || wrong "the map is missing"
grep -q '>&lt;b&gt;</text>' out || wrong "the phase's name is not shown as it is"
