#!/bin/sh
# resume: what it goes on from, what it refuses and how it says so, and that the result is that of
# a run that was left alone. test_resume_kills.sh kills runs at random.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua
sed -e 's/steps = 3,/steps = 12, checkpoint = { every = 5 },/' small.lua >saves.lua
try saves.lua --out whole --quiet
want_status 0
want_out '^weights in whole/checkpoints/step-12$'
[ "$(ls whole/checkpoints)" = "$(printf 'step-10\nstep-12')" ] || wrong "keep = 2 keeps two"
[ "$(grep -c '"event":"checkpoint"' whole/metrics.jsonl)" = 3 ] || wrong "three were saved"

# same FOLDER: but for its times, and what shows them, the folder is that of the whole run.
same() {
    diff -r -x timing.jsonl -x report.html -x 'events.out.*' whole "$1" >differs || wrong "$1 is not whole: $(head -n 5 differs)"
    [ "$(wc -l <"$1/timing.jsonl")" -eq 12 ] || wrong "a time a step in $1"
}

# back FOLDER STEP: a run as if it had been ended somewhere behind that step's checkpoint.
back() {
    rm -rf "$1"
    cp -r whole "$1"
    for step in "$1"/checkpoints/step-*; do
        [ "${step##*-}" -le "$2" ] || rm -r "$step"
    done
}

# ---- no run to go on with ----

try resume
want_status 2
want_err 'which run folder'
try resume nowhere
want_status 1
want_err '^mptrun: nowhere: no such folder; name the folder of a run, such as runs/NAME-1$'
try resume saves.lua
want_status 1
want_err 'saves.lua: no such folder'
mkdir empty
try resume empty
want_status 1
want_err 'empty/recipe.lua: no such file: a run folder has the recipe that was run'
cp saves.lua empty/recipe.lua
try resume empty
want_status 1
want_err '^mptrun: empty: has no metrics.jsonl and no checkpoints, so it is no folder of a run$'
rm -r empty

# ---- done, or not begun ----

try resume whole
want_status 0
want_out '^whole has ended: 12 of 12 steps are done$'
want_no_err
same whole
back fresh 0
try resume fresh --quiet
want_status 0
same fresh
# What is said of an ended run is judged as of any other: refused where it is another recipe, and
# else told to have no effect.
for change in train.lr.peak=0.25 train.steps=20 data.seed=7; do
    try resume whole --set $change
    want_status 1
    want_err "was saved under another recipe: ${change%%=*}: "
done
try resume whole --set train.lr.peak=0.25 --allow-recipe-change
want_status 0
want_out '^whole has ended: 12 of 12 steps are done; what the command line changes has no effect, for no step is left: '
try resume whole --set train.checkpoint.keep=0
want_status 0
want_out '12 steps are done; what the command line changes has no effect'
same whole
# The last checkpoint was written, but not the end of the metrics: the validation is done again.
back late 12
sed -i '/"event":"eval"/d; /"event":"done"/d' late/metrics.jsonl
try resume late
want_status 0
want_err 'late goes on after step 12 of 12'
same late

# ---- from a checkpoint, with what an ended run leaves behind ----

back going 10
mkdir going/checkpoints/step-12.part going/checkpoints/step-5.old
touch going/checkpoints/step-12.part/model.safetensors going/checkpoints/step-5.old/x
printf '{"event":"step","st' >>going/metrics.jsonl
printf '{"step":1' >>going/timing.jsonl
try resume going
want_status 0
[ "$(grep -c '^warning: going/recipe\.lua:2: no-warmup' err)" = 1 ] || wrong "the recipe's own warning, once"
want_err '^mptrun: going goes on after step 10 of 12$'
want_out '^small: mlp tiny, 12 of 12 steps, 384 tokens'
same going
# The number of threads changes no byte.
back threads 10
try resume threads --quiet --threads 2
want_status 0
same threads

# More threads than cores: said, and as good.
many=$(($(getconf _NPROCESSORS_ONLN) + 1))
back many 10
try resume many --quiet --threads $many
want_status 0
want_err "^mptrun: --threads $many is more than this machine's"
same many
try saves.lua --out wide --quiet --threads $many
want_status 0
same wide

