#!/bin/sh
# run: the folder it leaves, what it says where, repeatability, and the end by a signal.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

recipe small.lua

try small.lua --set train.seed=5 --out one
want_status 0
want_out 'linear layers by format'
want_out '^validation loss [0-9.]+ nats a token: '
want_out '^run folder one$'
want_err '^3 of 3 steps  loss '
for file in recipe.lua plan.json metrics.jsonl telemetry.jsonl timing.jsonl report.html; do
    [ -s "one/$file" ] || wrong "the run folder lacks $file"
done
[ "$(grep -c '"event":"step"' one/metrics.jsonl)" -eq 3 ] || wrong "not one line a step"
[ "$(wc -l <one/timing.jsonl)" -eq 3 ] || wrong "not one line of timing a step"
tail -n 1 one/metrics.jsonl | grep -q '"event":"done"' || wrong "metrics do not end with done"
grep -q -- '--set train.seed=5' one/recipe.lua || wrong "recipe.lua does not tell the --set"

tail -n 1 err | grep -qx '3 of 3 steps  validating' || wrong "the last validation is not announced"

# A note names a phase's first step as the recipe does, from 0; the line of progress counts the
# steps that are done, and says so.
sed 's/  train =/  phases = { phase { "a" }, phase { "b", from = 2 } },\n  train =/' small.lua >two.lua
try two.lua --out phases
want_status 0
grep -A 1 "^step 2: phase 'b' begins$" err | tail -n 1 | grep -q '^3 of 3 steps  loss ' ||
    wrong "phase b does not begin with the step that is shown"

# More threads than cores are taken, with a word about it.
try small.lua --until=plan --threads $(($(getconf _NPROCESSORS_ONLN) + 1))
want_status 0
want_err "^mptrun: --threads [0-9]+ is more than this machine's [0-9]+ cores"

# The same again gives the same bytes.
try small.lua --seed 5 --out two --quiet
want_status 0
# What the recipe is warned of is said however quiet the run is, and once.
grep -vE '^mptrun: warning: the device is the CPU: |^warning: small\.lua:2: no-warmup: train\.lr\.warmup is 0' err >others || true
cmp -s others /dev/null || wrong "more than the recipe's warning"
[ "$(grep -c no-warmup err)" -eq 1 ] || wrong "not once"
[ "$(wc -l <out)" -le 4 ] || wrong "--quiet prints more than the result"
cmp one/metrics.jsonl two/metrics.jsonl || wrong "two runs differ"

# A recipe.lua of a run folder prints the command that makes the run again: to the byte, whatever
# the run was told, when a shell reads it.
mkdir -p "it's here"
cp one/checkpoints/step-3/model.safetensors "it's here/w.safetensors"
try small.lua --set train.steps=4 --set 'precision=nvfp4' --device ref \
    --seed 6 --weights "it's here/w.safetensors" --inject grad:lm_head.weight=inf@2 --out "it's here/told" --quiet
want_status 0
try "it's here/told/recipe.lua" --out untold --quiet
want_status 0
want_err 'the same again is mptrun .*told/recipe.lua. --set train.steps=4 .* --device ref '
cmp -s "it's here/told/metrics.jsonl" untold/metrics.jsonl && wrong "what it was told changes nothing"
again=$(sed -n 's/.*the same again is mptrun //p' err)
(eval "\"$MPTRUN\" $again --out again --quiet") >out 2>err || wrong "a shell does not take the command"
cmp "it's here/told/metrics.jsonl" again/metrics.jsonl || wrong "the command gives another run"
[ ! -s err ] || ! grep -q 'same again' err || wrong "it still lacks something"

# A run whose steps were all skipped stopped itself; one whose loss is NaN says that.
try small.lua --set precision.base=fp16 --set precision.loss_scale=1e19 --quiet --out skipped
want_status 3
want_err '^all 3 steps were skipped, so nothing was trained; '
want_out '^validation loss [0-9.]+ nats a token: '
try small.lua --set precision.base=fp16 --set train.lr.peak=1e6 --quiet --out nan
want_status 3
want_err '^2 of 3 steps were skipped: training has diverged; '
want_out '^validation loss NaN$'

# Without --out: the next free runs/NAME-N.
for n in 1 2; do
    try small.lua --quiet
    want_status 0
    [ -d "runs/small-$n" ] || wrong "runs are not numbered"
done

# --dump alone prints the value of the stage and trains nothing.
try small.lua --dump=precise --out zero
want_status 0
want_out 'quantize'
[ ! -e zero ] || wrong "--dump left a run folder"
try small.lua --dump=order --until=run --out zero
want_status 0
[ "$(grep -c '"event":"step"' zero/metrics.jsonl)" -eq 1 ] || wrong "--dump --until=run: one step"

# --until: the stages before training leave no folder; run takes one step.
try small.lua --until=plan --out three
want_status 0
[ ! -e three ] || wrong "--until=plan left a run folder"
try small.lua --until=run --out four
want_status 0
[ "$(grep -c '"event":"step"' four/metrics.jsonl)" -eq 1 ] || wrong "--until=run: one step"

# A disk that takes no more is the machine's fault. A limit on file sizes stands in for it.
tried='(files limited to 512 bytes)'
status=0
(ulimit -f 1 && exec "$MPTRUN" small.lua --quiet --out six) >out 2>err || status=$?
want_status 4
want_err '^mptrun: six/(plan\.json|recipe\.lua|models/mlp\.lua): cannot write'

