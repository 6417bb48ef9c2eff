#!/bin/sh
# run and signals: before training, the first one during it, the second one.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
sed 's/steps = 3,/steps = 100000000,/' small.lua >endless.lua
# Its validation lasts some twenty seconds, for the data hold much back and the device is the slow
# one: the second signal comes in the midst of it, on a busy machine too.
head -c 40000000 /dev/zero >zeros
sed -e 's/steps = 3,/steps = 100000000, eval = { every = 1, batches = 100000000 },/' \
    -e 's/batch = 2, sequence = 16/batch = 1, sequence = 1024/' small.lua >validating.lua

# start OUT ARGUMENTS: in the background, with signals as a terminal gives them; its number in pid.
start() {
    to=$1
    shift
    tried="$*"
    env --default-signal=INT,TERM "$MPTRUN" "$@" >"$to" 2>err &
    pid=$!
}

# until_in FILE PATTERN: waits for a line, half a minute at most.
until_in() {
    tries=0
    until grep -q -- "$2" "$1" 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 300 ]; then
            kill -KILL "$pid" || true
            wrong "no '$2' in $1"
        fi
        sleep 0.1
    done
}

# The status that a signal leaves; a process that a signal does not end is ended here.
ended() {
    tries=0
    while kill -0 "$pid" 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 600 ]; then
            kill -KILL "$pid"
            wrong "still running a minute after the signal"
        fi
        sleep 0.1
    done
    status=0
    wait "$pid" || status=$?
}

# What comes half a second after the first signal is a wish of its own.
pause() { sleep 0.7; }

# A pipe that takes nothing more, and has a reader that never reads.
mkfifo full-pipe
exec 3<>full-pipe
dd if=/dev/zero of=full-pipe oflag=nonblock bs=4096 count=1000 2>/dev/null || true

for signal in INT:130:Ctrl-C:TERM TERM:143:SIGTERM:INT; do
    name=${signal%%:*}
    other=${signal##*:}
    code=$(echo "$signal" | cut -d: -f2)

    # The first one during training: after the step at hand, with whole files and status 0.
    start out endless.lua --out "first-$name"
    until_in "first-$name/metrics.jsonl" '"event":"step"'
    kill -"$name" "$pid"
    ended
    want_status 0
    want_err '^mptrun: stopping after this step; once more to stop now$'
    want_err "stopped early, as $(echo "$signal" | cut -d: -f3) asked"
    want_out "^run folder first-$name$"
    tail -n 1 "first-$name/metrics.jsonl" | grep -q '"event":"done"' ||
        wrong "metrics do not end with done"

    # The second one: at once, though the validation is far from its end.
    start out validating.lua --data zeros --device ref --out "second-$name"
    until_in "second-$name/timing.jsonl" '"step":0'
    # Both at once are one wish: `timeout` sends its signal to the process and to its group. Of
    # two alike the system may keep one, so these are not.
    kill -"$name" "$pid"
    kill -"$other" "$pid" || wrong "the first signal during a validation ended it"
    until_in err 'stopping after this step'
    pause
    kill -0 "$pid" || wrong "two signals at once during a validation ended it"
    kill -"$name" "$pid"
    ended
    want_status "$code"

    # Before training there is nothing to wait for. The run is held up where it prints its plan.
    start full-pipe small.lua --out "none-$name"
    sleep 0.5
    kill -"$name" "$pid" || wrong "the run was not held up"
    ended
    want_status "$code"
    [ ! -e "none-$name" ] || wrong "a run that was ended before training left a folder"
done

# A sweep compiles before it trains, which starts threads: they leave the signal alone, too.
start out sweep "$ROOT/recipes/gpt2_fp8.lua" --each-gemm --data zeros \
    --set train.batch=2 --out swept
until_in err 'tokens/s'
kill -INT "$pid"
ended
want_status 0
want_err '^mptrun: stopping after this step; once more to stop now$'

# Work on a file: the first signal ends it after the tensor at hand, SIGHUP too, the second one
# at once, and so does a pipe that nobody reads. No part of the output is left.
{
    printf '\370\001\0\0\0\0\0\0%-504s' \
        '{"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"F32","shape":[4096,4096],"data_offsets":[1,67108865]},"y":{"dtype":"F32","shape":[4096,4096],"data_offsets":[67108865,134217729]}}'
    head -c 134217729 /dev/zero
} >big.safetensors
for how in HUP:129:1 INT:130:1 TERM:143:1 HUP:129:2 TERM:143:2 PIPE:141:1; do
    name=${how%%:*}
    code=$(echo "$how" | cut -d: -f2)
    mkdir "$how"
    start out quantize 'nvfp4 { rounding = "stochastic" }' big.safetensors "$how/out.safetensors" \
        --device ref --threads 1
    sleep 0.5
    kill -"$name" "$pid" || wrong "it was done before the signal"
    if [ "${how##*:}" = 2 ]; then
        until_in err 'stopping after this tensor; once more to stop now'
        pause
        kill -"$name" "$pid" || wrong "it ended at the first signal"
    fi
    ended
    want_status "$code"
    [ -z "$(ls "$how")" ] || wrong "a part of a file was left behind"
done

# nohup stays what it is: a SIGHUP that is ignored ends nothing.
tried='quantize under nohup'
trap '' HUP # before the start: the signal may come as soon as there is a process
"$MPTRUN" quantize nvfp4 big.safetensors nohup.safetensors --threads 1 >out 2>err &
pid=$!
trap - HUP
sleep 0.2
kill -HUP "$pid" || true
ended
want_status 0