# Lines that the checkpoint counts on are gone: that is said.
back lost 10
head -n 5 whole/metrics.jsonl >lost/metrics.jsonl
try resume lost
want_status 0
want_err 'warning: lost/metrics.jsonl lacks its last [0-9]+ bytes before the checkpoint'

# All of them are gone: whole checkpoints are enough to go on.
back none 10
rm none/metrics.jsonl
try resume none
want_status 0
want_err 'warning: none/metrics.jsonl lacks its last [0-9]+ bytes before the checkpoint'
want_out '12 of 12 steps'
cmp none/checkpoints/step-12/model.safetensors whole/checkpoints/step-12/model.safetensors || wrong "other weights"

# ---- another device ----

# It is no other recipe, and it leaves a trace: an event before the first step there, on the page
# too, and once.
moved='"event":"device","step":10,"from":"cpu","to":"ref"'
back moves 10
if grep -q '"event":"device"' whole/metrics.jsonl; then wrong "a run that stays has moved"; fi
try resume moves --device ref --quiet
want_status 0
want_err 'was saved on the device cpu, and ref, which goes on from it, rounds sums otherwise'
[ "$(grep -c "$moved" moves/metrics.jsonl)" = 1 ] || wrong "the metrics do not say it"
grep -A 1 "$moved" moves/metrics.jsonl | tail -n 1 | grep -q '"event":"step","step":10,' || wrong "not before the step"
grep -q 'from cpu to ref, whose sums round otherwise' moves/report.html || wrong "the page does not say it"
try compare whole moves --out moved-compare
want_status 0
want_out 'MB  cpu until step 10, then ref$'
# No one command makes it again, and none is said to.
try moves/recipe.lua --until=plan --quiet
want_status 0
want_err 'do nothing; what it ended with is mptrun moves/recipe.lua --device ref$'
want_err 'went on with another recipe or device after step 10, so that no one command makes it again$'
# What goes on there goes on to the bit, with or without the word, and where it was ended before
# its first checkpoint on the new device, too.
for step in 10 12; do
    rm -rf again
    cp -r moves again
    [ $step = 12 ] || rm -r again/checkpoints/step-12
    sed -i '/"event":"done"/d' again/metrics.jsonl
    try resume again --quiet
    want_status 0
    cmp again/metrics.jsonl moves/metrics.jsonl || wrong "going on after step $step differs"
    cmp again/checkpoints/step-12/model.safetensors moves/checkpoints/step-12/model.safetensors || wrong "other weights after step $step"
done

# ---- damage ----

