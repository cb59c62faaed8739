#!/usr/bin/env bash
# convert, quantize and info on the bundled checkpoints, good and bad.
source "$(dirname "$0")/lib.bash"

model=models/tiny-gemma4
copy() { rm -rf "$work/copy" && cp -r "$model" "$work/copy"; }
# What info --json says under a jq-like path, with the shell's own means.
field() { "$hf2q" info "$2" --json | tr -d ' \n' | grep -o "\"$1\":[^,}]*" | sed -n 1p | cut -d: -f2; }

# Every file type, from each of the three kinds of model.
for source in "$model" tests/data/micro-moe tests/data/micro-ple; do
  rm -rf "$work/source" && cp -r "$source" "$work/source"
  [ -f "$work/source/tokenizer.json" ] || cp "$model/tokenizer.json" "$work/source/"
  for quant in f32 bf16 q8_0 q4_k_m q2_k iq4_nl; do
    "$hf2q" convert "$work/source" -o "$work/out.gguf" --quant $quant >/dev/null
    expect_equal "\"$quant\"" "$(field file_type "$work/out.gguf")" "file type"
  done
done
expect_equal 32768 "$("$hf2q" convert $model -o "$work/dense.gguf" --quant f32 >/dev/null; field context "$work/dense.gguf")" context

# Two ways to the same bytes: straight from the checkpoint, and through a BF16 file.
"$hf2q" convert $model -o "$work/bf16.gguf" --quant bf16 >/dev/null
for quant in q4_k_m q6_k q8_0; do
  "$hf2q" convert $model -o "$work/direct.gguf" --quant $quant -t 2 >/dev/null
  "$hf2q" quantize "$work/bf16.gguf" "$work/second.gguf" --quant $quant -t 1 >/dev/null
  direct=$("$hf2q" info "$work/direct.gguf" --tensors --hashes --json | grep xxh3)
  second=$("$hf2q" info "$work/second.gguf" --tensors --hashes --json | grep xxh3)
  expect_equal "$direct" "$second" "hashes of the tensors of $quant"
done

# A file whose sampling settings cannot be meant (top_p 3.0 for 0.95) is bad input.
LC_ALL=C sed 's/\(general.sampling.top_p\x06\x00\x00\x00\)\x33\x33\x73\x3f/\1\x00\x00\x40\x40/' "$work/bf16.gguf" >"$work/odd.gguf"
for command in "generate -m $work/odd.gguf -p a -n 1" "quantize $work/odd.gguf $work/never.gguf"; do
  expect_exit 3 "odd.gguf: general.sampling.top_p: top_p: 0 to 1 expected, found 3" "$hf2q" $command
done

# Text comes from a file, a pipe or stdin.
printf 'The PostgreSQL server\n' >"$work/text"
expected=$("$hf2q" tokenize -m $model -f "$work/text")
expect_equal "$expected" "$("$hf2q" tokenize -m $model -f - <"$work/text")" "ids of stdin"
expect_equal "$expected" "$(cat "$work/text" | "$hf2q" tokenize -m $model -f -)" "ids of a pipe"
expect_equal "$expected" "$(cat "$work/text" | "$hf2q" tokenize -m $model -f /dev/stdin)" "ids of /dev/stdin"
expect_equal "$expected" "$("$hf2q" tokenize -m $model -f <(cat "$work/text"))" "ids of a named pipe"

# Where there is no room for the stacks of all threads, those that there are do the work.
if (ulimit -v 2000000 && "$hf2q" --version) >/dev/null 2>&1; then  # else a sanitizer wants more
  "$hf2q" quantize "$work/bf16.gguf" "$work/all.gguf" --quant q8_0 >/dev/null
  (ulimit -v 2000000 && "$hf2q" quantize "$work/bf16.gguf" "$work/few.gguf" --quant q8_0 -t 512 >/dev/null)
  cmp -s "$work/all.gguf" "$work/few.gguf" || fail "other bytes from fewer threads"
  ! compgen -G "$work/*.tmp.*" >/dev/null || fail "a temporary file was left"
fi

# Re-quantizing from few bits is refused unless asked for.
"$hf2q" quantize "$work/bf16.gguf" "$work/q4.gguf" --quant q4_k_m >/dev/null
expect_exit 3 "--allow-requantize" "$hf2q" quantize "$work/q4.gguf" "$work/again.gguf" --quant q5_k_m
[ ! -e "$work/again.gguf" ] || fail "a refused run left a file"
"$hf2q" quantize "$work/q4.gguf" "$work/again.gguf" --quant q5_k_m --allow-requantize >/dev/null

