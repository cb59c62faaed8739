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
grep -q 'window of 256: K f16 V f16 (16.000 and 16.000 bits per value)' "$work/plan" || fail "memory plan"

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
