#!/usr/bin/env bash
# batch: the server's answers, in the order of the input, going on where an earlier run was cut off.
source "$(dirname "$0")/lib.bash"
model=$work/tiny.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
in=$work/in.jsonl
out=$work/out.jsonl
batch() { "$hf2q" batch -q -m "$model" -i "$in" -o "$out" "$@"; }

cities=(Norway Sweden Denmark Finland Iceland France)
for i in "${!cities[@]}"; do
  echo "{\"custom_id\":\"c$i\",\"method\":\"POST\",\"url\":\"/v1/chat/completions\",\"body\":{\"messages\":[{\"role\":\"user\",\"content\":\"What is the capital of ${cities[$i]}?\"}],\"temperature\":$((i % 2)),\"seed\":$i,\"max_tokens\":$((60 - 9 * i))}}"
done >"$in"
cat >>"$in" <<'EOT'

{"custom_id":"e","method":"POST","url":"/v1/embeddings","body":{"input":["a","b"]}}
{"custom_id":"t","method":"POST","url":"/v1/completions","body":{"prompt":"A","max_tokens":3,"temperature":0}}
{"custom_id":"bad","method":"POST","url":"/v1/chat/completions","body":{"messages":[]}}
{"custom_id":"where","method":"POST","url":"/v1/files","body":{}}
not JSON
EOT
# What does not depend on the time of day, or on chance.
facts() { sed -E 's/"(id|request_id|created|system_fingerprint)":("[^"]*"|[0-9]+),//g; s/,"timings":\{[^}]*\}//; s/"cached_tokens":[0-9]+//'; }

batch
expect_equal 11 "$(wc -l <"$out")" "lines of the output"
expect_equal '"c0" "c1" "c2" "c3" "c4" "c5" "e" "t" "bad" "where" null' \
  "$(sed -E 's/.*"custom_id":("[a-z0-9]*"|null).*/\1/' "$out" | tr '\n' ' ' | sed 's/ $//')" "order"
grep -q 'The capital of Norway is Oslo.' <<<"$(head -1 "$out")" || fail "$(head -1 "$out")"
grep -q '"status_code":400' <<<"$(sed -n 9p "$out")" || fail "$(sed -n 9p "$out")"
for line in 10 11; do
  grep -q '"response":null,"error":{' <<<"$(sed -n ${line}p "$out")" || fail "$(sed -n ${line}p "$out")"
done
facts <"$out" >"$work/whole"

# Nothing is left to do: the model is not even read.
cp "$out" "$work/before"
"$hf2q" batch -q -m "$work/nowhere" -i "$in" -o "$out"
cmp "$work/before" "$out" || fail "a finished output was changed"

# Cut off inside of the fourth line: the three before it stay as they are.
three=$(head -3 "$work/before" | wc -c)
head -c $((three + 40)) "$work/before" >"$out"
batch --slots 1
cmp -n "$three" "$work/before" "$out" || fail "lines that were there were changed"
facts <"$out" | cmp - "$work/whole" || fail "the results of a run that was cut off differ"

# The server says the same.
serve
for line in $(seq 9); do
  request=$(grep . "$in" | sed -n ${line}p)
  path=$(sed -E 's/.*"url":"([^"]*)".*/\1/' <<<"$request")
  curl -s -H 'Content-Type: application/json' -d "$(sed -E 's/.*"body":(.*)\}$/\1/' <<<"$request")" "$url$path" | facts >"$work/served"
  sed -n ${line}p "$out" | facts | sed -E 's/.*"body":(.*)\},"error":null\}/\1/' >"$work/batched"
  cmp "$work/served" <(tr -d '\n' <"$work/batched") || fail "line $line: $(cat "$work/served" "$work/batched")"
done

kill $server
wait $server || fail "the server's exit code"

# The output of another input is not overwritten.
cp "$out" "$work/before"
sed -i 's/"c1"/"other"/' "$in"
expect_exit 2 'the result of "other" expected, found that of "c1"' batch
cmp "$work/before" "$out" || fail "the output of another input was changed"
expect_exit 3 nowhere "$hf2q" batch -m "$model" -i "$work/nowhere" -o "$work/new"
expect_exit 1 "cannot write" "$hf2q" batch -m "$model" -i "$in" -o "$work/none/new"
