#!/usr/bin/env bash
# imatrix: the same file however it is computed, and quantizing with it helps on another text.
source "$(dirname "$0")/lib.bash"
model=$work/bf16.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant bf16 >/dev/null
"$hf2q" imatrix -q -m "$model" -f LICENSE -o "$work/im.gguf"
"$hf2q" imatrix -q -m "$model" -f LICENSE -o "$work/again.gguf" -b 67 -t 1
cmp "$work/im.gguf" "$work/again.gguf" || fail "batches and threads change the importance matrix"
"$hf2q" info "$work/im.gguf" --tensors >"$work/list"
grep -q 'blk.5.ffn_down.weight.in_sum2' "$work/list" || fail "no entry for ffn_down"
! grep -q token_embd "$work/list" || fail "an entry for the output head, unasked"
head -c 3000 LICENSE >"$work/short"
"$hf2q" imatrix -q -m "$model" -f "$work/short" -o "$work/head.gguf" --output-weight -c 128
"$hf2q" info "$work/head.gguf" --tensors | grep -q token_embd.weight.in_sum2 || fail "no entry for the output head"

# Held-out text: the first 1024 tokens of the reference's.
golden_ids tests/data/tiny-gemma4/golden.json ppl | cut -d, -f1-1024 >"$work/ids"
divergence() {
  "$hf2q" perplexity -q -m "$1" --against "$model" --tokens-file "$work/ids" --json | grep -o '"kl_mean":[0-9.e-]*' | cut -d: -f2
}
for type in q3_k_m q4_k_m; do
  "$hf2q" quantize "$model" "$work/plain.gguf" --quant $type >/dev/null
  "$hf2q" quantize "$model" "$work/helped.gguf" --quant $type --imatrix "$work/im.gguf" >/dev/null
  awk -v plain="$(divergence "$work/plain.gguf")" -v helped="$(divergence "$work/helped.gguf")" -v type=$type \
    'BEGIN { print type ": KL divergence " plain " plain, " helped " with importance"; exit !(0 < helped && helped < plain) }' ||
    fail "$type is worse with an importance matrix"
done

: >"$work/empty"
expect_exit 2 "at least one token expected" "$hf2q" imatrix -m "$model" -f "$work/empty" -o "$work/none"
expect_exit 3 "$work/nowhere" "$hf2q" imatrix -m "$model" -f "$work/nowhere" -o "$work/none"
[ ! -e "$work/none" ] || fail "a refused run left a file"
