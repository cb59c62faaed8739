#!/usr/bin/env bash
# generate with a JSON schema or a grammar: the bundled model's answers follow it.
source "$(dirname "$0")/lib.bash"
model=$work/model.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
generate() { "$hf2q" generate -q -m "$model" --temp 0 "$@"; }
matches() { grep -qxE -- "$1" <<<"$2" || fail "$1 expected, found: $2"; }

question='Which city is the capital of Norway?'
schema='{"type":"object","properties":{"city":{"type":"string","maxLength":12},"big":{"type":"boolean"},"parts":{"type":"array","items":{"type":"integer","minimum":1,"maximum":99},"maxItems":2}},"required":["city","big","parts"]}'
string='"([^"\\]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))*"'
space='[ \n\t]*'
object="\\{$space\"city\": ?$string,$space\"big\": ?(true|false),$space\"parts\": ?\\[[0-9, \n\t]*\\]$space\\}"
echo "$schema" >"$work/schema.json"
for seed in 1 2 3 4 5 6; do
  answer=$("$hf2q" generate -q -m "$model" -p "$question" --temp 1 --seed $seed -j "$schema" -n 200 | tr '\n' ' ')
  matches "$object ?" "$answer"
  expect_equal "$answer" "$("$hf2q" generate -q -m "$model" -p "$question" --temp 1 --seed $seed --json-schema "$work/schema.json" -n 200 | tr '\n' ' ')" "schema from a file"
done

expect_equal "Bergen" "$(generate -p "$question" -j '{"const":"Bergen"}' | tr -d '"')" "a constant"
matches '(Rome|Oslo)' "$(generate -p "$question" --grammar 'root ::= "Rome" | "Oslo"')"
echo 'root ::= [a-c]{5} "!"' >"$work/five.gbnf"
matches '[a-c]{5}!' "$(generate -p "$question" --grammar-file "$work/five.gbnf" --ignore-eos)"
matches '.*"finish_reason":"stop".*' "$(generate -p "$question" --grammar-file "$work/five.gbnf" --json)"

expect_exit 3 "schema: keyword 'not' is not supported" generate -p x -j '{"not":{}}'
expect_exit 2 "grammar: a rule \"root\" expected" generate -p x --grammar 'top ::= "x"'
expect_exit 2 "left recursion" generate -p x --grammar 'root ::= root "x" | "y"'
expect_exit 2 "--json-schema: JSON expected" generate -p x -j '{"a"'
expect_exit 3 "nowhere" generate -p x --grammar-file "$work/nowhere"
expect_exit 2 "grammar" generate -p x -j '{}' --grammar 'root ::= "x"'
