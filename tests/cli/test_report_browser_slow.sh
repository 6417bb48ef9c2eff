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
[ "$(grep -o '<svg role="img"' out | wc -l)" -eq 5 ] || wrong "not every plot is drawn"
[ "$(grep -o '<path class="line[^>]* d="M[0-9]' out | wc -l)" -eq 6 ] || wrong "a curve is missing"
[ "$(grep -o '<canvas' out | wc -l)" -eq 1 ] || wrong "the map is missing"
# On five plots, and above the map, which has their axis.
[ "$(grep -o '>&lt;b&gt;<title>&lt;b&gt;</title></text>' out | wc -l)" -eq 6 ] ||
    wrong "the phase's name is not shown as it is"
[ "$(grep -o '<input type="checkbox">' out | wc -l)" -eq 5 ] || wrong "the axes have no switch"

# ticks: how many the y axis of each plot has, in the order of the page.
ticks() {
    sed 's/<svg /\n&/g' out | grep '^<svg role="img"' | while read -r plot; do
        echo "$plot" | grep -o '<text class="y"' | wc -l
    done | tr '\n' ' '
}
# A logarithmic axis within a decade (loss) has ticks to read off, as one over many decades has.
# One point has one tick below it.
page() { # METRICS: the page of a run with these lines, as drawn
    mkdir -p "$WORK/page"
    printf '%s\n' "$@" >"$WORK/page/metrics.jsonl"
    "$MPTRUN" report "$WORK/page" >/dev/null
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage \
        --user-data-dir="$WORK/profile" --enable-logging=stderr --v=0 --virtual-time-budget=5000 \
        --dump-dom "file://$WORK/page/report.html" >out 2>err
    if grep -E 'CONSOLE|Uncaught' err; then wrong "the console has errors"; fi
}
step='"event":"step","lr":0.001,"loss_scale":1'
page "{$step,\"step\":0,\"tokens\":100,\"loss\":3,\"grad_norm\":2.5}" \
    "{$step,\"step\":1,\"tokens\":200,\"loss\":8e8,\"grad_norm\":4.9}"
for n in $(ticks); do
    if [ "$n" -lt 3 ] || [ "$n" -gt 12 ]; then wrong "an axis has $n ticks: $(ticks)"; fi
done
page "{$step,\"step\":0,\"tokens\":5120,\"loss\":3,\"grad_norm\":2.5}"
[ "$(sed 's/<svg /\n&/g' out | grep -m 1 '^<svg role="img"' | grep -o '>5120</text>' | wc -l)" -eq 1 ] ||
    wrong "one point has not one tick"
