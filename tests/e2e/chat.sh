#!/usr/bin/env bash
# chat with scripted input: answers on stdout, commands, blocks, interrupts.
source "$(dirname "$0")/lib.bash"
model=$work/model.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
chat() { "$hf2q" chat -q -m "$model" --temp 0 "$@" 2>"$work/stderr"; }
# What the model answers to a text that is already in its chat form.
raw() { "$hf2q" generate -q -m "$model" --temp 0 --raw -p "$1"; }
asks=$'<|turn>user\nWhat is the capital of Norway?<turn|>\n<|turn>model\n'

expect_equal "The capital of Norway is Oslo." "$(chat <<<'What is the capital of Norway?')" answer

# The second turn is answered as the whole conversation read anew, but only its new tokens are read.
answers=$(printf '%s\n' 'What is the capital of Norway?' 'What is the capital of Sweden?' /stats | chat)
second=$(raw "${asks}The capital of Norway is Oslo.<turn|>"$'\n<|turn>user\nWhat is the capital of Sweden?<turn|>\n<|turn>model\n')
expect_equal "The capital of Norway is Oslo."$'\n'"$second" "$answers" "two turns"
read -r total reused < <(sed -nE 's/^prompt ([0-9]+) tokens, ([0-9]+) of them reused.*/\1 \2/p' "$work/stderr")
first=$("$hf2q" tokenize -m "$model" -p "${asks}The capital of Norway is Oslo." | wc -w)
expect_equal "$first" "$reused" "tokens reused of $total"

# /reset and /system change what the model reads.
expect_equal "The capital of Norway is Oslo." \
  "$(printf '%s\n' 'Hello' /reset 'What is the capital of Norway?' | chat | tail -1)" "answer after /reset"
expect_equal "$(raw $'<|turn>system\nBe brief.<turn|>\n'"$asks")" \
  "$(printf '%s\n' '/system Be brief.' 'What is the capital of Norway?' | chat)" "answer with a system message"

# Several lines: continued with a backslash, or as a block. /save shows what was said.
printf '%s\n' 'one\' 'two' '"""three' '' '/four' '"""' "/save $work/saved.json" /exit 'never said' | chat -n 3 >/dev/null
grep -qF '"content": "one\ntwo"' "$work/saved.json" || fail "continued line: $(cat "$work/saved.json")"
grep -qF '"content": "three\n\n/four"' "$work/saved.json" || fail "block: $(cat "$work/saved.json")"
expect_equal 4 "$(grep -c '"role"' "$work/saved.json")" "messages saved"
! grep -q 'never said' "$work/saved.json" || fail "/exit did not end the conversation"

# A message may begin with a slash.
printf '%s\n' '//etc is\' 'a folder' "/save $work/saved.json" /help | chat -n 1 >/dev/null
grep -qF '"content": "/etc is\na folder"' "$work/saved.json" || fail "slash: $(cat "$work/saved.json")"
grep -q 'begins with //' "$work/stderr" || fail "/help does not tell of //"

# A marker in a message stays text: the model sees one user's turn.
printf '%s\n' 'a<turn|>b' "/save $work/saved.json" | chat -n 1 >/dev/null
grep -qF '"content": "a<turn|>b"' "$work/saved.json" || fail "marker: $(cat "$work/saved.json")"

# Errors leave the conversation as it was.
status=0
printf '%s\n' "$(seq -s' ' 200)" /nothing 'What is the capital of Norway?' | chat -c 64 >"$work/stdout" || status=$?
expect_equal 2 "$status" "exit code after errors"
expect_equal "The capital of Norway is Oslo." "$(cat "$work/stdout")" "answer after errors"
grep -q 'at most 64 tokens expected (the context)' "$work/stderr" || fail "no error about the context"
grep -q 'no command /nothing' "$work/stderr" || fail "no error about the command"
expect_exit 1 "cannot create" bash -c "printf '%s\n' '/save $work/none/x' | '$hf2q' chat -q -m '$model'"

# An answer that begins inside a thought (a template's last newline does not count): without colours it stands in brackets, and is not kept.
printf '{{ bos_token }}<|turn>model\n<|channel>thought\n\n' >"$work/thought.jinja"
thought=$(printf '%s\n' 'Hello' "/save $work/saved.json" | chat -n 5 --chat-template "$work/thought.jinja")
case $thought in '['*']') ;; *) fail "thought: $thought" ;; esac
grep -qF '"content": ""' "$work/saved.json" || fail "thought kept: $(cat "$work/saved.json")"

# The first interrupt stops an answer, which would else go on to the end of the context.
printf 'Hello\n/stats\n' >"$work/input"
printf '{{ bos_token }}x' >"$work/x.jinja"
"$hf2q" chat -q -m "$model" --temp 2 --top-k 0 --top-p 1 --seed 3 --chat-template "$work/x.jinja" -c 30000 <"$work/input" \
  >"$work/stdout" 2>"$work/stderr" &
child=$!
for _ in $(seq 200); do
  [ -s "$work/stdout" ] && break
  sleep 0.05
done
kill -INT $child
status=0
wait $child || status=$?
expect_equal 0 "$status" "exit code after an interrupted answer"
grep -q '(stopped)' "$work/stderr" || fail "not stopped: $(cat "$work/stderr")"
grep -q '^prompt ' "$work/stderr" || fail "no command after the interrupt"

# At a terminal lines are edited: the arrow brings the last one back, Ctrl-A goes to its start; Ctrl-C gives a
# line up, the second one in a row ends the program.
status=0
{
  printf '%s' $'What is the capital of Norwayy\x7f?\r' $'\x1b[A\x01Say: \r' "/save $work/typed.json"$'\r'
  for _ in $(seq 200); do
    [ -s "$work/typed.json" ] && break
    sleep 0.05
  done
  for keys in $'half\x03' $'\x03'; do
    sleep 0.5
    printf '%s' "$keys"
  done
} | script -qec "'$hf2q' chat -q -m '$model' --temp 0 -n 2" /dev/null >"$work/terminal" || status=$?
expect_equal 130 "$status" "exit code after two interrupts: $(cat "$work/terminal")"
grep -qF '"content": "What is the capital of Norway?"' "$work/typed.json" || fail "typed: $(cat "$work/typed.json")"
grep -qF '"content": "Say: What is the capital of Norway?"' "$work/typed.json" || fail "edited: $(cat "$work/typed.json")"

# A process that ends inside a dimmed thought gives the terminal its colour back.
{
  printf 'Hello\r'
  for _ in $(seq 400); do
    sleep 0.05
    pid=$(cat "$work/pid" 2>/dev/null) && grep -q $'\x1b\\[2m' "$work/dimmed" 2>/dev/null && break
  done
  sleep 0.2
  kill -TERM "$pid"
} | script -qefc "bash -c 'echo \$\$ >\"$work/pid\"; exec \"$hf2q\" chat -q -m \"$model\" --temp 2 --top-k 0 --top-p 1 --seed 3 --chat-template \"$work/thought.jinja\" -c 30000'" "$work/dimmed" >/dev/null || true
tail -c 20 "$work/dimmed" >"$work/end"
head -c -1 "$work/dimmed" | tr -d '\r' | grep -q $'\x1b\\[2m' || fail "no dimmed thought: $(cat -v "$work/dimmed")"
grep -q $'\x1b\\[0m' "$work/dimmed" || fail "the colour was left on: $(tail -c 300 "$work/dimmed" | cat -v)"
