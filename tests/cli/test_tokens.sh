#!/bin/sh
# mptrun tokens, and token files as data: what is printed, written and refused.
# shellcheck source=tests/cli/lib.sh
. "$(dirname "$0")/lib.sh"

# The bytes of a file in hexadecimal, without spaces.
hex() { od -An -v -tx1 "$@" | tr -d ' \n'; }

yes 'To be, or not to be, that is the question.' | head -n 100 >text.txt

# ---- a text becomes each format, and each says what it holds ----

try tokens text.txt
want_status 0
want_out '^text\.txt: text, 4,300 uint8 tokens$'
want_out '^ids    up to 117$'
want_out '^first  84 111 32 98 101 44 32 111 \.\.\.$'
want_no_err
try tokens text.txt llmc.bin
want_status 0
want_out '^llmc\.bin: llm\.c, 4,300 uint16 tokens$'
[ "$(hex -N 16 llmc.bin)" = 88d8340101000000cc10000000000000 ] || wrong "another header"
[ "$(hex -j 1024 -N 4 llmc.bin)" = 54006f00 ] || wrong "other ids"
[ "$(wc -c <llmc.bin)" -eq 9624 ] || wrong "another size"
try tokens llmc.bin nano.bin --format nanogpt
want_status 0
want_out '^nano\.bin: nanoGPT, 4,300 uint16 tokens$'
[ "$(hex -N 4 nano.bin)" = 54006f00 ] || wrong "other ids"
try tokens nano.bin wide.bin --format llmc32
want_status 0
want_out '^wide\.bin: llm\.c, 4,300 uint32 tokens$'
[ "$(hex -N 12 wide.bin)" = a1d9340107000000cc100000 ] || wrong "another header"
try tokens wide.bin corpus --format megatron
want_status 0
want_out '^corpus\.bin: Megatron, 4,300 uint16 tokens in 1 document$'
cmp corpus.bin nano.bin || wrong "Megatron's ids are others"
for name in corpus corpus.idx corpus.bin; do
    try tokens "$name" --json
    want_status 0
    want_out '"file": "corpus\.bin"'
    want_out '"format": "megatron"'
    want_out '"type": "uint16"'
    want_out '"tokens": 4300'
    want_out '"largest": 117'
    want_out '"documents": 1'
done
try tokens corpus large --format megatron --vocab 65500
want_status 0
want_out 'int32 tokens in 1 document'
try tokens corpus.idx back.bin
want_status 0
cmp back.bin llmc.bin || wrong "the way back is another"
try tokens text.txt llmc.bin # over one of its kind
want_status 0

# What has no header is told by its bytes, or by the caller.
try tokens nano.bin --from text
want_out '^nano\.bin: text, 8,600 uint8 tokens$'
try tokens nano.bin
want_out 'nanoGPT, 4,300'
printf '' >empty.txt
try tokens empty.txt --json
want_status 0
want_out '"largest": null'
try tokens empty.txt none.bin
want_status 0
want_out '^none\.bin: llm\.c, 0 uint16 tokens$'

# ---- what is refused ----

try tokens
want_status 2
want_err 'which file\? mptrun tokens IN \[OUT\]'
try tokens a b c
want_status 2
want_err "'tokens' takes IN \[OUT\], and no 'c'"
try tokens text.txt x.bin --format llmb
want_status 2
want_err "no format 'llmb' \(there are llmc, nanogpt, llmc32, megatron\); did you mean 'llmc'"
for vocab in 0 -1 x 2147483648; do
    try tokens text.txt --vocab "$vocab"
    want_status 2
    want_err 'is not a whole number from 1 to 2147483647'
done
try tokens text.txt --set a=b
want_status 2
try tokens missing.bin
want_status 1
want_err "missing\.bin: No such file or directory; name a file"
try tokens .
want_status 1
want_err 'not a regular file'
try tokens llmc.bin --vocab 117
want_status 1
want_err "llmc\.bin: token [0-9]+ is 117, and the vocabulary's ids run from 0 to 116"
try tokens text.txt x.bin --vocab 50257
want_status 1
want_err 'bytes are a vocabulary of 256 words'
# Ids above 65,535 do not wrap: 70000, 65536 and 128000 in 32 bits do not become 16.
head -c 1036 /dev/zero >ids32.bin
printf '\241\331\064\001\007\0\0\0\003\0\0\0' | dd of=ids32.bin conv=notrunc 2>/dev/null
printf '\160\021\001\0\0\0\001\0\0\364\001\0' | dd of=ids32.bin bs=1 seek=1024 conv=notrunc 2>/dev/null
try tokens ids32.bin --vocab 128256
want_status 0
want_out '^first  70000 65536 128000$'
for format in llmc nanogpt; do
    try tokens ids32.bin x.bin --format "$format"
    want_status 1
    want_err 'x\.bin: token 0 is 70000, and uint16 ends at 65535; write llmc32 or megatron'
