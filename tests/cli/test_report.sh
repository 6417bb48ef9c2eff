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

# The step that ended a run is in every file; what was saved then is no good checkpoint, on the
# page, on the terminal and to resume.
try small.lua --set train.watch.nonfinite=stop --inject grad:lm_head.weight=nan@1 --quiet --out four
want_status 3
want_out '^no good checkpoint: four/checkpoints/step-2 is the state in which training stopped$'
[ "$(grep -c '"event":"step"' four/metrics.jsonl)" -eq 2 ] || wrong "not two steps"
for tag in train/lr train/skipped train/tokens_per_s; do
    [ "$(grep -ao "$tag" four/events.out.tfevents.* | wc -l)" -eq 2 ] || wrong "not two $tag"
done
[ "$(wc -l <four/timing.jsonl)" -eq 2 ] || wrong "not two lines of timing"
grep -q '<h2>Why it stopped</h2>' four/report.html || wrong "the page lacks the diagnosis"
grep -q 'checkpoints/step-2, which is no good checkpoint' four/report.html ||
    wrong "the page does not tell what was saved at the stop"
try resume four --quiet --set train.watch.max_skips=1
want_err '^mptrun: warning: four/checkpoints/step-2 is no good checkpoint but the state in which '

# The same with nothing said, and a name that ends with a slash.
try report one --quiet
want_status 0
want_no_out
want_no_err
try report one//
want_out '^report in one/report\.html$'

# A pipe, which nobody writes into, and a folder are no files of a run.
cp -r two odd
rm odd/telemetry.jsonl
mkfifo odd/telemetry.jsonl
for command in report resume; do
    tried="$command odd"
    status=0
    timeout 60 "$MPTRUN" "$command" odd >out 2>err || status=$?
    want_status 1
    want_err 'odd/telemetry\.jsonl: not a regular file'
done
rm odd/telemetry.jsonl odd/recipe.lua odd/metrics.jsonl
mkfifo odd/recipe.lua
mkdir odd/metrics.jsonl
for command in report resume sample compare; do
    tried="$command odd"
    status=0
    timeout 60 "$MPTRUN" "$command" odd >out 2>err </dev/null || status=$?
    case $status in 1 | 2) ;; *) wrong "a pipe is taken for a file" ;; esac
done

# What is no folder of a run; a page of somebody else.
try report nowhere
want_status 1
want_err '^nowhere: there is no such folder; name the folder of a run'
try report small.lua
want_status 1
want_err '^small\.lua: is a file, and no folder of a run; '
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
    for columns in 120 60 46 20; do
        tried="(on a terminal of $columns columns)"
        status=0
        script -qec "stty cols $columns && $MPTRUN small.lua --set train.steps=40 --out w$columns" \
            /dev/null >out 2>err </dev/null || status=$?
        want_status 0
        tr '\r' '\n' <out | grep '^[0-9]* of 40 steps' >lines || wrong "no line of progress"
        [ "$columns" -le 20 ] || grep -q '  ETA [0-9:]*  main *$' lines ||
            wrong "no phase in the line of progress"
        grep -qE '(steps|loss [0-9]+\.[0-9]{4}.*|main|[0-9]:[0-9]{2}|validating) *$' lines ||
            wrong "the line of progress is cut"
        if grep -E 'loss *$|loss [0-9]+\.?[0-9]{0,3} *$' lines; then wrong "a number is cut"; fi
        if grep 'steps  v' lines | grep -v 'validating *$'; then wrong "a word is cut"; fi
        [ "$(awk '{ sub(/ *$/, "") } length > most { most = length } END { print most }' lines)" -lt \
            "$columns" ] || wrong "the line of progress wraps"
    done
fi
