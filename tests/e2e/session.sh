#!/usr/bin/env bash
# --session: a later run goes on where one ended, and reads again what cannot be trusted.
source "$(dirname "$0")/lib.bash"
model=$work/model.gguf session=$work/session
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
generate() { "$hf2q" generate -m "$model" --raw -p 'The PostgreSQL server' --temp 1 --seed 5 --ignore-eos --json "$@" 2>"$work/stderr"; }
reused() { sed -nE 's/.*prompt tokens, ([0-9]+) tokens not read again.*/\1/p' "$work/stderr"; }
n=$("$hf2q" tokenize -m "$model" -p 'The PostgreSQL server' | wc -w)

whole=$(generate -n 24)
generate -n 8 --session "$session" >/dev/null
expect_equal "" "$(reused)" "tokens reused at first"
expect_equal "$whole" "$(generate -n 24 --session "$session")" "an answer in two runs"
expect_equal $((n + 7)) "$(reused)" "tokens reused"
# Nothing is computed for what is there, and the file stays.
sum=$(cksum "$session")
expect_equal "$(generate -n 4)" "$(generate -n 4 --session "$session")" "the beginning of an answer"
expect_equal "$sum" "$(cksum "$session")" "the file"
# Without --seed the file's goes on.
seedless() { "$hf2q" generate -q -m "$model" --raw -p 'The PostgreSQL server' --temp 1 --ignore-eos --json "$@"; }
expect_equal "$(generate -n 30)" "$(seedless -n 30 --session "$session")" "the seed of the file"

# Damaged, another format's: a warning, the same answer, and a good file in the end.
refused() {
  local text=$1 cold
  shift
  cold=$(generate -n 24 "$@")
  expect_equal "$cold" "$(generate -n 24 --session "$session" "$@")" "answer, $text"
  grep -q "warning: --session: .*$text.*the prompt is read again" "$work/stderr" || fail "no warning of $text: $(cat "$work/stderr")"
  generate -n 24 --session "$session" "$@" >/dev/null
  ! grep -q warning "$work/stderr" || fail "the file is still refused: $(cat "$work/stderr")"
}
truncate -s -1 "$session"
refused "bytes expected"
printf x | dd of="$session" bs=1 seek=$(($(stat -c %s "$session") / 2)) conv=notrunc status=none
refused "is damaged"
refused "K f32 and V f32 expected" -ctk f32 -ctv f32
"$hf2q" convert models/tiny-gemma4 -o "$work/other.gguf" --quant q6_k >/dev/null
"$hf2q" generate -m "$work/other.gguf" --raw -p 'The PostgreSQL server' -n 3 --session "$session" >/dev/null 2>"$work/stderr"
grep -q "another model's" "$work/stderr" || fail "no warning of another model: $(cat "$work/stderr")"

cp LICENSE "$work/letter"
expect_exit 2 "a session file or a new name expected" "$hf2q" generate -m "$model" -p x --session "$work/letter"
cmp -s LICENSE "$work/letter" || fail "another file was written over"
expect_exit 2 "--prompt-kv stored expected" "$hf2q" generate -m "$model" -p x --session "$session" --prompt-kv exact

# A chat in two runs is the chat in one.
chat() { "$hf2q" chat -m "$model" --temp 0 "$@" 2>"$work/stderr"; }
first='What is the capital of Norway?' second='What is the capital of Sweden?'
printf '%s\n' "$first" | chat --session "$work/chat" >"$work/one"
printf '%s\n' "$second" /stats "/save $work/saved.json" | chat --session "$work/chat" >"$work/two"
expect_equal "$(printf '%s\n' "$first" "$second" | chat)" "$(cat "$work/one" "$work/two")" "two runs of a chat"
printf '%s\n' "$second" | chat --session "$work/chat" >/dev/null
grep -q 'going on behind 4 messages' "$work/stderr" || fail "messages: $(cat "$work/stderr")"
expect_equal 4 "$(grep -c '"role"' "$work/saved.json")" "messages saved"
printf '%s\n' /reset | chat --session "$work/chat" >/dev/null
[ ! -e "$work/chat" ] || fail "/reset left the conversation in its file"
