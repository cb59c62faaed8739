#!/usr/bin/env bash
# generate on the bundled model: answers, token ids, stops, refusals.
source "$(dirname "$0")/lib.bash"
model=$work/model.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
generate() { "$hf2q" generate -q -m "$model" --temp 0 "$@"; }

expect_equal "The capital of Norway is Oslo." "$(generate -p 'What is the capital of Norway?')" answer
# The same ids alone, on one thread, in small batches, with other cache formats.
ids=$(generate -p 'Hello, my name is Vera.' --json)
expect_equal "$ids" "$(generate -p 'Hello, my name is Vera.' --json -t 1 -b 3)" "ids in batches of 3"
expect_equal "$ids" "$(generate -p 'Hello, my name is Vera.' --json -ctk f32 -ctv bf16)" "ids with another cache"
# The prompt as ids is the prompt as text.
prompt=$("$hf2q" tokenize -m "$model" -p 'The PostgreSQL server')
expect_equal "$(generate --raw -p 'The PostgreSQL server' -n 12)" "$(generate --tokens "$prompt" -n 12)" "ids as a prompt"
# Stop strings never come out, not even in part.
expect_equal "The capital of Norway is " "$(generate -p 'What is the capital of Norway?' --stop Oslo)" "text before a stop string"
# Same seed, same text.
seeded() { "$hf2q" generate -q -m "$model" --raw -p 'The' -n 20 --temp 1 --json --seed "$1"; }
expect_equal "$(seeded 7)" "$(seeded 7)" "text of a seed"
[ "$(seeded 7)" != "$(seeded 8)" ] || fail "another seed gives the same text"
# The context ends the answer.
case $(generate --raw -p 'The' -c 16 --ignore-eos --json) in *'"finish_reason":"length"'*) ;; *) fail "finish reason length" ;; esac

expect_exit 2 "at most 16 tokens expected (the context)" "$hf2q" generate -m "$model" -c 16 --tokens "$(seq -s' ' 300 320)"
expect_exit 2 "token ids from 0 to 8191" "$hf2q" generate -m "$model" --tokens 8192
expect_exit 2 "temperature" "$hf2q" generate -m "$model" -p x --temp -1
expect_exit 2 "one of f32 f16 bf16" "$hf2q" generate -m "$model" -p x -ctk q3
expect_exit 3 "LICENSE" "$hf2q" generate -m LICENSE -p x
"$hf2q" generate -m "$model" --dry-run >"$work/plan"
grep -q 'window of 256: K f16 V tq8 (16.000 and 8.125 bits per value)' "$work/plan" || fail "memory plan"

# A prompt that is there but empty is an error everywhere.
: >"$work/empty"
refused() { expect_exit 2 "prompt: a text or token ids expected, found none" "$hf2q" "$@"; }
for form in --raw --ignore-eos; do
  refused generate -q -m "$model" $form -p ""
  refused generate -q -m "$model" $form -f "$work/empty"
  refused generate -q -m "$model" $form --tokens ""
done
refused logits -q -m "$model" -o "$work/none" -p ""
refused logits -q -m "$model" -o "$work/none" --tokens ""
refused embed -q -m "$model" -p Hello -p ""
expect_exit 2 "at least one token expected" "$hf2q" generate -q -m "$model" --tokens " "

# Text from stdin and from pipes.
oslo="The capital of Norway is Oslo."
expect_equal "$oslo" "$(generate -f - <<<'What is the capital of Norway?')" "text from stdin"
expect_equal "$oslo" "$(generate -f <(printf 'What is the capital of Norway?'))" "text from a pipe"
expect_equal "$oslo" "$(printf 'What is the capital of Norway?' | generate -f /dev/stdin)" "text from /dev/stdin"

# Seeds are integers of 64 bits, each of its own.
seeded 18446744073709551615 >"$work/largest"
[ "$(seeded 9007199254740992)" != "$(seeded 9007199254740993)" ] || fail "seeds are rounded"
for seed in 18446744073709551616 -1 1.5; do
  expect_exit 2 "--seed" "$hf2q" generate -q -m "$model" -p x --seed=$seed
done

expect_exit 2 "image input is not supported yet" "$hf2q" generate -m "$model" -p x --image cat.png
expect_exit 2 "image input is not supported yet" "$hf2q" chat -m "$model" --mmproj tower.gguf
expect_exit 2 "--threads" "$hf2q" generate -m "$model" -p x -t 100000
expect_exit 2 "pooling mean is not supported, only last" "$hf2q" embed -m "$model" -p x --pooling mean
expect_equal "$("$hf2q" embed -q -m "$model" -p x)" "$("$hf2q" embed -q -m "$model" -p x --pooling last)" "pooling"

# An answer of no tokens has no rate.
"$hf2q" generate -m "$model" -p x -n 0 >/dev/null 2>"$work/stderr"
grep -qE '^[0-9]+ prompt tokens, [0-9.]+/s; 0 answer tokens, -; first after -;' "$work/stderr" || fail "stats: $(cat "$work/stderr")"

# One page of 32 positions: K and V of 4 layers with 2 heads of 256 and of 2 layers with one of 512, in F16.
"$hf2q" generate -m "$model" --raw -p x -n 1 -ctv f16 >/dev/null 2>"$work/stderr"
grep -q '; cache 384.00 KiB; length$' "$work/stderr" || fail "cache bytes: $(cat "$work/stderr")"