# Paths need not be UTF-8, what is printed as JSON is.
odd=$work/$'caf\xe9.gguf'
cp "$work/bf16.gguf" "$odd"
"$hf2q" info "$odd" --json --metadata >"$work/list"
grep -q $'caf\xef\xbf\xbd.gguf' "$work/list" || fail "info: $(grep '"file"' "$work/list")"
"$hf2q" quantize "$work/bf16.gguf" "$odd" --dry-run --json >"$work/list"
grep -q $'caf\xef\xbf\xbd.gguf' "$work/list" || fail "quantize: $(grep '"output"' "$work/list")"

# A dry run writes nothing.
"$hf2q" convert $model -o "$work/dry.gguf" --dry-run >"$work/list"
grep -q 'blk.0.attn_q.weight' "$work/list" || fail "a dry run lists no tensors"
[ ! -e "$work/dry.gguf" ] || fail "a dry run wrote a file"

# Bad input: one line, exit code 3, nothing left.
out=$work/bad.gguf
expect_exit 3 "config.json" "$hf2q" convert "$work" -o "$out"
expect_exit 3 "a checkpoint folder" "$hf2q" convert "$work/none" -o "$out"
copy && sed -i 's/Gemma4ForCausalLM/LlamaForCausalLM/' "$work/copy/config.json"
expect_exit 3 'found "LlamaForCausalLM"' "$hf2q" convert "$work/copy" -o "$out"
copy && rm "$work/copy/tokenizer.json"
expect_exit 3 "tokenizer.json" "$hf2q" convert "$work/copy" -o "$out"
copy && rm "$work/copy/model-00002-of-00002.safetensors"
expect_exit 3 "model-00002-of-00002.safetensors" "$hf2q" convert "$work/copy" -o "$out"
copy && truncate -s 1000000 "$work/copy/model-00001-of-00002.safetensors"
expect_exit 3 "model-00001-of-00002.safetensors" "$hf2q" convert "$work/copy" -o "$out"
# A NaN (0x7FC0) as the last BF16 value of the second part.
copy && printf '\xc0\x7f' | dd of="$work/copy/model-00002-of-00002.safetensors" bs=1 conv=notrunc status=none \
  seek=$(($(stat -c %s "$work/copy/model-00002-of-00002.safetensors") - 2))
expect_exit 3 "found NaN or infinity" "$hf2q" convert "$work/copy" -o "$out" --quant q8_0
expect_exit 3 "found NaN or infinity" "$hf2q" convert "$work/copy" -o "$out" --quant bf16
expect_exit 3 "found NaN or infinity" "$hf2q" convert "$work/copy" -o "$out" --quant f32
grep -q 'copy/model-00002-of-00002.safetensors: model\..* (.*): row [0-9]*: finite values expected' "$work/stderr" ||
  fail "the message names no file and tensor: $(cat "$work/stderr")"
copy && mv "$work/copy/model-00002-of-00002.safetensors" "$work/part" && ln -s "$work/part" "$work/copy/model-00002-of-00002.safetensors"
expect_exit 3 "outside the checkpoint" "$hf2q" convert "$work/copy" -o "$out"
copy && rm "$work/copy/chat_template.jinja" && printf '{"chat_template": "{{"}' >"$work/copy/tokenizer_config.json"
expect_exit 3 "copy/tokenizer_config.json: " "$hf2q" convert "$work/copy" -o "$out"
copy && printf '{"top_p": 1.5}' >"$work/copy/generation_config.json"
expect_exit 3 "copy/generation_config.json: top_p: 0 to 1 expected, found 1.5" "$hf2q" convert "$work/copy" -o "$out"
copy && { printf '{"eos_token_id": '; head -c 200000 /dev/zero | tr '\0' '['; } >"$work/copy/generation_config.json"
expect_exit 3 "nested at most 100 deep expected, found 200001" "$hf2q" convert "$work/copy" -o "$out"
[ ! -e "$out" ] || fail "a refused run left a file"
expect_exit 2 "q4_k_m" "$hf2q" convert $model -o "$out" --quant q9_z
expect_exit 2 "found - (a GGUF file cannot be streamed" "$hf2q" convert $model -o -
expect_exit 2 "found - (a GGUF file cannot be streamed" "$hf2q" quantize "$work/bf16.gguf" -
expect_exit 2 "0 to 512 expected, found 513" "$hf2q" convert $model -o "$out" -t 513
expect_exit 2 "did you mean --quant" "$hf2q" convert $model -o "$out" --quantt q8_0
expect_exit 3 "LICENSE" "$hf2q" info LICENSE

