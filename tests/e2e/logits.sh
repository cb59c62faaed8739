#!/usr/bin/env bash
# logits and --soft: the reference's values through the command line, and what is refused.
source "$(dirname "$0")/lib.bash"
golden=tests/data/micro-moe/golden
model=$work/model.gguf out=$work/out.safetensors
convert_small micro-moe "$model" --quant f32
logits() { "$hf2q" logits -q -m "$model" -ctk f32 -ctv f32 -o "$out" "$@"; }
ids() { golden_ids $golden.json "$1"; }
# expect_tensor GOLDEN NAME: a tensor of $out is the reference's.
expect_tensor() {
  tensor $golden.safetensors "$1" >"$work/expected"
  tensor "$out" "$2" | tail -n "$(wc -l <"$work/expected")" >"$work/found"
  expect_close 2e-4 "$1" "$work/expected" "$work/found"
}

# All positions and hidden states, in batches of any size; without --all-positions the last row.
logits --tokens "$(ids short)" --all-positions --hidden -b 3
expect_tensor short.logits logits
for layer in 00 01 02 03 04; do expect_tensor "short.hidden.$layer" "hidden.$layer"; done
logits --tokens "$(ids doc)"
expect_tensor doc.logits_last logits
expect_equal 8192 "$(tensor "$out" logits | wc -l)" "values of one row"

# Rows in place of embeddings; those of an image see each other.
logits --tokens "$(ids soft)" --all-positions --soft "$golden.safetensors:soft.embeddings@3"
expect_tensor soft.logits logits
image=$golden.safetensors:vision.soft_tokens
vision=$(ids vision)
logits --tokens "$vision" --all-positions --soft "$image@11:block"
expect_tensor vision.logits_tail logits
logits --tokens "$vision" --all-positions --soft "$image@11"
expect_tensor vision.logits_causal_tail logits
"$hf2q" generate -q -m "$model" --tokens "$vision" --soft "$image@11:block" --temp 0 -n 4 --json >"$work/block"
"$hf2q" generate -q -m "$model" --tokens "$vision" --temp 0 -n 4 --json >"$work/plain"
! cmp -s "$work/block" "$work/plain" || fail "generate pays no heed to --soft"

# Refusals leave no file.
rm -f "$out"
short=$(ids short)
refused() { expect_exit "$@"; [ ! -e "$out" ] || fail "a refused run left a file"; }
bad() { local code=$1 text=$2; shift 2; refused "$code" "$text" "$hf2q" logits -m "$model" -o "$out" "$@"; }
rows=$golden.safetensors:soft.embeddings
bad 2 "positions below 7 expected" --tokens "$short" --soft "$rows@5"
bad 2 "overlap" --tokens "$short" --soft "$rows@2" --soft "$rows@4"
bad 2 "--soft: FILE" --tokens "$short" --soft "$rows@-3"
bad 2 "--soft: FILE" --tokens "$short" --soft "$golden.safetensors"
bad 2 "one tensor expected" --tokens "$short" --soft "$golden.safetensors@1"
bad 3 'no tensor "soft.rows"' --tokens "$short" --soft "$golden.safetensors:soft.rows@1"
bad 3 "shape [rows, 128] expected" --tokens "$short" --soft "$golden.safetensors:doc.logits_last@1"
bad 2 "positions below 4294967295 expected" --tokens "$short" --soft "$rows@4294967295"
bad 2 "--soft: FILE" --tokens "$short" --soft ":x@3"
bad 2 "blocks of at most 16 rows expected" --tokens "$vision" --soft "$image@11:block" -b 16
bad 2 "at least one token" --tokens " "
bad 2 "token ids from 0 to 8191" --tokens "1 8192"
bad 2 "at most 4 tokens expected" --tokens "$short" -c 4
bad 2 "--prompt" -p x --tokens 1
empty='{"none":{"dtype":"F32","shape":[0,128],"data_offsets":[0,0]}}   '
printf '\x40\0\0\0\0\0\0\0%s' "$(printf '%-64s' "$empty")" >"$work/empty.safetensors"
bad 2 "at least one row expected" --tokens "$short" --soft "$work/empty.safetensors@1"
refused 1 "cannot create" "$hf2q" logits -m "$model" -o "$work/none/x" --tokens "$short"