# An interrupt while the prompt is read ends it before the next batch; the whole prompt takes much longer.
seq -s' ' 300 7000 >"$work/ids"
"$hf2q" generate -q -m "$model" -b 1 --tokens "$(cat "$work/ids" "$work/ids" "$work/ids")" >"$work/stdout" &
child=$!
sleep 2
kill -INT $child
begin=$SECONDS status=0
wait $child || status=$?
expect_equal 130 "$status" "exit code of an interrupted prompt"
[ $((SECONDS - begin)) -le 5 ] || fail "the interrupt took $((SECONDS - begin)) s"
[ ! -s "$work/stdout" ] || fail "an interrupted prompt was answered"

# A file without a chat template: the one that is used instead is named, for text in chat form only.
convert_small micro-ple "$work/plain.gguf" --quant f32
"$hf2q" generate -m "$work/plain.gguf" -p x -n 1 >/dev/null 2>"$work/stderr"
grep -q 'warning: the file has no chat template, the built-in one for small Gemma 4 models is used' "$work/stderr" || fail "no warning: $(cat "$work/stderr")"
"$hf2q" generate -m "$work/plain.gguf" --raw -p x -n 1 >/dev/null 2>"$work/stderr"
! grep -q warning "$work/stderr" || fail "a warning for raw text"
"$hf2q" generate -m "$model" -p x -n 1 >/dev/null 2>"$work/stderr"
! grep -q warning "$work/stderr" || fail "a warning for a file with a template"

# A model whose output is NaN, by its last norm: no command tells numbers.
# The data section ends the file; a tensor's offset stands 16 bytes behind its name (one dimension).
data=$("$hf2q" info "$work/plain.gguf" --tensors --json | awk -F: '/"bytes"/ && NR > 1 { gsub(/[ ,]/, "", $2); n = int(($2 + 31) / 32) * 32; if (tensors) sum += n } /"tensors": \[/ { tensors = 1 } END { print sum }')
name=$(LC_ALL=C grep -obUa 'output_norm.weight' "$work/plain.gguf" | cut -d: -f1)
offset=$(od -A n -t u8 -j $((name + 18 + 16)) -N 8 "$work/plain.gguf" | tr -d ' ')
offset=$(($(stat -c %s "$work/plain.gguf") - data + offset))
printf '\0\0\xc0\x7f' | dd of="$work/plain.gguf" bs=1 seek="$offset" conv=notrunc status=none
expect_exit 3 "finite numbers expected" "$hf2q" generate -q -m "$work/plain.gguf" --raw -p x -n 1
expect_exit 3 "logits: finite numbers expected, value 0 is" "$hf2q" logits -q -m "$work/plain.gguf" -p x -o "$work/none"
expect_exit 3 "hidden state: finite numbers expected, value 0 is" "$hf2q" embed -q -m "$work/plain.gguf" -p x
[ ! -e "$work/none" ] || fail "a refused run left a file"

# An embedding is the reference's.
"$hf2q" convert models/tiny-gemma4 -o "$work/f32.gguf" --quant f32 >/dev/null
golden=tests/data/tiny-gemma4/golden
tensor $golden.safetensors short.embedding >"$work/expected"
"$hf2q" embed -q -m "$work/f32.gguf" -ctk f32 -ctv f32 -p "In the beginning God created the" | tr -d '[]' | tr , '\n' >"$work/found"
expect_close 5e-5 embedding "$work/expected" "$work/found"

# perplexity and embed do not depend on how the text is cut into batches.
expect_equal "$("$hf2q" perplexity -q -m "$model" -f LICENSE -b 512 --json)" "$("$hf2q" perplexity -q -m "$model" -f LICENSE -b 67 --json)" perplexity
expect_equal "$("$hf2q" embed -q -m "$model" -p Hello -p Hello | sort -u | wc -l)" 1 "different vectors of one text"
: >"$work/empty"
expect_exit 2 "at least 2 tokens" "$hf2q" perplexity -m "$model" -f "$work/empty"

# A file against itself, and against another: the JSON fields, and which of the two is the reference.
ids=$work/ids.json
seq -s, 300 363 | sed 's/.*/[&]/' >"$ids"
"$hf2q" convert models/tiny-gemma4 -o "$work/q4.gguf" --quant q4_k_m >/dev/null
against() { "$hf2q" perplexity -q -m "$1" --against "$2" --tokens-file "$ids" --json; }
field() { sed -E "s/.*\"$1\":([^,}]*).*/\1/"; }
expect_equal "0.0 1.0" "$(against "$model" "$model" | field kl_mean) $(against "$model" "$model" | field same_top1)" "a file against itself"
alone=$("$hf2q" perplexity -q -m "$model" --tokens-file "$ids" --json | field perplexity)
against "$work/q4.gguf" "$model" >"$work/ab"
for name in tokens kl_mean kl_median kl_p99 same_top1 ppl_a ppl_b; do grep -q "\"$name\":" "$work/ab" || fail "no $name"; done
expect_equal "$(printf %.2f "$alone")" "$(printf %.2f "$(field ppl_a <"$work/ab")")" "perplexity of the reference"
expect_exit 3 "LICENSE" "$hf2q" perplexity -m "$model" --against LICENSE --tokens-file "$ids"