# A full disk (here: a limit on the size of files): exit code 1.
expect_exit 1 "cannot write" bash -c "trap '' XFSZ; ulimit -f 1000; exec '$hf2q' convert $model -o '$out'"
# What cannot be written to is refused before the input is looked at.
expect_exit 1 "cannot create" "$hf2q" convert $model -o "$work/none/out.gguf"
for output in "$work" "$work/none/out.gguf" /proc/out.gguf; do
  expect_exit 1 "$output: cannot " "$hf2q" convert "$work/none" -o "$output"
  expect_exit 1 "$output: cannot " "$hf2q" quantize "$work/none.gguf" "$output"
done
expect_exit 2 "output: " "$hf2q" quantize "$work/none.gguf" ""

# A folder or a repository; nothing that could be a flag reaches the client.
mkdir "$work/bin"
printf '#!/bin/sh\necho "$2" >"%s/asked"\necho "%s"\n' "$work" "$PWD/$model" >"$work/bin/huggingface-cli"
chmod +x "$work/bin/huggingface-cli"
PATH=$work/bin:$PATH "$hf2q" convert --repo org/Some.Model-1 --dry-run --json >"$work/list"
expect_equal org/Some.Model-1 "$(cat "$work/asked")" "the repository that is asked for"
grep -q '"output": "Some.Model-1-q4_k_m.gguf"' "$work/list" || fail "the output has another name"
rm "$work/asked"
expect_exit 2 "found both" "$hf2q" convert $model --repo org/name -o "$out"
expect_exit 2 "found none" "$hf2q" convert -o "$out"
for repo in --token=x -x/name org/-name org/../name org name/ /name 'org/na me' ../name; do
  PATH=$work/bin:$PATH expect_exit 2 "--repo: ORG/NAME" "$hf2q" convert "--repo=$repo" -o "$out"
done
[ ! -e "$work/asked" ] || fail "asked for $(cat "$work/asked")"

# The revision of a download cache is not the model's name; one tensor is one tensor.
snapshot=$work/hub/models--org--tiny-gemma/snapshots/0123456789abcdef
mkdir -p "$snapshot" && cp $model/* "$snapshot/"
"$hf2q" convert "$snapshot" --dry-run --json >"$work/list"
grep -q '"name": "Tiny Gemma"' "$work/list" || fail "another name than the cache's: $(grep '"name"' "$work/list" | head -1)"
grep -q '"output": "tiny-gemma-q4_k_m.gguf"' "$work/list" || fail "another output than the cache's name"
"$hf2q" convert $model -o "$work/one.gguf" --dry-run --tensor-type 'blk.0.attn_q.weight=q8_0' >"$work/list"
grep -q '  1 tensor is q8_0' "$work/list" || fail "no line on one tensor"

# Runs COMMAND... in the background as $child until its temporary file for $out has content.
start_writing() {
  "$@" >/dev/null 2>"$work/stderr" &
  child=$!
  for _ in $(seq 1000); do
    if [ -s "$out.tmp.$child" ]; then return; fi
    sleep 0.01
  done
  fail "no temporary file: $*"
}
# ... and how it ended: exit CODE, nothing left.
expect_end() {
  local status=0
  wait $child || status=$?
  expect_equal "$1" $status "exit code after $2"
  ! compgen -G "$out*" >/dev/null || fail "files left after $2: $(echo "$out"*)"
}

# An interrupt leaves no half file.
start_writing "$hf2q" convert $model -o "$out" --quant q2_k -t 1
kill -INT $child
expect_end 130 "an interrupt"
start_writing "$hf2q" convert $model -o "$out" --quant q2_k -t 1
kill -PIPE $child
expect_end 130 "a reader that went away"

# A file that says of nothing what it is.
{ printf 'GGUF\3\0\0\0'; head -c 16 /dev/zero; } >"$work/nothing.gguf"
expect_exit 3 "general.architecture" "$hf2q" info "$work/nothing.gguf"

# A part that becomes shorter after it was mapped.
copy
start_writing "$hf2q" convert "$work/copy" -o "$out" --quant q2_k -t 1
kill -STOP $child
truncate -s 4096 "$work"/copy/*.safetensors
kill -CONT $child
expect_end 3 "the input was cut"
grep -q "cut short" "$work/stderr" || fail "no line about the input that was cut"