# Where it fills up during training, the lines that are there are whole.
tried='(files limited to 64 KiB)'
status=0
(ulimit -f 128 && exec "$MPTRUN" small.lua --set train.steps=3000 --quiet --out full) >out 2>err ||
    status=$?
want_status 4
want_err '^(mptrun: full/(metrics|timing)\.jsonl: cannot write|full/events\.out\.tfevents\.[^:]*): File too large'
want_err 'full holds the steps until then'
for file in metrics timing; do
    [ -s "full/$file.jsonl" ] || wrong "$file.jsonl is empty"
    [ -z "$(tail -c 1 "full/$file.jsonl")" ] || wrong "the last line of $file.jsonl is torn"
    if grep -qvE '^\{.*\}$' "full/$file.jsonl"; then wrong "$file.jsonl has a torn line"; fi
done

# Two runs into one new folder, both past their first look before one makes its files: one
# trains, the other is refused, and the files are those of one run.
for n in 1 2; do
    (
        status=0
        "$MPTRUN" small.lua --seed $n --quiet --out both >"out-$n" 2>"err-$n" || status=$?
        echo $status >"status-$n"
    ) &
done
wait
cat err-1 err-2 >err
cat out-1 out-2 >out
tried='(twice at once, --out both)'
status=$(sort status-1 status-2 | tr -d '\n')
[ "$status" = 02 ] || wrong "wanted one run to end with 0 and one with 2"
want_err 'both(/metrics\.jsonl is there already: another run has taken the folder| is not empty)'
winner=1
[ "$(cat status-1)" -eq 0 ] || winner=2
try small.lua --seed $winner --quiet --out alone
cmp both/metrics.jsonl alone/metrics.jsonl || wrong "the refused run touched the other's metrics"
cmp both/recipe.lua alone/recipe.lua || wrong "the refused run touched the other's recipe"

# A model that does not fit is refused before a folder is made.
try "$RECIPES/nvfp4_12b.lua" --model full --quiet --out seven
want_status 4
want_err 'training needs [0-9.]+ GB|out of memory'
[ ! -e seven ] || wrong "a run that was refused left a folder behind"

# A shipped recipe, twice, and on one thread: the losses are the same to the last byte.
for threads in 2 2 1; do
    rm -rf gpt2-b
    [ ! -e gpt2-a ] || mv gpt2-a gpt2-b
    try "$RECIPES/gpt2_nvfp4.lua" --set train.steps=2 --threads $threads --quiet --out gpt2-a
    want_status 0
    [ ! -e gpt2-b ] || cmp gpt2-a/metrics.jsonl gpt2-b/metrics.jsonl ||
        wrong "two runs of gpt2_nvfp4 differ"
done

# Every tensor of a step is the same on one thread and on two, the quantizers' among them.
for threads in 1 2; do
    try plan "$RECIPES/gpt2_nvfp4.lua" --dump=run --threads $threads
    want_status 0
    want_out 'quantize'
    mv out "dump-$threads"
done
cmp dump-1 dump-2 || wrong "the number of threads changes a tensor"

# Batches that do not last, and leave nothing over: each said once. A vocabulary set beside --data.
{ for i in 1 2 3 4; do printf '\\00%s\\0\\0\\0\\002\\0\\0\\0\\003\\0\\0\\0' $i; done; } >rows.txt
# shellcheck disable=SC2059 # the escapes are the data
printf "$(cat rows.txt)" | stored rows.st '{"tokens":{"dtype":"I32","shape":[2,2,3],"data_offsets":[0,48]}}'
recipe batched.lua
try batched.lua --data rows.st --set train.sequence=2 --set train.eval.every=1 --set data.vocab=77 \
    --out batched --quiet
want_status 0
[ "$(grep -c 'rows.st, 4 rows of 2 tokens: the run takes 1.5 epochs: its windows last for 2 of 3 steps, and then come again' err)" -eq 1 ] || wrong "not once"
[ "$(grep -c 'no validation: batches of rows.st.* leave no sequence over' err)" -eq 1 ] || wrong "not once"
try plan batched.lua --data rows.st --set train.sequence=2 --set data.vocab=77 --json
want_status 0
grep -q '"parameters": 13216' out || wrong "the vocabulary was dropped"
try plan batched.lua --data rows.st --set train.sequence=2 --set data.vocab=3
want_status 1
printf 'some text of no great length, but long enough for a sequence' >some.txt
try plan batched.lua --data some.txt --set data.vocab=77
want_status 1
want_err 'data.vocab: some.txt is text, which has the 256 bytes'
# Several files by a glob, in epochs: 2 files of 24 windows of 8, 5 a step.
for name in one two; do head -c 193 /dev/zero | tr '\0' "${name%??}" >"part_$name.txt"; done
try small.lua --data 'part_*.txt' --set data.order=shuffle --set data.validation=0 --set train.epochs=1 \
    --set data.remainder=step --set train.batch=5 --set train.micro_batch=5 --set train.sequence=8 --out parts
want_status 0
want_out 'bytes of 2 files, part_one.txt to part_two.txt, 386 tokens'
want_out 'shuffled, 1 epoch of 48 windows, of which 3 fill no batch'
grep '"event":"step"' parts/metrics.jsonl | tail -n 1 | grep -q '"step":9,"tokens":384,' || wrong "not 48 windows"
try plan small.lua --data 'prat_*.txt'
want_status 1
want_err "prat_[*].txt: matches no file; did you mean 'part_"

try plan batched.lua --data rows.st --set data.seed=3
want_status 2
want_err 'which --data replaces'