damage_at() { # FILE OFFSET: turns one byte over
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %o $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
for file in model.safetensors state.safetensors checkpoint.json; do
    back torn 12
    sed -i '/"event":"done"/d' torn/metrics.jsonl
    damage_at "torn/checkpoints/step-12/$file" 100
    try resume torn --quiet
    want_status 0
    want_err "warning: torn/checkpoints/step-12 is not whole and is passed over: .*$file: its bytes do not have their sum"
    same torn
    back cut 12
    truncate -s 90 "cut/checkpoints/step-12/$file"
    try resume cut --quiet
    want_status 0
    want_err "step-12 is not whole and is passed over"
    same cut
    back missing 12
    rm "missing/checkpoints/step-12/$file"
    try resume missing --quiet
    want_status 0
    want_err "step-12 is not whole and is passed over"
    same missing
done
for step in 10 12; do damage_at "torn/checkpoints/step-$step/state.safetensors" 3; done
try resume torn
want_status 1
want_err '^torn/checkpoints: none of its 2 checkpoints is whole; remove them, and the run begins anew$'
rm -r torn/checkpoints
try resume torn --quiet
want_status 0
same torn

# ---- from another directory ----

# Data that were found from where the run was started, and beside its recipe: found from there
# again, wherever the folder has gone, and nowhere else.
mkdir -p there/recipes
yes 'To be, or not to be, that is the question.' | head -n 200 >there/corpus.txt
sed -e 's|^  train|  data = text "beside.txt", train|' saves.lua >there/recipes/beside.lua
cp there/corpus.txt there/recipes/beside.txt
cp saves.lua there/recipes/given.lua
for how in given:--data=corpus.txt beside:--seed=1; do
    name=${how%%:*}
    (cd there && "$MPTRUN" "recipes/$name.lua" --out "$name" --quiet "${how#*:}") >out 2>err || wrong "$name did not train"
    mv "there/$name" "moved-$name"
    cp -r "moved-$name" "whole-$name"
    rm -r "moved-$name/checkpoints/step-12"
    try resume "moved-$name" --quiet
    want_status 0
    want_err "^mptrun: the files of the run are found from .*/there"
    diff -r -x timing.jsonl -x report.html -x 'events.out.*' -x checkpoint.json "whole-$name" "moved-$name" >differs || wrong "$name: $(head -n 5 differs)"
done
mv there/corpus.txt there/gone.txt
rm -r moved-given/checkpoints/step-12
try resume moved-given
want_status 1
want_err 'corpus.txt: No such file'
want_err 'go on from there, or name them by --data'
try resume moved-given --data there/gone.txt
want_status 0

# ---- another recipe ----

back other 10
cp -r other kept
try resume other --set train.lr.peak=0.25
want_status 1
want_err 'step-10: was saved under another recipe: train.lr.peak: 0.25, was 0.001; .*--allow-recipe-change'
try resume other --set data.seed=7
want_status 1
want_err 'another recipe: data.seed: 7, was 0'
try resume other --seed 5
want_status 2 # a run has its seed from its recipe
diff -r other kept || wrong "a refused resume has changed the folder"
try resume other --set train.lr.peak=0.25 --set train.steps=15 --allow-recipe-change
want_status 0
want_err 'warning: the run goes on with another recipe: train.steps: 15, was 12; train.lr.peak: 0.25, was 0.001'
want_out '15 of 15 steps'
head -n 12 whole/metrics.jsonl | cmp -n "$(head -n 12 whole/metrics.jsonl | wc -c)" - other/metrics.jsonl ||
    wrong "what came before has changed"
grep -q -- '^--   --set train.lr.peak=0.25$' other/recipe.lua || wrong "recipe.lua says nothing of it"
try resume other
want_status 0
want_out 'other has ended: 15 of 15'
try resume other --set train.steps=4 --allow-recipe-change
want_status 0
want_out '^other has ended: 15 steps are done, and the recipe has 4; what the command line changes has no effect'
try resume other --set train.steps=9 --set train.epochs=2
want_status 2
want_err "^mptrun: --set train.steps and --set train.epochs both say how long the run is; leave one out$"
back long 10
try resume long --set 'precision=nvfp4'
want_status 1
want_err "use.fprop.x: e2m1 block=1x16 scale=current scale_format=e4m3 \.\.\., was not said; .*; and [0-9]+ more; go on with"
[ "$(tail -n 1 err | wc -c)" -lt 600 ] || wrong "a line that nobody reads"
try resume other --set train.steps=16 --allow-recipe-change --quiet
want_status 0
grep -c 'train.steps' other/recipe.lua | grep -q '^1$' || wrong "a later value has not replaced the earlier"
# A default that is said is what ran, so that it is no other recipe.
back said 10
try resume said --quiet --set train.micro_batch=2
want_status 0
cmp said/metrics.jsonl whole/metrics.jsonl || wrong "what ran, said by hand, is another run"
back said 10
try resume said --set train.micro_batch=1
want_status 1
want_err 'another recipe: train.micro_batch: 1, was 2; '
# What decides no number may change at any time.
back often 10
try resume often --quiet --set train.checkpoint.keep=0
want_status 0
[ "$(ls often/checkpoints)" = "$(printf 'step-10\nstep-12')" ] || wrong "keep = 0 keeps all"
# What no change allows.
for change in 'precision.state.adam_v=bf16:parameter .* moments fp32 fp32 in it, and .* moments fp32 bf16' \
    'train.optimizer=sgd:was made with the optimizer adamw, and the recipe has sgd' \
    'model.size=small:.'; do
    back fixed 10
    try resume fixed --set "${change%%:*}" --allow-recipe-change
    [ "$status" -ne 0 ] || wrong "${change%%:*} was allowed"
    want_err "${change#*:}"
done

# ---- a loss that leaves for good ----

# A second moment in FP16 underflows, and the steps become huge. The spike watch takes the new
# level for normal; the end does not.
sed -e 's/precision = {/precision = { state = { adam_v = fp16 },/' -e 's/small/leaves/' \
    -e "s/steps = 3, .*/steps = 30, batch = 2, sequence = 16, lr = constant { peak = 1e-2 }, checkpoint = { every = 12 } },/" \
    -e 's/  version/  allow = { "no-warmup", "lost-update" }, version/' small.lua >leaves.lua
try leaves.lua --out leaves --quiet
want_status 3
want_err '^warning: step [0-9]+: training diverges: the last 8 losses are all above 6\.[0-9]+, and the first was 4\.[0-9]+$'
[ "$(grep -c 'training diverges' err)" = 1 ] || wrong "it is said once, as it begins"
want_err '^the last 8 losses are all above .*: training has diverged; lower the learning rate'
want_out '^watch: .*, a loss far above the first since step [0-9]+$'
[ "$(grep -c '^watch' out)" = 1 ] || wrong "the watch speaks once"
grep -q '"event":"diverging","step":' leaves/metrics.jsonl || wrong "no event as it begins"
grep -q '"event":"diagnosis","step":29,"reason":"high_loss"' leaves/metrics.jsonl || wrong "no event at the end"
grep -q 'the loss is far above the first' leaves/diagnosis.txt || wrong "no diagnosis"
cp leaves/metrics.jsonl kept.jsonl
rm -r leaves/checkpoints/step-30
try resume leaves --quiet
want_status 3
cmp kept.jsonl leaves/metrics.jsonl || wrong "the end is another one"
try leaves.lua --set precision.state.adam_v=fp32 --out stays --quiet
want_status 0
if grep -q diverg stays/metrics.jsonl; then wrong "a run that learns was called diverged"; fi

# ---- a disk that takes no more ----

# Nothing is left of a folder that could not be filled, and what stood beside it stays.
mkdir -p early/kept
(ulimit -f 2; exec "$MPTRUN" saves.lua --out early/run --quiet) >out 2>err && wrong "it should have failed"
want_err '^mptrun: early/run/.*: cannot write: File too large; check space and permissions$'
[ "$(ls early)" = kept ] || wrong "something is left"
try saves.lua --out early/run --quiet
want_status 0

# The limit lets lines of metrics through, and no checkpoint.
status=0
(ulimit -f 120; exec "$MPTRUN" saves.lua --out full --quiet) >out 2>err || status=$?
tried="saves.lua under a limit of file sizes"
want_status 4
want_err '^the checkpoint after step 5 was not saved: full/checkpoints/.*File too large; .*the checkpoints before it are as they were'
[ -z "$(ls full/checkpoints)" ] || wrong "something incomplete is there"
try resume full --quiet
want_status 0
same full
back blocked 0
rm -r blocked/checkpoints
touch blocked/checkpoints
try resume blocked --quiet
want_status 4
want_err '^blocked/checkpoints: is no folder$'
rm blocked/checkpoints
try resume blocked --quiet
want_status 0
same blocked

# ---- two at once, and an early end ----

sed -e 's/steps = 3,/steps = 100000000,/' small.lua >endless.lua
env --default-signal=INT "$MPTRUN" endless.lua --out busy --quiet >out.busy 2>err.busy &
pid=$!
tries=0
until grep -q '"step":3' busy/metrics.jsonl 2>/dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 300 ] || { kill -KILL $pid; wrong "no third step"; }
    sleep 0.1
done
try resume busy
code=$status
cp err err.resume
kill -INT $pid
wait $pid || wrong "the run did not end well"
cp err.resume err
status=$code
want_status 1
want_err '^mptrun: busy: another process trains in this folder; wait for it, or end it$'
# Ctrl-C has saved, and left a last line that the run goes on without.
tail -n 1 busy/metrics.jsonl | grep -q '"event":"done"' || wrong "no last line"
ended=$(ls busy/checkpoints)
try resume busy --set train.steps=$((${ended#step-} + 2)) --allow-recipe-change --quiet
want_status 0
[ "$(grep -c '"event":"done"' busy/metrics.jsonl)" = 1 ] || wrong "two ends"
grep -v '"event":"step"' busy/metrics.jsonl | grep -c checkpoint | grep -q '^1$' ||
    wrong "the early end left a line"