done
try tokens llmc.bin --vocab 128256
want_status 1
want_err 'llmc\.bin: holds uint16, whose ids end at 65535, and the vocabulary has 128256'
[ ! -e x.bin ] || wrong "a refused run left an output behind"
try tokens llmc.bin ./llmc.bin
want_status 1
want_err 'the output is the input'
echo '{"hidden_size": 64}' >config.json
try tokens text.txt config.json
want_status 1
want_err 'config\.json: is there and is no llm\.c token shard, so it is not replaced'
try tokens text.txt corpus --format megatron
want_status 1
want_err 'corpus\.bin: is there'
cp llmc.bin kept
tried='tokens with a limit of 1 KiB'
status=0
(ulimit -f 1 && "$MPTRUN" tokens text.txt llmc.bin) >out 2>err || status=$?
want_status 4
cmp llmc.bin kept || wrong "the old output was changed"
for length in 3 100 1023 1025 9623; do
    head -c "$length" llmc.bin >torn.bin
    try tokens torn.bin --from nanogpt
    want_status 1
    want_err 'torn\.bin: '
done

# ---- as data ----

recipe r.lua
train() {
    try r.lua --quiet -o run "$@"
    want_status 0
    grep -o '"event":"step".*"loss":[0-9.]*' run/metrics.jsonl >"losses.$1"
    rm -r run
}
train --data text.txt
mv losses.--data text.losses
for how in 'data=tokens data.path=nano.bin' 'data=tokens data.path=llmc.bin' \
    'data=tokens data.path=corpus' 'data=tokens data.path=corpus.bin'; do
    # shellcheck disable=SC2086 # a list of words
    set -- $how
    train --set "$1" --set "$2" --set data.vocab=256
    cmp losses.--set text.losses || wrong "other losses with $how"
done
sed 's|^  train|  data = tokens { path = "llmc.bin", vocab = 256 },\n  train|' r.lua >t.lua
try t.lua --quiet -o run
want_status 0
rm -r run
try plan t.lua
want_status 0
want_out '^data +4,300 uint16 tokens of llmc\.bin \(llm\.c\), ids up to 117$'
try check r.lua --data llmc.bin
want_status 1
want_err "takes the data's vocabulary, which nothing states; write data = tokens .*, or --set data.vocab=n beside --data"
for command in check plan; do
    try $command r.lua --data nano.bin
    want_out 'warning.*binary-text: nano\.bin: is read as text, byte by byte'
done
try r.lua --data nano.bin --quiet -o doubt
want_status 0
want_err '^warning: binary-text: nano\.bin: is read as text'
# No header says what it is: a vocabulary does.
train --data nano.bin --set data.vocab=256
mv losses.--data bytes.losses
! cmp -s bytes.losses text.losses || wrong "256 words may be the bytes"
try r.lua --data nano.bin --set data.vocab=300 --quiet -o ids
want_status 0
if grep -q binary-text err; then wrong "a doubt of tokens"; fi
grep -q '"source": "4,300 uint16 tokens of nano.bin' ids/plan.json || wrong "other data"
gzip -nc text.txt >text.gz
try plan r.lua --data text.gz
want_out 'warning +binary-text: text\.gz: is read as text, byte by byte'
try check t.lua --set data.vocab=100
want_status 1
want_err "t\.lua:9: llmc\.bin: token [0-9]+ is [0-9]+, and the vocabulary's ids run from 0 to 99"

# P80: too short for a window.
for n in 0 1 10 16; do
    head -c $((2 * n)) nano.bin >short.bin
    try t.lua --set data.path=short.bin
    want_status 1
    want_err "short\.bin: needs 17 tokens, has $n; use a longer file, or lower train\.sequence"
done
head -c 33 nano.bin >odd.bin
try t.lua --set data.path=odd.bin
want_status 1
want_err 'odd\.bin: 33 bytes are no whole number of uint16 tokens'

# Batches that were cut before.
head -c 272 /dev/zero | stored batches.safetensors \
    '{"tokens":{"dtype":"I32","shape":[2,2,17],"data_offsets":[0,272]}}'
sed 's|^  train|  data = batches { path = "batches.safetensors", vocab = 64 },\n  train|' r.lua >b.lua
try b.lua --quiet -o run2
want_status 0
try b.lua --set train.sequence=8
want_status 1
want_err 'its rows have 16 tokens and a last target, and train\.sequence is 8'
try check b.lua --data "batches.safetensors"
want_status 0

try help tokens
want_status 0
want_out '--format'
want_out '^  mptrun tokens corpus\.txt corpus\.bin --format llmc'

# ---- the commands of the README ----

# Each that trains a recipe is taken as it stands, on data of its kind that tokens has made.
mkdir shards run
yes 'To be, or not to be, that is the question.' | head -n 1000 >corpus.txt
for n in 1 2; do
    try tokens corpus.txt shards/$n.bin
    want_status 0
done
grep '^build/mptrun recipes/.*--data' "$ROOT/README.md" | grep -v -- '--weights' >commands
[ "$(wc -l <commands)" -ge 2 ] || wrong "README.md has no commands with data"
while read -r program recipe rest; do
    tried="$program $recipe $rest"
    status=0
    (eval "\"\$MPTRUN\" \"\$ROOT/$recipe\" $rest --until=plan --quiet") >out 2>err || status=$?
    want_status 0
done <commands
