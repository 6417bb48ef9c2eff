#!/bin/sh
# report: what a run leaves for a reader, the page made again of runs in any state, the line of
# progress on a terminal.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
telemetry='--set train.telemetry.every=2 --set train.steps=6'

# shellcheck disable=SC2086 # options
try small.lua $telemetry --set train.checkpoint.every=2 --set train.checkpoint.keep=0 --quiet --out one
want_status 0
for file in report.html telemetry.jsonl; do
    [ -s "one/$file" ] || wrong "the run folder lacks $file"
done
[ "$(find one -name 'events.out.tfevents.*' -size +0 | wc -l)" -eq 1 ] || wrong "no event file"
[ "$(cut -d, -f1 one/telemetry.jsonl | sort -u | tr -d '\n')" = '{"step":0{"step":2{"step":4' ] ||
    wrong "telemetry is not of every second step"
grep -aq 'quant/[a-z0-9._]*/fprop.x/sqnr' one/events.out.tfevents.* || wrong "no operand is in the events"
grep -q '^<body><main>$' one/report.html || wrong "report.html is no page"
grep -q '<p class="verdict good">Done after 6 steps: validation loss ' one/report.html ||
    wrong "the report does not begin with its verdict"

# The same run leaves the same telemetry, and goes on with it from a checkpoint.
# shellcheck disable=SC2086
try small.lua $telemetry --quiet --out two
cmp one/telemetry.jsonl two/telemetry.jsonl || wrong "two runs count differently"
cp one/telemetry.jsonl whole.jsonl
rm -r one/checkpoints/step-6
try resume one --quiet
want_status 0
cmp whole.jsonl one/telemetry.jsonl || wrong "a run that goes on counts differently"
[ "$(find one -name 'events.out.tfevents.*' | wc -l)" -eq 2 ] ||
    wrong "a run that goes on has no event file of its own"

# The page again: the same bytes of the same folder.
cp one/report.html before.html
rm one/report.html
try report one
want_status 0
want_out '^report in one/report\.html$'
want_no_err
cmp before.html one/report.html || wrong "the page made again differs"

# Of a run that is going on, or was killed in the midst of a line.
{ sed -n '/"step":4/q; p' two/metrics.jsonl && printf '{"event":"step","st'; } >part
mv part two/metrics.jsonl
try report two
want_status 0
grep -q '<p class="verdict plain">No end is recorded: 4 of 6 steps so far' two/report.html ||
    wrong "a run without an end is not told as one"

# A run that stopped itself.
try small.lua --set precision.base=fp16 --set precision.loss_scale=1e19 --quiet --out three
want_status 3
grep -q '<p class="verdict bad">Diverged after 3 steps' three/report.html ||
    wrong "a run that stopped itself is not told as one"

# What is no folder of a run; a page of somebody else.
try report nowhere
want_status 1
want_err '^nowhere: there is no such folder$'
mkdir empty
try report empty
want_status 1
want_err '^empty/metrics\.jsonl: .*; name the folder of a run, which has one$'
[ -z "$(ls empty)" ] || wrong "something was written into a folder that is none of a run"
echo mine >two/report.html
try report two
want_status 1
want_err '^two/report\.html: is there and is no page of a report, so it is not replaced; '
[ "$(cat two/report.html)" = mine ] || wrong "another's file was replaced"
try report
want_status 2
want_err 'which run folder\?'

# The line of progress: all of it on a wide terminal, and what matters most on a narrow one. It
# never wraps.
if command -v script >/dev/null 2>&1; then
    for columns in 120 60 46; do
        tried="(on a terminal of $columns columns)"
        status=0
        script -qec "stty cols $columns && $MPTRUN small.lua --set train.steps=40 --out w$columns" \
            /dev/null >out 2>err </dev/null || status=$?
        want_status 0
        tr '\r' '\n' <out | grep '^step [0-9]*/40  loss' >lines || wrong "no line of progress"
        grep -q '  ETA [0-9:]*  main *$' lines || wrong "no phase in the line of progress"
        [ "$(awk '{ sub(/ *$/, "") } length > most { most = length } END { print most }' lines)" -lt \
            "$columns" ] || wrong "the line of progress wraps"
    done
fi
