#!/usr/bin/env bash
# serve and OpenAI's own client, the npm package openai, kept in ${HF2Q_CACHE:-~/.cache/hf2q}.
source "$(dirname "$0")/lib.bash"
version=7.60.0
sha256=7506885e23fe43b71e3f818b8e650a63d7b9ea738719a81c7133a4ff415385ac
folder=${HF2Q_CACHE:-$HOME/.cache/hf2q}/openai-$version
if [ ! -d "$folder/package" ]; then
  mkdir -p "$folder"
  download=$(mktemp -d "$folder/download.XXXXXX")
  (cd "$download" && npm pack --silent "openai@$version" >/dev/null &&
    echo "$sha256  openai-$version.tgz" | sha256sum --check --quiet && tar xzf ./*.tgz)
  mv "$download/package" "$folder/" 2>/dev/null || true
  rm -rf "$download"
fi

model=$work/tiny.gguf
"$hf2q" convert models/tiny-gemma4 -o "$model" --quant q8_0 >/dev/null
serve --api-key secret -c 2048
OPENAI_PACKAGE=$folder/package node tests/e2e/serve_openai.mjs "$url/v1" ||
  { tail -5 "$work/log" >&2; fail "the client's test"; }
stop
grep -q '"left_early":true' "$work/log" || fail "the client that stopped listening was not noticed"
